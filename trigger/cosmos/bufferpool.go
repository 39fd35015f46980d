package cosmos

import (
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

// maxPooled bounds the buffers of a client that wait for another read, in bytes. Those
// of pages that are not released are their callers'.
const maxPooled = 8 << 20

// Bounds of the memory that the garbage collector returns to a client, in bytes. Less than
// minReclaimed is not worth a finalizer: the Go runtime has size classes up to there. At
// most maxReclaimed waits for another read, or for the next collection: as much as the least
// heap that the runtime collects.
const (
	minReclaimed = 32 << 10
	maxReclaimed = 4 << 20
)

// bufferPool holds buffers that wait for another read. Unlike a [sync.Pool] it has a
// bound: an idle process collects no garbage for minutes, and would keep the buffers of
// the largest pages for so long.
type bufferPool struct {
	mu        sync.Mutex // guards the fields below, and no other lock is taken under it
	free      []*buffer  // the one used last comes last
	spares    [][]byte   // for bodies of unknown length; the one used last comes last
	freeBytes int        // of all of them

	reclaimed      [][]byte // memory of documents that are garbage; the newest comes last
	reclaimedBytes int      // of all of it
	newBytes       int      // of memory to reclaim that no collection has seen; documents that are kept for longer do not count
}

// take returns a buffer that will return to the pool.
func (p *bufferPool) take() *buffer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b, ok := takeLast(&p.free); ok {
		p.freeBytes -= b.size()
		return b
	}
	return &buffer{pool: p}
}

func (p *bufferPool) put(b *buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mayKeep(b.size()) {
		p.free = append(p.free, b)
	}
}

// takeSpare returns memory for a body, which has no capacity if there is none.
func (p *bufferPool) takeSpare() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	spare, _ := takeLast(&p.spares)
	p.freeBytes -= cap(spare)
	return spare
}

func (p *bufferPool) putSpare(spare []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mayKeep(cap(spare)) {
		p.spares = append(p.spares, spare[:0])
	}
}

// reclaim takes memory back when the garbage collector finds no reference to any part of it.
// Most pages are garbage a moment after their batch. To use their memory again saves the
// clearing of new memory, and most collections of a small heap.
func (p *bufferPool) reclaim(memory []byte) {
	size := cap(memory)
	p.mu.Lock()
	defer p.mu.Unlock()
	if size < minReclaimed || p.reclaimedBytes+p.newBytes+size > maxReclaimed {
		return
	}
	if p.newBytes == 0 {
		runtime.SetFinalizer(&collection{p}, (*collection).ended)
	}
	p.newBytes += size
	runtime.SetFinalizer(unsafe.SliceData(memory), func(first *byte) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reclaimedBytes+size <= maxReclaimed {
			p.reclaimed = append(p.reclaimed, unsafe.Slice(first, size)[:0])
			p.reclaimedBytes += size
		}
	})
}

// collection is garbage that tells a pool of the next collection.
type collection struct{ pool *bufferPool }

func (c *collection) ended() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.newBytes = 0
}

// takeReclaimed returns reclaimed memory for a body of n bytes, the newest that has about
// that size. If none has, the oldest makes room, as pages may have another size now, and the
// result is nil. A nil pool has none.
func (p *bufferPool) takeReclaimed(n int) []byte {
	most := n + n/4
	if p == nil || most < minReclaimed {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, memory := range slices.Backward(p.reclaimed) {
		fits := cap(memory) >= n && cap(memory) <= most
		if !fits && i > 0 {
			continue
		}
		p.reclaimed = slices.Delete(p.reclaimed, i, i+1)
		p.reclaimedBytes -= cap(memory)
		if fits {
			return memory
		}
	}
	return nil
}

// mayKeep reports whether there is room for so many bytes, and counts them.
func (p *bufferPool) mayKeep(bytes int) bool {
	if bytes == 0 || p.freeBytes+bytes > maxPooled {
		return false
	}
	p.freeBytes += bytes
	return true
}

func takeLast[T any](list *[]T) (last T, ok bool) {
	n := len(*list)
	if n == 0 {
		return last, false
	}
	var none T
	last, (*list)[n-1] = (*list)[n-1], none
	*list = (*list)[:n-1]
	return last, true
}
