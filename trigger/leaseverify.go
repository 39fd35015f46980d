package trigger

import (
	"context"
	"errors"
	"fmt"

	"halley/trigger/internal/lease"
)

// LeaseFinding is something wrong with a set of leases, and the way to mend it.
type LeaseFinding struct {
	Range  string `json:"range"` // lease token or document id, "" if it concerns the set
	Text   string `json:"text"`
	Advice string `json:"advice"`
}

func (f LeaseFinding) String() string {
	if f.Range == "" {
		return f.Text + "; " + f.Advice
	}
	return fmt.Sprintf("range %s: %s; %s", f.Range, f.Text, f.Advice)
}

// Verify looks for all that is wrong with the leases: none at all, parts of the key
// space without a lease or with two, documents that are not leases, duplicates, leases of
// another mode, owners that are silent, and pauses that an owner ignores. A split that is
// under way is not a finding. Hosts repair gaps by themselves within two audits.
func (c *LeaseControl) Verify(ctx context.Context) ([]LeaseFinding, error) {
	set := c.openSet()
	found, err := set.Inspect(ctx)
	if errors.Is(err, lease.ErrForeign) {
		return []LeaseFinding{{"", err.Error(), "choose another lease container prefix"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify leases: %w", err)
	}
	if !found.Created && len(found.Leases) == 0 && len(found.Invalid) == 0 {
		return []LeaseFinding{{"", "there are no leases", "start a host, or run leases init"}}, nil
	}
	findings := []LeaseFinding{}
	add := func(token, advice, format string, args ...any) {
		findings = append(findings, LeaseFinding{token, fmt.Sprintf(format, args...), advice})
	}
	if !found.Created {
		add("", "start a host, which completes the bootstrap", "the marker document is missing, so the next host creates leases for all gaps")
	}
	for _, i := range found.Invalid {
		add(i.ID, "delete the document, or restore it with leases import; hosts ignore it and read its keys from no lease", "not a lease: %v", i.Err)
	}
	for _, gap := range found.Gaps {
		add(gap.Token(), "a running host creates it within two audits; leases import restores it at its old position", "no lease covers the keys from %q to %q", gap.Span.Min, gap.Span.Max)
	}
	for _, l := range found.Duplicates {
		add(l.Token(), "delete the document that hosts ignore, see the log", "a second document of this lease is at epoch %d", l.Epoch())
	}
	for _, pair := range lease.NewIndex(found.Leases).Overlaps() {
		add(pair[0].Token(), "a split that is under way ends by itself; otherwise delete the lease with the smaller epoch", "shares keys with lease %s", pair[1].Token())
	}
	for _, l := range sortedByToken(found.Leases) {
		c.verifyLease(set, l, add)
	}
	return findings, nil
}

// verifyLease adds the findings about one lease.
func (c *LeaseControl) verifyLease(set *lease.Set, l *lease.Lease, add func(token, advice, format string, args ...any)) {
	if want := lease.ModeName(c.function.ChangeFeedMode); l.Mode() != want {
		add(l.Token(), "correct the setting of the mode, or choose another lease container prefix", "it is in mode %q, and the function in mode %q", l.Mode(), want)
	}
	if stall, silent := ownerStall(l, Lag{}, set.Now()); silent {
		add(l.Token(), stall.Advice(), "owner %q: %s", l.Owner(), stall.Describe(set.Now()))
	}
	if l.PauseIgnored() {
		add(l.Token(), "stop the hosts that do not know pauses, or resume the range", "it was paused, but owner %q does not know pauses", l.Owner())
	}
}
