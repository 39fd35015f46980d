package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// Held is a lease that this host has acquired. Its owner calls [Held.Start],
// ends its work once [Held.OnLoss] or [Held.OnReleaseRequest] is called, and
// ends with [Held.Stop] and [Held.Release] or, for a range that has split, with [Held.Split]
// before Stop and [Held.Retire] after it.
type Held struct {
	*leaseWriter
	ranges      *rangeCache
	pollDelay   time.Duration // upper bound of the wait between attempts of a split
	listed      *Index        // all leases before the acquisition, nil if they were not listed or do not matter
	formerWrite time.Time
	replaced    *Lease // the lease as it was before the acquisition, if others had replaced it; else nil

	// Two owners read each other's marks before they act: the owner of a parent sets
	// splitting before it looks for children that exist, and the owner of a lease below
	// a larger one sets retiring before it looks whether the larger one splits. So the
	// first does not count on a child that the second deletes.
	splitting, retiring atomic.Bool
}

// newHeld returns a lease that was acquired with the marks that its document has.
func (s *Set) newHeld(w *leaseWriter, previous *Lease, listed *Index, isReplaced bool) *Held {
	h := &Held{leaseWriter: w, ranges: &s.ranges, pollDelay: s.cfg.PollDelay, formerWrite: previous.Written()}
	if isReplaced {
		h.replaced = previous
	}
	if previous.byKeys { // see SplitBegun
		h.listed = listed
	}
	h.splitting.Store(w.acquiredLease.Splitting())
	h.retiring.Store(w.acquiredLease.Retiring())
	h.marks = func(set func(name, value string)) {
		set(splittingProperty, markText(&h.splitting))
		set(retiringProperty, markText(&h.retiring))
	}
	return h
}

func markText(mark *atomic.Bool) string {
	if mark.Load() {
		return "1"
	}
	return ""
}

// FormerWrite returns when the lease was last written before the acquisition, on the service's
// clock: by its former owner, or by the owner of its parent that created it.
func (h *Held) FormerWrite() time.Time { return h.formerWrite }

// TrustedUntil returns when this host stops relying on owning the lease if no write succeeds
// before. It is not after now if it does not rely on it.
func (h *Held) TrustedUntil() time.Time {
	if trusted, _ := h.writeState.isTrusted(h.trustedFor); !trusted {
		return time.Now()
	}
	_, sent := h.writeState.writeSchedule()
	return sent.Add(h.trustedFor)
}

// Release gives the lease back, see [leaseWriter.Release].
func (h *Held) Release(ctx context.Context) error {
	err := h.leaseWriter.Release(ctx)
	if err == nil {
		h.store.noteRelease(h.lease, time.Now())
	}
	return err
}

// RangeRead ends the mark of a split that an earlier owner had begun: the feed of the
// range could be read, so the range is whole again. The reader calls it for each page.
func (h *Held) RangeRead() { h.splitting.Store(false) }

// StillSuperseded reports whether other leases have replaced the lease, which was
// acquired to be retired, also after the acquisition. If not, it removes the mark of
// [Lease.Retiring] from the document, and the caller works on the range.
func (h *Held) StillSuperseded(ctx context.Context) (bool, error) {
	all, _, err := h.store.listLeases(ctx)
	if err != nil {
		return false, err
	}
	if NewIndex(all).Superseded(h.replaced) {
		return true, nil
	}
	h.retiring.Store(false)
	return false, h.ConfirmOwnership(ctx)
}

// SplitBegun reports whether an earlier owner of a lease by keys began to split
// it, and a merge has hidden that since. The owner must then complete the split:
// nothing else would show it, and the children would be read in parallel to their
// parent for ever. The list of the pass that acquired the lease shows it: the
// lease was free then, and its earlier owner trusted it no more, so it created no
// child after that.
func (h *Held) SplitBegun(ctx context.Context) (bool, error) {
	if !h.acquiredLease.byKeys {
		return false, nil
	}
	listed := h.listed
	if listed == nil {
		all, _, err := h.store.listLeases(ctx)
		if err != nil {
			return false, err
		}
		listed = NewIndex(all)
	}
	inside, _ := listed.leasesInside(h.acquiredLease)
	return len(inside) > 0, nil
}

// Split creates the leases that follow this one, at its stored position. It
// repeats with a backoff until all of them exist or reader ends, and calls report
// with the error of each failed attempt. Creation does not overwrite: a child
// that another owner has created stays. If the host crashes during Split, the next owner
// of the parent continues it. If the range is whole again and no child exists,
// Split fails. reader bounds the reads; held, which ends later, the creation.
func (h *Held) Split(reader, held context.Context, report func(error)) ([]*Lease, error) {
	// Host A pauses for longer than the expiration; host B acquires the lease and
	// moves it on. Without a fresh write, A would create children at its old position.
	h.splitting.Store(true)
	if err := h.ConfirmOwnership(reader); err != nil {
		return nil, err
	}
	for failures := 1; ; failures++ {
		children, err := h.createChildren(reader, held)
		if err == nil {
			return children, nil
		}
		if cause := context.Cause(reader); cause != nil {
			return nil, cause
		}
		if errors.Is(err, ErrLost) {
			return nil, err
		}
		report(err)
		h.log.Warn("split is not complete", slog.Any("error", err), slog.Int("failures", failures))
		if errors.Is(err, errWhole) {
			h.splitting.Store(false)
			return nil, err
		}
		wait := backoff.Wait(failures, backoff.Min, h.pollDelay, h.acquiredLease.owner, h.acquiredLease.token)
		if err := backoff.Sleep(reader, wait); err != nil {
			return nil, err
		}
	}
}

// createChildren makes one attempt and returns all children, also those that
// existed before.
func (h *Held) createChildren(reader, held context.Context) ([]*Lease, error) {
	children, missing, err := h.planChildren(reader)
	if err != nil {
		return nil, err
	}
	for _, c := range missing {
		if err := h.WaitTrusted(held); err != nil {
			return nil, err
		}
		if err := h.store.createLease(held, c); err != nil {
			return nil, err
		}
	}
	return children, nil
}

// planChildren returns the children of the lease, and the leases to create for
// them. If the range is whole again although an earlier owner has created some of
// its children, the only child is one lease over the same keys.
func (h *Held) planChildren(ctx context.Context) (children, missing []*Lease, err error) {
	ranges, err := h.ranges.refresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	parent := h.acquiredLease.clone()
	parent.continuation = h.Position()
	h.fillProperties(parent)
	_, children, err = locate(parent, ranges, h.store.idPrefix)
	if err != nil {
		return nil, nil, err
	}
	if !parent.span.isKnown() && len(children) > 0 {
		parent.span = Span{children[0].span.Min, children[len(children)-1].span.Max}
	}
	all, _, err := h.store.listLeases(ctx)
	if err != nil {
		return nil, nil, err
	}
	index := NewIndex(all)
	if o := index.retiringInside(parent); o != nil {
		return nil, nil, fmt.Errorf("lease %q: its owner decides whether to retire it", o.token)
	}
	inside, highest := index.leasesInside(parent)
	if children == nil {
		if len(inside) == 0 {
			return nil, nil, fmt.Errorf("lease %q: %w", parent.token, errWhole)
		}
		children = []*Lease{newChildOver(parent, parent.span, h.store.idPrefix)}
	}
	missing = missingChildren(parent, children, inside, h.store.idPrefix)
	setEpoch(missing, highest+1)
	return children, missing, nil
}

// Retire removes the lease of a range that has split, once all children exist,
// and returns the continuation of its last version. If that fails, the next owner
// finds the children and retires the lease again. If the account refuses to
// delete documents, the lease stays as a tombstone. If an operator has paused the lease
// meanwhile, its children are paused before. Call it after Stop.
func (h *Held) Retire(ctx context.Context) (continuation string) {
	err := h.retireOnce(ctx)
	for cosmos.Classify(err).Unsure() { // another host requested the lease, an operator paused it, or the answer was lost
		if err = h.rereadLease(ctx); err == nil {
			err = h.retireOnce(ctx)
		}
	}
	if cosmos.Classify(err) == cosmos.OutcomeDenied {
		err = h.writeLease(ctx, nil, func(l *Lease) { l.owner, l.properties[tombstoneProperty] = "", "1" })
	}
	if err != nil && cosmos.Classify(err) != cosmos.OutcomeNotFound && !errors.Is(err, ErrLost) {
		h.log.Warn("could not retire the lease of a split range; its next owner will", slog.Any("error", err))
	}
	return h.lease.continuation
}

func (h *Held) retireOnce(ctx context.Context) error {
	if p, paused := h.lease.Paused(); paused {
		if err := h.store.pauseInside(ctx, h.lease, p); err != nil {
			return err
		}
	}
	return h.store.deleteLease(ctx, h.lease)
}
