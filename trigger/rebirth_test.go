package trigger

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// children creates the leases that follow a worker's, and retires none.
func children(t *testing.T, w *rangeWorker) {
	t.Helper()
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() { w.held.Run(t.Context(), stop) })
	_, err := w.held.Split(t.Context(), t.Context(), func(error) {})
	close(stop)
	writer.Wait()
	must(t, err)
}

// TestSplitDoesNotBeginChildrenAnew: the children of a parent that was never
// retired have merged and split since. Other leases cover their keys by now, and
// the parent's next owner creates none beside them.
func TestSplitDoesNotBeginChildrenAnew(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 20)
		_, err := w.host("a", w.record("a")).Drain(t.Context())
		must(t, err)
		halves, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		children(t, w.halfWay("a", "0")) // and dies
		_, err = w.account.Merge("db", "items", halves...)
		must(t, err)
		time.Sleep(time.Minute)
		for _, token := range halves {
			of := w.halfWay("b", token)
			children(t, of)
			of.held.Retire(t.Context())
		}
		ranges, err := w.items.Ranges(t.Context())
		must(t, err)
		_, err = w.account.Split("db", "items", ranges[0].ID)
		must(t, err)
		time.Sleep(time.Minute)
		before := w.leaseDocuments()
		children(t, w.halfWay("c", "0"))
		for token := range w.leaseDocuments() {
			if before[token] == nil {
				t.Errorf("lease %s is created beside those that cover its keys: %d before", token, len(before))
			}
		}
	})
}

// A bootstrap that takes longer than its lock is respected creates nothing after
// it, and begins again.
func TestBootstrapKeepsToItsLock(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 20)
		var mu sync.Mutex
		var locked time.Time
		locks := 0
		w.before = func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch key := r.Header.Get("X-Ms-Documentdb-Partitionkey"); {
			case !isCreate(r):
			case strings.Contains(key, ".lock"):
				locked = time.Now()
				locks++
			case strings.Contains(key, ".."):
				if age := time.Since(locked); age > 30*time.Second {
					t.Errorf("lease %s is created %v after the lock", key, age)
				}
			}
		}
		w.account.Inject(emulator.Fault{
			Method: http.MethodPost, Path: "/colls/leases/docs$", Header: map[string]string{"Content-Type": "^application/json$"}, Delay: 12 * time.Second,
		})
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(10 * time.Minute)
		stop()
		if locks < 2 {
			t.Errorf("%d locks: the bootstrap was quick", locks)
		}
		w.complete(0)
	})
}
