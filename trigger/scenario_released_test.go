package trigger

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// stopsTest is hosts that share busy ranges, on a network where each request takes a while.
type stopsTest struct {
	*world
	stops map[string]func()
}

func newStopsTest(w *world) *stopsTest { return &stopsTest{w, map[string]func(){}} }

func (s *stopsTest) start(names ...string) {
	network := hostNetwork{s.world, func(*http.Request) (*http.Response, error, bool) {
		time.Sleep(15 * time.Millisecond)
		return nil, nil, false
	}}
	for _, name := range names {
		s.stops[name] = s.startHost(s.hostOn(network, name, s.recorder(name)))
	}
}

// work writes to all ranges again and again.
func (s *stopsTest) work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second / 10) {
		s.writeMany(fmt.Sprint("doc-", time.Now().UnixNano(), "-"), 36)
	}
}

// stop stops hosts at the same time, and checks that others acquire their leases soon.
func (s *stopsTest) stop(names ...string) {
	s.t.Helper()
	began := time.Now()
	var stopping sync.WaitGroup
	for _, name := range names {
		stopping.Go(s.stops[name])
		delete(s.stops, name)
	}
	stopping.Wait()
	if took := time.Since(began); took > time.Second {
		s.t.Errorf("the stop of %s took %v", names, took)
	}
	s.work(2 * time.Second)
	acquired := map[string]time.Time{}
	for _, e := range s.eventsOf(EventAcquired) {
		if e.Time.After(began) {
			acquired[e.Range] = e.Time
		}
	}
	released := 0
	for _, e := range s.eventsOf(EventReleased) {
		if e.Time.Before(began) {
			continue
		}
		released++
		if gap := acquired[e.Range].Sub(e.Time); gap < 0 || gap > 500*time.Millisecond {
			s.t.Errorf("range %s has no owner for %v after the stop of %s", e.Range, gap, names)
		}
	}
	if got := s.leasesByOwner(); released == 0 || got[""] > 0 {
		s.t.Errorf("%d leases were released, owners %v after the stop of %s", released, got, names)
	}
}

// end stops the other hosts.
func (s *stopsTest) end() {
	time.Sleep(time.Minute)
	for token, l := range s.leaseDocuments() {
		if host := l.properties["halley.released"]; host != "" {
			s.t.Errorf("lease %s still has the notice of %s", token, host)
		}
	}
	for _, stop := range s.stops {
		stop()
	}
	s.checkComplete(0)
}

// A host that stops tells the others of the leases that it has released: a busy range has no owner
// for the time of a checkpoint, and not until the others look for free leases.
func TestStopTellsOtherHostsOfReleasedLeases(t *testing.T) {
	inWorld(t, 12, func(t *testing.T, w *world) {
		s := newStopsTest(w)
		s.start("a", "b", "c", "d", "e")
		time.Sleep(2 * time.Minute) // until they share the leases
		s.work(3 * time.Second)
		s.stop("b")
		s.stop("a")
		s.stop("d")
		s.end()
	})
}

func TestTwoHostsThatStopTellTheOthers(t *testing.T) {
	inWorld(t, 12, func(t *testing.T, w *world) {
		s := newStopsTest(w)
		s.start("a", "b", "c", "d")
		time.Sleep(2 * time.Minute)
		s.work(3 * time.Second)
		s.stop("b", "d")
		s.end()
	})
}

// Host A is replaced: it stops soon after host B has come, and before its next look at the leases.
func TestHostThatIsReplacedTellsItsSuccessor(t *testing.T) {
	inWorld(t, 12, func(t *testing.T, w *world) {
		s := newStopsTest(w)
		s.start("a")
		time.Sleep(time.Minute)
		s.start("b")
		s.work(5 * time.Second)
		s.stop("a")
		s.end()
	})
}

// A range with a change each 700 ms is polled often. So is it after it has moved to another host, also
// if that host's first poll finds nothing.
func TestNextOwnerPollsBusyRangeAsOften(t *testing.T) {
	const pause = 700 * time.Millisecond
	inWorld(t, 4, func(t *testing.T, w *world) {
		written := 24
		w.writeMany("first-", written) // else the first read may find nothing, and the next one comes 5 s later
		stopA := w.startHost(w.host("a", w.recorder("a")))
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
