package main

import (
	"context"
	"fmt"
	"os"

	"halley/handlers/archive"
	"halley/trigger/cosmos"
)

// startArchive keeps the archive in a directory that is removed at the end.
func startArchive(s *stage) (*part, error) {
	directory, err := os.MkdirTemp("", "halley-archive")
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { return os.RemoveAll(directory) })
	return &part{
		settings: map[string]string{"HALLEY_ARCHIVE_DIRECTORY": directory, "HALLEY_ARCHIVE_BATCH_WINDOW": "500ms"}, // its default is too long to watch
		read: func(ctx context.Context) (versions, error) {
			archived, _, err := readArchive(ctx, directory)
			return archived, err
		},
		compare: func(ctx context.Context, written []document) (string, error) {
			archived, changes, err := readArchive(ctx, directory)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d changes, read back from Parquet files, end with the last version of all %d documents", changes, len(written)), archived.equal(written)
		},
	}, nil
}

// readArchive reads the last version of each document, and counts the changes.
func readArchive(ctx context.Context, directory string) (archived versions, changes int, err error) {
	last := map[string]archive.Record{}
	for r, err := range archive.Read(ctx, archive.Directory(directory), "archive/") {
		if err != nil {
			return nil, 0, err
		}
		changes++
		if former, ok := last[r.ID]; !ok || r.Compare(former) > 0 {
			last[r.ID] = r
		}
	}
	archived = versions{}
	for _, r := range last {
		if r.Operation == cosmos.OperationDelete || r.Operation == cosmos.OperationExpire {
			continue
		}
		if err := archived.add(r.Document); err != nil {
			return nil, 0, err
		}
	}
	return archived, changes, nil
}
