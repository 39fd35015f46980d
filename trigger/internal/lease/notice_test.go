package lease

import (
	"testing"
	"time"
)

// Host A stops and tells B, whose next write of a lease finds the notice and removes it. The lease of
// a dead owner does not live longer for a notice.
func TestNoticeReachesOwner(t *testing.T) {
	withTestbed(t, 4, func(t *testing.T, b *testbed) {
		s, other, dead := b.prepared("a"), b.prepared("b"), b.prepared("c")
		b.acquire(dead, "2")
		time.Sleep(40 * time.Second)
		heldByDead := b.leases(s)["2"]
		held := b.acquire(other, "1")
		told := 0
		held.OnReleased = func() { told++ }
		stop := b.run(held)
		for _, token := range []string{"0", "3"} {
			released := b.acquire(s, token)
			b.run(released)()
			must(t, released.Release(t.Context()))
		}
		s.TellReleased(t.Context())
		s.TellReleased(t.Context()) // again, before B has noticed
		for token, want := range map[string]string{"1": "a", "2": "a", "0": "", "3": ""} {
			if got := b.leases(s)[token].properties[releasedProperty]; got != want {
				t.Errorf("lease %s: notice %q, want %q", token, got, want)
			}
		}
		held.WriteSoon()
		time.Sleep(time.Second)
		stop()
		if l := b.leases(s)["1"]; told != 1 || l.properties[releasedProperty] != "" || l.owner != "b" {
			t.Errorf("told %d times, notice %q, owner %q", told, l.properties[releasedProperty], l.owner)
		}
		if l := b.leases(s)["2"]; !l.Written().Equal(heldByDead.Written()) {
			t.Errorf("the lease of a dead owner was written at %v, and is said to be at %v", heldByDead.Written(), l.Written())
		}
		time.Sleep(time.Until(heldByDead.Written().Add(62 * time.Second)))
		must(t, b.acquire(s, "2").Err())
	})
}

// A host tells only of leases that it has released and that other hosts may acquire: of none that an
// operator has paused, that is free for another reason, or that is released to its requester.
func TestNoticeOnlyOfOwnReleases(t *testing.T) {
	withTestbed(t, 3, func(t *testing.T, b *testbed) {
		s, other := b.prepared("a"), b.prepared("b")
		release := func(token string, change func()) {
			held := b.acquire(s, token)
			stop := b.run(held)
			change()
			held.WriteSoon()
			time.Sleep(time.Second)
			stop()
			must(t, held.Release(t.Context()))
		}
		b.acquire(other, "1")
		s.TellReleased(t.Context()) // of lease 0 and 2, which have never been acquired
		release("0", func() {
			_, err := other.RequestHandover(t.Context(), b.leases(s)["0"])
			must(t, err)
		})
		s.TellReleased(t.Context())
		release("2", func() { must(t, s.Pause(t.Context(), b.leases(s)["2"], "test")) })
		s.TellReleased(t.Context())
		if got := b.leases(s)["1"].properties[releasedProperty]; got != "" {
			t.Errorf("notice %q", got)
		}
		must(t, s.Resume(t.Context(), b.leases(s)["2"]))
		release("2", func() {})
		b.acquire(other, "0")
		s.TellReleased(t.Context())
		if a, b := b.leases(s)["0"].properties[releasedProperty], b.leases(s)["1"].properties[releasedProperty]; a != "a" || b != "a" {
			t.Errorf("notices %q and %q", a, b)
		}
	})
}
