package delivery

import (
	"context"
	"sync"
	"time"
)

// inbox passes changes from the dispatcher to a lane. It has no bound of its own:
// the dispatcher stops reading at the limits of the range, and a lane that is busy
// must not hold up the others. mu guards the fields below it.
type inbox struct {
	arrived chan struct{} // capacity 1

	mu     sync.Mutex
	items  []*Item
	closed bool
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// put passes changes on. The slice must have no room behind them.
func (b *inbox) put(items []*Item) {
	b.mu.Lock()
	if len(b.items) == 0 {
		b.items = items
	} else {
		b.items = append(b.items, items...)
	}
	b.mu.Unlock()
	b.notify()
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.notify()
}

func (b *inbox) notify() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// takeAll takes the changes that have arrived.
func (b *inbox) takeAll() (items []*Item, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, nil
	return items, !b.closed
}

// receive is the lane's itemSource.
func (b *inbox) receive(ctx context.Context, over <-chan time.Time) ([]*Item, bool, error) {
	for {
		if items, open := b.takeAll(); len(items) > 0 || !open {
			return items, open, nil
		}
		select {
		case <-b.arrived:
		case <-over:
			if items, open := b.takeAll(); len(items) > 0 || !open {
				return items, open, nil
			}
			return nil, true, errTimeOver
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
	}
}
