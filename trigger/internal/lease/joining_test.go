package lease

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// newJoiningFleet returns a fleet of which host a has all leases.
func newJoiningFleet(leases int) *fleet {
	f := newFleet(leases)
	f.pass("a")
	f.joining = map[string]*joining{}
	return f
}

// looks has hosts look in this order. Each step is written as in plan.golden.
func (f *fleet) looks(t *testing.T, steps ...string) {
	t.Helper()
	for _, want := range steps {
		me, _, _ := strings.Cut(want, ":")
		if f.joining[me] == nil {
			f.joining[me] = &joining{}
		}
		if got, _ := f.pass(me); got != want {
			t.Errorf("steps %q, want %q; leases %s", got, want, f)
		}
	}
}

// Hosts that start together request one lease each, and their shares once they count each
// other, so that no lease moves twice.
func TestHostsThatStartTogetherCountEachOther(t *testing.T) {
	f := newJoiningFleet(12)
	f.looks(t,
		"b: ?7", "c: ?10", "d: ?9",
		"b: ~7",                      // c and d have appeared
		"d: ~9 ?6 ?8", "b: ~7 ?1 ?2", // no further host
		"c: ~10", "c: ~10 ?4 ?5")
	f.yield("a")
	f.looks(t, "b: 1 2 7", "c: 4 5 10", "d: 6 8 9", "b: ", "c: ", "d: ")
}

// A host that joins waits for one acquire interval at most, however many hosts appear.
func TestJoiningEndsWhileHostsAppear(t *testing.T) {
	f := newJoiningFleet(100)
	b, waited := &joining{}, time.Duration(0)
	f.joining["b"] = b
	for n := range 2 * joinLooks {
		_, changed := f.pass("b")
		if wantsShare := waited == simulatedAcquire; b.joined != wantsShare || (changed > 1) != wantsShare {
			t.Errorf("%d steps after %v, joined: %v", changed, waited, b.joined)
		}
		if b.joined {
			break
		}
		waited += b.next(simulatedAcquire)
		host := fmt.Sprint("new", n)
		f.joining[host] = &joining{}
		f.pass(host)
	}
	if next := b.next(simulatedAcquire); next != simulatedAcquire {
		t.Errorf("the next pass is after %v", next)
	}
}

// Free leases have no owner to lose: a host that joins acquires them at once.
func TestJoiningHostAcquiresFreeLeases(t *testing.T) {
	f := newJoiningFleet(12)
	f.looks(t, "b: ?7", "c: ?10")
	f.owner["0"], f.owner["1"] = "", ""
	f.looks(t, "b: ~7 0 1")

	f = newJoiningFleet(12)
	f.owner["0"] = ""
	f.looks(t, "b: 0", "b: ?6 ?7 ?8 ?9 ?10") // with 0 the others count it
}

// A .NET host grants one lease in each pass, as before.
func TestJoiningHostStealsFromDotNet(t *testing.T) {
	f := newJoiningFleet(6)
	f.dotnet["a"] = true
	f.looks(t, "b: 0", "b: 1", "b: 2", "b: ")
}
