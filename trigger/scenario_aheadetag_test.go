package trigger

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/leases"
)

// inMannersWorld is a world whose account has manners. Items of the monitored container may
// have a ttl.
func inMannersWorld(t *testing.T, ranges int, m emulator.Manners, test func(t *testing.T, w *world)) {
	inVersionsWorld(t, ranges, &emulator.Options{Manners: m, BulkSeed: 1, PreviousImages: true}, test)
}

// aheadETags are ways in which the etag of a page comes to be after its last change.
var aheadETags = map[string]func(w *world){
	"delete": func(w *world) {
		w.write("player", "gone")
		_, err := w.items.Delete(w.t.Context(), "gone", cosmos.NewPartitionKey("player"), "")
		must(w.t, err)
		delete(w.written, "gone")
	},
	"expiry": func(w *world) {
		_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey("player"), map[string]any{"id": "brief", "player": "player", "ttl": 1})
		must(w.t, err)
		time.Sleep(3 * time.Second)
	},
}

// drainRounds drains for three seconds at a time until a drain has caught up, at most eight
// times. A call takes 60 ms.
func (w *world) drainRounds(change ...func(*Function, *Options)) (rounds int) {
	w.t.Helper()
	slow := withDelay(60*time.Millisecond, w.recorder("a"))
	change = append(change, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 })
	for rounds = 1; rounds <= 8; rounds++ {
		ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
		summary, err := w.host("a", slow, change...).Drain(ctx)
		cancel()
		must(w.t, err)
		if summary.Behind == 0 {
			break
		}
		time.Sleep(time.Minute)
	}
	return rounds
}

// The newest LSN of a range is that of an item that was deleted or has expired, so that the
// etag of its page is after the last change. A drain has less time than the page takes: it
// saves a position inside the page, and the next one continues there.
func TestDrainsPassPageWithAheadETag(t *testing.T) {
	for name, ahead := range aheadETags {
		t.Run(name, func(t *testing.T) {
			inMannersWorld(t, 1, emulator.Manners{}, func(t *testing.T, w *world) {
				w.writeMany("doc", 90)
				ahead(w)
				if rounds := w.drainRounds(); rounds > 3 {
					t.Errorf("not done after %d drains", rounds-1)
				}
				w.checkComplete(4)
				w.requireNewest()
			})
		})
	}
}

// A host stops after 80 of the 90 changes of a page with such an etag. The next one repeats
// no more than the batch that ran.
func TestStopInsidePageWithAheadETagRepeatsABatch(t *testing.T) {
	for name, ahead := range aheadETags {
		for _, m := range []emulator.Manners{{}, {CutBelowNext: true}} {
			t.Run(fmt.Sprintf("%s, %+v", name, m), func(t *testing.T) {
				inMannersWorld(t, 1, m, func(t *testing.T, w *world) {
					w.writeMany("doc", 90)
					ahead(w)
					if m.CutBelowNext {
						w.writeMany("more", 30) // the page ends before its next change
					}
					inBatches := func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 10 }
					ctx, cancel := context.WithCancel(t.Context())
					record := w.recorder("a")
					_, err := w.host("a", func(ctx context.Context, b Batch) error {
						err := record(ctx, b)
						if w.deliveryCount() >= 80 {
							cancel()
						}
						return err
					}, inBatches).Drain(ctx)
					must(t, err)
					if n := w.deliveryCount(); n >= 100 {
						t.Fatalf("%d changes before the stop", n)
					}
					_, err = w.host("b", w.recorder("b"), inBatches).Drain(t.Context())
					must(t, err)
					w.checkComplete(10)
				})
			})
		}
	}
}

// A range was merged, so that no position inside its pages has a name, and a drain has less
// time than a page takes. The first drain saves that the next one begins with a small page;
// then each drain moves the position. When the feed is read to its end, pages have their full
// size again.
func TestDrainsOfMergedRangeShrinkPages(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		w.writeMany("doc", 200)
		var small atomic.Int64
		w.onRequest = func(r *http.Request) {
			if r.Header.Get("A-Im") != "" && r.Header.Get("X-Ms-Max-Item-Count") == "1" {
				small.Add(1)
			}
		}
		rounds := w.drainRounds()
		if n := int(small.Load()); rounds > 5 || n == 0 || n > 2*rounds {
			t.Errorf("not done after %d drains, with %d pages of one change", rounds, n)
		}
		w.checkComplete(200)
		for token, l := range w.leaseDocuments() {
			if l.properties[pageItemsProperty] != "" {
				t.Errorf("lease %s still begins with pages of %s", token, l.properties[pageItemsProperty])
			}
		}
	})
}

// On a merged range a change that always fails waits behind others of its page. The next owner
// begins with a small page, and the position passes the changes before it.
func TestPositionPassesChangesBeforeWaitingOne(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		w.writeMany("doc", 6)
		w.write("k", "poison")
		for range 6 {
			stop := w.startHost(w.host("a", failOnPoison(w.recorder("a")), unending, withoutLogger))
			time.Sleep(time.Minute)
			stop()
		}
		for i := range 6 {
			if n := len(w.deliveries(fmt.Sprint("doc", i))); n == 0 || n > 3 {
				t.Errorf("6 owners have handled doc%d %d times, want at most 3", i, n)
			}
		}
	})
}

// On a merged range a call hangs until its owner ends, and later changes of its page fail and
// wait. The next owner begins with a small page, and the position passes the changes before the
// call.
func TestPositionPassesChangesBeforeHangingCall(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		mergeRanges(t, w)
		w.writeMany("doc", 6)
		w.write("hangs", "hangs")
		for i := range 6 {
			w.write(fmt.Sprint("k", i), fmt.Sprint("poison", i))
		}
		handler := func(ctx context.Context, b Batch) error {
			if slices.ContainsFunc(b.Changes, func(c Change) bool { return c.ID() == "hangs" }) {
				<-ctx.Done()
				return ctx.Err()
			}
			return failOnPoison(w.recorder("a"))(ctx, b)
		}
		ofOneChange := func(f *Function, _ *Options) { f.Lanes, f.MaxItemsPerInvocation = 16, 1 }
		for range 6 {
			stop := w.startHost(w.host("a", handler, unending, withoutLogger, ofOneChange))
			time.Sleep(time.Minute)
			stop()
		}
		for i := range 6 {
			if n := len(w.deliveries(fmt.Sprint("doc", i))); n == 0 || n > 3 {
				t.Errorf("6 owners have handled doc%d %d times, want at most 3", i, n)
			}
		}
	})
}

// The newest LSN of a range is that of a deleted item. A seek to a time is possible, and repeats
// the change after it.
func TestSeekToTimeWithAheadETag(t *testing.T) {
	for name, ahead := range aheadETags {
		t.Run(name, func(t *testing.T) {
			inMannersWorld(t, 1, emulator.Manners{}, func(t *testing.T, w *world) {
				w.writeMany("early", 3)
				time.Sleep(time.Minute)
				start := time.Now()
				time.Sleep(time.Minute)
				w.write("late", "late")
				ahead(w)
				_, err := w.host("a", w.recorder("a")).Drain(t.Context())
				must(t, err)
				c := w.control(nil)
				plan, err := c.PlanSeek(t.Context(), FromTime(start))
				w.apply(c, plan, err)
				_, err = w.host("a", w.recorder("a")).Drain(t.Context())
				must(t, err)
				if n := w.deliveryCount(); n != 5 || w.delivered[4].doc.ID != "late" {
					t.Errorf("%d delivered, want the late one twice: %+v", n, w.delivered)
				}
			})
		})
	}
}

// otherTokens answers feed reads with a token that is not of the sequence of the LSNs.
type otherTokens struct{ w *world }

func (t otherTokens) Do(r *http.Request) (*http.Response, error) {
	resp, err := t.w.account.Do(r)
	if err == nil && r.Header.Get("A-Im") != "" {
		resp.Header.Set("Etag", `"1"`)
	}
	return resp, err
}

// A seek to a time is refused if the LSNs of a range do not agree with its tokens, and a merge
// is the reason only if there was one.
func TestRefusedSeekToTimeNamesItsReason(t *testing.T) {
	for _, merged := range []bool{false, true} {
		inWorld(t, 2, func(t *testing.T, w *world) {
			client, want := w.clientOn(otherTokens{w}), "do not name positions"
			if merged {
				mergeRanges(t, w)
				client, want = w.client(), "the range was merged"
			}
			_, err := w.host("a", w.recorder("a")).Drain(t.Context())
			must(t, err)
			start := time.Now()
			time.Sleep(time.Minute)
			w.writeMany("late", 20)
			c, err := leases.NewControl(client.Container("db", "leases"), leases.Source{Name: "test", Container: client.Container("db", "items"), StartFrom: FromBeginning()}, nil)
			must(t, err)
			plan, err := c.PlanSeek(t.Context(), FromTime(start))
			must(t, err)
			if err := plan.Refused(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("merged %v: refused with %v, want %q", merged, err, want)
			}
		})
	}
}
