package trigger

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"halley/trigger/leases"
	"halley/trigger/stall"
)

// control returns the control of the leases of function "test".
func (w *world) control(opts *leases.ControlOptions) *leases.Control {
	w.t.Helper()
	client := w.client()
	c, err := leases.NewControl(client.Container("db", "leases"), leases.Source{Name: "test", Container: client.Container("db", "items"), StartFrom: FromBeginning()}, opts)
	must(w.t, err)
	return c
}

// leaseSource returns a function as its leases see it.
func leaseSource(f Function) leases.Source {
	return leases.Source(f.FeedSource)
}

// apply makes a change within a minute.
func (w *world) apply(c *leases.Control, plan leases.Plan, err error) {
	w.t.Helper()
	must(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	must(w.t, c.Apply(ctx, plan))
}

// After a pause the owner delivers nothing more, keeps its progress, and says why.
// After the range is resumed it continues, and no change is delivered twice.
func TestPausedRangeWaitsAndContinuesWithoutRepeats(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		stop := w.startHost(h)
		w.writeMany("first", 20)
		time.Sleep(30 * time.Second)

		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "sink is being moved")
		w.apply(c, plan, err)
		time.Sleep(30 * time.Second) // the owner renews
		oldCount := w.deliveryCount()
		w.writeMany("second", 20)
		time.Sleep(5 * time.Minute)
		if n := w.deliveryCount(); n != oldCount {
			t.Errorf("%d changes delivered while paused", n-oldCount)
		}
		for _, r := range h.Status().Functions[0].Ranges {
			if !r.Paused || !strings.Contains(r.Problem, "paused by an operator") || !strings.Contains(r.Problem, "sink is being moved") {
				t.Errorf("status %+v", r)
			}
		}
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items})
		must(t, err)
		for _, l := range lags {
			if len(l.Stalls) != 1 || l.Stalls[0].Kind != stall.Paused || l.Owner != "" {
				t.Errorf("lag %+v", l)
			}
		}
		w.checkPauseEvents("sink is being moved", 2)

		plan, err = c.PlanResume(t.Context())
		w.apply(c, plan, err)
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// checkPauseEvents checks that ranges were released because of a pause.
func (w *world) checkPauseEvents(reason string, want int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.events {
		if e.Kind == EventReleased && e.Reason == ClosedPaused {
			n++
			if e.Stall == nil || e.Stall.Text != reason || e.Err != nil {
				w.t.Errorf("event %+v", e)
			}
		}
	}
	if n != want {
		w.t.Errorf("%d ranges released because of the pause, want %d", n, want)
	}
}

// Drains leave paused ranges alone.
func TestPausedRangeIsNotDrained(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		_, err := h.Drain(t.Context())
		must(t, err)
		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "because", "1")
		w.apply(c, plan, err)
		w.writeMany("doc", 20)
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Skipped != 1 || summary.Drained != 1 {
			t.Errorf("summary %+v", summary)
		}
		plan, err = c.PlanResume(t.Context(), "1")
		w.apply(c, plan, err)
		_, err = h.Drain(t.Context())
		must(t, err)
		w.checkComplete(0)
	})
}

// A pause that the owner has not seen when its range splits passes to the children.
func TestPauseOutlivesASplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		w.writeMany("doc", 5)
		must(t, h.functionRunners[0].prepareLeases(t.Context()))
		r := h.functionRunners[0]
		listed, err := r.listCandidates(t.Context())
		must(t, err)
		worker, err := r.acquireLease(t.Context(), listed[0], false)
		must(t, err)
		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "late", "0")
		must(t, err)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)

		createChildren(t, worker)
		must(t, c.Apply(t.Context(), plan))
		worker.held.Retire(t.Context())
		list, err := c.List(t.Context())
		must(t, err)
		if len(list) != 2 || !list[0].Paused || !list[1].Paused || list[0].Reason != "late" {
			t.Errorf("leases %+v", list)
		}
	})
}

// The lease of a running host is deleted, another host creates it again, and an operator
// pauses that one: it gets the host's position and stays paused.
func TestPauseOutlivesARestoredPosition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a"), quietFromNow))
		time.Sleep(time.Minute)
		w.writeMany("doc", 5)
		time.Sleep(time.Minute)
		oldLease := w.leaseDocuments()["0"]
		w.deleteLeases(false)
		fresh := oldLease.clone()
		fresh.owner, fresh.continuation = "", ""
		fresh.properties = map[string]string{epochProperty: oldLease.properties[epochProperty], pausedProperty: "946684800 meanwhile"}
		w.createLease(fresh)
		time.Sleep(2 * time.Minute)
		newLease := w.leaseDocuments()["0"]
		if newLease.continuation != oldLease.continuation || newLease.owner != "" || newLease.properties[pausedProperty] != "946684800 meanwhile" {
			t.Errorf("position %s, owner %q, properties %v; want position %s, paused", newLease.continuation, newLease.owner, newLease.properties, oldLease.continuation)
		}
		stop()
	})
}

// A paused lease that others have replaced is resumed as all are, and then retired.
func TestResumeEndsThePauseOfAReplacedLease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a"), quietFromNow))
		time.Sleep(time.Minute)
		old := w.leaseDocuments()["0"].clone()
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(2 * time.Minute)
		old.owner, old.properties[pausedProperty] = "", "946684800 long ago"
		w.createLease(old)
		time.Sleep(time.Minute)
		c := w.control(nil)
		plan, err := c.PlanResume(t.Context())
		w.apply(c, plan, err)
		time.Sleep(time.Minute)
		if all := w.leaseDocuments(); len(all) != 2 || all["0"] != nil {
			t.Errorf("leases %v", all)
		}
		stop()
	})
}

// Ranges that are moved back deliver again what follows, and nothing is delivered by
// two owners at a time.
func TestSeekBackwardsRepeats(t *testing.T) {
	for _, force := range []bool{false, true} {
		t.Run(map[bool]string{false: "requested", true: "forced"}[force], func(t *testing.T) {
			inWorld(t, 2, func(t *testing.T, w *world) {
				stop := w.startHost(w.host("a", w.recorder("a")))
				w.writeMany("doc", 20)
				time.Sleep(30 * time.Second)
				if n := w.deliveryCount(); n != 20 {
					t.Fatalf("%d delivered, want 20", n)
				}
				oldLeases := w.leaseDocuments()
				c := w.control(&leases.ControlOptions{Force: force})
				plan, err := c.PlanSeek(t.Context(), FromBeginning())
				w.apply(c, plan, err)
				for _, s := range plan.Steps {
					if !s.Known || s.Repeated < 5 || s.Skipped != 0 || s.Owner != "a" {
						t.Errorf("step %+v", s)
					}
				}
				for token, l := range w.leaseDocuments() {
					if l.epoch() <= oldLeases[token].epoch() {
						t.Errorf("lease %s has epoch %d after %d", token, l.epoch(), oldLeases[token].epoch())
					}
				}
				time.Sleep(time.Minute)
				stop()
				if n := w.deliveryCount(); n != 40 {
					t.Errorf("%d delivered, want 20 twice", n)
				}
			})
		})
	}
}

// A range that is moved to now skips what was written before, and no more.
func TestSeekForwardsSkips(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		w.writeMany("seen", 5)
		_, err := h.Drain(t.Context())
		must(t, err)
		w.writeMany("skipped", 7)
		l := w.leaseDocuments()["0"]
		l.properties[retriesProperty] = `{"of":"the old position"}`
		w.replaceLease(l)
		c := w.control(nil)
		plan, err := c.PlanSeek(t.Context(), FromNow(), "0")
		w.apply(c, plan, err)
		if s := plan.Steps[0]; s.Skipped != 7 || s.Repeated != 0 || !s.Known {
			t.Errorf("step %+v", s)
		}
		if kept := w.leaseDocuments()["0"].properties[retriesProperty]; kept != "" {
			t.Errorf("the seek keeps the failure history %q", kept)
		}
		w.writeMany("later", 3)
		_, err = h.Drain(t.Context())
		must(t, err)
		if n := w.deliveryCount(); n != 8 {
			t.Errorf("%d delivered, want 8", n)
		}
	})
}

// A seek to a time begins with the first change after it.
func TestSeekToATime(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		w.writeMany("early", 5)
		time.Sleep(time.Hour)
		seekTime := time.Now()
		time.Sleep(time.Hour)
		w.writeMany("late", 4)
		_, err := h.Drain(t.Context())
		must(t, err)
		c := w.control(nil)
		plan, err := c.PlanSeek(t.Context(), FromTime(seekTime))
		w.apply(c, plan, err)
		_, err = h.Drain(t.Context())
		must(t, err)
		if n := w.deliveryCount(); n != 13 || plan.Steps[0].Repeated != 4 {
			t.Errorf("%d delivered, plan %+v", n, plan)
		}
	})
}

// A seek does not take away a change that a handler works on: the owner finishes the
// call first.
func TestSeekWaitsForTheRunningCall(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", withDelay(40*time.Second, w.recorder("a"))))
		w.writeMany("doc", 1)
		time.Sleep(20 * time.Second) // the call runs
		c := w.control(nil)
		plan, err := c.PlanSeek(t.Context(), FromNow())
		w.apply(c, plan, err)
		time.Sleep(2 * time.Minute)
		stop()
		w.checkComplete(0)
	})
}

// A .NET host knows no pauses, so it is refused; a seek takes the lease, lets the
// owner notice, and releases it at the new position.
func TestDotNetOwner(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		l := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		l.owner, l.continuation = "dotnet", w.newestContinuation()
		w.createLease(l)
		w.createStamp(".info")
		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "because")
		must(t, err)
		if err := c.Apply(t.Context(), plan); err == nil || !strings.Contains(err.Error(), "does not know pauses") {
			t.Errorf("pause: %v", err)
		}
		if now := w.leaseDocuments()["0"]; now.etag == "" || now.properties["halley.paused"] != "" {
			t.Errorf("lease %+v", now)
		}

		seen := make(chan string, 1)
		go func() { // the .NET owner renews 17 s later
			time.Sleep(17 * time.Second)
			seen <- w.leaseDocuments()["0"].owner
		}()
		plan, err = c.PlanSeek(t.Context(), FromBeginning())
		w.apply(c, plan, err)
		if owner := <-seen; !strings.HasPrefix(owner, "operator-") {
			t.Errorf("at its renewal the owner finds %q in the lease", owner)
		}
		if now := w.leaseDocuments()["0"]; now.owner != "" || lsnOf(t, now.continuation) != 1 || now.properties["halley.incarnation"] != "" {
			t.Errorf("lease %+v", now)
		}
		summary, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		if summary.Changes != 10 {
			t.Errorf("summary %+v", summary)
		}
	})
}

// A .NET host that takes a free lease between plan and pause is not paused.
func TestPauseMeetsADotNetHost(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		c := w.control(nil)
		_, err := c.Init(t.Context())
		must(t, err)
		plan, err := c.PlanPause(t.Context(), "because")
		must(t, err)
		l := w.leaseDocuments()["0"].clone()
		l.owner = "dotnet"
		w.replaceLease(l)
		if err := c.Apply(t.Context(), plan); err == nil || !strings.Contains(err.Error(), "does not know pauses") {
			t.Errorf("pause: %v", err)
		}
	})
}

// The lease of a .NET host that has ended can be paused: no host acquires it.
func TestPauseOfADeadDotNetOwner(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 3)
		c := w.control(nil)
		_, err := c.Init(t.Context())
		must(t, err)
		l := w.leaseDocuments()["0"].clone()
		l.owner = "dotnet"
		w.replaceLease(l)
		time.Sleep(5 * time.Minute)
		plan, err := c.PlanPause(t.Context(), "because")
		w.apply(c, plan, err)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(10 * time.Minute)
		stop()
		if n := w.deliveryCount(); n != 0 {
			t.Errorf("%d changes were delivered although the range is paused", n)
		}
	})
}

// A released lease is given back at once, although its owner is dead.
func TestReleaseFreesTheLeaseOfADeadOwner(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 3)
		l := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		l.owner, l.properties[incarnationProperty], l.properties["halley.protocol"] = "dead", "dead/1", "2"
		w.createLease(l)
		w.createStamp(".info")
		c := w.control(&leases.ControlOptions{Force: true})
		began := time.Now()
		plan, err := c.PlanRelease(t.Context())
		w.apply(c, plan, err)
		if took := time.Since(began); took > 30*time.Second || w.leaseDocuments()["0"].owner != "" {
			t.Errorf("released after %s, the owner is %q", took, w.leaseDocuments()["0"].owner)
		}
	})
}

// An export restores positions, also of leases that were deleted or have split since.
func TestImportRestoresPositions(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		w.writeMany("first", 10)
		_, err := h.Drain(t.Context())
		must(t, err)
		c := w.control(nil)
		export, err := c.Export(t.Context())
		must(t, err)
		raw, err := json.Marshal(export)
		must(t, err)
		export, err = leases.ReadExport(raw)
		must(t, err)

		w.writeMany("second", 10)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		_, err = h.Drain(t.Context())
		must(t, err)
		gone := w.leaseDocuments()["1"]
		must(t, w.deleteLease(gone))

		plan, err := c.PlanImport(t.Context(), export)
		w.apply(c, plan, err)
		if len(plan.Steps) != 3 || plan.Steps[2].Action != leases.ActionCreate {
			t.Errorf("plan %+v", plan)
		}
		oldCount := w.deliveryCount()
		_, err = h.Drain(t.Context())
		must(t, err)
		if n := w.deliveryCount() - oldCount; n != 10 {
			t.Errorf("%d delivered again, want the second 10", n)
		}
		w.checkNoGaps()
	})
}

func TestVerifyFindsDamage(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		c := w.control(nil)
		check := func(want ...string) {
			t.Helper()
			findings, err := c.Verify(t.Context())
			must(t, err)
			if len(findings) != len(want) {
				t.Errorf("findings %v, want %d", findings, len(want))
				return
			}
			for i, f := range findings {
				if !strings.Contains(f.String(), want[i]) {
					t.Errorf("finding %q, want %q", f, want[i])
				}
			}
		}
		check("there are no leases")
		n, err := c.Init(t.Context())
		if err != nil || n != 2 {
			t.Fatalf("created %d leases: %v", n, err)
		}
		check()
		l := newLeaseDocument(w.leasePrefix(), "05-0B", "05", "0B")
		l.properties[epochProperty] = w.leaseDocuments()["0"].properties[epochProperty] // neither has replaced the other
		w.createLease(l)
		check("shares keys")
		must(t, w.deleteLease(w.leaseDocuments()["05-0B"]))
		must(t, w.deleteLease(w.leaseDocuments()["0"]))
		check("no lease covers")
		bad := newLeaseDocument(w.leasePrefix(), "0", "", "")
		bad.body["version"] = 9
		w.createLease(bad)
		check("not a lease")
	})
}
