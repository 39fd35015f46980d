package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
)

// stallsOf are the kinds of stall that another machine sees from the lease documents.
func (w *world) stallsOf(token string) (kinds []stall.Kind, l Lag) {
	w.t.Helper()
	lags, err := EstimateLag(w.t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()})
	must(w.t, err)
	for _, l = range lags {
		if l.Range != token {
			continue
		}
		for _, s := range l.Stalls {
			kinds = append(kinds, s.Kind)
		}
		return kinds, l
	}
	w.t.Fatalf("no lease %s", token)
	return nil, l
}

// brokenStore is a dead letter store that cannot store.
type brokenStore struct{ memoryStore }

func (*brokenStore) Put(context.Context, DeadLetter) error { return errors.New("disk full") }

// The host and every other machine name the reason why a range makes no progress, and
// say when it is over.
func TestEveryStallIsNamed(t *testing.T) {
	failing := func(context.Context, Batch) error { return errors.New("redis is down?token=s3cret") }
	for _, test := range []struct {
		kind    stall.Kind
		says    string
		handler Handler
		change  func(*Function, *Options)
		breaks  func(w *world) (mend func())
		here    bool // another machine sees a silent owner instead
	}{
		{kind: stall.HandlerFails, says: "no limit, next in", handler: failing},
		{kind: stall.HandlerFails, says: " of 100, next in", handler: failing, change: func(f *Function, _ *Options) { f.DeadLetters, f.MaxAttempts = &memoryStore{}, 100 }},
		{kind: stall.CallRuns, says: "handler call running for", handler: func(ctx context.Context, _ Batch) error { <-ctx.Done(); return nil }},
		{kind: stall.StorePending, says: "disk full", handler: failing, change: func(f *Function, _ *Options) { f.DeadLetters, f.MaxAttempts = &brokenStore{}, 1 }},
		{kind: stall.Breaker, says: "paused by the circuit breaker", handler: failing, change: func(f *Function, _ *Options) {
			f.DeadLetters, f.MaxAttempts, f.BreakerLimit, f.BreakerPause = &memoryStore{}, 1, 1, time.Hour
		}},
		{kind: stall.RangeWaits, says: "no dead letter store", handler: func(context.Context, Batch) error { return Skip(errPoison) }},
		{kind: stall.FeedThrottled, says: "feed throttled for", breaks: func(w *world) func() {
			return w.account.Inject(emulator.Fault{Method: http.MethodGet, Header: map[string]string{"A-IM": "."}, Status: 429, RetryAfter: 20 * time.Second})
		}},
		{kind: stall.LeaseFails, says: "lease writes refused for", here: true, breaks: func(w *world) func() {
			return w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 403})
		}},
	} {
		t.Run(string(test.kind)+" "+test.says, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				logger, log := recordLog(slog.LevelInfo)
				handler := test.handler
				if handler == nil {
					handler = w.recorder("a")
				}
				h := w.host("a", handler, func(f *Function, o *Options) {
					o.Logger = logger
					if test.change != nil {
						test.change(f, o)
					}
				})
				stop := w.startHost(h)
				time.Sleep(30 * time.Second)
				mend := func() {}
				if test.breaks != nil {
					mend = test.breaks(w)
				}
				w.writeMany("doc", 3)
				found := func() bool {
					return slices.ContainsFunc(h.Status().Functions[0].Ranges, func(r RangeStatus) bool {
						return slices.ContainsFunc(r.Stalls, func(s stall.Stall) bool { return s.Kind == test.kind }) && strings.Contains(r.Problem, test.says)
					})
				}
				for range 45 {
					if time.Sleep(time.Second); found() {
						break
					}
				}
				if !found() {
					t.Errorf("the host's status does not name %s: %+v", test.kind, h.Status().Functions[0].Ranges)
				}
				time.Sleep(18 * time.Second) // until the next write of the lease
				if !test.here && test.kind != stall.FeedThrottled {
					kinds, l := w.stallsOf("0")
					raw, err := json.Marshal(l)
					must(t, err)
					if !slices.Contains(kinds, test.kind) || strings.Contains(string(raw), "s3cret") {
						t.Errorf("another machine sees %s", raw)
					}
				}
				mend()
				stop()
				if test.kind == stall.HandlerFails || test.kind == stall.StorePending {
					if stalled := log.FilterMessage("range stalled").All(); len(stalled) != 1 || stalled[0].ContextMap()["cause"] != string(test.kind) {
						t.Errorf("the log says %v", log.All())
					}
				}
			})
		})
	}
}

// A stall is reported once, and its end once, however often it is retried.
func TestStallIsReportedOnceAndRecoveryOnce(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		logger, log := recordLog(slog.LevelInfo)
		var mended atomic.Bool
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if !mended.Load() {
				return errors.New("redis is down")
			}
			return record(ctx, b)
		}, func(_ *Function, o *Options) { o.Logger = logger })
		stop := w.startHost(h)
		w.writeMany("doc", 5)
		time.Sleep(time.Hour)
		if failed := log.FilterMessage("handler failed").Len(); failed < 5 || failed > 70 {
			t.Errorf("%d lines about one failure in an hour", failed)
		}
		first := log.FilterMessage("handler failed").All()[0].ContextMap()
		if first["documentId"] != "doc0" || first["key"] != `["doc0"]` || first["attempt"] != int64(1) {
			t.Errorf("a failed handler's line: %v", first)
		}
		mended.Store(true)
		time.Sleep(time.Minute)
		stop()
		if w.eventCount(EventStalled) != 1 || w.eventCount(EventRecovered) != 1 {
			t.Errorf("%d times stalled, %d times recovered", w.eventCount(EventStalled), w.eventCount(EventRecovered))
		}
		w.checkComplete(0)
	})
}

func TestSlowRangeStallsAfterItsTime(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		record := w.recorder("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			time.Sleep(2 * time.Minute)
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.StallAfter = 90 * time.Second })
		stop := w.startHost(h)
		w.writeMany("doc", 1)
		time.Sleep(80 * time.Second)
		if n := w.eventCount(EventStalled); n != 0 {
			t.Errorf("stalled %d times after 80 s", n)
		}
		time.Sleep(20 * time.Second)
		if n := w.eventCount(EventStalled); n != 1 {
			t.Errorf("stalled %d times after 100 s", n)
		}
		time.Sleep(time.Minute)
		stop()
		if n := w.eventCount(EventRecovered); n != 1 {
			t.Errorf("recovered %d times", n)
		}
	})
}

// The owner of a lease dies: other machines see how long it has been silent.
func TestSilentOwnerIsNamed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 1)
		dead := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		dead.owner = "gone"
		w.createLease(dead)
		if kinds, _ := w.stallsOf("0"); len(kinds) != 0 {
			t.Errorf("at once: %v", kinds)
		}
		time.Sleep(45 * time.Second)
		if kinds, l := w.stallsOf("0"); !slices.Equal(kinds, []stall.Kind{stall.OwnerSilent}) || !strings.Contains(l.Problem, "owner silent for 45s (lease expires in 16s)") {
			t.Errorf("after 45 s: %v, %q", kinds, l.Problem)
		}
		time.Sleep(time.Minute)
		if _, l := w.stallsOf("0"); !strings.Contains(l.Problem, "expired") {
			t.Errorf("after 105 s: %q", l.Problem)
		}
	})
}

// A stall lasts since its first failure, also if that was an earlier owner's.
func TestStallIsInherited(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 3)
		failing := func(context.Context, Batch) error { return errors.New("redis is down") }
		began := time.Now()
		for _, owner := range []string{"a", "b"} {
			stop := w.startHost(w.host(owner, failing))
			time.Sleep(5 * time.Minute)
			stop()
		}
		_, l := w.stallsOf("0")
		if len(l.Stalls) == 0 || l.Stalls[0].Since.Sub(began) > 2*time.Second {
			t.Errorf("%+v, failing since %v", l.Stalls, began)
		}
	})
}

// A life without failures is told at info, without warnings: handovers, splits and lost
// races are normal.
func TestOrderlyLifeIsNotAWarning(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		logger, log := recordLog(slog.LevelInfo)
		logged := func(_ *Function, o *Options) { o.Logger = logger }
		stopA := w.startHost(w.host("a", w.recorder("a"), logged))
		w.writeMany("one", 20)
		time.Sleep(time.Minute)
		stopB := w.startHost(w.host("b", w.recorder("b"), logged))
		w.writeMany("two", 20)
		time.Sleep(2 * time.Minute)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		w.writeMany("three", 20)
		time.Sleep(time.Minute)
		stopA()
		time.Sleep(time.Minute)
		stopB()
		w.checkComplete(0)
		for _, message := range []string{"lease acquired", "lease handed over", "range split; its children continue", "range caught up", "lease released"} {
			if log.FilterMessage(message).Len() == 0 {
				t.Errorf("the log lacks %q", message)
			}
		}
		for _, line := range log.All() {
			if line.Level > slog.LevelInfo {
				t.Errorf("%s: %s %v", line.Level, line.Message, line.ContextMap())
			}
		}
	})
}

func TestTokensAreSortedByNumber(t *testing.T) {
	tokens := []string{"10", "05C1-FF", "9", "-05C1", "100", "2"}
	slices.SortFunc(tokens, lease.CompareTokens)
	if got := strings.Join(tokens, " "); got != "2 9 10 100 -05C1 05C1-FF" {
		t.Error(got)
	}
}

func TestTextForLeasesIsClean(t *testing.T) {
	for text, want := range map[string]string{
		"two\nlines\x1b[31m":                "two lines[31m",
		"GET https://x/y?sig=s3cret failed": "GET https://x/y?… failed",
		strings.Repeat("é", 200):            strings.Repeat("é", 98) + "…",
		"bad \xff byte":                     "bad  byte",
	} {
		if got := lease.CleanText(text); got != want || len(got) > lease.MaxText {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
