package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/trigger/internal/backoff"

	"go.uber.org/zap"
)

// bury dead-letters changes that are given up, in order. A change counts as
// handled only once its letter is durable: while the store fails, the range
// waits and says why.
func (l *lane) bury(ctx context.Context, changes []*pending, tries int, cause error) error {
	w := l.worker
	if w.f.DeadLetters == nil { // Skip without a store
		return l.waitForStore(ctx, changes, cause)
	}
	for _, c := range changes {
		d := w.deadLetter(c, tries, cause)
		if err := l.put(ctx, d); err != nil {
			return err
		}
		w.finish([]*pending{c})
		l.failures = 0
		w.log.Error("change dead-lettered", zap.String("letter", d.ID), zap.Int64("lsn", d.LSN), zap.Int("attempts", tries), zap.Error(cause))
	}
	return nil
}

// waitForStore stops a range whose handler gives changes up when there is
// nowhere to keep them. Nothing is dropped unless a setting asks for it.
func (l *lane) waitForStore(ctx context.Context, changes []*pending, cause error) error {
	err := fmt.Errorf("the handler gave up %d changes and the function has no dead letter store; the range waits: %w", len(changes), cause)
	l.worker.tally.trouble(l.index, err)
	l.worker.log.Error("range waits", zap.Error(err))
	<-ctx.Done()
	return context.Cause(ctx)
}

// deadLetter is the letter of a change.
func (w *worker) deadLetter(c *pending, tries int, cause error) DeadLetter {
	key := c.key
	if key == "" {
		key = keyOf(c.item, w.f.store.monitoredKey)
	}
	var buffer []byte
	change := w.f.change(c, &buffer)
	var images [][]byte
	if c.item.Operation != "" {
		images = [][]byte{c.item.Previous, c.item.Document}
	}
	d := DeadLetter{
		ID:       deadLetterID(w.f.Name, w.f.store.prefix, key, idOf(c.item), c.item.LSN, c.item.Timestamp, images...),
		Function: w.f.Name, Range: w.lease.token, Epoch: w.keeper.id.epoch, LSN: c.item.LSN, Key: key,
		Operation: change.Operation, Document: change.Document, Previous: change.Previous,
		DocumentID: idOf(c.item), DocumentKey: change.Key, Written: change.Time,
		Attempts: tries, Blocked: cause == nil, Time: w.parked.after(key, w.f.store.now().UTC()),
	}
	if cause != nil {
		d.Error = cause.Error()
	}
	var p *PanicError
	if errors.As(cause, &p) {
		d.Stack = string(p.Stack)
	}
	return d
}

// storeTimeout is what one request to a dead letter store may take.
const storeTimeout = time.Minute

func limited(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return do(ctx)
}

// put stores a letter, however long it takes.
func (l *lane) put(ctx context.Context, d DeadLetter) error {
	w := l.worker
	err := w.untilStored(ctx, l.index, func() error {
		return limited(ctx, func(ctx context.Context) error { return w.f.DeadLetters.Put(ctx, d) })
	})
	if err != nil {
		return err
	}
	w.park(d)
	w.tally.buried(l.index)
	w.f.event(Event{Kind: DeadLettered, Range: d.Range, Epoch: d.Epoch, Changes: 1, Attempt: d.Attempts, LastLSN: d.LSN})
	return nil
}

// untilStored repeats a request to the dead letter store until it succeeds.
// While it fails the range waits, and says why.
func (w *worker) untilStored(ctx context.Context, where int, request func() error) error {
	for failures := 1; ; failures++ {
		if err := w.keeper.await(ctx); err != nil {
			return err
		}
		err := request()
		if err == nil {
			return nil
		}
		w.tally.trouble(where, fmt.Errorf("dead letter store fails, so the range waits: %w", err))
		w.log.Error("dead letter store fails; the range waits", zap.Error(err), zap.Int("failures", failures))
		if err := backoff.Sleep(ctx, backoff.Wait(failures, w.f.RetryMin, w.f.RetryMax, w.keeper.id.owner, w.lease.token)); err != nil {
			return err
		}
	}
}

// parked are the keys of a function on this worker that have a dead letter, so
// that their later changes go behind it, untried, until a replay has emptied
// the store of them.
type parked struct {
	mu      sync.Mutex
	keys    map[string]parkedKey
	damaged bool // some letter could not be read: any key may have one
}

// parkedKey is where in the feed the first letter's change of a key was, and
// when the last letter was put. The time of a change tells one that comes again,
// from before the first, from a later one of a range whose LSNs a merge has set back.
type parkedKey struct {
	lsn     int64
	written int64 // seconds since 1970
	last    time.Time
	put     time.Time // when this worker put the last, on its own clock; zero: it has put none
}

// behind reports whether a change may have its place behind a letter of its key,
// and whether it has it for sure: a store that lags may not show yet what was
// put a moment ago.
func (p *parked) behind(c *pending) (maybe, sure bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key, there := p.keys[c.key]
	if !there {
		return p.damaged, false
	}
	maybe = c.item.LSN >= key.lsn || c.item.Timestamp > key.written
	return maybe, maybe && time.Since(key.put) < storeLag
}

// storeLag is how long a store may take to show a letter to everyone who asks.
const storeLag = 10 * time.Second

// after is a time for the next letter of a key: now, unless the owner who put
// the last was ahead of this one's clock.
func (p *parked) after(key string, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.keys[key].last; !now.After(last) {
		return last.Add(1)
	}
	return now
}

// add notes a letter, and when it was put, if by this worker.
func (p *parked) add(d DeadLetter, put time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = map[string]parkedKey{}
	}
	key, there := p.keys[d.Key]
	if written := d.Written.Unix(); !there || d.LSN < key.lsn && written <= key.written {
		key.lsn, key.written = d.LSN, written
	}
	if d.Time.After(key.last) {
		key.last = d.Time
	}
	if put.After(key.put) {
		key.put = put
	}
	p.keys[d.Key] = key
}

func (p *parked) remove(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.keys, key)
}

// park notes that the key of a letter has one now.
func (w *worker) park(d DeadLetter) {
	if w.f.BlockKeys {
		w.parked.add(d, time.Now())
	}
}

// loadParked finds the keys that earlier owners parked.
func (w *worker) loadParked(ctx context.Context) error {
	if !w.f.BlockKeys || w.f.DeadLetters == nil {
		return nil
	}
	return w.untilStored(ctx, outside, func() error { return w.listParked(ctx) })
}

// errSilentStore ends a list that stands still.
var errSilentStore = fmt.Errorf("no answer for %s", storeTimeout)

// listParked goes through the letters once; each may take as long as a request.
func (w *worker) listParked(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(storeTimeout, func() { cancel(errSilentStore) })
	defer silent.Stop()
	for d, err := range w.f.DeadLetters.List(ctx, w.f.Name) {
		silent.Reset(storeTimeout)
		switch {
		case errors.Is(err, ErrDamaged):
			w.log.Error("dead letter cannot be read; the store is asked about every key", zap.Error(err))
			w.parked.suspectAll()
		case err != nil:
			return fmt.Errorf("load parked keys: %w", err)
		default:
			w.parked.add(d, time.Time{})
		}
	}
	return nil
}

func (p *parked) suspectAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.damaged = true
}

// divert takes the changes of parked keys out of a group and puts them behind
// the dead letters of their keys. A key whose letters are all gone is delivered
// again.
func (l *lane) divert(ctx context.Context, group []*pending) ([]*pending, error) {
	w := l.worker
	if !w.f.BlockKeys {
		return group, nil
	}
	var rest []*pending
	for _, c := range group {
		behind, err := l.behind(ctx, c)
		if err != nil {
			return nil, err
		}
		if !behind {
			rest = append(rest, c)
			continue
		}
		if err := l.put(ctx, w.deadLetter(c, 0, nil)); err != nil {
			return nil, err
		}
		w.finish([]*pending{c})
	}
	return rest, nil
}

// behind asks the store, where it must, whether a letter of the change's key is
// still there.
func (l *lane) behind(ctx context.Context, c *pending) (bool, error) {
	w := l.worker
	maybe, sure := w.parked.behind(c)
	if !maybe || sure {
		return sure, nil
	}
	var holds bool
	err := w.untilStored(ctx, l.index, func() error {
		return limited(ctx, func(ctx context.Context) (err error) {
			holds, err = w.f.DeadLetters.Holds(ctx, w.f.Name, c.key)
			return err
		})
	})
	if err == nil && !holds {
		w.parked.remove(c.key)
	}
	return holds, err
}

// breaker keeps a range from emptying itself into the dead letter store when
// it is the sink that is broken and not the changes: it opens after a number of
// changes given up with no success between, and each further one costs a pause.
type breaker struct {
	limit int

	mu     sync.Mutex
	inARow int
}

func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.limit > 0 && b.inARow >= b.limit
}

func (b *breaker) gaveUp(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inARow += n
}

func (b *breaker) closed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inARow = 0
}
