package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/leases"
	"halley/trigger/stall"
)

const (
	west  = "West Europe"
	north = "North Europe"
)

// inRegions runs test on an account in West Europe, which writes, and North Europe, whose ranges
// fail over by themselves.
func inRegions(t *testing.T, manners emulator.Manners, test func(t *testing.T, w *world)) {
	inWorldOf(t, emulator.Options{Regions: []string{west, north}, PartitionFailover: true, Manners: manners}, 1, test)
}

// failOver moves the writes of a container's only range to a region.
func (w *world) failOver(container, region string, kind emulator.Failover) {
	w.t.Helper()
	must(w.t, w.account.FailOverRange("db", container, "0", region, kind))
}

// lose fails the monitored range over to a region that lacks the documents lost0 to lost(n-1).
func (w *world) lose(n int) {
	w.t.Helper()
	w.failOver("items", north, emulator.FailoverUnplanned)
	for i := range n {
		delete(w.written, fmt.Sprint("lost", i))
	}
}

// pauseReplication has a region get no writes of others until it takes writes itself.
func (w *world) pauseReplication(region string) {
	w.t.Helper()
	must(w.t, w.account.SetReplication(region, emulator.Replication{Paused: true}))
}

// silence has a region answer nothing until restore is called.
func (w *world) silence(region string) (restore func()) {
	return w.account.Inject(emulator.Fault{Region: region, Drop: emulator.DropBefore})
}

// The range of the leases fails over while the account's document stays as it is, in each of the
// ways in which its owner may notice. The owner continues within ten seconds.
func TestOwnerFollowsTheLeasesToAnotherRegion(t *testing.T) {
	for name, fail := range map[string]func(w *world) (mend func()){
		"planned":   func(w *world) func() { w.failOver("leases", north, emulator.FailoverPlanned); return func() {} },
		"unplanned": func(w *world) func() { w.failOver("leases", north, emulator.FailoverUnplanned); return func() {} },
		"the region is silent": func(w *world) func() {
			mend := w.silence(west)
			w.failOver("leases", north, emulator.FailoverUnplanned)
			w.failOver("items", north, emulator.FailoverUnplanned)
			return mend
		},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
				stop := w.startHost(w.host("a", w.recorder("a")))
				w.writeMany("before", 10)
				time.Sleep(30 * time.Second)
				mend := fail(w)
				w.writeMany("after", 10)
				time.Sleep(15 * time.Second)
				if got := w.deliveredDocuments(); got != 20 {
					t.Errorf("%d documents delivered after 15 s, want 20", got)
				}
				mend()
				time.Sleep(10 * time.Minute)
				w.writeMany("later", 10)
				time.Sleep(15 * time.Second)
				stop()
				w.checkComplete(0)
				for _, l := range w.leaseDocuments() {
					if l.owner != "" {
						t.Errorf("lease %s is still held by %q", l.token, l.owner)
					}
				}
			})
		})
	}
}

// An unplanned failover loses the acquisition of the owner: the lease is that of a dead host again.
// Another host leaves it alone until the owner has found out; then both have other epochs than before.
func TestLostAcquisitionHasNoSecondOwner(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		var isDead atomic.Bool
		network := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			return nil, errors.New("the process is dead"), isDead.Load()
		}}
		w.writeMany("before", 5)
		defer w.startHost(w.hostOn(network, "first", w.recorder("first")))()
		time.Sleep(30 * time.Second)
		isDead.Store(true)
		w.pauseReplication(north)
		logger, log := recordLog(slog.LevelInfo)
		b := w.host("b", w.recorder("b"), func(_ *Function, o *Options) { o.Logger = logger })
		stopB := w.startHost(b)
		time.Sleep(2 * time.Minute)
		stopA := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(20 * time.Second)
		if owner := w.leaseDocuments()["0"].owner; owner != "b" {
			t.Fatalf("the lease has owner %q", owner)
		}
		lost := w.leaseDocuments()["0"].epoch()
		w.failOver("leases", north, emulator.FailoverUnplanned)
		before, isTold := w.deliveryCount(), false
		for i := range 120 {
			w.write(fmt.Sprint("k", i), fmt.Sprint("k", i))
			time.Sleep(time.Second)
			isTold = isTold || strings.Contains(b.Status().Functions[0].Problem, "leases are acquired from")
		}
		if !isTold {
			t.Error("the status does not say why b takes no lease")
		}
		time.Sleep(time.Minute)
		w.mu.Lock()
		for i, d := range w.delivered[before:] {
			if d.epoch <= lost && i > 0 && w.delivered[before+i-1].epoch > lost {
				t.Errorf("epoch %d after %d", d.epoch, w.delivered[before+i-1].epoch)
			}
		}
		last := w.delivered[len(w.delivered)-1]
		w.mu.Unlock()
		if last.epoch <= lost {
			t.Errorf("the epoch after the failover is %d, that of the lost acquisition %d", last.epoch, lost)
		}
		stopA()
		stopB()
		w.checkComplete(5)
		if log.FilterMessageSnippet("no leases are acquired").Len() == 0 {
			t.Error("the log does not say why b takes no lease")
		}
	})
}

// An unplanned failover loses the acquisition of the owner, and leaves a free lease: the owner goes on.
func TestOwnerGoesOnWhenItsAcquisitionIsLost(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		w.writeMany("before", 5)
		stopFirst := w.startHost(w.host("first", w.recorder("first")))
		time.Sleep(30 * time.Second)
		stopFirst() // the lease is free, in both regions
		w.pauseReplication(north)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(20 * time.Second)
		acquired := w.eventCount(EventAcquired)
		w.failOver("leases", north, emulator.FailoverUnplanned)
		w.writeMany("after", 10)
		time.Sleep(10 * time.Second)
		if got := w.deliveredDocuments(); got != 15 {
			t.Errorf("%d documents delivered after 10 s, want 15", got)
		}
		stop()
		if got := w.eventCount(EventAcquired) - acquired; got != 0 {
			t.Errorf("%d acquisitions", got)
		}
		w.checkComplete(0)
	})
}

// The owner dies, and the failover of the leases shows in nothing but writes: each of the other hosts
// learns of it as it acquires the lease, and gives it back. That does not prolong the dead owner's life.
func TestGivenBackLeaseIsNotProlonged(t *testing.T) {
	inRegions(t, emulator.Manners{FailoverKeepsVersion: true}, func(t *testing.T, w *world) {
		isDead := map[string]*atomic.Bool{}
		for _, owner := range []string{"a", "b", "c", "d", "e", "f"} {
			dies := &atomic.Bool{}
			isDead[owner] = dies
			network := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
				return nil, errors.New("the process is dead"), dies.Load()
			}}
			defer w.startHost(w.hostOn(network, owner, w.recorder(owner)))()
		}
		w.writeMany("before", 10)
		time.Sleep(2 * time.Minute) // all know the account's first region
		isDead[w.leaseDocuments()["0"].owner].Store(true)
		w.failOver("leases", north, emulator.FailoverUnplanned)
		w.writeMany("after", 10)
		time.Sleep(2*time.Minute + 30*time.Second)
		if got := w.deliveredDocuments(); got != 20 {
			t.Errorf("%d documents are delivered after two expirations and two passes, want 20", got)
		}
	})
}

// The owner lives, and the failover of the leases has lost its renewals. Another host acquires the lease
// before it learns of the failover, and gives it back: the owner goes on.
func TestOwnerGoesOnWithALeaseGivenBack(t *testing.T) {
	inRegions(t, emulator.Manners{FailoverKeepsVersion: true}, func(t *testing.T, w *world) {
		isSilent := map[string]*atomic.Bool{}
		for _, owner := range []string{"a", "b"} {
			silent := &atomic.Bool{}
			isSilent[owner] = silent
			network := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
				return nil, errors.New("no connection"), silent.Load()
			}}
			defer w.startHost(w.hostOn(network, owner, w.recorder(owner)))()
		}
		time.Sleep(2 * time.Minute) // both know the account's first region
		w.pauseReplication(north)
		time.Sleep(2 * time.Minute)
		before, acquired := w.leaseDocuments()["0"], w.eventCount(EventAcquired)
		w.failOver("leases", north, emulator.FailoverUnplanned)
		isSilent[before.owner].Store(true)
		time.Sleep(20 * time.Second) // the other one lists the leases
		isSilent[before.owner].Store(false)
		w.writeMany("after", 10)
		time.Sleep(30 * time.Second)
		if after := w.leaseDocuments()["0"]; after.owner != before.owner || after.epoch() != before.epoch() {
			t.Errorf("the owner is %q in epoch %d, was %q in %d", after.owner, after.epoch(), before.owner, before.epoch())
		}
		if got := w.eventCount(EventAcquired) - acquired; got != 0 {
			t.Errorf("%d acquisitions", got)
		}
		w.checkComplete(0)
	})
}

// The epochs of several acquisitions in one second do not run ahead of the service's time: if the last one
// is lost, the next has a later epoch.
func TestEpochsAreNotAheadOfTime(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		var acquired atomic.Int64
		observe := func(_ *Function, o *Options) {
			o.Observers = append(o.Observers, func(e Event) {
				if e.Kind != EventAcquired {
					return
				}
				acquired.Add(1)
				if now := time.Now().Unix(); e.Epoch > now {
					t.Errorf("epoch %d is acquired at %d", e.Epoch, now)
				}
			})
		}
		for range 3 {
			stop := w.startHost(w.host("a", w.recorder("a"), observe))
			time.Sleep(1200 * time.Millisecond)
			stop()
		}
		if acquired.Load() != 3 {
			t.Errorf("%d acquisitions, want 3", acquired.Load())
		}
	})
}

// A handler call runs when the failover of the monitored range is found. However the work on the range
// ends then, the next owner reads again from the committed LSN.
func TestWorkEndsBetweenFailoverAndRelease(t *testing.T) {
	for _, end := range []string{"stop", "handover"} {
		t.Run(end, func(t *testing.T) {
			inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
				record := w.recorder("a")
				var isSlow atomic.Bool
				stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
					if isSlow.Load() {
						time.Sleep(25 * time.Second)
					}
					return record(ctx, b)
				}))
				w.writeMany("before", 10)
				time.Sleep(30 * time.Second)
				w.pauseReplication(north)
				w.writeMany("lost", 10)
				time.Sleep(20 * time.Second)
				isSlow.Store(true)
				w.write("lost10", "lost10")
				time.Sleep(6 * time.Second)
				w.lose(11)
				w.writeMany("after", 15)
				time.Sleep(7 * time.Second)
				isSlow.Store(false)
				if end == "handover" {
					stopOther := w.startHost(w.host("b", w.recorder("b")))
					time.Sleep(2 * time.Minute)
					stopOther()
				}
				stop()
				time.Sleep(2 * time.Minute)
				stop = w.startHost(w.host("c", w.recorder("c")))
				time.Sleep(2 * time.Minute)
				stop()
				w.checkComplete(0)
			})
		})
	}
}

// Exactly as many changes follow a failover as it has lost: nothing but the version of the sessions
// shows a drain, or an estimate of the lag, that there are any.
func TestDrainAndLagSeeAFailedOverFeed(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		drain := func() {
			t.Helper()
			_, err := h.Drain(t.Context())
			must(t, err)
		}
		lag := func() int64 {
			t.Helper()
			lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()})
			must(t, err)
			return lags[0].Changes
		}
		w.writeMany("before", 10)
		drain()
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		drain()
		if got := lag(); got != 0 {
			t.Errorf("a lag of %d changes after a drain", got)
		}
		w.lose(10)
		w.writeMany("after", 10)
		if lag() == 0 {
			t.Error("no lag after the failover")
		}
		drain()
		w.checkComplete(0)
	})
}

// The seek that the status advises ends the stall.
func TestSeekEndsAPositionAhead(t *testing.T) {
	inRegions(t, emulator.Manners{HideCommitted: true}, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		stop := w.startHost(h)
		w.writeMany("before", 10)
		time.Sleep(30 * time.Second)
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		time.Sleep(30 * time.Second)
		w.lose(10)
		w.writeMany("after", 5)
		time.Sleep(30 * time.Second)
		if status := h.Status().Functions[0].Ranges[0]; len(status.Stalls) != 1 || status.Stalls[0].Kind != stall.PositionAhead {
			t.Errorf("status %+v", status)
		}
		c, err := leases.NewControl(w.leases, leases.Source{Name: "test", Container: w.items, StartFrom: FromBeginning()}, nil)
		must(t, err)
		plan, err := c.PlanSeek(t.Context(), FromTime(time.Now().Add(-20*time.Minute)))
		w.apply(c, plan, err)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(15)
	})
}

// All versions cannot be read from a time: a range whose position is lost waits, and does not come and
// go.
func TestLostPositionOfAllVersionsWaits(t *testing.T) {
	inRegions(t, emulator.Manners{HideCommitted: true}, func(t *testing.T, w *world) {
		must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "versions", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Retention: time.Hour,
		}))
		w.items = w.client().Container("db", "versions")
		h := w.host("a", w.recorder("a"), func(f *Function, _ *Options) {
			f.Container, f.ChangeFeedMode, f.StartFrom, f.LostPosition = w.items, cosmos.ModeAllVersions, FromNow(), "seek"
		})
		stop := w.startHost(h)
		time.Sleep(30 * time.Second)
		w.writeMany("before", 10)
		time.Sleep(30 * time.Second)
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		time.Sleep(30 * time.Second)
		w.failOver("versions", north, emulator.FailoverUnplanned)
		w.writeMany("after", 5)
		time.Sleep(5 * time.Minute)
		if got := w.eventCount(EventAcquired); got != 1 {
			t.Errorf("%d acquisitions", got)
		}
		stop()
	})
}

// Leases and feed fail over together. The owner reads again from the committed LSN, and does not
// wait for an expiration like hosts that have lost sight of the leases.
func TestOwnerGoesOnWhenTheAccountFailsOver(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 10)
		time.Sleep(30 * time.Second)
		w.pauseReplication(north)
		w.writeMany("lost", 5)
		time.Sleep(10 * time.Second)
		must(t, w.account.FailOver(north, emulator.FailoverUnplanned))
		for i := range 5 {
			delete(w.written, fmt.Sprint("lost", i))
		}
		w.writeMany("after", 10)
		time.Sleep(15 * time.Second)
		if got := w.deliveredDocuments(); got != 25 {
			t.Errorf("%d documents delivered after 15 s, want 25", got)
		}
		stop()
		w.checkComplete(0)
	})
}

// A drain whose position no region takes any more sets it back.
func TestDrainSetsARefusedPositionBack(t *testing.T) {
	inRegions(t, emulator.Manners{HideCommitted: true, RefuseAhead: true}, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.LostPosition = "seek" })
		drain := func() { _, _ = h.Drain(t.Context()) } // it fails while the position is lost
		w.writeMany("before", 10)
		drain()
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		drain()
		w.lose(10)
		w.writeMany("after", 5)
		for range 10 {
			drain()
			time.Sleep(20 * time.Second)
		}
		w.checkComplete(15)
	})
}
