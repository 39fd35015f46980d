package trigger

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/internal/delivery"
	"halley/trigger/redact"
)

// ordersOfEpoch is the number of bits of [DeadLetter.Order] below the epoch of the owner: the
// owners of a key have rising epochs, so that no clock decides the order of its records. An
// epoch begins with a time in Unix seconds, which takes 31 bits.
const ordersOfEpoch = 28

// deadLetterStore is the function's store as the delivery uses it, or nil.
func (w *rangeWorker) deadLetterStore() *delivery.Store {
	store, of := w.function.DeadLetters, w.function.DeadLetterSource()
	if store == nil {
		return nil
	}
	return &delivery.Store{
		Keeps: w.function.keepsDeadLetters(),
		Owns:  w.ownsKey,
		LoadKey: func(ctx context.Context, key string, take func(delivery.StoredChange) bool) error {
			gate := &takeGate{take: take}
			defer gate.close()
			return w.callStore(ctx, func() error { return loadPostponed(ctx, store, of, w.function, key, gate.takeOpen) })
		},
		Delete: func(ctx context.Context, c *delivery.StoredChange) error {
			d := DeadLetter{Version: DeadLetterVersion, Kind: RecordPostponed, ID: c.LetterID, Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Key: c.Key, Document: c.Document, Previous: c.Previous}
			return w.callStore(ctx, func() error { return store.Delete(ctx, d) })
		},
		Put: func(ctx context.Context, c *delivery.Item, l delivery.DeadLetter) error {
			d := w.deadLetter(c, l) // before the call, which may be left behind
			return w.callStore(ctx, func() error { return store.Put(ctx, d) })
		},
		Holds: func(ctx context.Context, key string) (bool, error) {
			answer := new(bool) // of this call alone, which may be left behind
			err := w.callStore(ctx, func() (err error) {
				*answer, err = store.Holds(ctx, of, key)
				return err
			})
			return err == nil && *answer, err
		},
		List: func(ctx context.Context) (*delivery.BlockedKeys, error) {
			list := w.deadLetterLists.listAfter(ctx, w.listsBefore, func() (*delivery.BlockedKeys, error) {
				ctx, progress, end := whileAnswering(ctx)
				defer end()
				var keys *delivery.BlockedKeys // of this call alone, likewise
				err := w.callStore(ctx, func() (err error) {
					keys, err = listBlockedKeys(ctx, store, w.function, progress)
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
			return list.keys, list.err
		},
	}
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

// guardStore turns a panic of the dead letter store into an error: the lane makes the call
// again, as after any other error, and the process continues.
func guardStore(log *zap.Logger, call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New(redact.Text(fmt.Sprintf("dead letter store panicked: %v", v)))
			log.Error("dead letter store panicked", zap.Error(err), zap.ByteString("stack", debug.Stack()))
		}
	}()
	return call()
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
		zap.Duration("running", time.Since(began)), zap.Int64("abandoned", n))
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
	change := w.function.changeOf(&c.Change, 0, w.feedOrigin).Clone()
	of := w.function.DeadLetterSource()
	d := DeadLetter{
		Version: DeadLetterVersion, Kind: RecordDead, ID: w.deadLetterID(c, key),
		Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), LSN: c.LSN, Key: key,
		Operation: change.Operation, Document: change.Document, Previous: change.Previous,
		DocumentID: c.DocumentID(), DocumentKey: change.originOrNone().metadataKey, Written: change.Time,
		Attempts: l.Attempts, Blocked: l.Cause == nil, Time: l.Time, Order: l.Order,
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

// postponed is told of each change that is in the store until it is due.
func (w *rangeWorker) postponed(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.rangeStats.countPostponed(lane)
	w.emitEvent(Event{
		Kind: Postponed, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN, Due: l.Due,
	})
	if l.Cause != nil {
		w.log.Info("change postponed", zap.String("documentId", c.DocumentID()), zap.String("key", w.keyOf(c)), zap.Int64("lsn", c.LSN),
			zap.Time("due", l.Due), zap.Int("attempts", l.Attempts), zap.Error(l.Cause))
	}
}

// deadLettered is told of each change that is durable in the store.
func (w *rangeWorker) deadLettered(lane int, c *delivery.Item, l delivery.DeadLetter) {
	w.rangeStats.countDeadLetter(lane)
	w.emitEvent(Event{
		Kind: DeadLettered, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: 1, Attempt: l.Attempts, LastLSN: c.LSN,
	})
	if l.Cause != nil {
		w.log.Error("change dead-lettered", zap.String("documentId", c.DocumentID()), zap.String("key", w.keyOf(c)), zap.Int64("lsn", c.LSN),
			zap.Int("attempts", l.Attempts), zap.Error(l.Cause), stackField(l.Cause))
	}
}

// stackField is the stack of a panic, for the log.
func stackField(err error) zap.Field {
	var p *PanicError
	if errors.As(err, &p) {
		return zap.ByteString("stack", p.Stack)
	}
	return zap.Skip()
}
