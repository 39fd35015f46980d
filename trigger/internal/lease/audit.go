package lease

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// secondAuditDelay is the least time from an audit that saw a gap to the next one.
// Two audits have to see a gap before it is filled: leases that change while they
// are listed may show a gap that never existed.
const secondAuditDelay = 5 * time.Second

// auditor finds parts of the key space that have no lease although the leases
// were created once: their documents were deleted. The goroutine that balances
// the function owns it.
type auditor struct {
	auditInterval time.Duration
	lastAudit     time.Time     // when the last audit began
	gapsSeen      map[Span]bool // gaps that the last audit saw
}

// waitDue reports whether an audit is due. If the last one saw gaps, the next one is
// due after second; waitDue waits for it if second is not longer than secondAuditDelay.
func (a *auditor) waitDue(ctx context.Context, second time.Duration) (bool, error) {
	due := a.lastAudit.Add(a.auditInterval)
	if len(a.gapsSeen) > 0 {
		due = a.lastAudit.Add(second)
		if second <= secondAuditDelay {
			if err := backoff.Sleep(ctx, time.Until(due)); err != nil {
				return false, err
			}
		}
	}
	return !time.Now().Before(due), nil
}

// auditOnce fills the gaps that the audit before it saw, too. The history of the
// deleted lease is unknown, so the range is read again from the start of the
// function, or from since if that start was "now": changes are repeated rather
// than lost. All versions cannot be read again: there the new lease begins now,
// and the log says that changes are lost.
func (a *auditor) auditOnce(ctx context.Context, c *leaseCreator, since time.Time) error {
	a.lastAudit = time.Now()
	seen := map[Span]bool{}
	err := c.fillGaps(ctx, since, func(p Part) bool {
		seen[p.Span] = true
		if a.gapsSeen[p.Span] {
			c.log.Error("no lease covers this range, its document was deleted; creating a lease",
				slog.String("min", p.Span.Min), slog.String("max", p.Span.Max), slog.Bool("changesLost", c.mode == cosmos.ModeAllVersions))
		}
		return a.gapsSeen[p.Span]
	})
	a.gapsSeen = seen
	if err != nil {
		return fmt.Errorf("audit leases: %w", err)
	}
	return nil
}

// coverageGaps returns the parts of the key space that no lease covers. A lease
// covers its span. A lease without a known span covers the range of its id and
// the descendants of that range. An invalid document covers the range that its id
// names.
func coverageGaps(ranges []cosmos.Range, leases []*Lease, invalid []Invalid, prefix string) []Part {
	spans, tokens := coveredSpans(leases, invalid, prefix)
	joined := joinSpans(spans)
	var found []Part
	for _, r := range ranges {
		if tokens[r.ID] || slices.ContainsFunc(r.Parents, func(p string) bool { return tokens[p] }) {
			continue
		}
		first := sort.Search(len(joined), func(i int) bool { return cosmos.CompareKeys(joined[i].Max, r.Min) > 0 })
		for _, s := range spanGaps(spanOf(r), joined[first:]) {
			found = append(found, Part{r, s})
		}
	}
	return found
}

// coveredSpans returns the sorted spans of leases, and the range ids of leases whose
// span is not known.
func coveredSpans(leases []*Lease, invalid []Invalid, prefix string) (spans []Span, tokens map[string]bool) {
	tokens = map[string]bool{}
	for _, l := range leases {
		switch {
		case l.Tombstone():
		case l.span.isKnown():
			spans = append(spans, l.span)
		default:
			tokens[l.token] = true
		}
	}
	for _, i := range invalid {
		token, _ := strings.CutPrefix(i.ID, prefix+"..")
		tokens[token] = true
		if lo, hi, ok := strings.Cut(token, "-"); ok {
			spans = append(spans, Span{lo, hi})
		}
	}
	sortSpans(spans)
	return spans, tokens
}
