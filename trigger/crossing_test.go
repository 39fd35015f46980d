package trigger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

// Leases change hands, split and are filled in one step at a time. The tests
// here hold each step to its place.

// A host that is asked for a lease finishes the batch in work: its handler is
// not disturbed, and nothing comes twice.
func TestHandoverWaitsForTheBatchInWork(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("doc", 40)
		var mu sync.Mutex
		disturbed, overlapped := 0, 0
		slow := func(owner string) Handler {
			record := w.record(owner)
			return func(ctx context.Context, b Batch) error {
				asked := w.leaseDocuments()[b.Range.ID].properties[handoverProperty]
				if err := backoff.Sleep(ctx, 25*time.Second); err != nil {
					mu.Lock()
					disturbed++
					mu.Unlock()
					return err
				}
				if asked == "" && w.leaseDocuments()[b.Range.ID].properties[handoverProperty] != "" {
					mu.Lock()
					overlapped++
					mu.Unlock()
				}
				return record(ctx, b)
			}
		}
		small := func(f *Function, _ *Options) { f.BatchItems = 2 }
		stopA := w.running(w.host("a", slow("a"), small))
		time.Sleep(40 * time.Second)
		stopB := w.running(w.host("b", slow("b"), small))
		time.Sleep(10 * time.Minute)
		owners := map[string]bool{}
		for _, l := range w.leaseDocuments() {
			owners[l.owner] = true
		}
		if disturbed > 0 || overlapped == 0 || len(owners) != 2 {
			t.Errorf("%d batches in work disturbed; %d requests came during one; leases owned by %v", disturbed, overlapped, owners)
		}
		stopA()
		stopB()
		w.complete(0)
	})
}

// A range that cannot be read counts as left with work.
func TestDrainDoesNotTakeAFailingFeedForAnIdleOne(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("doc", 20)
		w.account.Inject(emulator.Fault{Header: map[string]string{"A-IM": "."}, Range: "1", Status: 400})
		summary, err := w.host("a", w.record("a")).Drain(t.Context())
		must(t, err)
		if summary.Behind != 1 || summary.Drained != 1 || summary.Idle != 0 {
			t.Errorf("summary %+v", summary)
		}
	})
}

// The position moves with what the feed passes over: where the other half of a
// merged range is busy, a lease without changes keeps up.
func TestPositionOfAnIdleLeaseKeepsUp(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 10)
		time.Sleep(30 * time.Second)
		_, err := w.account.Merge("db", "items", "0", "1")
		must(t, err)
		time.Sleep(time.Minute)
		before := map[string]string{}
		for token, l := range w.leaseDocuments() {
			before[token] = l.continuation
		}
		for range 20 { // one key, so one half
			w.write("busy", "busy")
			time.Sleep(10 * time.Second)
		}
		for token, l := range w.leaseDocuments() {
			if lsnOf(t, l.continuation) <= lsnOf(t, before[token]) {
				t.Errorf("lease %s is still at %s", token, l.continuation)
			}
		}
		stop()
		w.complete(0)
	})
}

// A range that splits while its handler refuses everything is not left behind:
// its children begin after what was handled, not after what was read.
func TestSplitWhileTheHandlerFails(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		record, began := w.record("a"), time.Now()
		stop := w.running(w.host("a", func(ctx context.Context, b Batch) error {
			if since := time.Since(began); since > 30*time.Second && since < 3*time.Minute {
				return errors.New("not now")
			}
			return record(ctx, b)
		}))
		w.fill("before", 20)
		time.Sleep(time.Minute)
		handled := w.leaseDocuments()["0"].continuation
		w.fill("during", 20)
		time.Sleep(10 * time.Second)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		for token, l := range w.leaseDocuments() {
			if lsnOf(t, l.continuation) > lsnOf(t, handled) {
				t.Errorf("lease %s is at %s, and what is handled ends at %s", token, l.continuation, handled)
			}
		}
		time.Sleep(5 * time.Minute)
		stop()
		w.complete(0)
	})
}

// The parent's lease is there until all of its children's are.
func TestParentIsRetiredAfterItsChildren(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 20)
		time.Sleep(time.Minute)
		var mu sync.Mutex
		var steps []string
		w.mu.Lock()
		w.before = func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Method == http.MethodDelete:
				steps = append(steps, "retire")
			case isCreate(r):
				steps = append(steps, "create")
			}
		}
		w.mu.Unlock()
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		stop()
		if got := strings.Join(steps, " "); got != "create create retire" {
			t.Errorf("steps of a split: %s", got)
		}
	})
}

// isCreate tells the creation of a lease document from a query, which is a POST
// as well.
func isCreate(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/leases/docs") && r.Header.Get("Content-Type") == "application/json"
}

// Children are not created on a lease that may be somebody else's by now.
func TestNoChildIsCreatedOnALeaseThatMayBeLost(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 20)
		time.Sleep(time.Minute)
		refuseCreates := w.account.Inject(emulator.Fault{
			Method: http.MethodPost, Path: "/colls/leases/docs$", Header: map[string]string{"Content-Type": "^application/json$"}, Status: 503,
		})
		var once sync.Once
		var refuseWrites func()
		w.mu.Lock()
		w.before = func(r *http.Request) {
			if isCreate(r) { // the split has begun
				once.Do(func() {
					refuseWrites = w.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 503})
				})
			}
		}
		w.mu.Unlock()
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(2 * time.Minute)
		refuseCreates()
		time.Sleep(2 * time.Minute)
		if refuseWrites == nil {
			t.Fatal("the split has not begun")
		}
		if leases := w.leaseDocuments(); len(leases) != 1 {
			t.Errorf("children created four minutes after the last proof that the parent is held: %v", leases)
		}
		refuseWrites()
		time.Sleep(2 * time.Minute)
		if leases := w.leaseDocuments(); len(leases) != 2 || leases["0"] != nil {
			t.Errorf("leases after the split: %v", leases)
		}
		stop()
		w.complete(0)
	})
}

// Positions of a container are not read from another one that has its name.
func TestPositionsAreOfOneContainer(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- w.host("a", w.record("a")).Run(ctx) }()
		time.Sleep(30 * time.Second)
		w.recreate("items", "/player")
		w.fill("other", 20)
		time.Sleep(5 * time.Minute)
		cancel()
		if err := <-done; cosmos.Classify(err) != cosmos.ContainerGone {
			t.Errorf("run ended with %v", err)
		}
		if got := w.count(); got != 10 {
			t.Errorf("%d changes delivered, want the 10 of the container that is gone", got)
		}
	})
}
