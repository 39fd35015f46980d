package main

import (
	"context"
	"encoding/json"
	"fmt"

	"halley/function/app"
	"halley/handlers/migrate"
	"halley/trigger/cosmos"
)

const migrated = "results-by-game"

// startMigrate migrates to a container of the same account that is partitioned by game.
func startMigrate(s *stage) (*part, error) {
	target := func() *cosmos.Container { return s.run.Client.Container(database, migrated) }
	read := func(ctx context.Context) (versions, error) {
		copied := versions{}
		for page, err := range target().Query(ctx, cosmos.Query{Text: "SELECT * FROM c"}) {
			if err != nil {
				return nil, err
			}
			for _, raw := range page.Items {
				if isDeleted(raw) {
					continue
				}
				if err := copied.add(raw); err != nil {
					return nil, err
				}
			}
		}
		return copied, nil
	}
	return &part{
		settings: map[string]string{"HALLEY_MIGRATE_TARGET_CONTAINER_NAME": migrated, "HALLEY_MIGRATE_REQUEST_UNITS": "100000"},
		prepare: func(ctx context.Context, run *app.DevRun) error {
			return run.Create(ctx, app.Container{Database: database, Name: migrated, PartitionKey: []string{"/game"}, Ranges: 2})
		},
		read: read,
		compare: func(ctx context.Context, written []document) (string, error) {
			verified, err := migrate.New(target(), nil, nil).Verify(ctx, s.run.Client.Container(database, results), nil)
			if err != nil {
				return "", err
			}
			if !verified.Equal() {
				return "", fmt.Errorf("the verification found %d differences: %v", len(verified.Differences), verified.Differences)
			}
			copied, err := read(ctx)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("container %s, partitioned by game, has the last version of all %d documents, and its verification says equal", migrated, len(written)), copied.equal(written)
		},
	}, nil
}

// isDeleted reports whether a document of the target is a tombstone, or the copy of a
// soft-deleted document, which has its mark.
func isDeleted(raw json.RawMessage) bool {
	var d struct {
		Deleted bool
		Guard   struct{ Deleted bool } `json:"_halley"`
	}
	return json.Unmarshal(raw, &d) == nil && (d.Deleted || d.Guard.Deleted)
}
