package main

import (
	"context"
	"fmt"
	"os"

	"halley/handlers/archive"
)

// startArchive keeps the archive in a directory that is removed at the end.
func startArchive(s *stage) (*part, error) {
	directory, err := os.MkdirTemp("", "halley-archive")
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { return os.RemoveAll(directory) })
	return &part{
		settings: map[string]string{"HALLEY_ARCHIVE_DIRECTORY": directory},
		compare: func(ctx context.Context, written []document) (string, error) {
			last := map[string]archive.Record{}
			changes := 0
			for r, err := range archive.Read(ctx, archive.Directory(directory), "archive/") {
				if err != nil {
					return "", err
				}
				changes++
				if former, ok := last[r.ID]; !ok || r.Compare(former) > 0 {
					last[r.ID] = r
				}
			}
			archived := versions{}
			for _, r := range last {
				if err := archived.add(r.Document); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("%d changes, read back from Parquet files, end with the last version of all %d documents", changes, len(written)), archived.equal(written)
		},
	}, nil
}
