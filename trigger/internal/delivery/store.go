package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
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
	// returns false. Each may take as long as a request.
	LoadKey(ctx context.Context, key string, take func(StoredChange) bool) error
	// Delete removes a postponed change.
	Delete(ctx context.Context, c *StoredChange) error
}

// DeadLetter is the part of a dead letter that delivery decides. Its times are on the service's
// clock.
type DeadLetter struct {
	Attempts int       // calls with the change; 0 if it was never tried
	Cause    error     // of the last call; nil if the change follows a dead letter of its key
	Time     time.Time // when it was given up or postponed
	Order    int64     // place among the records of its key, see orderGap

	IsPostponed bool      // it is not dead: the change is delivered again when it is due
	Due         time.Time // if it is postponed
	Since       time.Time // of the first failure, likewise; zero if it only follows another change
	Postponed   int       // calls that have postponed it; 0 if it only follows another change
}

// StoredChange is a postponed change in the store.
type StoredChange struct {
	feed.Change
	DeadLetter
	LetterID string

	name   string // of one in a list, see feed.Change
	isSeen bool   // of one in a list: this owner's feed has shown it
}

// asListed returns the change as one in a list: with its name, without documents.
func (c StoredChange) asListed() StoredChange {
	c.name, c.ID = c.Name(nil), c.DocumentID() // its letter has the key
	c.Document, c.Previous = nil, nil
	return c
}

// ErrStoreFails is in the problems of a lane that waits for the dead letter store.
var ErrStoreFails = errors.New("dead letter store fails")

// StoreTimeout bounds one request to a dead letter store.
const StoreTimeout = time.Minute

func withStoreTimeout(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	return request(ctx)
}

// askStore makes a request of a lane to the dead letter store, and repeats it until it
// succeeds.
func (s *laneShared) askStore(ctx context.Context, lane int, request func(context.Context) error) error {
	return s.untilStored(ctx, lane, func() error { return withStoreTimeout(ctx, request) })
}

// untilStored repeats a request to the dead letter store until it succeeds.
// While it fails the lane waits, and says why.
func (s *laneShared) untilStored(ctx context.Context, lane int, request func() error) error {
	for failures := 1; ; failures++ {
		if err := s.calls.WaitTrusted(ctx); err != nil {
			return err
		}
		err := request()
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		s.calls.ReportProblem(lane, fmt.Errorf("%w, so the range waits: %w", ErrStoreFails, err))
		if err := backoff.Sleep(ctx, backoff.Wait(failures, s.config.RetryMin, s.config.RetryMax, s.config.JitterKey...)); err != nil {
			return err
		}
	}
}

// giveUp dead-letters changes, in order. A change counts as finished only once it is
// durable in the store; while the store fails, the lane waits and says why.
func (l *lane) giveUp(ctx context.Context, items []*Item, v Verdict, a Action) error {
	if l.deadLetters == nil { // the handler gave the changes up
		l.calls.ReportProblem(l.laneIndex, fmt.Errorf(
			"the handler gave up %d changes and the function has no dead letter store; the range waits: %w", len(items), a.Reason))
		<-ctx.Done() // nothing is dropped unless a setting asks for it
		return context.Cause(ctx)
	}
	if v.Outcome != GivenUp {
		l.retries.saveGroup(items, a.Retry) // the store may fail for longer than this owner lasts
		l.breaker.addGivenUp(len(items))
	}
	for _, c := range items {
		if err := l.keys.put(ctx, c, DeadLetter{Attempts: max(a.Retry.Attempts, a.Retry.Crashes), Cause: a.Reason}); err != nil {
			return err
		}
	}
	return nil
}

// put returns once a change is durable in the store, as a dead letter or until it is due, and
// finishes it. A change that comes from the store keeps its place there.
func (k *laneKeys) put(ctx context.Context, c *Item, letter DeadLetter) error {
	letter.Time, letter.Order = k.calls.ServiceNow().UTC(), k.orderOf(c, letter.IsPostponed)
	if err := k.askStore(ctx, k.laneIndex, func(ctx context.Context) error { return k.deadLetters.Put(ctx, c, letter) }); err != nil {
		return err
	}
	if letter.IsPostponed {
		k.states[k.keyOf(c)].letters.added(c, letter)
		k.calls.Postponed(k.laneIndex, c, letter)
	} else {
		if k.config.BlockKeys {
			k.blockedKeys.addChange(BlockedChange{Key: c.Key, LSN: c.LSN, Written: c.Timestamp, Order: letter.Order})
		}
		k.noteHandled([]*Item{c})
		k.calls.DeadLettered(k.laneIndex, c, letter)
	}
	return k.finish(ctx, []*Item{c})
}

// postpone puts a change that its handler has postponed.
func (k *laneKeys) postpone(ctx context.Context, c *Item, letter DeadLetter) error {
	if c.Key == "" {
		c.Key = feed.PartitionKey(c.Item, k.config.KeyPaths)
	}
	s := k.stateOf(k.keyOf(c))
	if s.letters == nil {
		s.letters = k.newLetters(c.Key)
	}
	s.letters.due = k.localTime(letter.Due)
	k.countPostponed()
	return k.put(ctx, c, letter)
}

// follow puts changes behind the postponed ones of their key. Those that come from the store
// stay there.
func (k *laneKeys) follow(ctx context.Context, items []*Item) error {
	for _, c := range items {
		if c.stored != nil {
			k.leaveStored([]*Item{c})
			continue
		}
		letters := k.states[k.keyOf(c)].letters
		if err := k.put(ctx, c, DeadLetter{IsPostponed: true, Due: k.calls.ServiceNow().Add(time.Until(letters.due)).UTC()}); err != nil {
			return err
		}
	}
	return nil
}

// leaveStored takes changes that come from the store out of memory.
func (k *laneKeys) leaveStored(items []*Item) {
	for _, c := range items {
		k.states[c.orderKey].letters.hasMore = true
		k.chargeBytes(-c.copiedBytes)
	}
}

// finish counts changes as handled, dead-lettered or postponed. Those from the store are
// deleted there.
func (k *laneKeys) finish(ctx context.Context, items []*Item) error {
	for _, c := range items {
		if c.stored == nil {
			continue
		}
		if err := k.deleteLetter(ctx, c.stored); err != nil {
			return err
		}
		k.states[c.orderKey].letters.removed(c.stored)
	}
	k.finishItems(items)
	return nil
}

// deleteLetter returns once the store does not have the letter of a change any more.
func (k *laneKeys) deleteLetter(ctx context.Context, stored *StoredChange) error {
	return k.askStore(ctx, k.laneIndex, func(ctx context.Context) error { return k.deadLetters.Delete(ctx, stored) })
}

// askBlocked asks the store whether a change's key still has a dead letter. If these are all
// gone, the key is delivered again.
func (k *laneKeys) askBlocked(ctx context.Context, c *Item) (admission Admission, err error) {
	holds := false
	err = k.askStore(ctx, k.laneIndex, func(ctx context.Context) (err error) {
		holds, err = k.deadLetters.Holds(ctx, c.Key)
		return err
	})
	switch {
	case err != nil:
		return AdmitAsk, err
	case holds:
		return AdmitBlock, nil
	}
	k.blockedKeys.removeKey(c.Key)
	return AdmitDeliver, nil
}
