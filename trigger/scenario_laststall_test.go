package trigger

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/stall"
)

// stallSince returns the start of a stall of the only range, as a host tells it.
func stallSince(t *testing.T, h *Host, kind stall.Kind) time.Time {
	t.Helper()
	ranges := h.Status().Functions[0].Ranges
	if len(ranges) != 1 || len(ranges[0].Stalls) != 1 || ranges[0].Stalls[0].Kind != kind {
		t.Fatalf("ranges %+v, want one that is stalled by %q", ranges, kind)
	}
	return ranges[0].Stalls[0].Since
}

// A feed that refuses each read is a stall with one beginning, however often the range changes
// its owner: the status has it at all times, the log tells it once, and its end once.
func TestRefusedFeedIsOneStall(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				logger, log := recordLog(slog.LevelInfo)
				h := w.host("a", w.recorder("a"), func(_ *Function, o *Options) { o.Logger = logger })
				stop := w.startHost(h)
				time.Sleep(30 * time.Second)
				refused := time.Now()
				mend := w.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/items/docs", Status: status})
				w.writeMany("doc", 3)
				time.Sleep(6 * time.Second)
				for range 60 {
					since := stallSince(t, h, stall.FeedFails)
					if age := since.Sub(refused); age < -time.Second || age > 6*time.Second {
						t.Fatalf("the stall began %v after the refusal", age)
					}
					time.Sleep(10 * time.Second)
				}
				kinds, l := w.stallsOf("0")
				if len(kinds) == 0 || kinds[len(kinds)-1] != stall.FeedFails || !strings.Contains(l.Problem, "feed not readable for 10m") {
					t.Errorf("another machine sees %+v", l)
				}
				mend()
				time.Sleep(3 * time.Minute)
				stop()
				w.checkComplete(0)
				if told := log.FilterMessage("range stalled").All(); len(told) != 1 || told[0].ContextMap()["advice"] != (stall.Stall{Kind: stall.FeedFails}).Advice() {
					t.Errorf("the log tells of the stall %d times: %v", len(told), told)
				}
				if n := log.FilterMessage("range recovered").Len(); n != 1 {
					t.Errorf("the log tells %d times that it is over", n)
				}
			})
		})
	}
}

// A call that does not return is a stall since it began, also for the owners that follow: the
// age of the stall is that for which the range has made no progress.
func TestHungCallsOfSeveralOwnersAreOneStall(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		release := make(chan struct{})
		hang := func(context.Context, Batch) error { <-release; return nil }
		short := func(f *Function, o *Options) {
			f.HandlerTimeout, o.StuckGrace, o.MaxStuck = 20*time.Second, 5*time.Second, 100
		}
		a, b := w.host("a", hang, short, withoutLogger), w.host("b", hang, short, withoutLogger)
		stopA, stopB := w.startHost(a), w.startHost(b)
		time.Sleep(time.Minute)
		w.writeMany("doc", 3)
		began := time.Now()
		time.Sleep(40 * time.Second)
		owners := map[string]bool{}
		for range 60 {
			longest := time.Duration(0)
			for _, h := range []*Host{a, b} {
				for _, r := range h.Status().Functions[0].Ranges {
					for _, s := range r.Stalls {
						if !r.Cooldown {
							owners[h.Owner()] = true
						}
						longest = max(longest, time.Since(s.Since))
					}
				}
			}
			if age := time.Since(began); longest < age-10*time.Second {
				t.Errorf("the longest stall has lasted %v after %v without progress", longest, age)
			}
			time.Sleep(5 * time.Second)
		}
		if len(owners) != 2 {
			t.Errorf("the range was only worked on by %v", owners)
		}
		close(release)
		stopA()
		stopB()
	})
}

// Another machine sees a stall from the moment at which the log tells of it, and its end
// likewise: the owner does not wait for the next renewal.
func TestStallIsInTheLeaseAtOnce(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var seen []int // stalls in the lease, a moment after each event
		h := w.host("a", w.recorder("a"), withoutLogger, func(f *Function, o *Options) {
			f.StallAfter = 3 * time.Second
			o.Observers = append(o.Observers, func(e Event) {
				if e.Kind == EventStalled || e.Kind == EventRecovered {
					time.AfterFunc(time.Second, func() {
						kinds, _ := w.stallsOf("0")
						w.mu.Lock()
						defer w.mu.Unlock()
						seen = append(seen, len(kinds))
					})
				}
			})
		})
		stop := w.startHost(h)
		time.Sleep(30 * time.Second)
		mend := w.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/items/docs", Status: http.StatusTooManyRequests, RetryAfter: time.Second})
		time.Sleep(2 * time.Minute)
		mend()
		time.Sleep(2 * time.Minute)
		stop()
		if !slices.Equal(seen, []int{1, 0}) {
			t.Errorf("the lease has %v stalls after the events, want 1 and then none", seen)
		}
	})
}
