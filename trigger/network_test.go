package trigger

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// network is one host's own way to the account; act may answer in its place.
type network struct {
	w   *world
	act func(*http.Request) (resp *http.Response, err error, handled bool)
}

func (n network) Do(r *http.Request) (*http.Response, error) {
	if n.act != nil {
		if resp, err, handled := n.act(r); handled {
			return resp, err
		}
	}
	return n.w.account.Do(r)
}

// lost is a request that is swallowed: a dead connection.
func lost(r *http.Request) (*http.Response, error, bool) {
	<-r.Context().Done()
	return nil, r.Context().Err(), true
}

// twoHosts are a, which has its own way to the account, and b, in balance.
func (w *world) twoHosts(act func(*http.Request) (*http.Response, error, bool)) (stop func()) {
	stopA := w.running(w.hostOn(network{w, act}, "a", w.record("a")))
	time.Sleep(time.Second)
	stopB := w.running(w.hostOn(network{w: w}, "b", w.record("b")))
	time.Sleep(10 * time.Minute)
	if got := w.owners(); got["a"] != got["b"] || got[""] > 0 {
		w.t.Fatalf("owners %v", got)
	}
	return func() {
		stopA()
		stopB()
	}
}

func isFeed(r *http.Request) bool {
	return r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/colls/items/docs")
}

func isLeaseReplace(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/colls/leases/docs/")
}

func (w *world) owners() map[string]int {
	n := map[string]int{}
	for _, l := range w.leaseDocuments() {
		n[l.owner]++
	}
	return n
}

func TestOtherHostTakesWhatOneCannotRead(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		var bad atomic.Value
		bad.Store("")
		stop := w.twoHosts(func(r *http.Request) (*http.Response, error, bool) {
			return nil, errors.New("connection reset"), isFeed(r) && r.Header.Get("x-ms-documentdb-partitionkeyrangeid") == bad.Load()
		})
		for token, l := range w.leaseDocuments() {
			if l.owner == "a" {
				bad.Store(token)
			}
		}
		w.fill("doc", 40)
		time.Sleep(30 * time.Minute)
		w.complete(0)
		stop()
	})
}

// TestLeasesThatOneHostMayNotTake: its share is more than it may hold, and the
// other's is less than there is.
func TestLeasesThatOneHostMayNotTake(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		stopA := w.running(w.host("a", w.record("a"), func(_ *Function, o *Options) { o.MaxLeases = 1 }))
		time.Sleep(time.Second)
		stopB := w.running(w.host("b", w.record("b")))
		w.fill("doc", 40)
		time.Sleep(30 * time.Minute)
		if got := w.owners(); got["a"] != 1 || got["b"] != 3 {
			t.Errorf("owners %v", got)
		}
		w.complete(0)
		stopA()
		stopB()
	})
}

func TestOneLostRenewal(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var lose atomic.Bool
		stop := w.twoHosts(func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) && lose.CompareAndSwap(true, false) {
				return lost(r)
			}
			return nil, nil, false
		})
		before := w.happened(Acquired)
		lose.Store(true)
		time.Sleep(5 * time.Minute)
		if n := w.happened(Acquired) - before; n > 0 {
			t.Errorf("one renewal lost on the wire: %d ownership changes", n)
		}
		stop()
	})
}

func TestHostWhoseFeedHangs(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var hang atomic.Bool
		stop := w.twoHosts(func(r *http.Request) (*http.Response, error, bool) {
			if isFeed(r) && hang.Load() {
				return lost(r)
			}
			return nil, nil, false
		})
		hang.Store(true)
		w.fill("doc", 20)
		time.Sleep(10 * time.Minute)
		w.complete(0)
		stop()
	})
}

// TestDrainServesEveryRange: ranges that fail hold every slot until the end of a
// drain. In the next they come last.
func TestDrainServesEveryRange(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 80)
		var mu sync.Mutex
		poison, served := map[string]bool{}, map[string]bool{}
		h := w.host("a", func(_ context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if len(poison) < 2 && !served[b.Range.ID] {
				poison[b.Range.ID] = true
			}
			if poison[b.Range.ID] {
				return errPoison
			}
			served[b.Range.ID] = true
			return nil
		}, func(_ *Function, o *Options) { o.Parallel = 2 })
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			_, err := h.Drain(ctx)
			cancel()
			must(t, err)
			time.Sleep(time.Minute)
		}
		if len(served) != 2 {
			t.Errorf("after 5 drains of 4 minutes: failing %v, served %v", poison, served)
		}
	})
}

func TestShortLivedProcessesFillHoles(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		drain := func(owner string) {
			_, err := w.host(owner, w.record("a")).Drain(t.Context())
			must(t, err)
		}
		drain("a")
		l := w.leaseDocuments()["0"]
		_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(t, err)
		w.fill("doc", 20)
		drain("b")
		drain("c")
		w.complete(0)
	})
}

// TestBootstrapWhileASplitCompletes waits between two looks at the ranges.
func TestBootstrapWhileASplitCompletes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var feeds atomic.Int32
		h := w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
			time.Sleep(5 * time.Millisecond) // a round trip
			if isFeed(r) {
				feeds.Add(1)
			}
			return nil, nil, false
		}}, "a", w.record("a"), func(f *Function, _ *Options) { f.StartFrom = FromNow() })
		remove := w.account.Inject(emulator.Fault{Method: "GET", Resource: "docs", Path: "colls/items/docs$", Status: 410, SubStatus: 1007})
		stop := w.running(h)
		time.Sleep(20 * time.Second)
		if n := feeds.Load(); n > 100 {
			t.Errorf("%d feed requests in 20 s", n)
		}
		remove()
		time.Sleep(2 * time.Minute)
		w.fill("doc", 5)
		time.Sleep(time.Minute)
		w.complete(0)
		stop()
	})
}

// TestReplaceAnsweredWithoutEtag: the next write would have no condition.
func TestReplaceAnsweredWithoutEtag(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var strip atomic.Bool
		var unconditional atomic.Int32
		stop := w.running(w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
			if !isLeaseReplace(r) {
				return nil, nil, false
			}
			if r.Header.Get("If-Match") == "" {
				unconditional.Add(1)
			}
			resp, err := w.account.Do(r)
			if err == nil && strip.CompareAndSwap(true, false) {
				resp.Header.Del("Etag")
			}
			return resp, err, true
		}}, "a", w.record("a")))
		time.Sleep(time.Minute)
		strip.Store(true)
		time.Sleep(5 * time.Minute)
		if n := unconditional.Load(); n > 0 {
			t.Errorf("%d lease replaces without If-Match", n)
		}
		stop()
	})
}
