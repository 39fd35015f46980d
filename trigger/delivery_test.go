package trigger

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/delivery"
)

// letters is a dead letter store in memory, for tests.
type letters struct {
	mu   sync.Mutex
	all  []DeadLetter
	fail error // of Put
	puts int
}

func (s *letters) Put(_ context.Context, d DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	if s.fail != nil {
		return s.fail
	}
	if !slices.ContainsFunc(s.all, func(o DeadLetter) bool { return o.ID == d.ID }) {
		s.all = append(s.all, d)
	}
	return nil
}

func (s *letters) List(_ context.Context, of DeadLetterSource) iter.Seq2[DeadLetter, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.all)
	return func(yield func(DeadLetter, error) bool) {
		for _, d := range all {
			if d.Source() == of && !yield(d, nil) {
				return
			}
		}
	}
}

func (s *letters) Delete(_ context.Context, d DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(o DeadLetter) bool { return o.ID == d.ID })
	return nil
}

func (s *letters) Holds(_ context.Context, of DeadLetterSource, key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(o DeadLetter) bool { return o.Source() == of && o.Key == key }), nil
}

func (s *letters) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, d := range s.all {
		ids = append(ids, d.DocumentID)
	}
	return ids
}

var errPoison = errors.New("poison")

// allergic wraps a handler that fails on documents whose id says poison.
func allergic(next Handler) Handler {
	return func(ctx context.Context, b Batch) error {
		for _, c := range b.Changes {
			if strings.Contains(c.ID(), "poison") {
				return fmt.Errorf("cannot take %s: %w", c.ID(), errPoison)
			}
		}
		return next(ctx, b)
	}
}

func withLetters(s *letters, more ...func(*Function)) func(*Function, *Options) {
	return func(f *Function, _ *Options) {
		f.DeadLetters = s
		for _, m := range more {
			m(f)
		}
	}
}

func TestBisectionIsolatesThePoison(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 40)
		w.write("k", "poison")
		w.fill("more", 40)
		store := &letters{}
		calls := 0
		counted := func(ctx context.Context, b Batch) error { calls++; return w.record("a")(ctx, b) }
		summary, err := w.host("a", allergic(counted), withLetters(store)).Drain(t.Context())
		must(t, err)
		delete(w.written, "poison")
		w.complete(0)
		if got := store.ids(); len(got) != 1 || got[0] != "poison" {
			t.Errorf("dead letters %v", got)
		}
		d := store.all[0]
		if d.Attempts < 10 || d.Key != `["k"]` || d.Range != "0" || d.Epoch != bootEpoch+1 || d.LSN == 0 || !strings.Contains(d.Error, "poison") {
			t.Errorf("letter %+v", d)
		}
		if summary.DeadLetters != 1 || summary.Changes != 80 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
		if summary.Retries > 10+8 || calls > 10 {
			t.Errorf("%d failed and %d good calls", summary.Retries, calls)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != w.head() {
			t.Errorf("checkpoint %s, head %s", l.continuation, w.head())
		}
	})
}

func TestOutageCostsFewCalls(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 100)
		began := time.Now()
		record, failed := w.record("a"), 0
		stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
			if time.Since(began) < 10*time.Minute {
				failed++
				return errors.New("sink is down")
			}
			return record(ctx, b)
		}))
		time.Sleep(12 * time.Minute)
		stop()
		w.complete(0)
		if failed > 10*60/15+12 {
			t.Errorf("%d calls during an outage of 10 minutes", failed)
		}
	})
}

func TestPartialFailureRetriesExactlyThose(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		var calls []string
		h := func(_ context.Context, b Batch) error {
			var ids []string
			var odd []Change
			for i, c := range b.Changes {
				ids = append(ids, strings.TrimPrefix(c.ID(), "doc"))
				if b.Attempt == 1 && i%2 == 1 {
					odd = append(odd, c)
				}
			}
			calls = append(calls, fmt.Sprint(b.Attempt, ":", strings.Join(ids, "")))
			return Failed(errIf(len(odd) > 0), odd...)
		}
		summary, err := w.host("a", h, whole).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(calls) != "[1:0123456789 2:13579]" {
			t.Errorf("calls %v", calls)
		}
		if summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
	})
}

func TestFailedFromRetriesTheRest(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 6)
		var calls []string
		h := func(_ context.Context, b Batch) error {
			calls = append(calls, fmt.Sprint(b.Attempt, ":", len(b.Changes), b.Changes[0].ID()))
			if b.Attempt == 1 {
				return FailedFrom(errors.New("stopped"), b.Changes[4])
			}
			return nil
		}
		_, err := w.host("a", h, whole).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(calls) != "[1:6doc0 2:2doc4]" {
			t.Errorf("calls %v", calls)
		}
	})
}

func errIf(failed bool) error {
	if failed {
		return errors.New("failed")
	}
	return nil
}

func TestJudge(t *testing.T) {
	batch := []Change{{seq: 1}, {seq: 2}, {seq: 3}}
	c := func(ordinals ...int64) (changes []Change) {
		for _, o := range ordinals {
			changes = append(changes, Change{seq: o})
		}
		return changes
	}
	bad := errors.New("bad")
	tests := []struct {
		name           string
		err            error
		handled, fails int
		giveUp         bool
	}{
		{"nil", nil, 3, 0, false},
		{"plain", bad, 0, 3, false},
		{"skip", Skip(bad), 0, 3, true},
		{"skip of nil", Skip(nil), 3, 0, false},
		{"one failed", Failed(bad, c(2)...), 2, 1, false},
		{"skip one", Skip(Failed(bad, c(2)...)), 2, 1, true},
		{"one failed for good", Failed(Skip(bad), c(2)...), 2, 1, true},
		{"none named", Failed(bad), 0, 3, false},
		{"a change that was not in the batch", Failed(bad, c(2, 9)...), 0, 3, false},
		{"from the second", FailedFrom(bad, c(2)[0]), 1, 2, false},
		{"wrapped", fmt.Errorf("write: %w", Failed(bad, c(3)...)), 2, 1, false},
		{"from after the end", FailedFrom(bad, c(9)[0]), 0, 3, false},
	}
	for _, test := range tests {
		failed, final := judgeBatch(batch, test.err)
		if handled := len(batch) - len(failed); handled != test.handled || len(failed) != test.fails || final != test.giveUp {
			t.Errorf("%s: %d handled, %d failed, final %v", test.name, handled, len(failed), final)
		}
		if test.err != nil && !errors.Is(test.err, bad) {
			t.Errorf("%s hides its cause", test.name)
		}
	}
}

func TestSkipDeadLettersAtOnce(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		store := &letters{}
		calls := 0
		summary, err := w.host("a", func(_ context.Context, b Batch) error {
			calls++
			return Skip(Failed(errPoison, b.Changes[1], b.Changes[3]))
		}, withLetters(store)).Drain(t.Context())
		must(t, err)
		if calls != 1 || fmt.Sprint(store.ids()) != "[doc1 doc3]" || summary.Behind != 0 {
			t.Errorf("%d calls, letters %v, summary %+v", calls, store.ids(), summary)
		}
	})
}

func TestWithoutAStoreTheRangeWaits(t *testing.T) {
	for verdict, says := range map[error]string{errPoison: "poison", Skip(errPoison): "dead letter store"} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.fill("doc", 3)
			h := w.host("a", func(context.Context, Batch) error { return verdict })
			stop := w.running(h)
			time.Sleep(time.Hour)
			status := h.Status().Functions[0].Ranges[0]
			stop()
			if !strings.Contains(status.Problem, says) || !strings.Contains(status.Problem, "poison") {
				t.Errorf("problem %q", status.Problem)
			}
			if l := w.leaseDocuments()["0"]; l.continuation != "" {
				t.Errorf("checkpointed at %s", l.continuation)
			}
		})
	}
}

func TestDiscardDropsWhenAsked(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.fill("doc", 3)
		summary, err := w.host("a", allergic(w.record("a")), func(f *Function, _ *Options) { f.DeadLetters = DropDeadLetters }).Drain(t.Context())
		must(t, err)
		if summary.Changes != 3 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
	})
}

func TestRangeWaitsWhileTheStoreFails(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		w.fill("doc", 3)
		store := &letters{fail: errors.New("disk full")}
		h := w.host("a", allergic(w.record("a")), withLetters(store))
		stop := w.running(h)
		time.Sleep(30 * time.Minute)
		if problem := h.Status().Functions[0].Ranges[0].Problem; !strings.Contains(problem, "disk full") {
			t.Errorf("problem %q", problem)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != "" || w.count() > 3 {
			t.Errorf("the lease moved on to %s, %d delivered", l.continuation, w.count())
		}
		store.mu.Lock()
		store.fail = nil
		store.mu.Unlock()
		time.Sleep(5 * time.Minute)
		stop()
		delete(w.written, "poison")
		w.complete(0)
		if got := store.ids(); fmt.Sprint(got) != "[poison]" {
			t.Errorf("letters %v", got)
		}
	})
}

func TestBreakerPausesWhenEverythingFails(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 100)
		store := &letters{}
		fail := true
		var mu sync.Mutex
		record := w.record("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if fail {
				return errors.New("sink is down")
			}
			return record(ctx, b)
		}, withLetters(store, func(f *Function) {
			f.MaxAttempts, f.BreakerLimit, f.BreakerPause, f.RetryMax = 3, 5, 10*time.Minute, time.Second
		}))
		stop := w.running(h)
		time.Sleep(time.Hour)
		if n := len(store.ids()); n < 5 || n > 5+6 {
			t.Errorf("%d dead letters after an hour of outage", n)
		}
		if problem := h.Status().Functions[0].Ranges[0].Problem; !strings.Contains(problem, "everything fails") && !strings.Contains(problem, "sink is down") {
			t.Errorf("problem %q", problem)
		}
		mu.Lock()
		fail = false
		mu.Unlock()
		time.Sleep(15 * time.Minute)
		stop()
		if got := w.count() + len(store.ids()); got != 100 {
			t.Errorf("%d delivered or dead-lettered of 100", got)
		}
	})
}

func TestMaxAge(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.write("k", "poison")
		store := &letters{}
		stop := w.running(w.host("a", allergic(w.record("a")), withLetters(store, func(f *Function) {
			f.MaxAttempts, f.RetryMaxAge = -1, 10*time.Minute
		})))
		time.Sleep(9 * time.Minute)
		if n := len(store.ids()); n != 0 {
			t.Errorf("%d dead letters too early", n)
		}
		time.Sleep(2 * time.Minute)
		stop()
		if n := len(store.ids()); n != 1 {
			t.Errorf("%d dead letters", n)
		}
	})
}

func TestParkedKeysFollowInOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		store := &letters{}
		park := func(f *Function) { f.BlockKeys = true }
		w.write("k", "poison")
		w.write("k", "later1")
		w.write("other", "doc")
		h := w.host("a", allergic(w.record("a")), withLetters(store, park))
		_, err := h.Drain(t.Context())
		must(t, err)
		w.write("k", "later2") // the next owner has to know, too
		h = w.host("b", allergic(w.record("b")), withLetters(store, park))
		_, err = h.Drain(t.Context())
		must(t, err)
		if fmt.Sprint(store.ids()) != "[poison later1 later2]" || w.count() != 1 {
			t.Errorf("letters %v, %d delivered", store.ids(), w.count())
		}
		if d := store.all[1]; !d.Blocked || d.Attempts != 0 {
			t.Errorf("parked letter %+v", d)
		}

		done, err := Replay(t.Context(), store, w.source(), allergic(w.record("replay")), nil)
		must(t, err)
		if done != (Replayed{Failed: 1, Waiting: 2}) {
			t.Errorf("replay with the old handler: %+v", done)
		}
		done, err = Replay(t.Context(), store, w.source(), w.record("replay"), nil)
		must(t, err)
		if done != (Replayed{Handled: 3}) || len(store.ids()) != 0 {
			t.Errorf("replay with a fixed handler: %+v, left %v", done, store.ids())
		}
		w.write("k", "after")
		_, err = h.Drain(t.Context())
		must(t, err)
		w.complete(0)
	})
}

func TestLanesKeepTheOrderOfKeys(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var mu sync.Mutex
		running, most := 0, 0
		record := w.record("a")
		slow := func(ctx context.Context, b Batch) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			err := backoff.Sleep(ctx, 10*time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			if err != nil {
				return err
			}
			return record(ctx, b)
		}
		stop := w.running(w.host("a", slow, func(f *Function, _ *Options) { f.Lanes, f.BatchItems = 4, 5 }))
		for range 10 {
			w.fill("doc", 12)
			time.Sleep(7 * time.Second)
		}
		time.Sleep(time.Minute)
		stop()
		w.complete(0)
		if most < 3 || most > 4 {
			t.Errorf("%d calls at a time on four lanes", most)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != w.head() {
			t.Errorf("checkpoint %s, head %s", l.continuation, w.head())
		}
	})
}

func TestASlowLaneHoldsTheCheckpointButNotTheOthers(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		record := w.record("a")
		var mu sync.Mutex
		blocked := true
		h := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			stop := blocked && strings.Contains(string(b.Changes[0].Document), `"doc0"`)
			mu.Unlock()
			if stop {
				return errors.New("not yet")
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.Lanes, f.BatchItems = 8, 1 })
		stop := w.running(h)
		w.fill("doc", 40)
		time.Sleep(time.Minute)
		if got := w.count(); got < 30 || got > 39 {
			t.Errorf("%d delivered beside the blocked key", got)
		}
		if l := w.leaseDocuments()["0"]; l.continuation != "" && lsnOf(t, l.continuation) >= 2 {
			t.Errorf("checkpoint %s is past the blocked change", l.continuation)
		}
		mu.Lock()
		blocked = false
		mu.Unlock()
		time.Sleep(time.Minute)
		stop()
		w.complete(0)
	})
}

func TestBatchLimits(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 25)
		var sizes []int
		size := 0
		h := func(_ context.Context, b Batch) error {
			sizes, size = append(sizes, len(b.Changes)), len(b.Changes[0].Document)
			return nil
		}
		_, err := w.host("a", h, func(f *Function, _ *Options) { f.BatchItems = 10 }).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(sizes) != "[10 10 5]" {
			t.Errorf("batches of %v", sizes)
		}
		sizes = nil
		w.fill("big", 6)
		_, err = w.host("b", h, func(f *Function, _ *Options) { f.BatchBytes = 2*size + size/2 }).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(sizes) != "[2 2 2]" {
			t.Errorf("batches of %v by bytes", sizes)
		}
	})
}

func TestBatchWindow(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var sizes []int
		var at []time.Duration
		began := time.Now()
		stop := w.running(w.host("a", func(_ context.Context, b Batch) error {
			sizes = append(sizes, len(b.Changes))
			at = append(at, time.Since(began).Round(time.Second))
			return nil
		}, func(f *Function, _ *Options) { f.BatchWindow, f.FeedPollDelay = 20*time.Second, time.Second }))
		for i := range 10 {
			w.write("k", fmt.Sprint("doc", i))
			time.Sleep(6 * time.Second)
		}
		time.Sleep(time.Minute)
		stop()
		if slices.Max(sizes) < 3 || len(sizes) > 4 {
			t.Errorf("batches of %v at %v", sizes, at)
		}
	})
}

func TestInnerPositionsAreCheckpointed(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 50)
		calls := 0
		record := w.record("a")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := w.host("a", func(ctx context.Context, b Batch) error {
			if calls++; calls == 3 {
				cancel()
				return errors.New("stopping")
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.BatchItems = 10 }).Drain(ctx)
		must(t, err)
		if w.count() != 20 {
			t.Fatalf("%d delivered", w.count())
		}
		_, err = w.host("b", w.record("b")).Drain(t.Context())
		must(t, err)
		w.complete(0) // the 20 of the same page do not come again
	})
}

func TestCheckpointEvery(t *testing.T) {
	tests := []struct {
		name    string
		setting Checkpoint
		most    int
	}{
		{"every 50 changes", Checkpoint{Every: 50}, 3},
		{"every minute", Checkpoint{Interval: time.Minute}, 6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				stop := w.running(w.host("a", w.record("a"), func(f *Function, o *Options) {
					f.Checkpoint = test.setting
					o.LeaseExpirationInterval, o.LeaseRenewInterval = time.Hour, 20*time.Minute
				}))
				for i := range 100 {
					w.write("k", fmt.Sprint("doc", i))
					time.Sleep(3 * time.Second)
				}
				time.Sleep(10 * time.Second)
				if n := w.happened(Checkpointed); n == 0 || n > test.most {
					t.Errorf("%d checkpoints", n)
				}
				stop()
				w.complete(0)
				if l := w.leaseDocuments()["0"]; l.continuation != w.head() {
					t.Errorf("the release saved %s, head %s", l.continuation, w.head())
				}
			})
		})
	}
}

func TestManualCheckpoint(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		manual := func(f *Function, _ *Options) { f.Checkpoint, f.BatchItems = Checkpoint{Manual: true}, 10 }
		w.fill("doc", 50)
		calls := 0
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			if calls++; calls == 3 {
				b.Checkpoint()
			}
			return nil
		}, manual).Drain(t.Context())
		must(t, err)
		_, err = w.host("b", w.record("b"), manual).Drain(t.Context())
		must(t, err)
		if got := w.count(); got != 20 {
			t.Errorf("%d came again, want the 20 after the checkpoint", got)
		}
	})
}

func TestStuckHandlerLosesTheRange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		release := make(chan struct{})
		h := w.host("a", func(context.Context, Batch) error { <-release; return nil },
			func(f *Function, o *Options) { f.HandlerTimeout = time.Minute })
		stopA := w.running(h)
		time.Sleep(30 * time.Second)
		stopB := w.running(w.host("b", w.record("b")))
		time.Sleep(time.Minute)
		w.complete(0)
		if l := w.leaseDocuments()["0"]; l.owner != "b" {
			t.Errorf("lease is held by %q", l.owner)
		}
		stopA()
		stopB()
		close(release)
	})
}

func TestTooManyStuckHandlersEndTheRun(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("doc", 20)
		release := make(chan struct{})
		h := w.host("a", func(context.Context, Batch) error { <-release; return nil },
			func(f *Function, o *Options) { f.HandlerTimeout, o.MaxStuck = time.Minute, 1 })
		var stuck *delivery.HungError
		if err := h.Run(t.Context()); !errors.As(err, &stuck) {
			t.Errorf("run ended with %v", err)
		}
		close(release)
	})
}

func TestLifecycleCallbacks(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		var mu sync.Mutex
		var seen []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprintf(format, args...))
		}
		h := w.host("a", func(context.Context, Batch) error { note("deliver"); return nil }, func(f *Function, _ *Options) {
			f.Opened = func(r RangeInfo) { note("open %s %d %q", r.Range.ID, r.Epoch, r.Continuation) }
			f.Closed = func(r RangeInfo, reason CloseReason, err error) {
				note("close %s %s %v %v", r.Range.ID, reason, r.Continuation != "", err)
			}
		})
		_, err := h.Drain(t.Context())
		must(t, err)
		want := []string{fmt.Sprintf(`open 0 %d ""`, bootEpoch+1), "deliver", "close 0 caught up true <nil>"}
		if !slices.Equal(seen, want) {
			t.Errorf("saw %q", seen)
		}
	})
}

func TestDiscardBeginsAnew(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("doc", 20)
		for range 2 {
			_, err := w.host("a", w.record("a"), func(f *Function, _ *Options) { f.ResetLeases = true }).Drain(t.Context())
			must(t, err)
		}
		if got := w.count(); got != 40 {
			t.Errorf("%d delivered, want all twice", got)
		}
	})
}

func TestEpochRisesWithEachAcquisition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i := range 3 {
			w.fill(fmt.Sprint("doc", i), 1)
			_, err := w.host(fmt.Sprint("h", i), w.record("x")).Drain(t.Context())
			must(t, err)
		}
		for i, d := range w.delivered {
			if d.epoch != bootEpoch+int64(i+1) {
				t.Errorf("delivery %d has epoch %d", i, d.epoch)
			}
		}
	})
}
