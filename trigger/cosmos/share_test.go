package cosmos

import (
	"encoding/json"
	"testing"
)

// sharedPage returns a page of one document in a pooled buffer.
func sharedPage(pool *bufferPool) *Page {
	b := pool.take()
	b.bytes = append(b.bytes, `{"id":"a"}`...)
	b.items = append(b.items, Item{Document: json.RawMessage(b.bytes)})
	return &Page{Items: b.items, Charge: 2, buffer: b}
}

func TestSharedBufferIsReusedAfterTheLastRelease(t *testing.T) {
	pool := &bufferPool{}
	page := sharedPage(pool)
	share, third := page.Share(), page.Share()
	if page.Charge != 2 || share.Charge != 0 || share.Size() != page.Size() {
		t.Errorf("charges %v and %v, sizes %d and %d", page.Charge, share.Charge, page.Size(), share.Size())
	}
	page.Release()
	page.Release() // has no effect
	third.Release()
	if len(pool.free) != 0 || string(share.Items[0].Document) != `{"id":"a"}` {
		t.Fatalf("%d buffers are reused while a share is in use: %s", len(pool.free), share.Items[0].Document)
	}
	share.Release()
	if len(pool.free) != 1 {
		t.Fatalf("%d buffers are reused after the last release", len(pool.free))
	}
	reused := sharedPage(pool)
	reused.Release()
	if len(pool.free) != 1 || cap(pool.free[0].bytes) == 0 {
		t.Error("a buffer that was shared once is not used again")
	}
}

func TestSharedDocumentsThatAreHandedOnStayValid(t *testing.T) {
	pool := &bufferPool{}
	page := sharedPage(pool)
	share, kept := page.Share(), page.Items[0].Document
	page.ReleaseItems()
	share.Release() // last, and its reader has only borrowed the bytes
	next := pool.take()
	next.bytes = append(next.bytes, "################"...)
	if string(kept) != `{"id":"a"}` {
		t.Errorf("a document that was handed on is now %s", kept)
	}
}
