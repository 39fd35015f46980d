package lease

import (
	"strconv"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestHandoverRequestIsPendingUntilItTimesOut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	requested := func(owner string, written, since time.Duration, extra ...string) *Lease {
		l := &Lease{owner: owner, written: now.Add(-written), properties: map[string]string{
			handoverProperty: "b", handoverSinceProperty: strconv.FormatInt(now.Add(-since).Unix(), 10),
			incarnationProperty: "a/1", protocolProperty: "2",
		}}
		for i := 0; i < len(extra); i += 2 {
			l.properties[extra[i]] = extra[i+1]
		}
		return l
	}
	busy := func(end time.Duration, requester string) []string {
		return []string{busyProperty, strconv.FormatInt(now.Add(end).Unix(), 10) + " " + requester}
	}
	tests := []struct {
		name  string
		lease *Lease
		by    string
	}{
		{"just requested", requested("a", time.Second, 2*time.Second), "b"},
		{"the owner renews without an answer", requested("a", time.Second, 90*time.Second), ""},
		{"the owner is busy", requested("a", time.Second, 10*time.Minute, busy(5*time.Minute, "b")...), "b"},
		{"busy for another requester", requested("a", time.Second, 10*time.Minute, busy(5*time.Minute, "c")...), ""},
		{"the owner passed its latest end", requested("a", time.Second, 10*time.Minute, busy(-61*time.Second, "b")...), ""},
		{"released for the requester", requested("", 10*time.Second, 20*time.Second), "b"},
		{"the requester does not come", requested("", 31*time.Second, 40*time.Second), ""},
		{"the owner is dead", requested("a", 70*time.Second, 75*time.Second), ""},
		{"the busy owner is dead", requested("a", 70*time.Second, 75*time.Second, busy(5*time.Minute, "b")...), ""},
		{"a .NET host took the lease", requested("n", time.Second, 2*time.Second), ""},
		{"the owner has no protocol", requested("a", time.Second, 2*time.Second, protocolProperty, ""), ""},
	}
	for _, test := range tests {
		if requester := handoverRequest(test.lease, now, time.Minute); requester != test.by {
			t.Errorf("%s: requested by %q, want %q", test.name, requester, test.by)
		}
	}
}

func TestOwnerWithoutProtocolIsTreatedAsDotNet(t *testing.T) {
	now := time.Now()
	l := &Lease{token: "0", owner: "a", written: now, properties: map[string]string{incarnationProperty: "a/1"}}
	for version, want := range map[string]bool{"": false, "0": false, "x": false, "2": true, "3": true} {
		l.properties[protocolProperty] = version
		if v := viewOf(l, now, time.Minute, time.Second); v.Halley != want {
			t.Errorf("protocol %q: Halley %v", version, v.Halley)
		}
	}
}

// Host B requests the lease as it was listed, and the document has been written since.
func TestRequestFollowsWritesOfOwner(t *testing.T) {
	tests := []struct {
		name      string
		write     func(next *Lease)
		requester string
	}{
		{"the owner's checkpoint", func(next *Lease) { next.continuation = `"5"` }, "b"},
		{"another host's request", func(next *Lease) { next.properties[handoverProperty] = "c" }, "c"},
		{"a pause", func(next *Lease) { next.setPause(Pause{Reason: "test", Since: time.Now()}) }, ""},
		{"the release", func(next *Lease) { next.owner = "" }, ""},
	}
	for _, test := range tests {
		withTestbed(t, 1, func(t *testing.T, b *testbed) {
			s, other := b.prepared("a"), b.prepared("b")
			b.acquire(s, "0")
			listed := b.leases(s)["0"]
			next := listed.clone()
			test.write(next)
			must(t, s.store.replaceLease(t.Context(), next))
			_, err := other.RequestHandover(t.Context(), listed)
			stored := b.leases(s)["0"]
			if requester := stored.properties[handoverProperty]; requester != test.requester || stored.continuation != next.continuation {
				t.Errorf("after %s: requested by %q at %s, error %v", test.name, requester, stored.continuation, err)
			}
			if test.requester != "b" && cosmos.Classify(err) != cosmos.OutcomeConflict {
				t.Errorf("after %s: error %v", test.name, err)
			}
		})
	}
}
