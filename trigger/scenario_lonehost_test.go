package trigger

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
)

// feedBreaker resets the connection of feed reads of one host.
type feedBreaker struct {
	w      *world
	broken atomic.Value // the host's name
}

func (b *feedBreaker) networkOf(owner string) hostNetwork {
	return hostNetwork{b.w, func(r *http.Request) (*http.Response, error, bool) {
		return nil, errors.New("connection reset"), isFeedRead(r) && b.broken.Load() == owner
	}}
}

// No other host could take the ranges of a lone host, so it does not leave them to others
// for longer than 10 s after its feed is well again.
func TestLoneHostDeliversSoonAfterItsFeedIsWell(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"refused":     {Status: 400},
		"denied":      {Status: 403},
		"unavailable": {Status: 500},
		"reset":       {Drop: emulator.DropBefore},
	} {
		for _, outage := range []time.Duration{20 * time.Second, time.Minute, 2 * time.Minute, 131 * time.Second, 10 * time.Minute, time.Hour} {
			t.Run(name+" for "+outage.String(), func(t *testing.T) {
				if outage == 20*time.Second || outage == 2*time.Minute || outage == 10*time.Minute || name == "denied" || name == "unavailable" {
					inLongForm(t)
				}
				inWorld(t, 2, func(t *testing.T, w *world) {
					stop := w.startHost(w.host("a", w.recorder("a"), withoutLogger))
					time.Sleep(time.Minute)
					fault.Header = map[string]string{"A-IM": ".+"}
					repair := w.account.Inject(fault)
					w.writeMany("doc", 20)
					time.Sleep(outage)
					if n := w.deliveryCount(); n > 0 {
						t.Errorf("%d changes delivered while the feed is broken", n)
					}
					repair()
					time.Sleep(10 * time.Second)
					w.checkComplete(0)
					stop()
				})
			})
		}
	}
}

// A host that cannot read a range leaves it to a host that is idle, or has leases.
func TestFailedRangeIsLeftToOtherHosts(t *testing.T) {
	for name, ranges := range map[string]int{"idle host": 1, "host with a lease": 2} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, ranges, func(t *testing.T, w *world) {
				breaker := &feedBreaker{w: w}
				for _, owner := range []string{"a", "b"} {
					defer w.startHost(w.hostOn(breaker.networkOf(owner), owner, w.recorder(owner), withoutLogger))()
				}
				time.Sleep(10 * time.Minute)
				breaker.broken.Store(w.leaseDocuments()["0"].owner)
				w.writeMany("doc", 20)
				time.Sleep(2 * time.Minute)
				w.checkComplete(0)
			})
		})
	}
}

// Next to a host that has leases, a host acquires a failed range again only after its
// cooldown, although it could read the feed before.
func TestCooldownLastsIfAnotherHostHasLeases(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		breaker := &feedBreaker{w: w}
		var released, acquired atomic.Int64
		observe := func(_ *Function, o *Options) {
			o.Logger = nil
			o.Observers = append(o.Observers, func(e Event) {
				switch {
				case e.Kind == EventReleased && e.Reason == ClosedBroken:
					released.Store(e.Time.UnixMilli())
				case e.Kind == EventAcquired && released.Load() > 0:
					acquired.CompareAndSwap(0, e.Time.UnixMilli())
				}
			})
		}
		stopA := w.startHost(w.hostOn(breaker.networkOf("a"), "a", w.recorder("a"), observe))
		time.Sleep(time.Minute)
		stopB := w.startHost(w.host("b", w.recorder("b"), func(_ *Function, o *Options) { o.MaxLeases = 1 }))
		time.Sleep(5 * time.Minute)
		breaker.broken.Store("a")
		for released.Load() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		breaker.broken.Store("")
		time.Sleep(2 * time.Minute)
		if pause := time.Duration(acquired.Load()-released.Load()) * time.Millisecond; pause < 25*time.Second || pause > 45*time.Second {
			t.Errorf("acquired again after %v, want the cooldown of 26 s", pause)
		}
		stopA()
		stopB()
	})
}
