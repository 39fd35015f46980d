package leases

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// Finding is something wrong with a set of leases, and the way to mend it.
type Finding struct {
	Range  string `json:"range"` // lease token or document id, "" if it concerns the set
	Text   string `json:"text"`
	Advice string `json:"advice"`
}

func (f Finding) String() string {
	if f.Range == "" {
		return f.Text + "; " + f.Advice
	}
	return fmt.Sprintf("range %s: %s; %s", f.Range, f.Text, f.Advice)
}

// Verify looks for all that is wrong with the leases: none at all, parts of the key
// space without a lease or with two, documents that are not leases, duplicates, leases of
// another mode, owners that are silent, pauses that an owner ignores, and positions after which
// the feed cannot be read. A split that is under way is not a finding. Hosts repair gaps by themselves within two audits.
func (c *Control) Verify(ctx context.Context) ([]Finding, error) {
	set := c.openSet()
	found, err := set.Inspect(ctx)
	if errors.Is(err, lease.ErrForeign) {
		return []Finding{{"", err.Error(), "choose another lease container prefix"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verify leases: %w", err)
	}
	if !found.Created && len(found.Leases) == 0 && len(found.Invalid) == 0 {
		return []Finding{{"", "there are no leases", "start a host, or create them"}}, nil
	}
	findings := []Finding{}
	add := func(token, advice, format string, args ...any) {
		findings = append(findings, Finding{token, fmt.Sprintf(format, args...), advice})
	}
	if !found.Created {
		add("", "start a host, which completes the bootstrap", "the marker document is missing, so the next host creates leases for all gaps")
	}
	for _, i := range found.Invalid {
		add(i.ID, "delete the document, or restore the lease from an export; hosts ignore it and read its keys from no lease", "not a lease: %v", i.Err)
	}
	for _, gap := range found.Gaps {
		add(gap.Token(), "a running host creates it within two audits; an import restores it at its old position", "no lease covers the keys from %q to %q", gap.Span.Min, gap.Span.Max)
	}
	for _, l := range found.Duplicates {
		add(l.Token(), "delete the document that hosts ignore, see the log", "a second document of this lease is at epoch %d", l.Epoch())
	}
	for _, pair := range lease.NewIndex(found.Leases).Overlaps() {
		add(pair[0].Token(), "a split that is under way ends by itself; otherwise delete the lease with the smaller epoch", "shares keys with lease %s", pair[1].Token())
	}
	sorted := sortedByToken(found.Leases)
	positions := c.checkPositions(ctx, set, sorted)
	for i, l := range sorted {
		c.verifyLease(set, l, add)
		if positions[i] != nil {
			add(l.Token(), "seek the range to beginning, now, a time or a position of its feed", "%v", positions[i])
		}
	}
	return findings, context.Cause(ctx)
}

// checkPositions tries to read the feed after the positions of leases, and returns an error for
// each one at which a host could not continue. A feed that throttles all reads, or that none can
// reach, is no damage of a lease.
func (c *Control) checkPositions(ctx context.Context, set *lease.Set, leases []*lease.Lease) []error {
	found, slots := make([]error, len(leases)), make(chan struct{}, applyParallel)
	var working sync.WaitGroup
	for i, l := range leases {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			if err := c.checkPosition(ctx, set, l, l.Continuation()); errors.Is(err, feed.ErrBeyondEnd) || cosmos.Classify(err) == cosmos.OutcomeInvalid {
				found[i] = err
			}
		})
	}
	working.Wait()
	return found
}

// checkPosition returns an error if a host could not continue a range at a position. That of a
// range that has split is not checked.
func (c *Control) checkPosition(ctx context.Context, set *lease.Set, l *lease.Lease, position string) error {
	part, err := set.Locate(ctx, l)
	if errors.Is(err, lease.ErrSplit) || position == "" {
		return nil
	}
	if err != nil {
		return err
	}
	return c.feedSource(Start{}, set.Monitored().ResourceID).CheckPosition(ctx, feedTarget(part), position, l.ByKeys())
}

// verifyLease adds the findings about one lease.
func (c *Control) verifyLease(set *lease.Set, l *lease.Lease, add func(token, advice, format string, args ...any)) {
	if want := lease.ModeName(c.source.ChangeFeedMode); l.Mode() != want {
		add(l.Token(), "correct the setting of the mode, or choose another lease container prefix", "it is in mode %q, and the function in mode %q", l.Mode(), want)
	}
	if silence, expiration, silent := l.Silence(set.Now()); silent {
		text := fmt.Sprintf("lease expires in %s", expiration.Round(time.Second))
		if expiration <= 0 {
			text = fmt.Sprintf("lease expired %s ago, and no host takes it", (-expiration).Round(time.Second))
		}
		add(l.Token(), "check that the owner's process runs; another host takes the range when the lease has expired",
			"owner %q: silent for %s (%s)", l.Owner(), silence.Round(time.Second), text)
	}
	if l.PauseIgnored() {
		add(l.Token(), "stop the hosts that do not know pauses, or resume the range", "it was paused, but owner %q does not know pauses", l.Owner())
	}
}
