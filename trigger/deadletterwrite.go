package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"halley/trigger/internal/delivery"
	"halley/trigger/redact"
)

// ordersOfEpoch is the number of bits of [DeadLetter.Order] below the epoch of the owner: the
// owners of a key have rising epochs, so that no clock decides the order of its records. An
// epoch begins with a time in Unix seconds, which takes 31 bits.
const ordersOfEpoch = 28

// newDeliveryStore returns the dead letter store of a worker's function, or nil.
func newDeliveryStore(w *rangeWorker) delivery.Store {
	if w.function.DeadLetters == nil {
		return nil // the interface itself: a deliveryStore would count as a store
	}
	return &deliveryStore{worker: w, store: w.function.DeadLetters, source: w.function.DeadLetterSource()}
}

// deliveryStore is the dead letter store of a function, as the delivery of one range uses it.
type deliveryStore struct {
	worker *rangeWorker
	store  DeadLetters
	source DeadLetterSource
}

// Keeps reports whether changes can be postponed.
func (s *deliveryStore) Keeps() bool { return s.worker.function.keepsDeadLetters() }

// Owns reports whether a key belongs to the range.
func (s *deliveryStore) Owns(key string) bool { return s.worker.ownsKey(key) }

// LoadKey calls take with the postponed changes of a key, in their order, until it returns
// false.
func (s *deliveryStore) LoadKey(ctx context.Context, key string, take func(delivery.StoredChange) bool) error {
	ctx, progress, end := whileAnswering(ctx)
	defer end()
	gate := &takeGate{take: func(c delivery.StoredChange) bool {
		progress()
		return take(c)
	}}
	defer gate.close()
	return s.worker.callStore(ctx, func() error {
		return loadPostponed(ctx, s.store, s.source, s.worker.function, key, gate.takeOpen)
	})
}

// Delete removes a postponed change.
func (s *deliveryStore) Delete(ctx context.Context, c *delivery.StoredChange) error {
	d := DeadLetter{
		Version: DeadLetterVersion, Kind: RecordPostponed, ID: c.LetterID, Function: s.source.Function, Account: s.source.Account, Database: s.source.Database, Container: s.source.Container,
		Key: c.Key, Document: c.Document, Previous: c.Previous,
	}
	return s.worker.callStore(ctx, func() error { return s.store.Delete(ctx, d) })
}

// Put returns once the dead letter of a change is durable.
func (s *deliveryStore) Put(ctx context.Context, c *delivery.Item, l delivery.DeadLetter) error {
	d := s.worker.deadLetter(c, l) // before the call, which may be left behind
	return s.worker.callStore(ctx, func() error { return s.store.Put(ctx, d) })
}

// Holds reports whether some dead letter of the function has the key.
func (s *deliveryStore) Holds(ctx context.Context, key string) (bool, error) {
	answer := new(bool) // of this call alone, which may be left behind
	err := s.worker.callStore(ctx, func() (err error) {
		*answer, err = s.store.Holds(ctx, s.source, key)
		return err
	})
	return err == nil && *answer, err
}

// List returns the keys of the function's dead letters. Workers that ask at one time share
// a list.
func (s *deliveryStore) List(ctx context.Context) (*delivery.BlockedKeys, error) {
	w := s.worker
	list := w.deadLetterLists.listAfter(ctx, w.listsBefore, func() (*delivery.BlockedKeys, error) {
		ctx, progress, end := whileAnswering(ctx)
		defer end()
		var keys *delivery.BlockedKeys // of this call alone, as in Holds
		err := w.callStore(ctx, func() (err error) {
			keys, err = listBlockedKeys(ctx, s.store, w.function, progress)
			return err
		})
		if err != nil {
			return nil, err
		}
		return keys, nil
	})
	if list.err != nil {
		w.listsBefore = list.number // repeat it
	}
	return list.content, list.err
}

const (
	// storeGrace is the time that a call of a store has to return when its context has ended.
	storeGrace = time.Second
	// maxStuckStoreCalls is the number of calls of a function's store that may be left behind
	// at a time. Each keeps a goroutine until it returns. Beyond it no call begins.
	maxStuckStoreCalls = 8
)

// errStoreStuck is the error of a call that does not begin.
var errStoreStuck = fmt.Errorf("%d calls have ignored the end of their context and not returned; no other is made until one does", maxStuckStoreCalls)

// errStoreGoexit is the error of a call that has ended its goroutine.
var errStoreGoexit = errors.New("dead letter store called runtime.Goexit")

// guardStore returns the error of a call of the dead letter store without secrets. It turns
// a panic into an error: the lane makes the call again, as after any other error, and the
// process continues.
func guardStore(log *slog.Logger, call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(redact.Text(fmt.Sprintf("dead letter store panicked: %v", v)))
			log.Error("dead letter store panicked", slog.Any("error", err), slog.String("stack", cleanStack()))
		}
	}()
	return redact.Error(call())
}

// callStore calls the dead letter store. A call that it leaves behind may still write its
// answer, so that nothing reads it after an error. ctx ends after delivery.StoreTimeout, or at a stop.
// A call that ignores that is left behind, so that it stops neither its lane nor the host. It
// may still put its dead letter: the lane, or the next owner, puts it again under the same
// ID. If that one was delivered or replayed and has left the store before, the letter
// remains, see [DeadLetters].
func (w *rangeWorker) callStore(ctx context.Context, call func() error) error {
	stuck := &w.deadLetterLists.stuckCalls
	if stuck.Load() >= maxStuckStoreCalls {
		return errStoreStuck
	}
	began, returned := time.Now(), make(chan struct{})
	callErr := errStoreGoexit
	go func() { // ends with the call
		defer close(returned) // also if the store ends the goroutine
		callErr = guardStore(w.log, call)
	}()
	select {
	case <-returned:
		return callErr
	case <-ctx.Done():
	}
	late := time.NewTimer(storeGrace)
	defer late.Stop()
	select {
	case <-returned:
		return callErr
	case <-w.stop.abandon.Done():
	case <-late.C:
	}
	n := stuck.Add(1)
	go func() { // ends with the call, which nothing can end
		<-returned
		stuck.Add(-1)
	}()
	w.log.Error("dead letter store ignores the end of its context; its call is left behind",
		slog.Duration("running", time.Since(began)), slog.Int64("abandoned", n))
	return fmt.Errorf("no answer for %s, and the call ignores the end of its context: %w", time.Since(began).Round(time.Second), context.Cause(ctx))
}

// takeGate passes changes on until it is closed: a call that was left behind must not touch
// its lane. mu guards isClosed, and is held during take, which only takes the change in.
type takeGate struct {
	take func(delivery.StoredChange) bool

	mu       sync.Mutex
	isClosed bool
}

func (g *takeGate) takeOpen(c delivery.StoredChange) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.isClosed && g.take(c)
}

func (g *takeGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isClosed = true
}

// deadLetter makes the dead letter of a change.
func (w *rangeWorker) deadLetter(c *delivery.Item, l delivery.DeadLetter) DeadLetter {
	key := w.keyOf(c)
	change := w.function.changeOf(&c.Change, 0, w.feedOrigin.Load()).Clone()
	source := w.function.DeadLetterSource()
	d := DeadLetter{
		Version: DeadLetterVersion, Kind: RecordDead, ID: w.deadLetterID(c, key),
		Function: source.Function, Account: source.Account, Database: source.Database, Container: source.Container, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), LSN: c.LSN, Key: key,
		Operation: change.Operation, Document: change.Document, Previous: change.Previous,
		DocumentID: c.DocumentID(), DocumentKey: change.originOrNone().metadataKey, Written: change.Time,
		Attempts: l.Attempts, Blocked: l.Cause == nil, Time: l.Time, Order: l.Order, Generation: change.Generation(),
	}
	if l.IsPostponed {
		d.Kind, d.ID = RecordPostponed, postponedID(d.ID, l.Postponed)
		d.Due, d.Since, d.Postponed = l.Due.UTC(), l.Since.UTC(), l.Postponed
	}
	if l.Cause != nil {
		d.Error = l.Cause.Error()
	}
	var p *PanicError
	if errors.As(l.Cause, &p) {
		d.Stack = string(p.Stack)
	}
	return d
}

func (w *rangeWorker) deadLetterID(c *delivery.Item, key string) string {
	var images [][]byte
	if c.Operation != "" {
		images = [][]byte{c.Previous, c.Document}
	}
	return deadLetterID(w.function.Name, w.leases.IDPrefix(), key, c.DocumentID(), c.LSN, c.Timestamp, images...)
}

// Postponed is told of each change that is in the store until it is due.
func (w *rangeWorker) Postponed(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.storePut.Store(time.Now().UnixNano())
	w.rangeStats.countPostponed(lane)
	w.emitEvent(Event{
		Kind: EventPostponed, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN, Due: l.Due,
	})
	if l.Cause != nil {
		w.log.Info("change postponed", slog.String("documentId", c.DocumentID()), slog.String("key", w.keyOf(c)), slog.Int64("lsn", c.LSN),
			slog.Time("due", l.Due), slog.Int("attempts", l.Attempts), slog.Any("error", l.Cause))
	}
}

// DeadLettered is told of each change that is durable in the store.
func (w *rangeWorker) DeadLettered(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.storePut.Store(time.Now().UnixNano())
	w.rangeStats.countDeadLetter(lane)
	w.emitEvent(Event{
		Kind: EventDeadLettered, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN,
	})
	if l.Cause != nil {
		w.log.Error("change dead-lettered", slog.String("documentId", c.DocumentID()), slog.String("key", w.keyOf(c)), slog.Int64("lsn", c.LSN),
			slog.Int("attempts", l.Attempts), slog.Any("error", l.Cause), stackField(l.Cause))
	}
}

// stackField is the stack of a panic, for the log.
func stackField(err error) slog.Attr {
	var p *PanicError
	if errors.As(err, &p) {
		return slog.String("stack", string(p.Stack))
	}
	return slog.Attr{}
}
