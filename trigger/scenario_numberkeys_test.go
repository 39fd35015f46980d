package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// spellings are numbers in the forms in which documents may hold them: those of one value
// are one logical partition key to Cosmos DB.
var spellings = map[float64][]string{
	0:   {"0", "-0", "0.0", "-0.0", "0e5"},
	1:   {"1", "1.0", "10e-1"},
	100: {"100", "1e2", "100.0"},
}

// writeNumber writes a document whose partition key is a number in one of its spellings.
func (w *world) writeNumber(key float64, spelling, id string) {
	w.t.Helper()
	document := fmt.Sprintf(`{"id":%q,"player":%s}`, id, spelling)
	_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(key), json.RawMessage(document))
	must(w.t, err)
}

func TestEqualNumbersAreOneKeyInEveryLane(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var mu sync.Mutex
		running, handled := map[float64]int{}, map[float64][]string{}
		h := w.host("a", func(ctx context.Context, b Batch) error {
			keys := map[float64]bool{}
			var ids []string
			for _, c := range b.Changes {
				var doc struct{ Player float64 }
				must(t, c.Decode(&doc))
				keys[doc.Player] = true
				ids = append(ids, string(c.PartitionKey())+" "+c.ID())
			}
			mu.Lock()
			for key := range keys {
				if running[key]++; running[key] > 1 {
					t.Errorf("two calls at once for key %v", key)
				}
			}
			mu.Unlock()
			err := backoff.Sleep(ctx, time.Second)
			mu.Lock()
			defer mu.Unlock()
			for key := range keys {
				running[key]--
				handled[key] = append(handled[key], ids...)
			}
			return err
		}, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 16, 1 })
		written := map[float64][]string{}
		for round := range 10 {
			for value, forms := range spellings {
				id := fmt.Sprintf("%v-%d", value, round)
				w.writeNumber(value, forms[round%len(forms)], id)
				written[value] = append(written[value], cosmos.NewPartitionKey(value).String()+" "+id)
			}
		}
		_, err := h.Drain(t.Context())
		must(t, err)
		if fmt.Sprint(handled) != fmt.Sprint(written) {
			t.Errorf("handled %v\nwritten %v", handled, written)
		}
	})
}

// A dead letter under one spelling of a number blocks the changes under the others, also
// for the next owner, which asks the store by the key's text. So does a postponed change.
func TestEqualNumbersAreOneKeyInTheStore(t *testing.T) {
	for name, failure := range map[string]func(error) error{
		"blocked":   func(err error) error { return err },
		"postponed": func(err error) error { return RetryAfter(err, time.Hour) },
	} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			store := &memoryStore{}
			var handled []string
			refusePoison := func(_ context.Context, b Batch) error {
				for _, c := range b.Changes {
					if strings.HasPrefix(c.ID(), "poison") {
						return failure(errors.New("refused"))
					}
					handled = append(handled, c.ID())
				}
				return nil
			}
			settings := withStore(store, func(f *Function) { f.BlockKeys, f.MaxItemsPerInvocation = true, 1 })
			w.writeNumber(0, "-0", "poison")
			w.writeNumber(0, "0", "second")
			w.writeNumber(1, "1.0", "other")
			_, err := w.host("a", refusePoison, settings).Drain(t.Context())
			must(t, err)
			w.writeNumber(0, "0.0", "third")
			w.writeNumber(0, "-0.0", "fourth")
			_, err = w.host("b", refusePoison, settings).Drain(t.Context())
			must(t, err)
			if got := fmt.Sprint(store.documentIDs()); got != "[poison second third fourth]" {
				t.Errorf("%s: stored %s", name, got)
			}
			if fmt.Sprint(handled) != "[other]" {
				t.Errorf("%s: handled %v", name, handled)
			}
			for _, d := range store.deadLetters {
				if d.Key != "[0]" {
					t.Errorf("%s: %s is stored under the key %s", name, d.DocumentID, d.Key)
				}
			}
		})
	}
}
