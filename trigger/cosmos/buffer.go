package cosmos

import (
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
)

// buffer holds the body of an answer. It has one owner at a time: the call that
// reads it, then the caller that has the page.
type buffer struct {
	bytes []byte
	items []Item     // of a feed page; slices of bytes
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

func (b *buffer) release() {
	if b == nil || b.pool == nil || cap(b.bytes) > maxPooled {
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

func (b *buffer) readUnbounded(body io.Reader) error {
	for {
		if len(b.bytes) > maxBody {
			return errTooLarge
		}
		b.bytes = slices.Grow(b.bytes, 64<<10)
		n, err := body.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

var errTooLarge = fmt.Errorf("answer is larger than %d MB: set a smaller MaxItems", maxBody>>20)
