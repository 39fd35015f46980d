package cosmos

import "sync"

// maxPooled bounds the buffers of a client that wait for another read, in bytes. Those
// of pages that are not released are their callers'.
const maxPooled = 8 << 20

// bufferPool holds buffers that wait for another read. Unlike a [sync.Pool] it has a
// bound: an idle process collects no garbage for minutes, and would keep the buffers of
// the largest pages for so long.
type bufferPool struct {
	mu        sync.Mutex // guards the fields below, and no other lock is taken under it
	free      []*buffer  // the one used last comes last
	spares    [][]byte   // for bodies of unknown length; the one used last comes last
	freeBytes int        // of all of them
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
