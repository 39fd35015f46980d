package cosmos

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

const (
	// maxBody bounds one answer. A page of the feed is about 4 MB, and exceeds
	// that only by what one transaction wrote.
	maxBody = 128 << 20

	// maxKept bounds the buffers that are kept for reuse.
	maxKept = 8 << 20
)

// buffer holds the body of an answer.
type buffer struct {
	bytes []byte
	items []Item     // of a feed page: slices of bytes
	pool  *sync.Pool // that it goes back to; nil for none
}

// newBuffer takes a buffer from pool, or makes one for it.
func newBuffer(pool *sync.Pool) *buffer {
	if b, ok := pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{pool: pool}
}

func (b *buffer) release() {
	if b == nil || b.pool == nil || cap(b.bytes) > maxKept {
		return
	}
	clear(b.items)
	b.items, b.bytes = b.items[:0], b.bytes[:0]
	b.pool.Put(b)
}

// read takes the whole body of resp. Fewer bytes than its length says are an
// error.
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

var errTooLarge = fmt.Errorf("answer is larger than %d MB: ask for fewer items", maxBody>>20)
