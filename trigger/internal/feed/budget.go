package feed

import (
	"cmp"
	"context"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
)

// Budget bounds the bytes of pages in memory, over all ranges of a host: of those that
// are being read, and of those whose changes are not all finished. Bytes are reserved
// before they are read. If little is left, ranges read fewer changes at a time. A range
// without a page may always read one transaction, even above the limit, so that ranges
// which are slow or fail, and keep their pages, do not stop the others.
type Budget struct {
	byteLimit int64

	mu          sync.Mutex // guards the fields below, and those of all ReservedBytes
	usedBytes   int64
	ranges      int           // that have joined
	itemBytes   int64         // of one change of the newest page, 0 before the first
	waiting     bool          // for freedSignal
	freedSignal chan struct{} // closed and replaced when bytes are released
	kept        []*keptPage   // oldest first
	keptBytes   int64         // of kept, on top of usedBytes
}

// ReservedBytes is what one range has reserved. The budget's lock guards it.
type ReservedBytes struct {
	turn      time.Duration // among ranges that wait for one release
	bytes     int64
	pages     int   // that are being read, or are not released
	itemBytes int64 // of one change of the newest page, 0 before the first
	isIdle    bool  // the last read found nothing new

	sharesFrom time.Time // pages that other functions have read before are not for it

	onLeave func() // called with the lock held; nil if there is nothing to do
}

// changeBytes is the size of a change next to the bytes of its document: its state
// during the delivery, and its place in a batch.
const changeBytes = 400

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget {
	return &Budget{byteLimit: limit, freedSignal: make(chan struct{})}
}

// UsedBytes returns the bytes that are reserved now, and those of kept pages.
func (b *Budget) UsedBytes() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usedBytes + b.keptBytes
}

// turnSpread bounds the time by which ranges that wait for one release try after each
// other: their order decides which of them reads how much, so that a simulated run repeats.
const turnSpread = 64 * time.Microsecond

// Join makes a place for a range that is worked on. The key names it. The caller calls
// Leave at its end.
func (b *Budget) Join(key ...any) *ReservedBytes {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ranges++
	return &ReservedBytes{turn: backoff.Spread(turnSpread, key...)}
}

// ShareFrom refuses the pages that other functions have read before a time: since then another
// host may have delivered newer versions of their documents.
func (b *Budget) ShareFrom(reserved *ReservedBytes, t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reserved.sharesFrom = t
}

// Leave takes the place of a range away. All its pages are released.
func (b *Budget) Leave(reserved *ReservedBytes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ranges--
	if reserved.onLeave != nil {
		reserved.onLeave()
	}
}

// Reading is the reservation for one read of a range. One goroutine has it: it ends
// with Keep or Cancel.
type Reading struct {
	// Items is the number of changes to request.
	Items int

	budget     *Budget
	by         *ReservedBytes
	bytes      int64
	answeredAt time.Time // of an answer to another function's request; zero of an own one
}

// isShared reports whether the answer is one to another function's request.
func (r *Reading) isShared() bool { return !r.answeredAt.IsZero() }

// age returns the time since an answer to another function's request, and 0 after an
// own one.
func (r *Reading) age() time.Duration {
	if !r.isShared() {
		return 0
	}
	return time.Since(r.answeredAt)
}

// mostBytes bounds a page that has grown: the service sends no more in one answer (Azure
// Cosmos DB service quotas, per-request limits: 4 MB).
const mostBytes = 4 << 20

// GrownItems bounds the changes that a range asks for, so that a page of more than the usual
// number takes a quarter of the range's share at most: while one is delivered two others are read
// ahead, and changes that are set aside have bytes of their own before their page is released.
func (b *Budget) GrownItems(reserved *ReservedBytes, usual, items int) int {
	if items <= usual {
		return items
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	fitting := min(mostBytes, b.byteLimit/int64(max(b.ranges, 1))/4) / max(cmp.Or(reserved.itemBytes, b.itemBytes), 1)
	return int(min(max(fitting, int64(usual)), int64(items)))
}

// ReserveRead waits until a range may read a page, of maxItems changes or fewer. A range
// without a page does not wait.
func (b *Budget) ReserveRead(ctx context.Context, reserved *ReservedBytes, maxItems int) (*Reading, error) {
	for {
		b.mu.Lock()
		if items, bytes, ok := b.grant(reserved, maxItems); ok {
			b.addBytes(reserved, bytes)
			reserved.pages++
			b.mu.Unlock()
			return &Reading{Items: items, budget: b, by: reserved, bytes: bytes}, nil
		}
		b.waiting = true
		freed, began := b.freedSignal, time.Now()
		b.mu.Unlock()
		select {
		case <-freed:
			if !time.Now().After(began) { // as if they had been released before
				continue
			}
			if err := backoff.Sleep(ctx, reserved.turn); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// grant returns how many changes a range may read now, and the bytes to reserve for
// them. The first half of the budget is for every range that comes. Of the rest each
// range gets its share. The lock is held.
func (b *Budget) grant(reserved *ReservedBytes, maxItems int) (items int, bytes int64, ok bool) {
	freeBytes := b.byteLimit - b.usedBytes
	each := cmp.Or(reserved.itemBytes, b.itemBytes)
	if freeBytes > 0 && (reserved.isIdle || each == 0) {
		return maxItems, 0, true // little is expected, or nothing is known: Admit decides
	}
	each = max(each, 1)
	fullSize := each * int64(maxItems)
	share := b.byteLimit/int64(max(b.ranges, 1)) - reserved.bytes
	if fullSize <= freeBytes && (b.usedBytes+fullSize <= b.byteLimit/2 || fullSize <= share) {
		return maxItems, fullSize, true
	}
	fitting := min(freeBytes, share) / each
	switch {
	case fitting >= int64(maxItems):
		return maxItems, fullSize, true
	case fitting > 0 && (reserved.pages == 0 || 2*fitting >= int64(maxItems)): // no reading ahead in crumbs
		return int(fitting), fitting * each, true
	case reserved.pages == 0:
		return 1, each, true
	}
	return 0, 0, false
}

// Admit is told how many bytes the answer takes, before they are read, and reserves
// them. It returns false if there is no room for them: the caller then cancels, and
// reserves a read of fewer changes. The answer to the smallest read of a range without
// another page is always admitted.
func (r *Reading) Admit(bytes int) bool {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	extra := int64(bytes) - r.bytes
	switch {
	case extra <= 0:
		return true
	case b.usedBytes+extra <= b.byteLimit, r.Items == 1 && r.by.pages == 1:
		r.bytes += extra
		b.addBytes(r.by, extra)
		return true
	}
	r.learn(int64(bytes), r.Items)
	return false
}

// learn estimates the size of changes from an answer with so many of them, or more.
// The lock is held.
func (r *Reading) learn(bytes int64, items int) {
	r.by.itemBytes, r.by.isIdle = max(bytes/int64(items), 1), false
	r.budget.itemBytes = r.by.itemBytes
}

// Cancel ends a read that brought no page.
func (r *Reading) Cancel() {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	r.by.pages--
	r.budget.reserve(r.by, -r.bytes)
}

// Keep ends a read that brought a page. The page stays reserved until it is released.
func (r *Reading) Keep(p *Page) {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	size := pageSize(p)
	b.reserve(r.by, size-r.bytes)
	if p.NotModified {
		r.by.isIdle = true
	} else if len(p.Items) > 0 {
		r.learn(size, min(len(p.Items), r.Items)) // a transaction is never divided
	}
}

// addBytes adds bytes, or returns them if the number is negative. The lock is held.
func (b *Budget) addBytes(reserved *ReservedBytes, bytes int64) {
	b.usedBytes += bytes
	reserved.bytes += bytes
	b.makeRoom()
}

// reserve is addBytes after a page was read or released: ranges that wait may continue.
// The lock is held.
func (b *Budget) reserve(reserved *ReservedBytes, bytes int64) {
	b.addBytes(reserved, bytes)
	if b.waiting && bytes <= 0 { // 0: a page without bytes is released
		b.waiting = false
		close(b.freedSignal)
		b.freedSignal = make(chan struct{})
	}
}

// ReleasePage returns the bytes of a page to the budget and releases the page.
func (b *Budget) ReleasePage(p *Page, reserved *ReservedBytes) {
	b.releaseBytes(p, reserved)
	p.Release()
}

// ForgetPage returns the bytes of a page to the budget, and leaves them to the garbage
// collector: they belong to the handler that was called with them.
func (b *Budget) ForgetPage(p *Page, reserved *ReservedBytes) {
	b.releaseBytes(p, reserved)
	p.ReleaseItems()
}

func (b *Budget) releaseBytes(p *Page, reserved *ReservedBytes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	reserved.pages--
	b.reserve(reserved, -pageSize(p))
}

// ChargeBytes counts bytes of changes that outlive their pages, or returns them if
// n is negative. It does not wait.
func (b *Budget) ChargeBytes(n int, reserved *ReservedBytes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reserve(reserved, int64(n))
}

func pageSize(p *Page) int64 { return int64(p.Size() + changeBytes*len(p.Items)) }
