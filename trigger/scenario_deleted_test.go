package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// deleteLeases deletes the lease documents of the function, and the marker if wanted.
func (w *world) deleteLeases(marker bool) {
	w.t.Helper()
	for _, l := range w.leaseDocuments() {
		_, err := w.leases.Delete(w.t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(w.t, err)
	}
	if marker {
		id := w.leasePrefix() + ".info"
		_, err := w.leases.Delete(w.t.Context(), id, cosmos.NewPartitionKey(id), "")
		must(w.t, err)
	}
}

func quietFromNow(f *Function, o *Options) {
	f.StartFrom, o.Logger = FromNow(), slog.New(slog.DiscardHandler)
}

// All lease documents are deleted under two running hosts. They are back within two
// acquire intervals, at the acknowledged positions.
func TestDeletedLeasesComeBackWhereTheyWere(t *testing.T) {
	for _, marker := range []bool{false, true} {
		t.Run(fmt.Sprint("marker deleted ", marker), func(t *testing.T) {
			inWorld(t, 8, func(t *testing.T, w *world) {
				logger, logged := recordLog(slog.LevelError)
				stopA := w.startHost(w.host("a", w.recorder("a"), quietFromNow, func(_ *Function, o *Options) { o.Logger = logger }))
				time.Sleep(time.Minute)
				stopB := w.startHost(w.host("b", w.recorder("b"), quietFromNow, func(_ *Function, o *Options) { o.Logger = logger }))
				time.Sleep(2*time.Minute + 3*time.Second)
				w.writeMany("before", 80)
				time.Sleep(time.Minute)
				oldLeases := w.leaseDocuments()
				w.deleteLeases(marker)
				w.writeMany("meanwhile", 80)
				time.Sleep(26 * time.Second)
				newLeases := w.leaseDocuments()
				for token, l := range oldLeases {
					switch got := newLeases[token]; {
					case got == nil:
						t.Errorf("lease %s is not back", token)
					case got.continuation == "" || got.epoch() <= l.epoch():
						t.Errorf("lease %s is back at %q in epoch %d, was at %q in epoch %d", token, got.continuation, got.epoch(), l.continuation, l.epoch())
					}
				}
				time.Sleep(time.Minute)
				if got := w.leasesByOwner(); got[""] > 0 {
					t.Errorf("owners %v", got)
				}
				w.checkComplete(80) // what was delivered after the last answered checkpoint
				if n := logged.FilterMessageSnippet("lease document was deleted").Len(); n != 8 {
					t.Errorf("%d restored leases logged", n)
				}
				id := w.leasePrefix() + ".info"
				if _, err := w.leases.Read(t.Context(), id, cosmos.NewPartitionKey(id)); err != nil {
					t.Errorf("marker: %v", err)
				}
				stopA()
				stopB()
			})
		})
	}
}

// Host F starts at any moment after everything was deleted under host A, and may
// bootstrap at now. Host A cannot write in time what it has read: its handler is
// slow. Nothing that was written is lost.
func TestFreshHostDoesNotSkipWhatRunningHostsHold(t *testing.T) {
	for second := range 24 {
		t.Run(fmt.Sprint(second, " s"), func(t *testing.T) {
			if second%4 > 0 {
				inLongForm(t)
			}
			inWorld(t, 4, func(t *testing.T, w *world) {
				slow := func(owner string) Handler {
					record := w.recorder(owner)
					return func(ctx context.Context, b Batch) error {
						select {
						case <-time.After(9 * time.Second):
							return record(ctx, b)
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				}
				stopA := w.startHost(w.host("a", slow("a"), quietFromNow, func(f *Function, _ *Options) { f.MaxItemsPerInvocation, f.PageItems = 5, 5 }))
				time.Sleep(30*time.Second + 300*time.Millisecond)
				w.writeMany("doc", 80)
				time.Sleep(5 * time.Second)
				w.deleteLeases(true)
				time.Sleep(time.Duration(second) * time.Second)
				stopF := w.startHost(w.host("f", slow("f"), quietFromNow))
				time.Sleep(6 * time.Minute)
				w.checkNothingLost()
				stopA()
				stopF()
			})
		})
	}
}

// checkNothingLost checks that the newest version of every document was delivered.
func (w *world) checkNothingLost() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	for _, d := range w.delivered {
		seen[fmt.Sprint(d.doc.ID, "@", d.doc.Version)] = true
	}
	var lost []string
	for id, version := range w.written {
		if name := fmt.Sprint(id, "@", version); !seen[name] {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 {
		w.t.Errorf("%d of %d lost: %s", len(lost), len(w.written), strings.Join(lost, " "))
	}
}

func TestRestoredMarkerKeepsTheTimeOfTheFirst(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a"), quietFromNow))
		time.Sleep(time.Minute)
		w.deleteLeases(true)
		time.Sleep(time.Minute)
		id := w.leasePrefix() + ".info"
		resp, err := w.leases.Read(t.Context(), id, cosmos.NewPartitionKey(id))
		must(t, err)
		var doc map[string]any
		must(t, json.Unmarshal(resp.Body, &doc))
		if since, _ := doc["halley.since"].(float64); int64(since) != firstEpoch {
			t.Errorf("marker %s", resp.Body)
		}
		stop()
	})
}
