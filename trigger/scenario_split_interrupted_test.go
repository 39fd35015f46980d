package trigger

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/lease"
)

// The model in tests/model found the sequences of splits and merges in this file.

// acquireWorker acquires a lease and returns its worker without starting it, so that a
// test can stop between two steps, like a host that crashes.
func (w *world) acquireWorker(owner, token string) *rangeWorker {
	w.t.Helper()
	return w.acquire(owner, token, false)
}

// acquire is acquireWorker, for a lease that other leases have replaced if superseded is set.
func (w *world) acquire(owner, token string, superseded bool) *rangeWorker {
	w.t.Helper()
	r := w.host(owner, w.recorder(owner)).functionRunners[0]
	must(w.t, r.prepareLeases(w.t.Context()))
	leases, err := r.listCandidates(w.t.Context())
	must(w.t, err)
	i := slices.IndexFunc(leases, func(l *lease.Lease) bool { return l.Token() == token })
	worker, err := r.acquireLease(w.t.Context(), leases[i], superseded)
	must(w.t, err)
	return worker
}

// createFirstChild creates only the first of the leases that follow a worker's lease.
// It returns its token.
func (w *world) createFirstChild(parent *rangeWorker) string {
	w.t.Helper()
	must(w.t, parent.leases.RefreshRanges(w.t.Context()))
	children, err := parent.leases.Children(parent.held.Lease())
	must(w.t, err)
	c := children[0]
	l := newLeaseDocument(w.leasePrefix(), c.Token(), c.Span().Min, c.Span().Max)
	l.continuation, l.properties[epochProperty] = c.Continuation(), strconv.FormatInt(c.Epoch(), 10)
	w.createLease(l)
	return c.Token()
}

// createChildren creates all leases that follow a worker's lease, and does not retire
// that lease.
func createChildren(t *testing.T, w *rangeWorker) {
	t.Helper()
	defer w.host.beginTasks()()
	w.held.Start(t.Context(), w.host.writes)
	_, err := w.held.Split(t.Context(), t.Context(), func(error) {})
	w.held.Stop()
	must(t, err)
}

// The owner of a parent and the owner of its first child, whose range has split too,
// complete their splits at the same time. Each lease is about to be retired, so
// neither owner may count it as a cover of its children's keys.
func TestNestedSplitsLeaveNoGap(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 20)
		time.Sleep(30 * time.Second)
		stop()
		heirs, err := w.account.Split("db", "items", "0")
		must(t, err)
		child := w.createFirstChild(w.acquireWorker("crashed", "0"))
		time.Sleep(2 * time.Minute)
		_, err = w.account.Split("db", "items", heirs[0])
		must(t, err)
		p, c := w.acquireWorker("p", "0"), w.acquireWorker("c", child)
		createChildren(t, p)
		createChildren(t, c)
		p.held.Retire(t.Context())
		c.held.Retire(t.Context())
		w.checkNoGaps()
	})
}

// An owner stops after the first of two children, and the ranges merge again. The next
// owner completes the split. Otherwise the parent and its child would both be read
// forever.
func TestSplitHiddenByMergeIsCompleted(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(30 * time.Second)
		ranges, err := w.items.Ranges(t.Context())
		must(t, err)
		merged, err := w.account.Merge("db", "items", ranges[0].ID, ranges[1].ID)
		must(t, err)
		w.writeMany("before", 20)
		time.Sleep(30 * time.Second)
		stop()
		token := "-" + ranges[0].Max
		if w.leaseDocuments()[token] == nil {
			t.Fatalf("no lease over keys: %v", w.leaseDocuments())
		}

		heirs, err := w.account.Split("db", "items", merged) // at the boundary of the leases
		must(t, err)
		grand, err := w.account.Split("db", "items", heirs[0])
		must(t, err)
		w.createFirstChild(w.acquireWorker("crashed", token))
		_, err = w.account.Merge("db", "items", grand[0], grand[1])
		must(t, err)
		time.Sleep(2 * time.Minute)

		stop = w.startHost(w.host("b", w.recorder("b")))
		w.writeMany("after", 20)
		time.Sleep(time.Minute)
		stop()
		if w.leaseDocuments()[token] != nil {
			t.Errorf("the parent still exists: %v", w.leaseDocuments())
		}
		w.checkNoGaps()
		w.checkComplete(0)
	})
}

// An owner stops after the first of two children. Their ranges merge, and the child's
// lease continues with its own keys. The parent's next owner creates the missing
// lease, and none for the keys of the first child.
func TestInterruptedSplitThatMergesAgainLeavesNoOverlap(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 20)
		time.Sleep(30 * time.Second)
		stop()
		heirs, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		child := w.createFirstChild(w.acquireWorker("crashed", "0"))
		_, err = w.account.Merge("db", "items", heirs...)
		must(t, err)
		time.Sleep(2 * time.Minute)
		c := w.acquireWorker("c", child)
		createChildren(t, c)
		c.held.Retire(t.Context())
		p := w.acquireWorker("p", "0")
		createChildren(t, p)
		p.held.Retire(t.Context())
		w.checkNoGaps()
		leases := w.leaseDocuments()
		for token, l := range leases {
			for other, o := range leases {
				if token != other && cosmos.CompareKeys(l.min, o.max) < 0 && cosmos.CompareKeys(o.min, l.max) < 0 {
					t.Errorf("leases %s and %s overlap", token, other)
				}
			}
		}
	})
}

// The children of a parent that was never retired have merged and split since. Other
// leases cover their keys now, and the parent's next owner creates none for them.
func TestSplitDoesNotCreateRetiredChildrenAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		halves, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		createChildren(t, w.acquireWorker("a", "0")) // and crashes
		_, err = w.account.Merge("db", "items", halves...)
		must(t, err)
		time.Sleep(time.Minute)
		for _, token := range halves {
			parent := w.acquireWorker("b", token)
			createChildren(t, parent)
			parent.held.Retire(t.Context())
		}
		ranges, err := w.items.Ranges(t.Context())
		must(t, err)
		_, err = w.account.Split("db", "items", ranges[0].ID)
		must(t, err)
		time.Sleep(time.Minute)
		oldLeases := w.leaseDocuments()
		createChildren(t, w.acquireWorker("c", "0"))
		for token := range w.leaseDocuments() {
			if oldLeases[token] == nil {
				t.Errorf("lease %s is created although %d others cover its keys", token, len(oldLeases))
			}
		}
	})
}

// A host sends the request that creates a child and dies. The next owner creates the
// child, which ends in a merge and is retired. Then the dead host's request arrives
// and creates the child again.
func TestLeaseCreatedLateIsRetiredUnread(t *testing.T) {
	modes := map[string]func(w *world, h *Host){
		"run":   func(w *world, h *Host) { stop := w.startHost(h); time.Sleep(2 * time.Minute); stop() },
		"drain": func(w *world, h *Host) { _, err := h.Drain(w.t.Context()); must(w.t, err) },
	}
	for name, work := range modes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				stop := w.startHost(w.host("a", w.recorder("a")))
				w.writeMany("doc", 20)
				time.Sleep(time.Minute)
				heirs, err := w.account.Split("db", "items", "0")
				must(t, err)
				time.Sleep(time.Minute)
				late := w.leaseDocuments()[heirs[0]].clone()
				_, err = w.account.Merge("db", "items", heirs...)
				must(t, err)
				time.Sleep(time.Minute)
				stop()
				if w.leaseDocuments()[heirs[0]] != nil {
					t.Fatal("the child was not retired")
				}
				late.owner, late.continuation, late.properties = "", "", map[string]string{epochProperty: "5"}
				w.createLease(late)

				work(w, w.host("b", w.recorder("b")))
				if l := w.leaseDocuments()[heirs[0]]; l != nil {
					t.Errorf("the late lease still exists: %+v", l)
				}
				w.checkComplete(0)
				w.checkNoGaps()
			})
		})
	}
}

// The parent of two leases is created again late. The host that acquires it, to retire it, dies:
// its epoch is above theirs then, and they stay.
func TestLeaseAcquiredToBeRetiredReplacesNone(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 20)
		time.Sleep(time.Minute)
		late := w.leaseDocuments()["0"].clone()
		heirs, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		stop()
		late.owner, late.continuation, late.properties = "", "", map[string]string{epochProperty: "1"}
		w.createLease(late)
		w.acquire("crashed", "0", true)

		stop = w.startHost(w.host("b", w.recorder("b")))
		w.writeMany("after", 20)
		time.Sleep(30 * time.Second)
		for _, token := range heirs {
			if l := w.leaseDocuments()[token]; l == nil || l.owner != "b" {
				t.Errorf("lease %s is %+v", token, l)
			}
		}
		time.Sleep(2 * time.Minute)
		stop()
		if l := w.leaseDocuments()["0"]; l != nil {
			t.Errorf("the late lease still exists: %+v", l)
		}
		w.checkNoGaps()
		w.checkComplete(0)
	})
}
