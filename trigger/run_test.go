package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/lease"
)

func TestRunDeliversAndCheckpoints(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("before", 100)
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(time.Minute)
		w.fill("after", 100)
		time.Sleep(10 * time.Second)
		w.complete(0)
		if got := w.count(); got != 200 {
			t.Errorf("%d delivered, want 200", got)
		}
		stop()
		for token, l := range w.leaseDocuments() {
			if l.owner != "" || l.continuation == "" || l.epoch() != bootEpoch+1 {
				t.Errorf("lease %s after the stop: owner %q, continuation %q, epoch %d", token, l.owner, l.continuation, l.epoch())
			}
		}
	})
}

func TestRestartContinuesWhereItStopped(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("one", 50)
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(20 * time.Second)
		stop()
		w.fill("two", 50)
		stop = w.running(w.host("b", w.record("b")))
		time.Sleep(20 * time.Second)
		stop()
		w.complete(0)
	})
}

func TestHostsShareTheLeases(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		stopA := w.running(w.host("a", w.record("a")))
		time.Sleep(time.Minute)
		stopB := w.running(w.host("b", w.record("b")))
		for i := range 20 {
			w.fill(fmt.Sprint("doc", i, "-"), 5)
			time.Sleep(10 * time.Second)
		}
		held := map[string]int{}
		for _, l := range w.leaseDocuments() {
			held[l.owner]++
		}
		if held["a"] != 4 || held["b"] != 4 {
			t.Errorf("leases are shared as %v", held)
		}
		stopA()
		w.fill("late", 20)
		time.Sleep(time.Minute)
		stopB()
		w.complete(0) // handed over after the batch in work
	})
}

func TestAbandonedLeaseIsTakenOver(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 5)
		dead := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		dead.owner = "gone"
		w.createLease(dead)
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(55 * time.Second)
		if got := w.count(); got != 0 {
			t.Errorf("%d delivered from a lease that may still be held", got)
		}
		time.Sleep(25 * time.Second)
		if got := w.count(); got != 5 {
			t.Errorf("%d delivered after the expiry, want 5", got)
		}
		stop()
		if got := w.leaseDocuments()["0"].epoch(); got != 1 {
			t.Errorf("epoch %d", got)
		}
	})
}

func TestSplitWhileRunning(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		for i := range 30 {
			w.fill(fmt.Sprint("doc", i%7, "-"), 10)
			if i == 10 {
				ranges, err := w.items.Ranges(t.Context())
				must(t, err)
				_, err = w.account.Split("db", "items", ranges[0].ID)
				must(t, err)
			}
			time.Sleep(3 * time.Second)
		}
		time.Sleep(30 * time.Second)
		leases := w.leaseDocuments()
		if len(leases) != 2 || leases["0"] != nil {
			t.Errorf("leases after the split: %v", leases)
		}
		for _, l := range leases {
			if l.epoch() != bootEpoch+3 { // parent 1, created with 2, acquired
				t.Errorf("lease %s has epoch %d", l.token, l.epoch())
			}
		}
		stop()
		w.complete(0)
		if n := w.happened(Split); n != 1 {
			t.Errorf("%d splits seen", n)
		}
	})
}

// TestRequestForALeaseThatSplits has another host ask for a lease in the very
// moment in which its owner retires it.
func TestRequestForALeaseThatSplits(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 20)
		time.Sleep(time.Minute)
		var asked atomic.Bool
		w.mu.Lock()
		w.before = func(r *http.Request) {
			if r.Method == http.MethodDelete && asked.CompareAndSwap(false, true) {
				w.requestHandover(w.leaseDocuments()["0"], "b")
			}
		}
		w.mu.Unlock()
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(20 * time.Second)
		if leases := w.leaseDocuments(); !asked.Load() || len(leases) != 2 || leases["0"] != nil {
			t.Errorf("asked: %v; leases after the split: %v", asked.Load(), leases)
		}
		stop()
		w.complete(0)
	})
}

func TestMergeWhileRunning(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		for i := range 30 {
			w.fill(fmt.Sprint("doc", i%7, "-"), 10)
			if i == 10 {
				ranges, err := w.items.Ranges(t.Context())
				must(t, err)
				_, err = w.account.Merge("db", "items", ranges[0].ID, ranges[1].ID)
				must(t, err)
			}
			time.Sleep(3 * time.Second)
		}
		time.Sleep(30 * time.Second)
		for _, l := range w.leaseDocuments() {
			if l.body["version"] != 1.0 || l.token != l.min+"-"+l.max {
				t.Errorf("lease after the merge: %+v", l)
			}
		}
		stop()
		w.complete(0)
	})
}

func TestSplitOfWhatWasMerged(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		reshape := map[int]func([]cosmos.Range){
			5:  func(r []cosmos.Range) { _, err := w.account.Merge("db", "items", r[0].ID, r[1].ID); must(t, err) },
			15: func(r []cosmos.Range) { _, err := w.account.Split("db", "items", r[0].ID); must(t, err) },
			16: func(r []cosmos.Range) { _, err := w.account.Split("db", "items", r[1].ID); must(t, err) },
		}
		for i := range 30 {
			w.fill(fmt.Sprint("doc", i%7, "-"), 10)
			if change := reshape[i]; change != nil {
				ranges, err := w.items.Ranges(t.Context())
				must(t, err)
				change(ranges)
			}
			time.Sleep(3 * time.Second)
		}
		time.Sleep(30 * time.Second)
		stop()
		w.complete(0)
		w.noHoles()
	})
}

// whole keeps failing batches together.
func whole(f *Function, _ *Options) { f.NoBisection = true }

func TestFailedBatchComesAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		record := w.record("a")
		var attempts []int
		stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
			attempts = append(attempts, b.Attempt)
			for _, c := range b.Changes {
				clear(c.Document) // what a handler does to its bytes is its own affair
			}
			switch b.Attempt {
			case 1:
				return errors.New("sink is down")
			case 2:
				panic("bug")
			case 3:
				return nil
			}
			return record(ctx, b)
		}, whole))
		time.Sleep(time.Minute)
		stop()
		if fmt.Sprint(attempts) != "[1 2 3]" {
			t.Errorf("attempts %v", attempts)
		}
		if got := w.leaseDocuments()["0"].continuation; got == "" {
			t.Error("not checkpointed")
		}
	})
}

func TestPristineBytesOnEachAttempt(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 3)
		var seen []string
		stop := w.running(w.host("a", func(_ context.Context, b Batch) error {
			seen = append(seen, string(b.Changes[0].Document))
			clear(b.Changes[0].Document)
			if b.Attempt < 3 {
				return errors.New("again")
			}
			return nil
		}, whole))
		time.Sleep(time.Minute)
		stop()
		if len(seen) != 3 || seen[0] != seen[1] || seen[1] != seen[2] || !strings.Contains(seen[0], "doc0") {
			t.Errorf("attempts saw %q", seen)
		}
	})
}

func TestNothingIsCheckpointedBeforeItIsHandled(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		stop := w.running(w.host("a", func(context.Context, Batch) error { return errors.New("never") }))
		time.Sleep(5 * time.Minute)
		w.fill("more", 10)
		stop()
		l := w.leaseDocuments()["0"]
		if l.continuation != "" || l.owner != "" {
			t.Errorf("lease after the stop: owner %q, continuation %q", l.owner, l.continuation)
		}
	})
}

func TestStopLetsARunningHandlerFinish(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		record := w.record("a")
		stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, 8*time.Second); err != nil {
				return err
			}
			return record(ctx, b)
		}))
		time.Sleep(5 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("stop took %s", took)
		}
		w.complete(0)
		if got := w.leaseDocuments()["0"]; got.continuation == "" || got.owner != "" {
			t.Errorf("lease after the stop: %+v", got)
		}
	})
}

func TestStopCancelsAHandlerAfterItsGrace(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		stop := w.running(w.host("a", func(ctx context.Context, _ Batch) error {
			<-ctx.Done()
			return ctx.Err()
		}))
		time.Sleep(5 * time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took < 8*time.Second || took > 11*time.Second {
			t.Errorf("stop took %s", took)
		}
		if got := w.leaseDocuments()["0"]; got.continuation != "" || got.owner != "" {
			t.Errorf("a cancelled batch is not handled: %+v", got)
		}
	})
}

func TestHandlerDeadline(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 1)
		record := w.record("a")
		stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
			if b.Attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return record(ctx, b)
		}, func(f *Function, _ *Options) { f.HandlerTimeout = 20 * time.Second }))
		time.Sleep(time.Minute)
		stop()
		w.complete(0)
	})
}

func TestStartFromNowIsFixedBeforeTheFirstDelivery(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("old", 10)
		fromNow := func(f *Function, _ *Options) { f.StartFrom = FromNow() }
		stop := w.running(w.host("a", w.record("a"), fromNow))
		time.Sleep(time.Second)
		stop()
		for token, l := range w.leaseDocuments() {
			if l.continuation == "" {
				t.Errorf("lease %s has no position", token)
			}
		}
		w.written = map[string]int{}
		w.fill("while down", 10)
		stop = w.running(w.host("a", w.record("a"), fromNow))
		time.Sleep(10 * time.Second)
		stop()
		w.complete(0)
		if got := w.count(); got != 10 {
			t.Errorf("%d delivered, want 10", got)
		}
	})
}

func TestStartFromTime(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("old", 10)
		time.Sleep(time.Hour)
		start := time.Now()
		time.Sleep(time.Minute)
		w.fill("new", 10)
		stop := w.running(w.host("a", w.record("a"), func(f *Function, _ *Options) { f.StartFrom = FromTime(start) }))
		time.Sleep(10 * time.Second)
		stop()
		if got := w.count(); got != 10 {
			t.Errorf("%d delivered, want 10", got)
		}
	})
}

func TestStolenLeaseStopsItsWorker(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		causes := make(chan error, 10)
		entered := make(chan struct{}, 10)
		w.fill("doc", 10)
		stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
			entered <- struct{}{}
			causes <- backoff.Sleep(ctx, 4*time.Minute)
			return ctx.Err()
		}))
		<-entered
		l := w.leaseDocuments()["0"]
		l.owner = "dotnet"
		w.replaceLease(l)
		time.Sleep(20 * time.Second) // one renewal
		select {
		case cause := <-causes:
			if !errors.Is(cause, lease.ErrLost) {
				t.Errorf("handler's context ended with %v", cause)
			}
		default:
			t.Error("handler's context did not end")
		}
		if got := w.leaseDocuments()["0"]; got.owner != "dotnet" || got.continuation != "" {
			t.Errorf("lease was written after it was lost: %+v", got)
		}
		stop()
	})
}

func TestDeletedLeaseIsCreatedAgain(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 20)
		time.Sleep(time.Minute)
		l := w.leaseDocuments()["0"]
		_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(t, err)
		time.Sleep(7 * time.Minute)
		w.fill("later", 20)
		time.Sleep(time.Minute)
		if got := w.leaseDocuments()["0"]; got == nil || got.owner != "a" {
			t.Errorf("lease is %+v", got)
		}
		stop()
		w.complete(20) // the lost lease's range is read again from its start
	})
}

func TestDeletedLeaseOfAFunctionFromNowIsReadFromItsBootstrap(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("old", 10)
		time.Sleep(time.Minute)
		stop := w.running(w.host("a", w.record("a"), func(f *Function, _ *Options) { f.StartFrom = FromNow() }))
		time.Sleep(time.Minute)
		w.written = map[string]int{}
		w.fill("seen", 10)
		time.Sleep(time.Minute)
		l := w.leaseDocuments()["0"]
		_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(t, err)
		w.fill("unseen", 10)
		time.Sleep(12 * time.Minute)
		stop()
		w.complete(20)
		for _, d := range w.delivered {
			if strings.HasPrefix(d.doc.ID, "old") {
				t.Fatalf("%s is from before the bootstrap", d.doc.ID)
			}
		}
	})
}

func TestContainerGoneEndsTheRun(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.record("a"), func(f *Function, _ *Options) {
			f.Container = w.client().Container("db", "nothing")
		})
		err := h.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestRecreatedContainerEndsTheRun(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		h := w.host("a", w.record("a"))
		done := make(chan error, 1)
		go func() { done <- h.Run(t.Context()) }()
		time.Sleep(30 * time.Second)
		before := w.leaseDocuments()["0"].continuation
		w.recreate("items", "/player")
		w.fill("other", 10) // positions of the old container must not be taken for the new one's
		if err := <-done; err == nil || cosmos.Classify(err) != cosmos.ContainerGone {
			t.Errorf("run ended with %v", err)
		}
		if w.count() != 10 {
			t.Errorf("%d delivered, want the 10 of the old container", w.count())
		}
		if before == "" {
			t.Error("no checkpoint")
		}
	})
}

// TestStatusShowsARangeThatWasGivenUp: a feed that answers 400 is not read again
// at once, and whoever looks at the host is told why.
func TestStatusShowsARangeThatWasGivenUp(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		remove := w.account.Inject(emulator.Fault{Header: map[string]string{"A-IM": ".+"}, Path: "/items/docs$", Status: 400})
		h := w.host("a", w.record("a"))
		stop := w.running(h)
		w.fill("doc", 5)
		time.Sleep(time.Minute)
		status := h.Status().Functions[0].Ranges
		if len(status) != 1 || !status[0].Cooldown || !strings.Contains(status[0].Problem, "400") {
			t.Errorf("status %+v", status)
		}
		remove()
		time.Sleep(time.Minute)
		if status := h.Status().Functions[0].Ranges; len(status) != 1 || status[0].Cooldown || status[0].Problem != "" {
			t.Errorf("status after the trouble: %+v", status)
		}
		stop()
		w.complete(0)
	})
}

func TestForeignLeaseContainerKeyIsRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "wrong", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/leasePk"}},
		}))
		client := w.client()
		h, err := New(client.Container("db", "wrong"), []Function{{Name: "test", Container: w.items, Handler: w.record("a")}}, nil)
		must(t, err)
		if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "partition key /id") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestTwoHostsBootstrapTogether(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 40)
		stopA, stopB := w.running(w.host("a", w.record("a"))), w.running(w.host("b", w.record("b")))
		time.Sleep(2 * time.Minute)
		if leases := w.leaseDocuments(); len(leases) != 4 {
			t.Errorf("%d leases", len(leases))
		}
		stopA()
		stopB()
		w.complete(20)
	})
}

func TestStaleBootstrapLockIsBroken(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 3)
		w.createStamp(".lock")
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(45 * time.Second)
		stop()
		w.complete(0)
	})
}

func TestIdleRunPollsNoMoreThanItsSetting(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(time.Minute)
		before := w.requests()
		time.Sleep(10 * time.Minute)
		got := w.requests().minus(before)
		if most := 4 * (10*60/5 + 1); got.feed > most {
			t.Errorf("%d feed reads, at most %d", got.feed, most)
		}
		if most := 4 * (10*60/17 + 1); got.writes > most {
			t.Errorf("%d lease writes, at most %d", got.writes, most)
		}
		stop()
		synctest.Wait()
	})
}
