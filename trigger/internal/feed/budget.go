package feed

import (
	"context"
	"sync"
)

// Budget bounds the bytes of pages that were read and are not yet handled, over
// all ranges of a host. A range that has reserved nothing may exceed it with one
// page, so that ranges which fail, and keep their pages, do not stop the others.
type Budget struct {
	byteLimit int64

	mu          sync.Mutex
	usedBytes   int64
	freedSignal chan struct{} // closed and replaced when bytes are released
}

// ReservedBytes counts the bytes that one range has reserved. The budget's lock
// guards it.
type ReservedBytes struct{ bytes int64 }

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{byteLimit: limit, freedSignal: make(chan struct{})}
}

// UsedBytes returns the bytes that are reserved now.
func (b *Budget) UsedBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usedBytes
}

// ReservePage waits until the page fits or its range has reserved nothing else.
func (b *Budget) ReservePage(ctx context.Context, p *Page, by *ReservedBytes) error {
	size := pageSize(p)
	for {
		b.mu.Lock()
		if by.bytes == 0 || b.usedBytes+size <= b.byteLimit {
			b.usedBytes += size
			by.bytes += size
			b.mu.Unlock()
			return nil
		}
		freed := b.freedSignal
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ReleasePage returns the bytes of a page to the budget and releases the page.
func (b *Budget) ReleasePage(p *Page, by *ReservedBytes) {
	b.releaseBytes(p, by)
	p.Release()
}

// ForgetPage returns the bytes of a page to the budget, and leaves them to the garbage
// collector: they belong to the handler that was called with them.
func (b *Budget) ForgetPage(p *Page, by *ReservedBytes) {
	b.releaseBytes(p, by)
	p.ReleaseItems()
}

func (b *Budget) releaseBytes(p *Page, by *ReservedBytes) {
	size := pageSize(p)
	b.mu.Lock()
	b.usedBytes -= size
	by.bytes -= size
	close(b.freedSignal)
	b.freedSignal = make(chan struct{})
	b.mu.Unlock()
}

// ChargeBytes counts bytes of changes that outlive their pages, or returns them if
// n is negative. It does not wait.
func (b *Budget) ChargeBytes(n int, by *ReservedBytes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usedBytes += int64(n)
	by.bytes += int64(n)
	if n < 0 {
		close(b.freedSignal)
		b.freedSignal = make(chan struct{})
	}
}

func pageSize(p *Page) (size int64) {
	for _, item := range p.Items {
		size += int64(len(item.Document) + len(item.Previous))
	}
	return size
}
