package trigger

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
)

func TestTwoHostsBootstrapTogether(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		stopA, stopB := w.startHost(w.host("a", w.recorder("a"))), w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(2 * time.Minute)
		if leases := w.leaseDocuments(); len(leases) != 4 {
			t.Errorf("%d leases", len(leases))
		}
		stopA()
		stopB()
		w.checkComplete(20)
	})
}

func TestStaleBootstrapLockIsRemoved(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 3)
		w.createStamp(".lock")
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(45 * time.Second)
		stop()
		w.checkComplete(0)
	})
}

// A bootstrap that takes longer than its lock creates no lease after the lock has
// expired, and starts again.
func TestBootstrapStopsWhenLockExpires(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		var mu sync.Mutex
		var locked time.Time
		locks := 0
		w.onRequest = func(r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch key := r.Header.Get("X-Ms-Documentdb-Partitionkey"); {
			case !isLeaseCreate(r):
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
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(10 * time.Minute)
		stop()
		if locks < 2 {
			t.Errorf("%d locks: the bootstrap ended before its lock expired", locks)
		}
		w.checkComplete(0)
	})
}

// While a split completes, a bootstrap reads the ranges again with pauses.
func TestBootstrapWaitsForSplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var feeds atomic.Int32
		h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			time.Sleep(5 * time.Millisecond) // a round trip
			if isFeedRead(r) {
				feeds.Add(1)
			}
			return nil, nil, false
		}}, "a", w.recorder("a"), func(f *Function, _ *Options) { f.StartFrom = FromNow() })
		remove := w.account.Inject(emulator.Fault{Method: "GET", Resource: "docs", Path: "colls/items/docs$", Status: 410, SubStatus: 1007})
		stop := w.startHost(h)
		time.Sleep(20 * time.Second)
		if n := feeds.Load(); n > 100 {
			t.Errorf("%d feed requests in 20 s", n)
		}
		remove()
		time.Sleep(2 * time.Minute)
		w.writeMany("doc", 5)
		time.Sleep(time.Minute)
		w.checkComplete(0)
		stop()
	})
}
