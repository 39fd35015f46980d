package trigger_test

import (
	"context"
	"slices"
	"sync"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// A function that keeps a table of all documents, and removes those that a snapshot has not shown: documents
// that were deleted while no host ran for longer than the retention of all versions.
func ExampleSnapshotEnd() {
	type row struct {
		document, key, place string
		generation           int64
	}
	var mu sync.Mutex
	table := map[string]row{}

	function := trigger.Function{
		FeedSource: trigger.FeedSource{Name: "table", ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot()},
		Handler: func(_ context.Context, b trigger.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range b.Changes {
				key := string(c.PartitionKey())
				if c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire {
					delete(table, key+c.ID())
					continue
				}
				table[key+c.ID()] = row{string(c.Document), key, c.EffectiveKey(), c.Generation()}
			}
			return nil
		},
		SnapshotRead: func(_ context.Context, s trigger.SnapshotEnd) error {
			mu.Lock()
			defer mu.Unlock()
			for name, r := range table {
				isOfRange := r.place >= s.Range.Min && r.place < s.Range.Max
				if isOfRange && r.generation < s.Generation && !slices.Contains(s.KeptKeys, r.key) {
					delete(table, name)
				}
			}
			return nil
		},
	}
	_ = function // its Container is the monitored one; see New
}
