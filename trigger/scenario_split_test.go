package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

func TestSplitWhileRunning(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		for i := range 30 {
			w.writeMany(fmt.Sprint("doc", i%7, "-"), 10)
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
			if l.epoch() < firstEpoch+3 { // parent 1, created with 2, acquired
				t.Errorf("lease %s has epoch %d", l.token, l.epoch())
			}
		}
		stop()
		w.checkComplete(0)
		if n := w.eventCount(EventSplit); n != 1 {
			t.Errorf("%d splits seen", n)
		}
	})
}

func TestMergeWhileRunning(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		for i := range 30 {
			w.writeMany(fmt.Sprint("doc", i%7, "-"), 10)
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
		w.checkComplete(0)
	})
}

func TestSplitAfterMerge(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		reshape := map[int]func([]cosmos.Range){
			5:  func(r []cosmos.Range) { _, err := w.account.Merge("db", "items", r[0].ID, r[1].ID); must(t, err) },
			15: func(r []cosmos.Range) { _, err := w.account.Split("db", "items", r[0].ID); must(t, err) },
			16: func(r []cosmos.Range) { _, err := w.account.Split("db", "items", r[1].ID); must(t, err) },
		}
		for i := range 30 {
			w.writeMany(fmt.Sprint("doc", i%7, "-"), 10)
			if change := reshape[i]; change != nil {
				ranges, err := w.items.Ranges(t.Context())
				must(t, err)
				change(ranges)
			}
			time.Sleep(3 * time.Second)
		}
		time.Sleep(30 * time.Second)
		stop()
		w.checkComplete(0)
		w.checkNoGaps()
	})
}

// Two leases share a merged range, and one of them has changes. The position of the
// other one moves as well.
func TestIdleHalfOfMergedRangeKeepsUp(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 10)
		time.Sleep(30 * time.Second)
		_, err := w.account.Merge("db", "items", "0", "1")
		must(t, err)
		time.Sleep(time.Minute)
		oldPositions := map[string]string{}
		for token, l := range w.leaseDocuments() {
			oldPositions[token] = l.continuation
		}
		for range 20 { // one key, so one half
			w.write("busy", "busy")
			time.Sleep(10 * time.Second)
		}
		for token, l := range w.leaseDocuments() {
			if lsnOf(t, l.continuation) <= lsnOf(t, oldPositions[token]) {
				t.Errorf("lease %s is still at %s", token, l.continuation)
			}
		}
		stop()
		w.checkComplete(0)
	})
}

// A range splits while its handler fails. Its children begin after the handled
// changes, not after the changes that were read.
func TestChildrenBeginAtHandledPosition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		record, began := w.recorder("a"), time.Now()
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if since := time.Since(began); since > 30*time.Second && since < 3*time.Minute {
				return errors.New("not now")
			}
			return record(ctx, b)
		}))
		w.writeMany("before", 20)
		time.Sleep(time.Minute)
		handled := w.leaseDocuments()["0"].continuation
		w.writeMany("during", 20)
		time.Sleep(10 * time.Second)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		for token, l := range w.leaseDocuments() {
			if lsnOf(t, l.continuation) > lsnOf(t, handled) {
				t.Errorf("lease %s is at %s, and the handled changes end at %s", token, l.continuation, handled)
			}
		}
		time.Sleep(5 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// The parent's lease is deleted after both children were created.
func TestParentIsRetiredAfterChildrenExist(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 20)
		time.Sleep(time.Minute)
		var mu sync.Mutex
		var steps []string
		w.mu.Lock()
		w.onRequest = func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Method == http.MethodDelete:
				steps = append(steps, "retire")
			case isLeaseCreate(r):
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

// Another host requests a lease at the moment when its owner retires it.
func TestSplitCompletesDespiteHandoverRequest(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 20)
		time.Sleep(time.Minute)
		var requested atomic.Bool
		w.mu.Lock()
		w.onRequest = func(r *http.Request) {
			if r.Method == http.MethodDelete && requested.CompareAndSwap(false, true) {
				w.requestHandover(w.leaseDocuments()["0"], "b")
			}
		}
		w.mu.Unlock()
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(20 * time.Second)
		if leases := w.leaseDocuments(); !requested.Load() || len(leases) != 2 || leases["0"] != nil {
			t.Errorf("requested: %v; leases after the split: %v", requested.Load(), leases)
		}
		stop()
		w.checkComplete(0)
	})
}

// No child is created while the parent's lease may have another owner.
func TestNoChildIsCreatedOnUntrustedLease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 20)
		time.Sleep(time.Minute)
		refuseCreates := w.account.Inject(emulator.Fault{
			Method: http.MethodPost, Path: "/colls/leases/docs$", Header: map[string]string{"Content-Type": "^application/json$"}, Status: 503,
		})
		var once sync.Once
		var refuseWrites func()
		w.mu.Lock()
		w.onRequest = func(r *http.Request) {
			if isLeaseCreate(r) { // the split has begun
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
			t.Errorf("children created four minutes after the last successful write of the parent: %v", leases)
		}
		refuseWrites()
		time.Sleep(2 * time.Minute)
		if leases := w.leaseDocuments(); len(leases) != 2 || leases["0"] != nil {
			t.Errorf("leases after the split: %v", leases)
		}
		stop()
		w.checkComplete(0)
	})
}

// A .NET host steals a lease while its owner has nothing to write, and the range
// splits. The former owner still trusts its lease, but it must not create children
// at the position that it knows.
func TestOwnerThatLostItsLeaseDoesNotSplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 10)
		time.Sleep(30*time.Second + 100*time.Millisecond)
		stolen := w.leaseDocuments()["0"].clone()
		stolen.owner, stolen.continuation = "dotnet", `"999"`
		w.replaceLease(stolen)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(10 * time.Second)
		if leases := w.leaseDocuments(); len(leases) != 1 || leases["0"].owner != "dotnet" {
			t.Errorf("leases %v", leases)
		}
		stop()
	})
}
