package archive

import (
	"context"
	"fmt"
	"iter"
	"strings"
)

// Read yields each archived change below a prefix once, one partition of time after the
// other. Within a partition the order is that of the blobs: records of one document may
// be out of order, and [Record.Compare] tells their order. Memory holds one blob, and the
// names of the changes of one partition. An error ends the sequence.
//
// A prefix is that of the setting PREFIX, and may go on: archive/dt=2026-11-22/.
func Read(ctx context.Context, store Store, prefix string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		seen, folder := map[string]bool{}, ""
		for name, err := range store.List(ctx, prefix) {
			if err == nil && !strings.HasSuffix(name, Parquet.extension()) && !strings.HasSuffix(name, JSONLines.extension()) {
				continue // not ours
			}
			if blobFolder := folderOf(name); blobFolder != folder {
				folder = blobFolder
				clear(seen)
			}
			var records []Record
			if err == nil {
				records, err = readBlob(ctx, store, name)
			}
			if err != nil {
				yield(Record{}, err)
				return
			}
			for _, r := range records {
				if seen[r.Change] {
					continue
				}
				seen[r.Change] = true
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func readBlob(ctx context.Context, store Store, name string) ([]Record, error) {
	body, err := store.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	decode := decodeParquet
	if strings.HasSuffix(name, JSONLines.extension()) {
		decode = decodeLines
	}
	records, err := decode(body)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", name, err)
	}
	return records, nil
}
