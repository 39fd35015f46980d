package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// lockTTL is how long the bootstrap lock of a crashed host is respected, as in
// azure-cosmos-dotnet-v3 (DocumentServiceLeaseStoreCosmos); unlike there it
// also ends where the container has no TTL.
const lockTTL = 30 * time.Second

// lockMargin is how much earlier its holder stops relying on it.
const lockMargin = 3 * time.Second

// bootstrap makes sure that the leases of a function were created once: a
// marker document says so. Every step can be repeated and may be interrupted;
// leases are created create-only, the marker last. Whoever takes longer than
// the lock lasts begins anew, since another host may then be at work: a
// position that was looked up before its marker would skip what came after it.
func (f *function) bootstrap(ctx context.Context) error {
	for {
		written, _, there, err := f.store.stamp(ctx, f.store.markerID())
		if err != nil {
			return fmt.Errorf("bootstrap leases: %w", err)
		}
		if there {
			f.since = written
			return nil
		}
		taken := time.Now()
		lock, err := f.lock(ctx)
		if err != nil {
			return fmt.Errorf("bootstrap leases: %w", err)
		}
		if lock == "" {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		if err := f.createAll(ctx, lock, taken.Add(lockTTL-lockMargin)); err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("bootstrap leases: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// createAll creates leases and marker under the lock, which it then removes.
func (f *function) createAll(ctx context.Context, lock azcore.ETag, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := f.createMissing(ctx, f.StartFrom, nil); err != nil {
		return err
	}
	if _, err := f.store.createStamp(ctx, f.store.markerID(), nil); err != nil {
		return err
	}
	id := f.store.lockID()
	if _, err := f.store.container.Delete(ctx, id, f.store.newKey(id), lock); err != nil {
		f.log.Warn("bootstrap lock is left to expire", zap.Error(err))
	}
	return nil
}

// discard deletes the leases of a function and their marker. The marker goes
// first: what is interrupted here is repeated, or completed by a bootstrap.
func (f *function) discard(ctx context.Context) error {
	id := f.store.markerID()
	_, err := f.store.container.Delete(ctx, id, f.store.newKey(id), "")
	if o := cosmos.Classify(err); o != cosmos.Succeeded && o != cosmos.NotFound {
		return fmt.Errorf("discard leases: %w", err)
	}
	leases, _, err := f.store.list(ctx)
	if err != nil {
		return fmt.Errorf("discard leases: %w", err)
	}
	for _, l := range leases {
		if err := f.store.delete(ctx, l); err != nil && cosmos.Classify(err) != cosmos.NotFound {
			return fmt.Errorf("discard lease %q: %w", l.token, err)
		}
	}
	f.ResetLeases = false
	return nil
}

// lock takes the bootstrap lock and returns its etag, or "" where another host
// has it. One that is older than its TTL is broken, for the next attempt.
func (f *function) lock(ctx context.Context) (azcore.ETag, error) {
	id := f.store.lockID()
	etag, err := f.store.createStamp(ctx, id, map[string]any{"ttl": int(lockTTL / time.Second)})
	if etag != "" || err != nil {
		return etag, err
	}
	written, etag, there, err := f.store.stamp(ctx, id)
	if err != nil || !there || f.store.now().Sub(written) <= lockTTL {
		return "", err
	}
	_, err = f.store.container.Delete(ctx, id, f.store.newKey(id), etag)
	if o := cosmos.Classify(err); o != cosmos.Succeeded && !o.Unsure() && o != cosmos.NotFound {
		return "", fmt.Errorf("break stale lock %q: %w", id, err)
	}
	return "", nil
}

// createMissing creates a lease for each hole in the key space. "Now" is made a
// token here, so that what is written from this moment on is delivered
// whenever the first host gets to the range. Only holes that confirmed allows
// are filled; nil allows all.
func (f *function) createMissing(ctx context.Context, start Start, confirmed func(part) bool) error {
	ranges, err := f.ranges.refresh(ctx)
	if err != nil {
		return err
	}
	leases, bad, err := f.store.list(ctx)
	if err != nil {
		return err
	}
	for _, hole := range holes(ranges, leases, bad, f.store.prefix) {
		if confirmed != nil && !confirmed(hole) {
			continue
		}
		l := hole.newLease(f.store.prefix).inMode(leaseMode(f.ChangeFeedMode))
		// Above every epoch that a lease here had before it was deleted: sinks
		// that fence must go on.
		l.properties[epochProperty] = strconv.FormatInt(f.store.now().Unix(), 10)
		l.continuation, err = f.resolveStart(ctx, start, hole)
		if cosmos.Classify(err) == cosmos.RangeGone {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return f.createMissing(ctx, start, confirmed) // split or merged meanwhile
		}
		if err != nil {
			return fmt.Errorf("resolve start of range %q: %w", l.token, err)
		}
		if _, err := f.store.create(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// resolveStart gives the token that a new lease begins with: "" where only the
// first read can tell, which is the beginning or a time.
func (f *function) resolveStart(ctx context.Context, start Start, p part) (string, error) {
	if start.kind == startToken {
		return start.token, nil
	}
	if start.kind != startNow {
		return "", nil
	}
	page, err := f.Container.ReadFeed(ctx, cosmos.FeedRequest{
		Mode: f.ChangeFeedMode, Range: p.physical, Min: p.span.Min, Max: p.span.Max, Start: cosmos.StartNow, MaxItems: 1,
	})
	if err != nil {
		return "", err
	}
	defer page.Release()
	return page.Continuation, nil
}

// audit finds parts of the key space that have no lease although the leases
// were created once: somebody deleted a document. A hole that two passes in a
// row have seen is filled (one pass may have looked while a split was on its
// way). It is read again from the function's start, or from the bootstrap where
// that was now, since nobody knows what the lost lease had seen: again rather
// than never. All versions cannot be read again: there the hole begins now, and
// the log says that changes are lost.
func (f *function) audit(ctx context.Context) error {
	suspects := map[span]bool{}
	err := f.createMissing(ctx, f.begin(), func(p part) bool {
		suspects[p.span] = true
		if f.suspects[p.span] {
			f.log.Error("range has no lease, somebody deleted it; creating one",
				zap.String("min", p.span.Min), zap.String("max", p.span.Max), zap.Bool("changesLost", f.ChangeFeedMode == cosmos.AllVersions))
		}
		return f.suspects[p.span]
	})
	f.suspects = suspects
	if err != nil {
		return fmt.Errorf("audit leases: %w", err)
	}
	return nil
}

// part is a physical range, or a part of one.
type part struct {
	physical cosmos.Range
	span     span
}

// newLease is a lease for the part.
func (p part) newLease(prefix string) *lease {
	if p.span.equals(spanOf(p.physical)) {
		return newLease(prefix, p.physical.ID, p.span, false)
	}
	return newLease(prefix, p.span.token(), p.span, true)
}

// holes lists what no lease covers. A lease covers its span; one without a
// known span covers the range of its id and whatever descends from it; and a
// document that cannot be read still says in its id what it was put there for.
func holes(ranges []cosmos.Range, leases []*lease, bad []unreadable, prefix string) []part {
	var spans []span
	tokens := map[string]bool{}
	for _, l := range leases {
		if l.tombstone() {
			continue
		}
		if l.span.known() {
			spans = append(spans, l.span)
		} else {
			tokens[l.token] = true
		}
	}
	for _, b := range bad {
		token, _ := strings.CutPrefix(b.id, prefix+"..")
		tokens[token] = true
		if lo, hi, ok := strings.Cut(token, "-"); ok {
			spans = append(spans, span{lo, hi})
		}
	}
	sortSpans(spans)

	var found []part
	for _, r := range ranges {
		if tokens[r.ID] || slices.ContainsFunc(r.Parents, func(p string) bool { return tokens[p] }) {
			continue
		}
		for _, s := range gaps(spanOf(r), spans) {
			found = append(found, part{r, s})
		}
	}
	return found
}

// gaps is what sorted spans leave uncovered of s.
func gaps(s span, spans []span) []span {
	var found []span
	reached := s.Min
	for _, o := range spans {
		if cosmos.CompareKeys(o.Max, reached) <= 0 || cosmos.CompareKeys(o.Min, s.Max) >= 0 {
			continue
		}
		if cosmos.CompareKeys(o.Min, reached) > 0 {
			found = append(found, span{reached, o.Min})
		}
		reached = o.Max
	}
	if cosmos.CompareKeys(reached, s.Max) < 0 {
		found = append(found, span{reached, s.Max})
	}
	return found
}

func sortSpans(spans []span) {
	slices.SortFunc(spans, func(a, b span) int { return cosmos.CompareKeys(a.Min, b.Min) })
}
