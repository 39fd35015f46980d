package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

func TestChangeNamesItsDocumentAndKey(t *testing.T) {
	f := &Function{}
	origin := &changeOrigin{keyPaths: []string{"/tenant", "/user"}}
	found := f.changeOf(&feed.Change{Item: cosmos.Item{
		Document: []byte(`{"id":"a","user":"b"}`), IDPlace: cosmos.Place{Start: 6, End: 9}, KeyPlace: cosmos.Place{Start: 17, End: 20},
	}}, 1, &changeOrigin{keyPaths: []string{"/user"}})
	replaced, cut := found, found
	replaced.Document = []byte(`{"user":"other","id":"another"}`)
	cut.Document = cut.Document[:8]
	tests := []struct {
		name    string
		change  Change
		id, key string
	}{
		{"a document", f.changeOf(&feed.Change{Item: cosmos.Item{Document: []byte(`{"id":"a\"b","tenant":"t","user":1.0}`)}}, 1, origin), `a"b`, `["t",1]`},
		{"a document without a key value", f.changeOf(&feed.Change{Item: cosmos.Item{Document: []byte(`{"id":"a","tenant":"t"}`)}}, 1, origin), "a", `["t",{}]`},
		{"a document whose id and key were found with its page", found, "a", `["b"]`},
		{"a document that a handler has replaced", replaced, "another", `["other"]`},
		{"a document that a handler has cut", cut, "", `[{}]`},
		{"a delete with its key by path", f.changeOf(&feed.Change{Item: cosmos.Item{
			Operation: cosmos.OperationDelete, ID: "a", PartitionKey: []byte(`{"tenant":"t","user":2}`)}}, 1, origin), "a", `["t",2]`},
		{"a delete with its key as a list", f.changeOf(&feed.Change{Item: cosmos.Item{
			Operation: cosmos.OperationDelete, ID: "a", PartitionKey: []byte(`["t", 2]`)}}, 1, origin), "a", `["t",2]`},
		{"a delete with its previous version", f.changeOf(&feed.Change{Item: cosmos.Item{
			Operation: cosmos.OperationDelete, Previous: []byte(`{"id":"a","tenant":"t","user":true}`)}}, 1, origin), "a", `["t",true]`},
		{"a dead letter of a document", DeadLetter{Operation: cosmos.OperationUpsert, Document: []byte(`{"id":"a"}`), Key: `["t",3]`}.Change(), "a", `["t",3]`},
		{"a dead letter of a delete", DeadLetter{Operation: cosmos.OperationDelete, DocumentID: "a", Key: `["t",3]`}.Change(), "a", `["t",3]`},
	}
	for _, test := range tests {
		for _, c := range []Change{test.change, test.change.Clone()} {
			if id, key := c.ID(), string(c.PartitionKey()); id != test.id || key != test.key {
				t.Errorf("%s: id %q, key %s, want %q and %s", test.name, id, key, test.id, test.key)
			}
		}
	}
}

// A handler may keep changes. With ReuseBuffers it keeps their clones.
func TestKeptChangesStayIntact(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		t.Run(fmt.Sprint("reuse ", reuse), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				var kept []Change
				keep := func(_ context.Context, b Batch) error {
					for _, c := range b.Changes {
						if reuse {
							c = c.Clone()
						}
						kept = append(kept, c)
					}
					return nil
				}
				h := w.host("a", keep, func(f *Function, _ *Options) { f.ReuseBuffers, f.MaxItemsPerInvocation, f.PageItems = reuse, 3, 3 })
				for round := range 5 { // so that buffers of the first pages are used again
					w.writeMany(fmt.Sprint("doc", round, "-"), 10)
					_, err := h.Drain(t.Context())
					must(t, err)
				}
				seen := map[string]bool{}
				for _, c := range kept {
					var doc document
					if err := json.Unmarshal(c.Document, &doc); err != nil || !strings.HasPrefix(doc.ID, "doc") || doc.ID != c.ID() {
						t.Fatalf("kept %s: %v", c.Document, err)
					}
					seen[doc.ID] = true
				}
				if len(seen) != 50 {
					t.Errorf("%d of 50 documents kept", len(seen))
				}
			})
		})
	}
}

// With ReuseBuffers, a call that was left behind still reads the page of its batch, so
// the page is not used again.
func TestHungCallKeepsItsBuffers(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		release := make(chan struct{})
		var mu sync.Mutex
		var held []Change
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			first := held == nil
			if first {
				held = b.Changes
			}
			mu.Unlock()
			if first {
				<-release
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.ReuseBuffers, f.HandlerTimeout = true, time.Second })
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		w.writeMany("more", 50)
		time.Sleep(5 * time.Minute)
		for _, c := range held {
			if !json.Valid(c.Document) || !strings.HasPrefix(c.ID(), "doc") {
				t.Errorf("the call that hangs now reads %s", c.Document)
			}
		}
		stop()
		close(release)
	})
}
