package trigger

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// runTwoHosts starts host a, on its own network, and host b, and waits until they hold
// equal shares.
func (w *world) runTwoHosts(act func(*http.Request) (*http.Response, error, bool)) (stop func()) {
	stopA := w.startHost(w.hostOn(hostNetwork{w, act}, "a", w.recorder("a")))
	time.Sleep(time.Second)
	stopB := w.startHost(w.hostOn(hostNetwork{w: w}, "b", w.recorder("b")))
	time.Sleep(10 * time.Minute)
	if got := w.leasesByOwner(); got["a"] != got["b"] || got[""] > 0 {
		w.t.Fatalf("owners %v", got)
	}
	return func() {
		stopA()
		stopB()
	}
}

func TestOtherHostTakesRangeThatOneCannotRead(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		var bad atomic.Value
		bad.Store("")
		stop := w.runTwoHosts(func(r *http.Request) (*http.Response, error, bool) {
			return nil, errors.New("connection reset"), isFeedRead(r) && r.Header.Get("x-ms-documentdb-partitionkeyrangeid") == bad.Load()
		})
		for token, l := range w.leaseDocuments() {
			if l.owner == "a" {
				bad.Store(token)
			}
		}
		w.writeMany("doc", 40)
		time.Sleep(30 * time.Minute)
		w.checkComplete(0)
		stop()
	})
}

func TestOtherHostTakesRangesWhoseReadsHang(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var hang atomic.Bool
		stop := w.runTwoHosts(func(r *http.Request) (*http.Response, error, bool) {
			if isFeedRead(r) && hang.Load() {
				return loseRequest(r)
			}
			return nil, nil, false
		})
		hang.Store(true)
		w.writeMany("doc", 20)
		time.Sleep(10 * time.Minute)
		w.checkComplete(0)
		stop()
	})
}

// A change that never succeeds does not hold a range that cannot be read: its owner would
// wait for the change and never read again.
func TestRangeIsReadAgainWhileAChangeIsRetried(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var isDown atomic.Bool
		network := hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			return nil, errors.New("connection reset"), isFeedRead(r) && isDown.Load()
		}}
		handle := w.recorder("a")
		stop := w.startHost(w.hostOn(network, "a", func(ctx context.Context, b Batch) error {
			if i := slices.IndexFunc(b.Changes, func(c Change) bool { return c.ID() == "poison" }); i >= 0 {
				return Failed(errors.New("never succeeds"), b.Changes[i])
			}
			return handle(ctx, b)
		}, func(f *Function, _ *Options) { f.MaxAttempts = -1 }))
		time.Sleep(time.Minute)
		w.write("p0", "poison")
		time.Sleep(time.Minute)
		isDown.Store(true)
		time.Sleep(10 * time.Minute)
		isDown.Store(false)
		w.write("p1", "fine")
		time.Sleep(2 * time.Minute)
		if !slices.Contains(w.deliveredIDs(), "fine") {
			t.Error("the range is not read again after its feed has failed")
		}
		stop()
	})
}

func TestOneLostRenewalLosesNoLease(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		var lose atomic.Bool
		stop := w.runTwoHosts(func(r *http.Request) (*http.Response, error, bool) {
			if isLeaseReplace(r) && lose.CompareAndSwap(true, false) {
				return loseRequest(r)
			}
			return nil, nil, false
		})
		oldCount := w.eventCount(EventAcquired)
		lose.Store(true)
		time.Sleep(5 * time.Minute)
		if n := w.eventCount(EventAcquired) - oldCount; n > 0 {
			t.Errorf("one lost renewal: %d acquisitions", n)
		}
		stop()
	})
}

// An answer to a write has no etag. The next write must still have If-Match.
func TestAnswerWithoutEtagKeepsWritesConditional(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var strip atomic.Bool
		var unconditional atomic.Int32
		stop := w.startHost(w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
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
		}}, "a", w.recorder("a")))
		time.Sleep(time.Minute)
		strip.Store(true)
		time.Sleep(5 * time.Minute)
		if n := unconditional.Load(); n > 0 {
			t.Errorf("%d lease replaces without If-Match", n)
		}
		stop()
	})
}

// A replica that lags answers from the beginning of the feed. Its changes are not
// delivered again.
func TestAnswersFromOlderPositionAreNotDelivered(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var isLagging atomic.Bool
		var answers atomic.Int64
		stop := w.startHost(w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if !isFeedRead(r) || !isLagging.Load() || answers.Add(1)%3 != 0 {
				return nil, nil, false
			}
			older := r.Clone(r.Context())
			older.Header.Set("If-None-Match", `"2"`)
			older.Header.Set("x-ms-max-item-count", "1")
			resp, err := w.account.Do(older)
			return resp, err, true
		}}, "a", w.recorder("a"), withoutLogger))
		w.writeMany("doc", 20)
		time.Sleep(time.Minute)
		isLagging.Store(true)
		for range 10 {
			w.writeMany("doc", 5)
			time.Sleep(20 * time.Second)
		}
		stop()
		w.checkComplete(0)
		if answers.Load() < 10 {
			t.Errorf("%d feed reads", answers.Load())
		}
	})
}

// The page that a drain reads before it acquires a lease may come from a replica
// that lags, too.
func TestDrainIgnoresFirstPageFromOlderPosition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		var isLagging atomic.Bool
		var older atomic.Int64
		host := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if !isFeedRead(r) {
				return nil, nil, false
			}
			resp, err := w.account.Do(r)
			if err == nil && resp.StatusCode == http.StatusOK && isLagging.CompareAndSwap(true, false) {
				resp.Header.Set("Etag", `"2"`)
				older.Add(1)
			}
			return resp, err, true
		}}, "a", w.recorder("a"), withoutLogger)
		drain := func() {
			if _, err := host.Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.writeMany("doc", 20)
		drain()
		w.writeMany("late", 3)
		isLagging.Store(true)
		drain()
		w.checkComplete(0)
		if older.Load() != 1 {
			t.Errorf("%d answers from an older position", older.Load())
		}
	})
}
