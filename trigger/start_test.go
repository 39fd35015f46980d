package trigger

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestStartFromNowIsSavedBeforeFirstDelivery(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("old", 10)
		stop := w.startHost(w.host("a", w.recorder("a"), fromNow))
		time.Sleep(time.Second)
		stop()
		for token, l := range w.leaseDocuments() {
			if l.continuation == "" {
				t.Errorf("lease %s has no position", token)
			}
		}
		w.written = map[string]int{}
		w.writeMany("while down", 10)
		stop = w.startHost(w.host("a", w.recorder("a"), fromNow))
		time.Sleep(10 * time.Second)
		stop()
		w.checkComplete(0)
		if got := w.deliveryCount(); got != 10 {
			t.Errorf("%d delivered, want 10", got)
		}
	})
}

func TestStartFromTime(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("old", 10)
		time.Sleep(time.Hour)
		start := time.Now()
		time.Sleep(time.Minute)
		w.writeMany("new", 10)
		stop := w.startHost(w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.StartFrom = FromTime(start) }))
		time.Sleep(10 * time.Second)
		stop()
		if got := w.deliveryCount(); got != 10 {
			t.Errorf("%d delivered, want 10", got)
		}
	})
}

// Changes written during a bootstrap come after the positions of its leases and before
// its marker. They are delivered even if the ranges merge first: in a merged range
// the service applies a start time in addition to a continuation.
func TestFromNowDeliversChangesWrittenDuringBootstrap(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("old", 20)
		var hasWritten atomic.Bool // every range has its position by then
		w.onRequest = func(r *http.Request) {
			if isLeaseCreate(r) && strings.Contains(r.Header.Get("X-Ms-Documentdb-Partitionkey"), ".info") && hasWritten.CompareAndSwap(false, true) {
				w.written = map[string]int{}
				w.writeMany("new", 20)
				_, err := w.account.Merge("db", "items", "0", "1")
				must(t, err)
				time.Sleep(10 * time.Second)
			}
		}
		stop := w.startHost(w.host("a", w.recorder("a"), fromNow))
		time.Sleep(10 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// A checkpoint wins over the start, even if the marker was deleted and the new marker
// is younger than changes that a merged range has not delivered.
func TestCheckpointWinsOverNewMarker(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a"), fromNow).Drain(t.Context())
		must(t, err)
		w.writeMany("doc", 20)
		_, err = w.account.Merge("db", "items", "0", "1")
		must(t, err)
		_, err = w.leases.Delete(t.Context(), w.leasePrefix()+".info", cosmos.NewPartitionKey(w.leasePrefix()+".info"), "")
		must(t, err)
		time.Sleep(time.Minute)
		_, err = w.host("b", w.recorder("b"), fromNow).Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

// A lease that another processor created without a position is read from the
// continuation that the function names.
func TestDrainFromContinuationWithoutPosition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a")).Drain(t.Context()) // idle: no position is saved
		must(t, err)
		w.writeMany("doc", 20)
		start := func(f *Function, _ *Options) { f.StartFrom = FromContinuation(`"5"`) }
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromContinuation(`"5"`)})
		must(t, err)
		if lags[0].Changes == 0 {
			t.Errorf("lag %+v", lags[0])
		}
		summary, err := w.host("b", w.recorder("b"), start).Drain(t.Context())
		must(t, err)
		if summary.Drained != 1 || summary.Changes < 15 {
			t.Errorf("summary %+v", summary)
		}
	})
}
