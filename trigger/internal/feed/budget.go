package feed

import (
	"context"
	"sync"
)

// Budget bounds the bytes of pages that were read and are not yet handled, over
// all ranges of a host. A range that has reserved nothing may exceed it with one
// page, so that ranges which fail, and keep their pages, do not stop the others.
type Budget struct {
	limit int64

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed and replaced when bytes are released
}

// Reserved counts the bytes that one range has reserved. The budget's lock
// guards it.
type Reserved struct{ bytes int64 }

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit, freed: make(chan struct{})} }

// Used returns the bytes that are reserved now.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Reserve waits until the page fits or its range has reserved nothing else.
func (b *Budget) Reserve(ctx context.Context, p *Page, by *Reserved) error {
	size := pageSize(p)
	for {
		b.mu.Lock()
		if by.bytes == 0 || b.used+size <= b.limit {
			b.used += size
			by.bytes += size
			b.mu.Unlock()
			return nil
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release returns the bytes of a page to the budget and releases the page.
func (b *Budget) Release(p *Page, by *Reserved) {
	b.Forget(p, by)
	p.Release()
}

// Forget returns the bytes of a page to the budget, and leaves the page to the
// garbage collector: a handler call that was left behind may still read it.
func (b *Budget) Forget(p *Page, by *Reserved) {
	size := pageSize(p)
	b.mu.Lock()
	b.used -= size
	by.bytes -= size
	close(b.freed)
	b.freed = make(chan struct{})
	b.mu.Unlock()
}

func pageSize(p *Page) (size int64) {
	for _, item := range p.Items {
		size += int64(len(item.Document) + len(item.Previous))
	}
	return size
}
