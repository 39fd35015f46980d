package trigger

import (
	"strings"
	"testing"
	"time"
)

// The splits here were found by the model in tests/model.

// halfWay makes the worker of a lease, as if its host had stopped at a chosen
// step and others went on.
func (w *world) halfWay(owner, token string) *worker {
	w.t.Helper()
	f := w.host(owner, w.record(owner)).functions[0]
	must(w.t, f.prepare(w.t.Context()))
	worker, err := f.acquire(w.t.Context(), w.leaseDocuments()[token], false)
	must(w.t, err)
	return worker
}

// firstChild creates the first of the leases that follow a worker's, and no
// other. It returns its token.
func (w *world) firstChild(of *worker) string {
	w.t.Helper()
	ranges, err := of.f.ranges.refresh(w.t.Context())
	must(w.t, err)
	_, children, err := locate(of.lease, ranges, of.f.store.prefix)
	must(w.t, err)
	_, err = of.f.store.create(w.t.Context(), children[0])
	must(w.t, err)
	return children[0].token
}

func (w *world) noHoles() {
	w.t.Helper()
	ranges, err := w.items.Ranges(w.t.Context())
	must(w.t, err)
	var all []*lease
	for _, l := range w.leaseDocuments() {
		all = append(all, l)
	}
	if found := holes(ranges, all, nil, ""); len(found) > 0 {
		w.t.Errorf("holes: %v", found)
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
		ofParent, err := p.createChildren(t.Context(), t.Context())
		must(t, err)
		ofChild, err := c.createChildren(t.Context(), t.Context())
		must(t, err)
		p.retire(t.Context(), ofParent)
		c.retire(t.Context(), ofChild)
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
		token := span{Min: "", Max: ranges[0].Max}.token()
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
		ofChild, err := c.createChildren(t.Context(), t.Context())
		must(t, err)
		c.retire(t.Context(), ofChild)
		p := w.halfWay("p", "0")
		ofParent, err := p.createChildren(t.Context(), t.Context())
		must(t, err)
		p.retire(t.Context(), ofParent)
		w.noHoles()
		var spans []span
		for _, l := range w.leaseDocuments() {
			for _, o := range spans {
				if o.overlaps(l.span) {
					t.Errorf("leases over %v and %v", o, l.span)
				}
			}
			spans = append(spans, l.span)
		}
	})
}

func TestMissing(t *testing.T) {
	parent := newLease("p", "-20", span{"", "20"}, true)
	halves := []*lease{parent.over(span{"", "10"}, "p"), parent.over(span{"10", "20"}, "p")}
	whole := []*lease{parent.over(span{"", "20"}, "p")}
	tests := []struct {
		name     string
		children []*lease
		inside   []span
		want     string
	}{
		{"none there", halves, nil, "-10 10-20"},
		{"one there", halves, []span{{"", "10"}}, "10-20"},
		{"all there", halves, []span{{"", "10"}, {"10", "20"}}, ""},
		{"a part of one there", halves, []span{{"", "08"}}, "08-10 10-20"},
		{"whole again", whole, []span{{"08", "10"}}, "-08 10-20"},
	}
	for _, test := range tests {
		var tokens []string
		for _, c := range missing(parent, test.children, test.inside, "p") {
			tokens = append(tokens, c.token)
		}
		if got := strings.Join(tokens, " "); got != test.want {
			t.Errorf("%s: missing %q, want %q", test.name, got, test.want)
		}
	}
}

// TestRobbedOwnerDoesNotSplit: .NET steals a lease while its owner has nothing
// to write; the range splits; the owner, which still trusts its lease, must not
// create children at the position that it knows.
func TestRobbedOwnerDoesNotSplit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.running(w.host("a", w.record("a")))
		w.fill("doc", 10)
		time.Sleep(30*time.Second + 100*time.Millisecond)
		store, err := newLeaseStore(t.Context(), w.leases, Function{Name: "test", Container: w.items}, time.Minute)
		must(t, err)
		stolen := w.leaseDocuments()["0"].clone()
		stolen.owner, stolen.continuation = "dotnet", `"999"`
		must(t, store.replace(t.Context(), stolen))
		_, err = w.account.Split("db", "items", "0")
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
				store, err := newLeaseStore(t.Context(), w.leases, Function{Name: "test", Container: w.items}, time.Minute)
				must(t, err)
				_, err = store.create(t.Context(), late)
				must(t, err)

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
