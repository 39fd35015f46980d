package lease

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

func ignore(error) {}

// createChildren splits the lease of a range as far as its children exist.
func (b *testbed) createChildren(held *Held) []*Lease {
	b.t.Helper()
	children, err := held.createChildren(b.t.Context(), b.t.Context())
	must(b.t, err)
	return children
}

func TestSplitCreatesChildrenAtStoredPosition(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		heirs := b.split("0")
		must(t, s.RefreshRanges(t.Context())) // as after the feed has answered that the range is gone
		if _, err := s.Locate(t.Context(), held.Lease()); !errors.Is(err, ErrSplit) {
			t.Fatalf("located with %v", err)
		}
		held.Advance(`"8"`, time.Now())
		children, err := held.Split(t.Context(), t.Context(), func(err error) { t.Error(err) })
		must(t, err)
		stop()
		if got := held.Retire(t.Context()); got != `"8"` {
			t.Errorf("retired at %s", got)
		}
		leases := b.leases(s)
		if len(children) != 2 || len(leases) != 2 {
			t.Fatalf("children %v, leases %v", children, leases)
		}
		for _, id := range heirs {
			if l := leases[id]; l == nil || l.continuation != `"8"` || l.Epoch() != held.Epoch()+1 || l.owner != "" {
				t.Errorf("child %s: %+v", id, l)
			}
		}
		b.checkCoverage(s)
	})
}

// Host B steals the lease while host A has nothing to write; the range splits. A
// still trusts its lease, but must not create children at its old position.
func TestSplitAfterLossCreatesNoChildren(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		b.steal(s, "0", "dotnet")
		_, err := b.account.Split("db", "items", "0")
		must(t, err)
		if _, err := held.Split(t.Context(), t.Context(), ignore); !errors.Is(err, ErrLost) {
			t.Errorf("split with %v", err)
		}
		if leases := b.leases(s); len(leases) != 1 || leases["0"].owner != "dotnet" {
			t.Errorf("leases %v", leases)
		}
		stop()
	})
}

func TestSplitWaitsForTrustBeforeEachChild(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		b.split("0")
		ended, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		time.Sleep(time.Minute) // without Run no write restores trust
		if _, err := held.createChildren(t.Context(), ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("created with %v", err)
		}
		if leases := b.leases(s); len(leases) != 1 {
			t.Errorf("leases %v", leases)
		}
	})
}

func TestSplitResumesAfterCrashBetweenChildAndRetire(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		heirs := b.split("0")
		_, children, err := locate(b.acquire(s, "0").Lease(), must2(s.ranges.refresh(t.Context())), s.store.idPrefix)
		must(t, err)
		children[0].continuation = `"3"`
		must(t, s.store.createLease(t.Context(), children[0])) // and the host crashes

		held := b.acquire(s, "0")
		b.createChildren(held)
		held.Retire(t.Context())
		leases := b.leases(s)
		if len(leases) != 2 || leases[heirs[0]].continuation != `"3"` {
			t.Errorf("leases %v", leases)
		}
		b.checkCoverage(s)
	})
}

func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The children of a parent that was never retired have merged and split since.
// Other leases cover their keys, so the parent's next owner creates none.
func TestSplitDoesNotRestartChildrenThatEnded(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		halves := b.split("0")
		b.createChildren(b.acquire(s, "0")) // and the host crashes
		merged, err := b.account.Merge("db", "items", halves...)
		must(t, err)
		time.Sleep(time.Minute)
		for _, token := range halves {
			held := b.acquire(s, token)
			b.createChildren(held)
			held.Retire(t.Context())
		}
		b.split(merged)
		oldLeases := b.leases(s)
		b.createChildren(b.acquire(s, "0"))
		for token := range b.leases(s) {
			if oldLeases[token] == nil {
				t.Errorf("lease %s created for keys that other leases cover", token)
			}
		}
	})
}

// A merge has made the range whole again after an earlier owner of a lease by
// keys had created one child.
func TestSplitBegunIsSeenAfterMerge(t *testing.T) {
	withTestbed(t, 2, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		merged, err := b.account.Merge("db", "items", "0", "1")
		must(t, err)
		time.Sleep(time.Minute)
		for _, token := range []string{"0", "1"} {
			held := b.acquire(s, token)
			b.createChildren(held)
			held.Retire(t.Context())
		}
		var token string
		for token = range b.leases(s) {
			break
		}
		held := b.acquire(s, token)
		begun, err := held.SplitBegun(t.Context())
		must(t, err)
		if begun || !held.Lease().ByKeys() {
			t.Errorf("split begun %v on range %s: %+v", begun, merged, held.Lease())
		}
		middle := Span{held.Lease().span.Min, held.Lease().span.Min + "01"}
		must(t, s.store.createLease(t.Context(), newChildOver(held.Lease(), middle, s.store.idPrefix)))
		if begun, err = held.SplitBegun(t.Context()); err != nil || !begun {
			t.Errorf("split begun %v, %v", begun, err)
		}
		b.createChildren(held)
		held.Retire(t.Context())
		b.checkCoverage(s)
	})
}

func TestSplitOfWholeRangeFails(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		var reported error
		if _, err := held.Split(t.Context(), t.Context(), func(err error) { reported = err }); !errors.Is(err, errWhole) || !errors.Is(reported, errWhole) {
			t.Errorf("split with %v, reported %v", err, reported)
		}
		stop()
	})
}

func TestRetireLeavesTombstoneIfDeletesAreDenied(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		b.split("0")
		held := b.acquire(s, "0")
		b.createChildren(held)
		b.account.Inject(emulator.Fault{Method: http.MethodDelete, Path: "/colls/leases/", Status: 403})
		held.Retire(t.Context())
		if l := b.leases(s)["0"]; l == nil || !l.Tombstone() || l.owner != "" {
			t.Errorf("lease %+v", l)
		}
		candidates, err := s.Candidates(t.Context())
		must(t, err)
		if len(candidates) != 2 {
			t.Errorf("candidates %v", candidates)
		}
	})
}

func TestRetireSurvivesHandoverRequest(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		b.split("0")
		held := b.acquire(s, "0")
		b.createChildren(held)
		_, err := b.prepared("b").RequestHandover(t.Context(), b.leases(s)["0"])
		must(t, err)
		held.Retire(t.Context())
		if l := b.leases(s)["0"]; l != nil {
			t.Errorf("lease %+v", l)
		}
	})
}

// A parent is acquired three times while one of its children exists, so its epoch is
// above the child's, and host B takes the child to retire it. If the parent's owner A
// begins to split before B looks again, B keeps the child. If not, A waits until B has
// retired it and creates it again.
func TestChildIsRetiredOrCountedOnByItsParentsOwner(t *testing.T) {
	for _, first := range []string{"split", "retire"} {
		t.Run(first, func(t *testing.T) {
			withTestbed(t, 1, func(t *testing.T, b *testbed) {
				a, other := b.prepared("a"), b.prepared("b")
				heirs := b.split("0")
				_, children, err := locate(b.acquire(a, "0").Lease(), must2(a.ranges.refresh(t.Context())), a.store.idPrefix)
				must(t, err)
				must(t, a.store.createLease(t.Context(), children[0])) // and the host crashes
				b.acquire(a, "0")
				held := b.acquire(a, "0")
				child := b.leases(other)[heirs[0]]
				if !NewIndex([]*Lease{held.Lease(), child}).Superseded(child) {
					t.Fatal("the epoch of the parent does not show the child as replaced")
				}
				retiring, err := other.Acquire(t.Context(), t.Context(), child, nil, true)
				must(t, err)
				stop := b.run(retiring)
				retire := func() bool {
					superseded, err := retiring.StillSuperseded(t.Context())
					must(t, err)
					stop()
					if superseded {
						retiring.Retire(t.Context())
					}
					return superseded
				}
				end := b.run(held)
				split := func() {
					_, err := held.Split(t.Context(), t.Context(), func(error) {})
					must(t, err)
					end()
				}
				if first == "retire" {
					if children, err := held.createChildren(t.Context(), t.Context()); err == nil {
						t.Errorf("children %v while the owner of one decides whether to retire it", children)
					}
					if !retire() {
						t.Error("a lease below one that does not split is kept")
					}
					split()
				} else {
					b.setBefore(func(r *http.Request) {
						if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pkranges") { // the parent is marked
							b.setBefore(nil)
							if retire() {
								t.Error("a child of a parent that splits was retired")
							}
						}
					})
					split()
				}
				held.Retire(t.Context())
				b.checkCoverage(a)
				if leases := b.leases(a); len(leases) != 2 || leases[heirs[0]].Retiring() {
					t.Errorf("leases %v", leases)
				}
			})
		})
	}
}

// The answer to an acquisition is lost, and a later one of the same process, from a list of before it,
// adopts it in order to retire the lease.
func TestAdoptedAcquisitionIsStillSuperseded(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		listed := b.leases(s)["0"]
		ctx, cancel := context.WithCancel(t.Context())
		b.setAfter(func(r *http.Response) {
			if r.Request.Method == http.MethodPut && ctx.Err() == nil {
				r.StatusCode = http.StatusRequestTimeout
				cancel()
			}
		})
		if _, err := s.Acquire(t.Context(), ctx, listed, nil, false); err == nil {
			t.Fatal("the answer is not lost")
		}
		b.setAfter(nil)
		held, err := s.Acquire(t.Context(), t.Context(), listed, nil, true)
		must(t, err)
		defer b.run(held)()
		superseded, err := held.StillSuperseded(t.Context())
		must(t, err)
		if superseded {
			t.Error("no other lease has replaced it")
		}
	})
}

// A list has the lease that this host holds as it has written it, until another writes it.
func TestListHasOwnLeasesAsWritten(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		held := b.acquire(s, "0")
		stop := b.run(held)
		held.Advance(`"5"`, time.Now())
		must(t, held.Flush(t.Context()))
		own, parsed := b.leases(s)["0"], b.leases(b.prepared("b"))["0"]
		if own != b.leases(s)["0"] {
			t.Error("the document is parsed again")
		}
		for _, l := range []*Lease{own, parsed} {
			if _, err := l.document(l.timestamp); err != nil || l.continuation != `"5"` || l.owner != "a" {
				t.Errorf("lease of %q at %s: %v", l.owner, l.continuation, err)
			}
		}
		if !bytes.Equal(own.Document(), parsed.Document()) {
			t.Errorf("the host has\n%s\nand stored is\n%s", own.Document(), parsed.Document())
		}
		_, err := b.prepared("b").RequestHandover(t.Context(), parsed)
		must(t, err)
		if got := b.leases(s)["0"].properties[handoverProperty]; got != "b" {
			t.Errorf("the list shows a request of %q", got)
		}
		stop()
		must(t, held.Release(t.Context()))
		if n := len(s.store.written); n != 0 {
			t.Errorf("%d leases are kept after the release", n)
		}
	})
}
