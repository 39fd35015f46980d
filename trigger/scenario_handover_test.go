package trigger

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A call of 100 s outlasts the expiration of the lease, with all defaults. The host
// that joins waits for its end and then has its share at once.
func TestBusyOwnerKeepsItsLease(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		slow := func(owner string) Handler {
			record := w.recorder(owner)
			return func(ctx context.Context, b Batch) error {
				select {
				case <-time.After(100 * time.Second):
					return record(ctx, b)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		stopA := w.startHost(w.host("a", slow("a"), func(_ *Function, o *Options) { o.StopGrace = 5 * time.Minute }))
		time.Sleep(10 * time.Second)
		stopB := w.startHost(w.host("b", slow("b"), func(_ *Function, o *Options) { o.StopGrace = 5 * time.Minute }))
		time.Sleep(85 * time.Second)
		for token, l := range w.leaseDocuments() {
			if l.owner != "a" {
				t.Errorf("lease %s is %q's while a's call runs", token, l.owner)
			}
			if requester := l.properties[handoverProperty]; requester == "b" && !strings.HasSuffix(l.properties["halley.busy"], " b") {
				t.Errorf("lease %s is requested and not answered: %v", token, l.properties)
			}
		}
		time.Sleep(20 * time.Second)
		if got := w.leasesByOwner(); got["a"] != 1 || got["b"] != 1 {
			t.Errorf("owners %v after a's calls", got)
		}
		w.writeMany("more", 20)
		time.Sleep(5 * time.Minute)
		stopA()
		stopB()
		w.checkComplete(0)
		for _, e := range w.eventsOf(EventReleased) {
			if e.Reason != ClosedHandedOver && e.Reason != ClosedStopped {
				t.Errorf("range %s ended: %s", e.Range, e.Reason)
			}
		}
	})
}

func (w *world) eventsOf(kind EventKind) (found []Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// From the release to the new owner's first feed read a range has no owner. The owner of a range
// with changes writes its lease often, and so releases it soon.
func TestHandoverLeavesNoGap(t *testing.T) {
	for name, test := range map[string]struct {
		writes int // in a tenth of a second
		limit  time.Duration
	}{"idle ranges": {0, time.Second}, "busy ranges": {8, 400 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) { handOver(t, test.writes, test.limit) })
	}
}

func handOver(t *testing.T, writes int, limit time.Duration) {
	const request = 15 * time.Millisecond
	inWorld(t, 8, func(t *testing.T, w *world) {
		var mu sync.Mutex
		firstRead := map[string]time.Time{} // b's, by range
		delayed := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			time.Sleep(request)
			return nil, nil, false
		}}
		watched := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid"); isFeedRead(r) {
				mu.Lock()
				if firstRead[id].IsZero() {
					firstRead[id] = time.Now()
				}
				mu.Unlock()
			}
			time.Sleep(request)
			return nil, nil, false
		}}
		work := func(seconds int) {
			for range seconds * 10 {
				w.writeMany(fmt.Sprint("doc-", time.Now().UnixNano(), "-"), writes)
				time.Sleep(time.Second / 10)
			}
		}
		stopA := w.startHost(w.hostOn(delayed, "a", w.recorder("a")))
		work(5)
		stopB := w.startHost(w.hostOn(watched, "b", w.recorder("b")))
		handedOver := func() []Event {
			return slices.DeleteFunc(w.eventsOf(EventReleased), func(e Event) bool { return e.Reason != ClosedHandedOver })
		}
		for second := 0; second < 2*60 && len(handedOver()) < 4; second++ {
			work(1)
		}
		work(1) // the last of the new owners reads
		handed := handedOver()
		stopA()
		stopB()
		for _, e := range handed {
			if gap := firstRead[e.Range].Sub(e.Time); gap < 0 || gap > limit+request {
				t.Errorf("range %s had no owner for %v", e.Range, gap)
			}
		}
		if len(handed) != 4 {
			t.Errorf("%d ranges handed over", len(handed))
		}
	})
}

// Host B watches what it has requested, whatever happened to its reads of the lease: one wrong
// answer says that the document is gone, or several do, and A keeps the lease until its call
// ends.
func TestWrongAnswersDoNotEndWatch(t *testing.T) {
	for wrong, busyFor := range map[int32]time.Duration{1: time.Second, 3: time.Minute} {
		t.Run(fmt.Sprint(wrong, " wrong answers"), func(t *testing.T) { watchDespite(t, wrong, busyFor) })
	}
}

func watchDespite(t *testing.T, wrong int32, busyFor time.Duration) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var gone atomic.Int32 // wrong answers
		var firstRead atomic.Pointer[time.Time]
		network := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isFeedRead(r) {
				now := time.Now()
				firstRead.CompareAndSwap(nil, &now)
			}
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/colls/leases/docs/") && strings.Contains(r.URL.Path, "..") && gone.Add(1) <= wrong {
				return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"code":"NotFound"}`)), Request: r}, nil, true
			}
			return nil, nil, false
		}}
		busy := make(chan struct{})
		record := w.recorder("a")
		stopA := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			<-busy
			return record(ctx, b)
		}))
		w.writeMany("doc", 20)
		time.Sleep(time.Minute)
		stopB := w.startHost(w.hostOn(network, "b", w.recorder("b")))
		for began := time.Now(); gone.Load() < wrong; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 2*time.Minute {
				t.Fatalf("B has read the leases %d times", gone.Load())
			}
		}
		time.Sleep(busyFor)
		close(busy)
		time.Sleep(2 * time.Second)
		released := w.eventsOf(EventReleased)
		if len(released) != 1 || firstRead.Load() == nil {
			t.Fatalf("released: %v; B has read the feed: %v", released, firstRead.Load())
		}
		if gap := firstRead.Load().Sub(released[0].Time); gap > time.Second {
			t.Errorf("the range had no owner for %v", gap)
		}
		stopA()
		stopB()
	})
}

func TestIdleFleetReadsNoLeaseDocuments(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		var reads atomic.Int64
		stop := w.runTwoHosts(func(r *http.Request) (*http.Response, error, bool) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/colls/leases/docs/") && strings.Contains(r.URL.Path, "..") {
				reads.Add(1)
			}
			return nil, nil, false
		})
		oldReads := reads.Load()
		time.Sleep(10 * time.Minute)
		if n := reads.Load() - oldReads; n > 0 {
			t.Errorf("%d reads of lease documents in ten idle minutes", n)
		}
		stop()
	})
}
