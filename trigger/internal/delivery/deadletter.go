package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Store is a function's dead letter store, as the worker of a range uses it. Several lanes
// use it at a time.
type Store interface {
	// Put returns once the dead letter of a change is durable.
	Put(ctx context.Context, c *Item, l DeadLetter) error
	// Holds reports whether some dead letter of the function has the key.
	Holds(ctx context.Context, key string) (bool, error)
	// List returns the keys of the function's dead letters, at least of those that
	// earlier owners of the range have put. Each dead letter may take as long as a
	// request.
	List(ctx context.Context) (*BlockedKeys, error)

	// Keeps reports whether the store keeps dead letters, so that changes can be postponed.
	Keeps() bool
	// Owns reports whether a key belongs to the leased range.
	Owns(key string) bool
	// LoadKey calls take with the postponed changes of a key, in their order, until it
	// returns false.
	LoadKey(ctx context.Context, key string, take func(StoredChange) bool) error
	// Delete removes a postponed change.
	Delete(ctx context.Context, c *StoredChange) error
}

// DeadLetter is the part of a dead letter that delivery decides.
type DeadLetter struct {
	Attempts int       // calls with the change; 0 if it was never tried
	Cause    error     // of the last call; nil if the change follows a dead letter of its key
	Time     time.Time // when it was given up or postponed, on the service's clock
	Order    int64     // place among the records of its key, see orderGap

	IsPostponed bool      // it is not dead: the change is delivered again when it is due
	Due         time.Time // on the service's clock, if it is postponed
	Since       time.Time // of the first failure, likewise; zero if it only follows another change
	Postponed   int       // calls that have postponed it; 0 if it only follows another change
}

// ErrStoreFails is in the problems of a lane that waits for the dead letter store.
var ErrStoreFails = errors.New("dead letter store fails")

// StoreTimeout bounds one request to a dead letter store.
const StoreTimeout = time.Minute

// giveUp gives a group up, in order. A change counts as finished only once it is
// durable in the store; while the store fails, the lane waits and says why.
func (l *lane) giveUp(ctx context.Context, g *group, a Action) error {
	if l.deadLetters == nil { // the handler gave the changes up
		l.calls.ReportProblem(l.laneIndex, fmt.Errorf(
			"the handler gave up %d changes and the function has no dead letter store; the range waits: %w", len(g.items), a.Reason))
		<-ctx.Done() // nothing is dropped unless a setting asks for it
		return context.Cause(ctx)
	}
	for _, c := range g.items {
		if err := l.putItem(ctx, c, max(a.Retry.Attempts, a.Retry.Crashes), a.Reason); err != nil {
			return err
		}
	}
	g.items = nil
	l.keysFinished(g)
	return nil
}

// putItem stores one change and finishes it, however long that takes.
func (l *lane) putItem(ctx context.Context, c *Item, tries int, cause error) error {
	letter := DeadLetter{Attempts: tries, Cause: cause, Time: l.calls.ServiceNow().UTC()}
	if c.stored != nil {
		letter.Order = c.stored.Order // later changes of its key may be in the store
	} else {
		letter.Order = l.nextOrder(c, 1)
	}
	err := l.untilStored(ctx, l.laneIndex, func() error {
		return withStoreTimeout(ctx, func(ctx context.Context) error { return l.deadLetters.Put(ctx, c, letter) })
	})
	if err != nil {
		return err
	}
	if l.config.BlockKeys {
		l.blockedKeys.addChange(BlockedChange{Key: c.Key, LSN: c.LSN, Written: c.Timestamp, Order: letter.Order}, time.Now())
	}
	l.calls.DeadLettered(l.laneIndex, c, letter)
	return l.finishStored(ctx, []*Item{c})
}

// withoutBlocked takes the changes of blocked keys out of a group and puts them
// behind the dead letters of their keys. A key whose dead letters are all gone is
// delivered again.
func (l *lane) withoutBlocked(ctx context.Context, group []*Item) ([]*Item, error) {
	if !l.config.BlockKeys {
		return group, nil
	}
	var free []*Item
	for _, c := range group {
		behind, err := l.isBehind(ctx, c)
		if err != nil {
			return nil, err
		}
		if !behind {
			free = append(free, c)
			continue
		}
		if err := l.putItem(ctx, c, 0, nil); err != nil {
			return nil, err
		}
	}
	return free, nil
}

// isBehind asks the store, if this worker cannot tell, whether a dead letter of
// the change's key is still there.
func (l *lane) isBehind(ctx context.Context, c *Item) (bool, error) {
	maybe, certain := l.blockedKeys.isBehind(c)
	if !maybe || certain {
		return certain, nil
	}
	var holds bool
	err := l.untilStored(ctx, l.laneIndex, func() error {
		return withStoreTimeout(ctx, func(ctx context.Context) (err error) {
			holds, err = l.deadLetters.Holds(ctx, c.Key)
			return err
		})
	})
	if err == nil && !holds {
		l.blockedKeys.removeKey(c.Key)
	}
	return holds, err
}

func withStoreTimeout(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return do(ctx)
}
