package trigger

import (
	"context"
	"errors"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
)

// rangeCooldown is the time for which this host leaves a failed range to others. It
// doubles with each failure in a row, so that a host that can work on the range
// keeps it for a while. If there are no others, it ends as soon as the feed can be read.
type rangeCooldown struct {
	retryAt    time.Time
	cause      stall.Stall // lasts while no host works on the range
	isTaken    bool        // by another host, as the last list showed
	doublings  int
	isReadable bool // this host could read the feed since
}

const maxDoublings = 2

func (c rangeCooldown) hasEnded() bool { return !time.Now().Before(c.retryAt) }

// coolsDown reports whether this host leaves the range of a lease to others for now.
func (r *functionRunner) coolsDown(l *lease.Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, found := r.coolingRanges[l.Token()]
	return found && !c.hasEnded() && !(c.isReadable && r.isAlone)
}

// While this host is alone, it tries to read the feed of a range that failed here: after
// each probePause, for probeTimeout at most. So it delivers again within their sum, and a
// host that is idle can take the range meanwhile.
const (
	probePause   = 3 * time.Second
	probeTimeout = 5 * time.Second
)

// awaitReadable returns true if this host is alone and may try a range that failed here
// again: once its feed can be read, or when its cooldown has ended, as the next pass may be
// far. It returns false if ctx ends, or another host has leases when the cooldown ends.
func (r *functionRunner) awaitReadable(ctx context.Context, w *rangeWorker) bool {
	token := w.held.Lease().Token()
	for backoff.Sleep(ctx, probePause) == nil {
		cooling, ended := r.cooldownState(token)
		switch {
		case !cooling:
			return false
		case ended:
			return r.isLone()
		case r.isLone() && r.probeFeed(ctx, w) == nil && r.setReadable(token):
			return true
		}
	}
	return false
}

// cooldownState reports whether a range failed here and is not worked on since, and whether
// its cooldown has ended.
func (r *functionRunner) cooldownState(token string) (cooling, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, cooling := r.coolingRanges[token]
	return cooling && r.rangeStats[token] == nil, c.hasEnded()
}

// endCooldown forgets that a range failed here: its feed has been read, and has nothing new.
func (r *functionRunner) endCooldown(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.coolingRanges, token)
}

// isLone reports whether no other host held or requested a lease of the function when
// they were last listed.
func (r *functionRunner) isLone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isAlone
}

// setReadable notes that the feed of a cooling range can be read again.
func (r *functionRunner) setReadable(token string) (cooling bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, cooling := r.coolingRanges[token]
	if cooling {
		c.isReadable = true
		r.coolingRanges[token] = c
	}
	return cooling
}

// probeFeed reads a page of a range at the position that its lease holds, and delivers
// nothing.
func (r *functionRunner) probeFeed(ctx context.Context, w *rangeWorker) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	l, position := w.held.Lease(), w.held.Position()
	part, err := r.leases.Locate(ctx, l)
	if errors.Is(err, lease.ErrSplit) {
		return nil // the next owner creates the children
	}
	if err != nil {
		r.noteAnswer(useFeed, err)
		return err
	}
	budget := r.host.pageBudget
	reserved := budget.Join()
	defer budget.Leave(reserved)
	page, err := r.readReserved(ctx, l, position, feedTarget(part), reserved)
	if cosmos.Classify(err) == cosmos.OutcomeRangeGone {
		return nil // the next owner reads the ranges again
	}
	if err != nil {
		return err
	}
	defer budget.ReleasePage(page, reserved)
	if !page.NotModified && (page.Continuation == position || feed.IsStale(page, position, l.ByKeys())) {
		return errNotReadable
	}
	return nil
}

// hasRanges reports whether this host works on ranges, or some have failed here and may be
// acquired again by one of the next passes.
func (r *functionRunner) hasRanges() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.coolingRanges {
		if time.Since(c.retryAt) < 2*r.host.options.LeaseAcquireInterval {
			return true
		}
	}
	return len(r.rangeStats) > 0
}

// errNotReadable means that the feed answers, and not with what follows a position.
var errNotReadable = errors.New("the feed answers from an older position, or with the same continuation")
