package lease

import (
	"strconv"
	"testing"
	"time"
)

func TestHandoverRequestIsPendingUntilItTimesOut(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	requested := func(owner string, written, since time.Duration) *Lease {
		return &Lease{owner: owner, written: now.Add(-written), properties: map[string]string{
			handoverProperty: "b", handoverSinceProperty: strconv.FormatInt(now.Add(-since).Unix(), 10),
		}}
	}
	tests := []struct {
		name     string
		lease    *Lease
		by       string
		timedOut bool
	}{
		{"just requested", requested("a", time.Second, 2*time.Second), "b", false},
		{"the owner does not answer", requested("a", time.Second, 90*time.Second), "b", true},
		{"too old", requested("a", time.Second, 3*time.Minute), "", false},
		{"released for the requester", requested("", 10*time.Second, 20*time.Second), "b", false},
		{"the requester does not come", requested("", 31*time.Second, 40*time.Second), "", false},
		{"the owner is dead", requested("a", 70*time.Second, 75*time.Second), "", false},
	}
	for _, test := range tests {
		if by, timedOut := handoverRequest(test.lease, now, time.Minute); by != test.by || timedOut != test.timedOut {
			t.Errorf("%s: requested by %q, timed out %v", test.name, by, timedOut)
		}
	}
}
