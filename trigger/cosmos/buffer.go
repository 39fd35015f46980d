package cosmos

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
)

const (
	// maxBody bounds one answer, in bytes. A feed page is about 4 MB; only a
	// large transaction, which the service never splits, makes it larger.
	maxBody = 128 << 20

	// minRead is the first capacity for a body of unknown length, in bytes.
	minRead = 4 << 10

	// itemBytes is the size of an Item, in bytes.
	itemBytes = 144
)

// buffer holds the body of an answer. It has one owner at a time: the call that
// reads it, then the callers that have the page or a share of it, see [Page.Share].
type buffer struct {
	bytes []byte
	items []Item      // of a feed page; slices of bytes
	pool  *bufferPool // to return the buffer to; nil if it is not reused

	shares   atomic.Int32 // pages that have it, not counting the first
	handedOn atomic.Bool  // the documents of one of these pages stay valid
}

// size is the memory that the buffer takes, in bytes.
func (b *buffer) size() int {
	if b == nil {
		return 0
	}
	return cap(b.bytes) + itemBytes*cap(b.items)
}

// reserveItems makes room for so many items, as far as they do not take more than the body does.
func (b *buffer) reserveItems(count int64) {
	if n := min(count, int64(len(b.bytes)/itemBytes)); n > int64(cap(b.items)) {
		b.items = make([]Item, 0, n)
	}
}

// releaseItems returns the buffer without its bytes, which stay valid for the documents
// that were taken from them. They return to the pool when these are garbage.
func (b *buffer) releaseItems() {
	if b != nil {
		b.handedOn.Store(true)
		b.release()
	}
}

// release returns the buffer, once the last page that has it is released.
func (b *buffer) release() {
	if b == nil || b.pool == nil || b.shares.Add(-1) >= 0 {
		return
	}
	b.shares.Store(0)
	if b.handedOn.Swap(false) {
		b.pool.reclaim(b.bytes)
		b.bytes = nil
	}
	clear(b.items)
	b.items, b.bytes = b.items[:0], b.bytes[:0]
	b.pool.put(b)
}

// read reads the whole body of resp. A body that is shorter than its
// Content-Length is an error. A nil admit admits all, see [FeedRequest].Admit.
func (b *buffer) read(resp *http.Response, admit func(int) bool) error {
	b.bytes = b.bytes[:0]
	if resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		return nil
	}
	if resp.ContentLength > maxBody {
		return errTooLarge
	}
	if admit == nil {
		admit = func(int) bool { return true }
	}
	if resp.ContentLength < 0 {
		return b.readUnbounded(resp.Body, admit)
	}
	n := int(resp.ContentLength)
	if cap(b.bytes) > 2*n+minRead { // a small page would hold the memory of a large one
		b.bytes = nil
	}
	if cap(b.bytes) < n {
		b.bytes = b.pool.takeReclaimed(n)
	}
	if cap(b.bytes) > n && !admit(cap(b.bytes)) {
		b.bytes = nil
	}
	if cap(b.bytes) <= n && !admit(n) {
		return ErrNotAdmitted
	}
	if cap(b.bytes) < n {
		b.bytes = make([]byte, n)
	}
	b.bytes = b.bytes[:n]
	_, err := io.ReadFull(resp.Body, b.bytes)
	return err
}

// readUnbounded reads a body of unknown length. If a feed page has no bytes to reuse, it
// takes about as many as the body has: documents that are kept hold all of them.
func (b *buffer) readUnbounded(body io.Reader, admit func(int) bool) (err error) {
	if cap(b.bytes) > 0 && !admit(cap(b.bytes)) {
		b.bytes = nil
	}
	if b.pool == nil || cap(b.bytes) > 0 {
		b.bytes, err = appendAll(b.bytes, body, admit)
		return err
	}
	spare, err := appendAll(b.pool.takeSpare(), body, func(n int) bool { return admit(2 * n) })
	b.bytes = append(b.pool.takeReclaimed(len(spare)), spare...)
	b.pool.putSpare(spare)
	return err
}

func appendAll(to []byte, body io.Reader, admit func(int) bool) ([]byte, error) {
	for {
		if len(to) > maxBody {
			return to, errTooLarge
		}
		if len(to) == cap(to) {
			to = slices.Grow(to, max(len(to), minRead)) // doubles it
			if !admit(cap(to)) {
				return to[:0], ErrNotAdmitted
			}
		}
		n, err := body.Read(to[len(to):cap(to)])
		to = to[:len(to)+n]
		if err == io.EOF {
			return to, nil
		}
		if err != nil {
			return to, err
		}
	}
}

var errTooLarge = fmt.Errorf("answer is larger than %d MB: set a smaller MaxItems", maxBody>>20)
