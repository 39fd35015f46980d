package cosmos

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

const (
	// maxBody bounds one answer, in bytes. A feed page is about 4 MB; only a
	// large transaction, which the service never splits, makes it larger.
	maxBody = 128 << 20

	// maxPooled bounds the capacity of a buffer that is kept for reuse, in
	// bytes.
	maxPooled = 8 << 20

	// minRead is the first capacity for a body of unknown length, in bytes.
	minRead = 4 << 10
)

// buffer holds the body of an answer. It has one owner at a time: the call that
// reads it, then the caller that has the page.
type buffer struct {
	bytes []byte
	items []Item     // of a feed page; slices of bytes
	spare []byte     // receives bodies of unknown length while bytes has no capacity
	pool  *sync.Pool // to return the buffer to; nil if it is not reused
}

// newBuffer takes a buffer from pool, or allocates one that will return to
// pool.
func newBuffer(pool *sync.Pool) *buffer {
	if b, ok := pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{pool: pool}
}

// releaseItems returns the buffer without its bytes, which stay valid for the documents
// that were taken from them.
func (b *buffer) releaseItems() {
	if b != nil {
		b.bytes = nil
		b.release()
	}
}

func (b *buffer) release() {
	if b == nil || b.pool == nil || cap(b.bytes)+cap(b.spare) > maxPooled {
		return
	}
	clear(b.items)
	b.items, b.bytes = b.items[:0], b.bytes[:0]
	b.pool.Put(b)
}

// read reads the whole body of resp. A body that is shorter than its
// Content-Length is an error.
func (b *buffer) read(resp *http.Response) error {
	b.bytes = b.bytes[:0]
	if resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified {
		return nil
	}
	if resp.ContentLength > maxBody {
		return errTooLarge
	}
	if resp.ContentLength >= 0 {
		b.bytes = slices.Grow(b.bytes, int(resp.ContentLength))[:resp.ContentLength]
		_, err := io.ReadFull(resp.Body, b.bytes)
		return err
	}
	return b.readUnbounded(resp.Body)
}

// readUnbounded reads a body of unknown length. If a feed page has no bytes to reuse,
// it allocates as many as the body has: documents that are kept hold all of them.
func (b *buffer) readUnbounded(body io.Reader) (err error) {
	if b.pool == nil || cap(b.bytes) > 0 {
		b.spare = nil
		b.bytes, err = appendAll(b.bytes, body)
		return err
	}
	b.spare, err = appendAll(b.spare[:0], body)
	b.bytes = bytes.Clone(b.spare)
	return err
}

func appendAll(to []byte, body io.Reader) ([]byte, error) {
	for {
		if len(to) > maxBody {
			return to, errTooLarge
		}
		if len(to) == cap(to) {
			to = slices.Grow(to, max(len(to), minRead)) // doubles it
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
