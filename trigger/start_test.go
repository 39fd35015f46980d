package trigger

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// What is written while a bootstrap is under way comes after the position that
// its range was given, and before the marker. It is delivered also where the
// ranges merge first: the service then heeds a start time beside a continuation.
func TestFromNowMissesNothingThatIsWrittenDuringABootstrap(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.fill("old", 20)
		var once atomic.Bool // every range has its position by then
		w.before = func(r *http.Request) {
			if isCreate(r) && strings.Contains(r.Header.Get("X-Ms-Documentdb-Partitionkey"), ".info") && once.CompareAndSwap(false, true) {
				w.written = map[string]int{}
				w.fill("new", 20)
				_, err := w.account.Merge("db", "items", "0", "1")
				must(t, err)
				time.Sleep(10 * time.Second)
			}
		}
		stop := w.running(w.host("a", w.record("a"), fromNow))
		time.Sleep(10 * time.Minute)
		stop()
		w.complete(0)
	})
}

func fromNow(f *Function, _ *Options) { f.StartFrom = FromNow() }

// A checkpoint wins over the start, also where the marker was deleted and is
// younger than what a merged range has still to deliver.
func TestCheckpointWinsOverANewMarker(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		_, err := w.host("a", w.record("a"), fromNow).Drain(t.Context())
		must(t, err)
		w.fill("doc", 20)
		_, err = w.account.Merge("db", "items", "0", "1")
		must(t, err)
		_, err = w.leases.Delete(t.Context(), w.leasePrefix()+".info", cosmos.NewPartitionKey(w.leasePrefix()+".info"), "")
		must(t, err)
		time.Sleep(time.Minute)
		_, err = w.host("b", w.record("b"), fromNow).Drain(t.Context())
		must(t, err)
		w.complete(0)
	})
}

// A lease that another processor created without a position is read from the
// continuation that the function names.
func TestDrainFromAContinuationOnALeaseWithoutPosition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.host("a", w.record("a")).Drain(t.Context()) // idle: no position is saved
		must(t, err)
		w.fill("doc", 20)
		start := func(f *Function, _ *Options) { f.StartFrom = FromContinuation(`"5"`) }
		lags, err := EstimateLag(t.Context(), w.leases, Function{Name: "test", Container: w.items, StartFrom: FromContinuation(`"5"`)})
		must(t, err)
		if lags[0].Changes == 0 {
			t.Errorf("lag %+v", lags[0])
		}
		summary, err := w.host("b", w.record("b"), start).Drain(t.Context())
		must(t, err)
		if summary.Drained != 1 || summary.Changes < 15 {
			t.Errorf("summary %+v", summary)
		}
	})
}
