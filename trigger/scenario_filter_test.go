package trigger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// withFilter gives a function a filter.
func withFilter(patterns ...string) func(*Function, *Options) {
	return func(f *Function, _ *Options) { f.Filter = patterns }
}

// onlyWanted passes the documents that writeWanted writes.
var onlyWanted = withFilter(`{"id":[{"prefix":"wanted"}]}`)

// writeUnwanted writes documents that onlyWanted does not pass.
func (w *world) writeUnwanted(n int) {
	w.t.Helper()
	w.writeMany("unwanted", n)
	for i := range n {
		delete(w.written, fmt.Sprint("unwanted", i))
	}
}

// requireNewest checks that the lease of the only range holds the newest position.
func (w *world) requireNewest() {
	w.t.Helper()
	for token, l := range w.leaseDocuments() {
		if newest := w.newestContinuation(); l.continuation != newest {
			w.t.Errorf("lease %s is at %s, want %s", token, l.continuation, newest)
		}
	}
}

func TestFilteredChangesMoveTheCheckpoint(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeUnwanted(250)
		w.writeMany("wanted", 3)
		w.writeUnwanted(70)
		h := w.host("a", w.recorder("a"), onlyWanted)
		s, err := h.Drain(t.Context())
		must(t, err)
		if s.Changes != 3 || s.Batches == 0 || s.Filtered != 250 || s.Drained != 1 { // the feed shows each document once, in its last version
			t.Errorf("summary %+v", s)
		}
		w.checkComplete(0)
		w.requireNewest()
		filtered := 0
		for _, e := range w.events {
			if e.Kind == EventFiltered {
				filtered += e.Changes
			}
		}
		if filtered != s.Filtered {
			t.Errorf("events count %d filtered changes, the summary %d", filtered, s.Filtered)
		}
		oldCounts := w.countRequests()
		s, err = h.Drain(t.Context())
		must(t, err)
		if wrote := w.countRequests().minus(oldCounts).writes; s.Idle != 1 || wrote != 0 {
			t.Errorf("the next drain: %+v, %d lease writes", s, wrote)
		}
	})
}

// A continuous host passes pages of filtered changes without a lease write for each. The
// position goes with renewals, the next delivery and the release.
func TestFilteredPagesCostNoLeaseWrites(t *testing.T) {
	for _, manual := range []bool{false, true} {
		t.Run(fmt.Sprint("manual ", manual), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				stop := w.startHost(w.host("a", w.recorder("a"), onlyWanted, func(f *Function, o *Options) {
					f.MaxItemsPerInvocation, f.PageItems, f.Checkpoint.Manual, o.FeedPollDelay = 5, 5, manual, 100*time.Millisecond
				}))
				time.Sleep(20 * time.Second)
				oldCounts := w.countRequests()
				for range 100 {
					w.writeUnwanted(5)
					time.Sleep(time.Second)
				}
				if wrote := w.countRequests().minus(oldCounts).writes; wrote > 10 { // the lease is renewed every 17 s
					t.Errorf("%d lease writes for 100 pages of filtered changes", wrote)
				}
				time.Sleep(18 * time.Second)
				w.requireNewest()
				w.writeUnwanted(5)
				time.Sleep(time.Second)
				stop()
				w.requireNewest()
				if w.deliveryCount() != 0 {
					t.Errorf("%d delivered", w.deliveryCount())
				}
			})
		})
	}
}

// With manual checkpoints a position is never saved past a delivered change for which
// the handler requested none, however many filtered changes follow.
func TestFilteredChangesRequestNoManualCheckpoint(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		request := false
		handler := func(ctx context.Context, b Batch) error {
			if request {
				b.Checkpoint()
			}
			return w.recorder("a")(ctx, b)
		}
		host := func() *Host {
			return w.host("a", handler, onlyWanted, func(f *Function, _ *Options) { f.Checkpoint.Manual = true })
		}
		w.writeUnwanted(10)
		w.write("k", "wanted")
		w.writeUnwanted(150)
		for range 2 {
			_, err := host().Drain(t.Context())
			must(t, err)
		}
		if w.deliveryCount() != 2 {
			t.Errorf("%d deliveries of a change without a checkpoint", w.deliveryCount())
		}
		request = true
		_, err := host().Drain(t.Context())
		must(t, err)
		s, err := host().Drain(t.Context())
		must(t, err)
		if w.deliveryCount() != 3 || s.Changes != 0 {
			t.Errorf("%d deliveries after a checkpoint, %+v", w.deliveryCount(), s)
		}
		w.requireNewest()
	})
}

// A document stops matching while its earlier version waits for a retry. The handler gets
// that version when the retry succeeds. If the owner ends before, the feed shows only the
// last version: the next owner passes it and forgets the failures.
func TestDocumentStopsMatchingWhileItWaits(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprint("owner ends ", restarts), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				firstVersion := withFilter(`{"version":[1]}`)
				up := time.Now().Add(30 * time.Second)
				handler := func(ctx context.Context, b Batch) error {
					for _, c := range b.Changes {
						if isPoison(&c) && time.Now().Before(up) {
							return errPoison
						}
					}
					return w.recorder("a")(ctx, b)
				}
				start := func() func() { return w.startHost(w.host("a", handler, firstVersion, withoutLogger)) }
				stop := start()
				w.write("k", "poison")
				w.write("k", "later")
				time.Sleep(10 * time.Second)
				w.write("k", "poison") // version 2 does not match
				w.write("other", "doc")
				time.Sleep(10 * time.Second)
				if ids := w.deliveredIDs(); fmt.Sprint(ids) != "[doc]" {
					t.Errorf("delivered %v while the key waits", ids)
				}
				want := "[doc poison later]"
				if restarts {
					stop()
					if lease := w.leaseDocuments()["0"]; lease.properties[retriesProperty] == "" {
						t.Error("the failures were not stored")
					}
					stop = start()
					want = "[doc later]" // the one of the other key is finished
				}
				time.Sleep(time.Minute)
				stop()
				if got := fmt.Sprint(w.deliveredIDs()); got != want {
					t.Errorf("delivered %s, want %s", got, want)
				}
				w.requireNewest()
				if lease := w.leaseDocuments()["0"]; lease.properties[retriesProperty] != "" {
					t.Errorf("failures are left: %v", lease.properties)
				}
			})
		})
	}
}

// deliveredIDs returns the ids of the documents in the order of their deliveries.
func (w *world) deliveredIDs() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.delivered {
		ids = append(ids, d.doc.ID)
	}
	return ids
}

// A later change of a blocked key that does not pass is not put behind the dead letter.
func TestFilteredChangeOfBlockedKeyIsNotDeadLettered(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &memoryStore{}
		w.write("k", "poison")
		w.write("k", "unwanted")
		w.write("k", "wanted")
		w.write("unwanted", "unwanted2")
		s, err := w.host("a", failOnPoison(w.recorder("a")), withFilter(`{"id":["poison",{"prefix":"wanted"}]}`),
			withStore(store, func(f *Function) { f.BlockKeys = true })).Drain(t.Context())
		must(t, err)
		if got := fmt.Sprint(store.documentIDs()); got != "[poison wanted]" || s.DeadLetters != 2 || s.Filtered != 2 {
			t.Errorf("dead letters %s, %+v", got, s)
		}
		w.requireNewest()
	})
}

// Hosts that filter share a range that splits, merges and fails, and lose nothing.
func TestFilterThroughSplitsMergesAndFailures(t *testing.T) {
	for _, lanes := range []int{1, 3} {
		t.Run(fmt.Sprint(lanes, " lanes"), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				random := rand.New(rand.NewPCG(uint64(lanes), 0))
				host := func(owner string) *Host {
					flaky := func(ctx context.Context, b Batch) error {
						w.mu.Lock()
						fails := random.IntN(4) == 0
						w.mu.Unlock()
						if fails {
							return errPoison
						}
						return w.recorder(owner)(ctx, b)
					}
					return w.host(owner, flaky, onlyWanted, withoutLogger, func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation, f.PageItems = lanes, 7, 7 })
				}
				stop := []func(){w.startHost(host("a")), w.startHost(host("b"))}
				for i := range 30 {
					w.writeUnwanted(10)
					w.writeMany(fmt.Sprint("wanted", i%7, "-"), 1+i%3)
					w.writeUnwanted(5)
					ranges, err := w.items.Ranges(t.Context())
					must(t, err)
					switch i {
					case 5, 20:
						_, err = w.account.Split("db", "items", ranges[0].ID)
					case 12:
						_, err = w.account.Merge("db", "items", ranges[0].ID, ranges[1].ID)
					case 15:
						stop[1]()
						stop[1] = w.startHost(host("c"))
					}
					must(t, err)
					time.Sleep(3 * time.Second)
				}
				time.Sleep(2 * time.Minute)
				stop[0]()
				stop[1]()
				w.checkComplete(w.deliveryCount())
				if slices.ContainsFunc(w.deliveredIDs(), func(id string) bool { return strings.HasPrefix(id, "unwanted") }) || w.deliveryCount() == 0 {
					t.Errorf("delivered %v", w.deliveredIDs())
				}
			})
		})
	}
}

// In all-versions mode a delete is judged by the previous version, and passes if there is
// none.
func TestDeletesAreJudgedByThePreviousVersion(t *testing.T) {
	for _, tt := range []struct {
		without bool
		want    string
	}{
		{false, "[wanted: create -→1 wanted: replace 1→2 wanted: delete 2→-]"},
		{true, "[wanted: create -→1 wanted: replace -→2 wanted: delete -→- unwanted: delete -→-]"},
	} {
		t.Run(fmt.Sprint("without previous images ", tt.without), func(t *testing.T) {
			inVersionsWorld(t, 1, &emulator.Options{PreviousImages: !tt.without}, func(t *testing.T, w *world) {
				h := &versionHistory{}
				host := w.host("a", h.handler(), allVersions, onlyWanted)
				_, err := host.Drain(t.Context())
				must(t, err)
				for _, id := range []string{"wanted", "unwanted"} {
					h.put(w, id, 0)
					h.put(w, id, 0)
					h.remove(w, id)
				}
				_, err = host.Drain(t.Context())
				must(t, err)
				if got := fmt.Sprint(h.seen); got != tt.want {
					t.Errorf("saw %s, want %s", got, tt.want)
				}
				w.requireVersionsRead()
			})
		})
	}
}

// requireVersionsRead checks that a further drain finds nothing.
func (w *world) requireVersionsRead() {
	w.t.Helper()
	s, err := w.host("b", failAlways, allVersions).Drain(w.t.Context())
	must(w.t, err)
	if s.Idle != 1 {
		w.t.Errorf("the next drain: %+v", s)
	}
}

func TestFilterWithFaultIsRefused(t *testing.T) {
	f := Function{FeedSource: FeedSource{Name: "f", Container: new(cosmos.Container)}, Handler: failAlways, Filter: Filter{`{"a":[1]}`, `{"at":{"x":[{"numeric":[">","1"]}]}}`, `{`}}
	problems := f.Validate()
	if len(problems) != 1 || problems[0].Field != "Filter" ||
		!strings.Contains(problems[0].Reason, `pattern 2, at at.x[0].numeric[1]: "1" is not a number`) || !strings.Contains(problems[0].Reason, "pattern 3, byte 1") {
		t.Errorf("problems %v", problems)
	}
	if _, err := f.complete(); err == nil || !strings.Contains(err.Error(), "pattern 3, byte 1") {
		t.Errorf("complete: %v", err)
	}
}
