package trigger

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// A host that stops tells the others of the leases that it has released: a busy range has no owner
// for the time of a checkpoint, and not until the others look for free leases.
func TestStopTellsOtherHostsOfReleasedLeases(t *testing.T) {
	const request = 15 * time.Millisecond
	inWorld(t, 12, func(t *testing.T, w *world) {
		network := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			time.Sleep(request)
			return nil, nil, false
		}}
		stops := map[string]func(){}
		for _, name := range []string{"a", "b", "c", "d"} {
			stops[name] = w.startHost(w.hostOn(network, name, w.recorder(name)))
		}
		work := func(seconds int) {
			for range seconds * 10 {
				w.writeMany(fmt.Sprint("doc-", time.Now().UnixNano(), "-"), 36)
				time.Sleep(time.Second / 10)
			}
		}
		time.Sleep(2 * time.Minute) // until they share the leases
		work(3)
		for _, stopped := range []string{"b", "a", "d"} {
			began := time.Now()
			stops[stopped]()
			if took := time.Since(began); took > time.Second {
				t.Errorf("the stop of %s took %v", stopped, took)
			}
			delete(stops, stopped)
			work(2)
			acquired := map[string]time.Time{}
			for _, e := range w.eventsOf(EventAcquired) {
				if e.Time.After(began) {
					acquired[e.Range] = e.Time
				}
			}
			released := 0
			for _, e := range w.eventsOf(EventReleased) {
				if e.Time.Before(began) {
					continue
				}
				released++
				if gap := acquired[e.Range].Sub(e.Time); gap < 0 || gap > 500*time.Millisecond {
					t.Errorf("range %s has no owner for %v after the stop of %s", e.Range, gap, stopped)
				}
			}
			if released == 0 {
				t.Errorf("%s had no leases", stopped)
			}
			if got := w.leasesByOwner(); got[""] > 0 {
				t.Errorf("owners %v after the stop of %s", got, stopped)
			}
		}
		time.Sleep(time.Minute)
		for token, l := range w.leaseDocuments() {
			if host := l.properties["halley.released"]; host != "" {
				t.Errorf("lease %s still has the notice of %s", token, host)
			}
		}
		for _, stop := range stops {
			stop()
		}
		w.checkComplete(0)
	})
}

// A range with a change each 700 ms is polled often. So is it after it has moved to another host, also
// if that host's first poll finds nothing.
func TestNextOwnerPollsBusyRangeAsOften(t *testing.T) {
	const pause = 700 * time.Millisecond
	inWorld(t, 4, func(t *testing.T, w *world) {
		stopA := w.startHost(w.host("a", w.recorder("a")))
		written := 0
		work := func(seconds int) (latest time.Duration) {
			for range time.Duration(seconds) * time.Second / pause {
				began := time.Now()
				w.writeMany(fmt.Sprint("doc-", began.UnixNano(), "-"), 24)
				for written += 24; w.deliveredDocuments() < written; {
					time.Sleep(10 * time.Millisecond)
				}
				latest = max(latest, time.Since(began))
				time.Sleep(pause - min(time.Since(began), pause))
			}
			return latest
		}
		work(20)
		stopB := w.startHost(w.host("b", w.recorder("b")))
		if latest := work(40); latest > 1100*time.Millisecond { // the requester looks for the release up to 900 ms later
			t.Errorf("a change was delivered after %v", latest)
		}
		if got := w.leasesByOwner(); got["b"] != 2 {
			t.Errorf("owners %v", got)
		}
		stopA()
		stopB()
		w.checkComplete(0)
	})
}
