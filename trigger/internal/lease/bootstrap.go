package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// lockTTL is how long other hosts respect the bootstrap lock of a crashed host,
// as in azure-cosmos-dotnet-v3 (DocumentServiceLeaseStoreCosmos). Unlike there,
// it also ends in a container without a TTL.
const lockTTL = 30 * time.Second

// lockMargin is how much earlier the holder stops relying on the lock.
const lockMargin = 3 * time.Second

// leaseCreator creates and deletes the leases of a function. It has no state of its
// own; the goroutine that balances the function uses it.
type leaseCreator struct {
	store      *leaseStore
	ranges     *rangeCache
	mode       cosmos.Mode
	startToken func(ctx context.Context, p Part, since time.Time) (string, error) // see Config
	log        *slog.Logger
}

// bootstrapLeases ensures that the leases of a function were created once, and returns
// when that was: a marker document says so. Each step can be interrupted and
// repeated: leases are created without overwriting, and the marker comes last. If
// a host takes longer than its lock lasts, it starts again, since another host
// may be at work by then. With a position that is older than the other host's
// marker, changes written after the marker would be skipped or repeated. If known is not
// zero, the leases begin as if they had first been created then, and the marker says so.
func (c *leaseCreator) bootstrapLeases(ctx context.Context, known time.Time) (since time.Time, err error) {
	for {
		written, _, found, err := c.store.readStamp(ctx, c.store.markerID())
		if err != nil {
			return time.Time{}, fmt.Errorf("bootstrap leases: %w", err)
		}
		if found {
			return written, nil
		}
		if err := c.tryBootstrap(ctx, known); err != nil {
			return time.Time{}, err
		}
	}
}

// tryBootstrap makes one attempt; nil means that the marker may exist now. If
// another host has the lock, it waits a second instead.
func (c *leaseCreator) tryBootstrap(ctx context.Context, known time.Time) error {
	taken := time.Now()
	lock, err := c.takeLock(ctx)
	if err != nil {
		return fmt.Errorf("bootstrap leases: %w", err)
	}
	if lock == "" {
		return backoff.Sleep(ctx, time.Second)
	}
	err = c.createAll(ctx, known, lock, taken.Add(lockTTL-lockMargin))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("bootstrap leases: %w", err)
	}
	return nil
}

// createAll creates leases and marker under the lock, and then removes the lock.
func (c *leaseCreator) createAll(ctx context.Context, known time.Time, lock azcore.ETag, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	if err := c.fillGaps(ctx, known, nil); err != nil {
		return err
	}
	marker := stamp{ID: c.store.markerID()}
	if !known.IsZero() {
		marker.Since = known.Unix()
	}
	if _, err := c.store.createStamp(ctx, marker); err != nil {
		return err
	}
	if err := c.store.deleteStamp(ctx, c.store.lockID(), lock); err != nil {
		c.log.Warn("could not remove the bootstrap lock; it will expire", slog.Any("error", err))
	}
	return nil
}

// takeLock takes the bootstrap lock and returns its etag, or "" if another host has
// it. A lock that is older than its TTL is removed for the next attempt.
func (c *leaseCreator) takeLock(ctx context.Context) (azcore.ETag, error) {
	id := c.store.lockID()
	etag, err := c.store.createStamp(ctx, stamp{ID: id, TTL: int(lockTTL / time.Second)})
	if etag != "" || err != nil {
		return etag, err
	}
	written, etag, found, err := c.store.readStamp(ctx, id)
	if err != nil || !found || c.store.serviceNow().Sub(written) <= lockTTL {
		return "", err
	}
	err = c.store.deleteStamp(ctx, id, etag)
	if o := cosmos.Classify(err); o != cosmos.OutcomeSucceeded && !o.Unsure() && o != cosmos.OutcomeNotFound {
		return "", fmt.Errorf("break stale lock %q: %w", id, err)
	}
	return "", nil
}

// fillGaps creates a lease for each part of the key space that has none and that
// confirmed allows; nil allows all. since is zero before the leases were first
// created. The position of a lease that begins now is looked up here, so that
// changes written from this moment on are delivered, however late a host first
// acquires the lease.
func (c *leaseCreator) fillGaps(ctx context.Context, since time.Time, confirmed func(Part) bool) error {
	ranges, err := c.ranges.refresh(ctx)
	if err != nil {
		return err
	}
	leases, invalid, err := c.store.listLeases(ctx)
	if err != nil {
		return err
	}
	gaps := coverageGaps(ranges, leases, invalid, c.store.idPrefix)
	if confirmed != nil {
		gaps = slices.DeleteFunc(gaps, func(p Part) bool { return !confirmed(p) })
	}
	err = c.fillAll(ctx, gaps, since)
	if errors.Is(err, errGapMoved) {
		if err := backoff.Sleep(ctx, time.Second); err != nil {
			return err
		}
		return c.fillGaps(ctx, since, confirmed)
	}
	return err
}

// createParallel is the number of leases that are created at a time: 1,000 leases
// at two requests of 15 ms take 1 s, and the default throughput of a container
// (400 RU/s) is the limit before this is.
const createParallel = 32

// fillAll creates the leases of gaps and returns the first error in their order,
// but errGapMoved only if there is no other. After an error it begins no further one.
func (c *leaseCreator) fillAll(ctx context.Context, gaps []Part, since time.Time) error {
	errs := make([]error, len(gaps))
	var failed atomic.Bool
	var creating sync.WaitGroup
	slots := make(chan struct{}, createParallel)
	for i, gap := range gaps {
		slots <- struct{}{}
		if failed.Load() {
			break
		}
		creating.Go(func() {
			defer func() { <-slots }()
			if errs[i] = c.fillGap(ctx, gap, since); errs[i] != nil {
				failed.Store(true)
			}
		})
	}
	creating.Wait()
	var moved error
	for _, err := range errs {
		if errors.Is(err, errGapMoved) {
			moved = err
		} else if err != nil {
			return err
		}
	}
	return moved
}

// errGapMoved means that the physical range of a gap has split or merged.
var errGapMoved = errors.New("range of a coverage gap split or merged")

// fillGap creates one lease. Its epoch is above every epoch of an earlier lease
// for these keys that was deleted, so that sinks that fence by epoch accept it.
func (c *leaseCreator) fillGap(ctx context.Context, gap Part, since time.Time) error {
	l := newLease(gap, c.store.idPrefix)
	l.setMode(ModeName(c.mode))
	l.properties[epochProperty] = strconv.FormatInt(c.store.serviceNow().Unix(), 10)
	token, err := c.startToken(ctx, gap, since)
	if cosmos.Classify(err) == cosmos.OutcomeRangeGone {
		return errGapMoved
	}
	if err != nil {
		return fmt.Errorf("resolve start of range %q: %w", l.token, err)
	}
	l.continuation = token
	return c.store.createLease(ctx, l)
}

// resetLeases deletes the leases of a function and their marker. The marker goes first:
// an interrupted reset is repeated, or a bootstrap creates the deleted leases again.
func (c *leaseCreator) resetLeases(ctx context.Context) error {
	err := c.store.deleteStamp(ctx, c.store.markerID(), "")
	if o := cosmos.Classify(err); o != cosmos.OutcomeSucceeded && o != cosmos.OutcomeNotFound {
		return fmt.Errorf("reset leases: %w", err)
	}
	leases, _, err := c.store.listLeases(ctx)
	if err != nil {
		return fmt.Errorf("reset leases: %w", err)
	}
	for _, l := range leases {
		if err := c.store.deleteLease(ctx, l); err != nil && cosmos.Classify(err) != cosmos.OutcomeNotFound {
			return fmt.Errorf("reset lease %q: %w", l.token, err)
		}
	}
	return nil
}
