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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"go.uber.org/zap"

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

func isFeed(r *http.Request) bool {
	return r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/colls/items/docs")
}

func isLeaseReplace(r *http.Request) bool {
	return r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/colls/leases/docs/")
}

func (w *world) hostOn(n network, owner string, handler Handler, change ...func(*Function, *Options)) *Host {
	cred, err := cosmos.KeyCredential(emulator.Key)
	must(w.t, err)
	client, err := cosmos.NewClient(w.account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: n}})
	must(w.t, err)
	f := Function{Name: "test", Container: client.Container("db", "items"), Handler: handler, Start: FromBeginning()}
	o := Options{Owner: owner, Logger: zap.NewNop(), Observe: func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}}
	for _, c := range change {
		c(&f, &o)
	}
	h, err := New(client.Container("db", "leases"), []Function{f}, &o)
	must(w.t, err)
	return h
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
		stopA := w.running(w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
			if isFeed(r) && r.Header.Get("x-ms-documentdb-partitionkeyrangeid") == bad.Load() {
				return nil, errors.New("connection reset"), true
			}
			return nil, nil, false
		}}, "a", w.record("a")))
		time.Sleep(time.Second)
		stopB := w.running(w.hostOn(network{w: w}, "b", w.record("b")))
		time.Sleep(10 * time.Minute)
		if got := w.owners(); got["a"] != 2 || got["b"] != 2 {
			t.Fatalf("owners %v", got)
		}
		for token, l := range w.leaseDocuments() {
			if l.owner == "a" {
				bad.Store(token)
				break
			}
		}
		w.fill("doc", 40)
		time.Sleep(2 * time.Hour)
		w.complete(0)
		stopA()
		stopB()
	})
}

func TestMaxLeasesOfOneHostLeavesRangeUnowned(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		stopA := w.running(w.hostOn(network{w: w}, "a", w.record("a"), func(_ *Function, o *Options) { o.MaxLeases = 1 }))
		time.Sleep(time.Second)
		stopB := w.running(w.hostOn(network{w: w}, "b", w.record("b"))) // no bound
		w.fill("doc", 40)
		time.Sleep(2 * time.Hour)
		if got := w.owners(); got[""] > 0 {
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
		stopA := w.running(w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) && lose.CompareAndSwap(true, false) {
				return lost(r)
			}
			return nil, nil, false
		}}, "a", w.record("a")))
		time.Sleep(time.Second)
		stopB := w.running(w.hostOn(network{w: w}, "b", w.record("b")))
		time.Sleep(5 * time.Minute)
		if got := w.owners(); got["a"] != 1 || got["b"] != 1 {
			t.Fatalf("owners %v", got)
		}
		before := w.happened(Acquired)
		lose.Store(true)
		time.Sleep(5 * time.Minute)
		if n := w.happened(Acquired) - before; n > 0 {
			t.Errorf("one renewal lost on the wire: %d ownership changes", n)
		}
		stopA()
		stopB()
	})
}

func TestHostWhoseFeedHangs(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var hang atomic.Bool
		stopA := w.running(w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
			if isFeed(r) && hang.Load() {
				return lost(r)
			}
			return nil, nil, false
		}}, "a", w.record("a")))
		time.Sleep(time.Second)
		stopB := w.running(w.hostOn(network{w: w}, "b", w.record("b")))
		time.Sleep(5 * time.Minute)
		hang.Store(true)
		w.fill("doc", 20)
		began := time.Now()
		for w.count() < 20 && time.Since(began) < 3*time.Hour {
			time.Sleep(10 * time.Second)
		}
		if d := time.Since(began); d > 10*time.Minute {
			t.Errorf("range of the host that cannot read: delivered after %v", d)
		}
		stopA()
		stopB()
	})
}

func TestDrainStarvesRanges(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.fill("doc", 80)
		var mu sync.Mutex
		poison, served := map[string]bool{}, map[string]int{}
		h := w.hostOn(network{w: w}, "a", func(_ context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if len(poison) < 2 && served[b.Range.ID] == 0 {
				poison[b.Range.ID] = true
			}
			if poison[b.Range.ID] {
				return errors.New("no")
			}
			served[b.Range.ID] += len(b.Changes)
			return nil
		}, func(_ *Function, o *Options) { o.Parallel = 2 })
		for range 30 {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			_, err := h.Drain(ctx)
			cancel()
			must(t, err)
			time.Sleep(time.Minute)
		}
		if len(served) != 2 {
			t.Errorf("after 30 drains of 4 minutes: failing %v, served %v", poison, served)
		}
	})
}

func TestShortLivedProcessesFillHoles(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.hostOn(network{w: w}, "a", w.record("a")).Drain(t.Context())
		must(t, err)
		l := w.leaseDocuments()["0"]
		_, err = w.leases.Delete(t.Context(), l.id, l.partitionKey, "")
		must(t, err)
		w.fill("doc", 20)
		for i := range 100 {
			_, err := w.hostOn(network{w: w}, fmt.Sprint("h", i), w.record("a")).Drain(t.Context())
			must(t, err)
			time.Sleep(10 * time.Minute)
		}
		w.complete(0)
	})
}

func TestBootstrapWhileASplitCompletes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var feeds atomic.Int32
		a := w.hostOn(network{w, func(r *http.Request) (*http.Response, error, bool) {
			time.Sleep(5 * time.Millisecond) // a round trip
			if isFeed(r) {
				feeds.Add(1)
			}
			return nil, nil, false
		}}, "a", w.record("a"), func(f *Function, _ *Options) { f.Start = FromNow() })
		remove := w.account.Inject(emulator.Fault{Method: "GET", Resource: "docs", Path: "colls/items/docs$", Status: 410, SubStatus: 1007})
		stop := w.running(a)
		time.Sleep(20 * time.Second)
		n := feeds.Load()
		remove()
		time.Sleep(2 * time.Minute)
		if n > 100 {
			t.Errorf("%d feed requests in 20 s", n)
		}
		stop()
	})
}

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
