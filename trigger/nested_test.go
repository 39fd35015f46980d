package trigger

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/lease"
)

// The splits here were found by the model in tests/model.

// halfWay makes the worker of a lease, as if its host had stopped at a chosen
// step and others continued.
func (w *world) halfWay(owner, token string) *rangeWorker {
	w.t.Helper()
	r := w.host(owner, w.record(owner)).functionRunners[0]
	must(w.t, r.prepareLeases(w.t.Context()))
	leases, err := r.listCandidates(w.t.Context())
	must(w.t, err)
	i := slices.IndexFunc(leases, func(l *lease.Lease) bool { return l.Token() == token })
	worker, err := r.acquireLease(w.t.Context(), leases[i], false)
	must(w.t, err)
	return worker
}

// firstChild creates the first of the leases that follow a worker's, and no
// other. It returns its token.
func (w *world) firstChild(of *rangeWorker) string {
	w.t.Helper()
	must(w.t, of.leases.RefreshRanges(w.t.Context()))
	children, err := of.leases.Children(of.held.Lease())
	must(w.t, err)
	c := children[0]
	l := newLeaseDocument(w.leasePrefix(), c.Token(), c.Span().Min, c.Span().Max)
	l.continuation, l.properties[epochProperty] = c.Continuation(), strconv.FormatInt(c.Epoch(), 10)
	w.createLease(l)
	return c.Token()
}

func (w *world) noHoles() {
	w.t.Helper()
	if found := w.coverageGaps(); len(found) > 0 {
		w.t.Errorf("coverage gaps: %v", found)
	}
}

// TestNestedSplitLeavesNoHole: the owner of a parent and the owner of its
// first child, which has split in turn, complete their splits at one time.
// Neither may take the other's lease, which is about to go, for its children's.
func TestNestedSplitLeavesNoHole(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("before", 20)
		time.Sleep(30 * time.Second)
		stop()
		heirs, err := w.account.Split("db", "items", "0")
		must(t, err)
		child := w.firstChild(w.halfWay("crashed", "0"))
		time.Sleep(2 * time.Minute)
		_, err = w.account.Split("db", "items", heirs[0])
		must(t, err)
		p, c := w.halfWay("p", "0"), w.halfWay("c", child)
		children(t, p)
		children(t, c)
		p.held.Retire(t.Context())
		c.held.Retire(t.Context())
		w.noHoles()
	})
}

// TestSplitThatAMergeHidesIsCompleted: an owner stops between two children,
// and the ranges merge again. The next owner completes the split, instead of
// reading the parent beside its child for ever.
func TestSplitThatAMergeHidesIsCompleted(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		time.Sleep(30 * time.Second)
		ranges, err := w.items.Ranges(t.Context())
		must(t, err)
		merged, err := w.account.Merge("db", "items", ranges[0].ID, ranges[1].ID)
		must(t, err)
		w.fill("before", 20)
		time.Sleep(30 * time.Second)
		stop()
		token := "-" + ranges[0].Max
		if w.leaseDocuments()[token] == nil {
			t.Fatalf("no lease over keys: %v", w.leaseDocuments())
		}

		heirs, err := w.account.Split("db", "items", merged) // at the bound of the leases
		must(t, err)
		grand, err := w.account.Split("db", "items", heirs[0])
		must(t, err)
		w.firstChild(w.halfWay("crashed", token))
		_, err = w.account.Merge("db", "items", grand[0], grand[1])
		must(t, err)
		time.Sleep(2 * time.Minute)

		stop = w.running(w.host("b", w.record("b")))
		w.fill("after", 20)
		time.Sleep(time.Minute)
		stop()
		if w.leaseDocuments()[token] != nil {
			t.Errorf("the parent is still there: %v", w.leaseDocuments())
		}
		w.noHoles()
		w.complete(0)
	})
}

// TestHalfSplitThatMergesAgainLeavesNoOverlap: an owner stops after the first of
// two children, which merge again; the first child's lease goes on over its own
// keys. The parent's next owner creates what is missing, and nothing over keys
// that the first child has.
func TestHalfSplitThatMergesAgainLeavesNoOverlap(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("before", 20)
		time.Sleep(30 * time.Second)
		stop()
		heirs, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		child := w.firstChild(w.halfWay("crashed", "0"))
		_, err = w.account.Merge("db", "items", heirs...)
		must(t, err)
		time.Sleep(2 * time.Minute)
		c := w.halfWay("c", child)
		children(t, c)
		c.held.Retire(t.Context())
		p := w.halfWay("p", "0")
		children(t, p)
		p.held.Retire(t.Context())
		w.noHoles()
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

// TestRobbedOwnerDoesNotSplit: .NET steals a lease while its owner has nothing
// to write; the range splits; the owner, which still trusts its lease, must not
// create children at the position that it knows.
func TestRobbedOwnerDoesNotSplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 10)
		time.Sleep(30*time.Second + 100*time.Millisecond)
		stolen := w.leaseDocuments()["0"].clone()
		stolen.owner, stolen.continuation = "dotnet", `"999"`
		w.replaceLease(stolen)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(10 * time.Second)
		if leases := w.leaseDocuments(); len(leases) != 1 || leases["0"].owner != "dotnet" {
			t.Errorf("leases %v", leases)
		}
		stop()
	})
}

// TestLateCreateIsRetiredUnread: a host dies after its request for a child has
// left; the child is created by the next owner, comes to an end in a merge, and
// is retired; then the dead host's request arrives and brings it back.
func TestLateCreateIsRetiredUnread(t *testing.T) {
	modes := map[string]func(w *world, h *Host){
		"run":   func(w *world, h *Host) { stop := w.running(h); time.Sleep(2 * time.Minute); stop() },
		"drain": func(w *world, h *Host) { _, err := h.Drain(w.t.Context()); must(w.t, err) },
	}
	for name, work := range modes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				stop := w.running(w.host("a", w.record("a")))
				w.fill("doc", 20)
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

				work(w, w.host("b", w.record("b")))
				if l := w.leaseDocuments()[heirs[0]]; l != nil {
					t.Errorf("the late lease is still there: %+v", l)
				}
				w.complete(0)
				w.noHoles()
			})
		})
	}
}
