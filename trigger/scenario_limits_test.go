package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/stall"
)

// limitsOf returns the limits that a host's status names for its ranges.
func limitsOf(h *Host) (kinds []stall.Kind, problems string) {
	for _, r := range h.Status().Functions[0].Ranges {
		problems += r.Problem
		for _, s := range r.Stalls {
			if s.Kind.IsLimit() && !slices.Contains(kinds, s.Kind) {
				kinds = append(kinds, s.Kind)
			}
		}
	}
	return kinds, problems
}

// All lanes and ranges share the rate. Nothing is lost, every key keeps its order, no
// range starves, and no range counts as stalled.
func TestRateIsSharedByLanesAndRanges(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		const documents, rate = 600, 2
		for range 2 {
			w.writeMany("doc", documents/2)
		}
		logger, log := recordLog(slog.LevelInfo)
		limited := func(f *Function, o *Options) {
			f.Rate, f.Lanes, f.MaxItemsPerInvocation, f.HandlerTimeout, o.Logger = rate, 2, 5, time.Second, logger
		}
		began := time.Now()
		var mu sync.Mutex
		first := map[string]time.Duration{} // call of a range
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			if first[b.Range.ID] == 0 {
				first[b.Range.ID] = time.Since(began)
			}
			mu.Unlock()
			if end, _ := ctx.Deadline(); time.Until(end) != time.Second {
				t.Errorf("the call has %v left", time.Until(end))
			}
			return record(ctx, b)
		}, limited)
		stop := w.startHost(h)
		time.Sleep(80 * time.Second) // longer than StallAfter and an expiration
		if kinds, problems := limitsOf(h); !slices.Equal(kinds, []stall.Kind{stall.RateLimited}) || !strings.Contains(problems, "held back by RATE for") ||
			!strings.Contains(problems, "at most 2 changes a second for the function on this host") {
			t.Errorf("the status names %v: %s", kinds, problems)
		}
		if kinds, l := w.stallsOf("0"); !slices.Contains(kinds, stall.RateLimited) {
			t.Errorf("another machine sees %v: %s", kinds, l.Problem)
		}
		if done := w.deliveryCount(); done > 80*rate+2*rate || done < 80*rate-50 {
			t.Errorf("%d changes in 80 s at a rate of %d", done, rate)
		}
		time.Sleep(documents / 2 / rate * time.Second)
		stop()
		w.checkComplete(0)
		if len(first) != 4 || slices.Max([]time.Duration{first["0"], first["1"], first["2"], first["3"]}) > time.Minute {
			t.Errorf("the ranges were first called after %v", first)
		}
		if n := w.eventCount(EventStalled) + w.eventCount(EventReleased); n != 4 {
			t.Errorf("%d ranges stalled, %d leases were released", w.eventCount(EventStalled), w.eventCount(EventReleased))
		}
		lines := log.FilterMessage("held back by a limit of the function").All()
		if len(lines) < 2 || len(lines) > 5 || lines[0].ContextMap()["cause"] != string(stall.RateLimited) {
			t.Errorf("the log says %v", lines)
		}
		if status, _ := limitsOf(h); len(status) != 0 {
			t.Errorf("after the stop the status names %v", status)
		}
	})
}

// A stop and a handover do not wait for the rate, and the next owner continues.
func TestWaitForRateEndsWithTheWork(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		slow := func(f *Function, _ *Options) { f.Rate, f.MaxItemsPerInvocation = 0.001, 1 }
		w.writeMany("doc", 20)
		stop := w.startHost(w.host("a", w.recorder("a"), slow))
		time.Sleep(time.Minute)
		other := w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(time.Minute)
		if w.deliveryCount() < 10 {
			t.Errorf("after a handover %d changes are delivered", w.deliveryCount())
		}
		other()
		began := time.Now()
		stop()
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop took %v", took)
		}
		_, err := w.host("c", w.recorder("c")).Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

// Failed calls are calls: their changes count against the rate. A failure that waits for
// the rate is not taken for a stall.
func TestRetriesCountAgainstTheRate(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("one", "one")
		var calls atomic.Int64
		stop := w.startHost(w.host("a", func(context.Context, Batch) error {
			calls.Add(1)
			return errors.New("sink is down")
		}, withoutLogger, func(f *Function, _ *Options) {
			f.Rate, f.RetryMin, f.RetryMax = 0.01, time.Millisecond, time.Millisecond
		}))
		time.Sleep(390 * time.Second)
		if calls.Load() != 4 {
			t.Errorf("%d calls in 390 s, want one at once and one in each 100 s", calls.Load())
		}
		stop()
	})
}

func TestFailureWaitingForTheRateIsNoStall(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("one", "one")
		record, calls := w.recorder("a"), 0
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if calls++; calls == 1 {
				return errors.New("sink is down")
			}
			return record(ctx, b)
		}, withoutLogger, func(f *Function, _ *Options) { f.Rate = 0.005 }))
		time.Sleep(250 * time.Second)
		stop()
		w.checkComplete(0)
		if n := w.eventCount(EventStalled); n != 0 {
			t.Errorf("%d times stalled", n)
		}
	})
}

// A drain keeps the rate, also over several drains of a host, ends when its time is over,
// and says why ranges are behind.
func TestDrainKeepsTheRate(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		for range 10 {
			w.writeMany("doc", 10)
		}
		w.writeMany("more", 90)
		for _, limited := range []struct {
			name string
			set  func(*Function, *Options)
		}{
			{"RATE", func(f *Function, _ *Options) { f.Rate, f.MaxItemsPerInvocation, f.LeasePrefix = 1, 2, "rate" }},
			{"READ_REQUEST_UNITS", func(f *Function, _ *Options) {
				f.ReadRequestUnits, f.PageItems, f.LeasePrefix = 0.1, 1, "units"
			}},
		} {
			h := w.host("a", w.recorder("a"), limited.set)
			oldCount, drains, told := w.deliveryCount(), 0, false
			for began := time.Now(); w.deliveryCount() < oldCount+100 && time.Since(began) < time.Hour; drains++ {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				started := time.Now()
				summary, err := h.Drain(ctx)
				must(t, err)
				if took := time.Since(started); took > 21*time.Second {
					t.Errorf("%s: a drain took %v", limited.name, took)
				}
				if summary.Behind > 0 && strings.Contains(summary.Problem, "held back by") {
					told = true
				}
				cancel()
			}
			if drains < 4 || !told {
				t.Errorf("%s: %d drains, told why: %v", limited.name, drains, told)
			}
		}
	})
}

// chargedTransport sums the request units of feed reads.
type chargedTransport struct {
	countingTransport
	mu    sync.Mutex
	units float64
	reads int
}

func (c *chargedTransport) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.countingTransport.Do(req)
	if err == nil && req.Header.Get("A-IM") != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		var charge float64
		fmt.Sscan(resp.Header.Get("X-Ms-Request-Charge"), &charge)
		c.units += charge
		c.reads++
	}
	return resp, err
}

// Reads of pages and polls that find nothing keep the limit. Requests for leases and for
// the lag do not wait.
func TestReadsKeepTheirLimit(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		const limit = 3
		w.writeMany("doc", 400)
		transport := &chargedTransport{countingTransport: countingTransport{w}}
		h := w.hostOn(transport, "a", w.recorder("a"), func(f *Function, _ *Options) {
			f.ReadRequestUnits, f.PageItems, f.FeedPollDelay = limit, 20, 100*time.Millisecond
		})
		began := time.Now()
		stop := w.startHost(h)
		time.Sleep(70 * time.Second)
		check := func(moment string, reads int) {
			transport.mu.Lock()
			defer transport.mu.Unlock()
			bound := limit*(time.Since(began).Seconds()+1) + 4*40 // a page of each range may be paid afterwards
			if transport.units > bound || transport.reads < reads {
				t.Errorf("%s: %d reads cost %g units in %v, at most %g are allowed", moment, transport.reads, transport.units, time.Since(began), bound)
			}
		}
		check("with changes", 10)
		if kinds, problems := limitsOf(h); !slices.Equal(kinds, []stall.Kind{stall.ReadsLimited}) || !strings.Contains(problems, "held back by READ_REQUEST_UNITS for") {
			t.Errorf("the status names %v: %s", kinds, problems)
		}
		start := time.Now()
		if _, l := w.stallsOf("0"); time.Since(start) != 0 {
			t.Errorf("the lag was read after %v: %+v", time.Since(start), l)
		}
		for w.deliveryCount() < 400 && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
		}
		transport.mu.Lock()
		transport.units, transport.reads = 0, 0
		transport.mu.Unlock()
		began = time.Now()
		time.Sleep(time.Minute)
		check("idle", 100)
		if transport.units > limit*70 {
			t.Errorf("idle ranges cost %g units in a minute", transport.units)
		}
		start = time.Now()
		stop()
		if time.Since(start) > time.Second {
			t.Errorf("the stop took %v", time.Since(start))
		}
		w.checkComplete(0)
		if n := w.eventCount(EventStalled) + w.eventCount(EventReleased); n != 4 {
			t.Errorf("%d ranges stalled, %d leases were released", w.eventCount(EventStalled), w.eventCount(EventReleased))
		}
	})
}

// After changes a range is polled at FeedPollMin, and then less and less often.
func TestPollsBeginAtTheShortestWait(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, test := range []struct {
			shortest time.Duration
			reads    int // within 5 s after a change
		}{{0, 10}, {100 * time.Millisecond, 6}, {5 * time.Second, 1}} {
			transport := &chargedTransport{countingTransport: countingTransport{w}}
			stop := w.startHost(w.hostOn(transport, "a", w.recorder("a"), func(f *Function, _ *Options) {
				f.FeedPollMin, f.LeasePrefix = test.shortest, fmt.Sprint("every", test.shortest)
			}))
			time.Sleep(21 * time.Second)
			w.write("one", "one")
			transport.mu.Lock()
			oldCount := w.deliveryCount()
			transport.mu.Unlock()
			for w.deliveryCount() == oldCount {
				time.Sleep(time.Millisecond)
			}
			transport.mu.Lock()
			transport.reads = 0
			transport.mu.Unlock()
			time.Sleep(5*time.Second - 10*time.Millisecond)
			transport.mu.Lock()
			if transport.reads < test.reads-1 || transport.reads > test.reads+1 {
				t.Errorf("shortest wait %v: %d reads, want about %d", test.shortest, transport.reads, test.reads)
			}
			transport.mu.Unlock()
			stop()
		}
	})
}
