package cosmos

import (
	"bytes"
	"reflect"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"
)

// TestItemBytesIsTheSizeOfAnItem: budgets of memory count items by it.
func TestItemBytesIsTheSizeOfAnItem(t *testing.T) {
	if size := reflect.TypeFor[Item]().Size(); size != itemBytes {
		t.Errorf("an Item has %d bytes", size)
	}
}

// handOn reads a page as one whose documents are handed on, and releases it. It returns the
// last of the documents.
func handOn(t *testing.T, c *Container) (document []byte) {
	t.Helper()
	page, err := c.ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
	if err != nil {
		t.Fatal(err)
	}
	document = page.Items[len(page.Items)-1].Document
	page.ReleaseItems()
	return document
}

// takeAllReclaimed collects garbage until pool has reclaimed some memory, and takes it.
func takeAllReclaimed(t *testing.T, pool *bufferPool) (reclaimed [][]byte) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		pool.mu.Lock()
		reclaimed, pool.reclaimed = pool.reclaimed, nil
		for _, memory := range reclaimed {
			pool.reclaimedBytes -= cap(memory)
		}
		pool.mu.Unlock()
		if len(reclaimed) > 0 {
			return reclaimed
		}
	}
	t.Fatal("no memory was reclaimed")
	return nil
}

// Memory of pages is used again when their documents are garbage, and not before.
func TestMemoryOfDocumentsIsReclaimed(t *testing.T) {
	body := string(feedPage(100, 4000))
	for name, length := range map[string]int64{"known length": int64(len(body)), "unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			client := pageService(t, body, length).client(nil)
			items, pool := client.Container("Games", "High Scores"), client.buffers

			kept := handOn(t, items)
			want := bytes.Clone(kept)
			for range 3 {
				handOn(t, items)
				for _, memory := range takeAllReclaimed(t, pool) {
					clear(memory[:cap(memory)])
				}
			}
			if !bytes.Equal(kept, want) {
				t.Fatal("the memory of a document that is kept was used again")
			}
			runtime.KeepAlive(kept)

			handOn(t, items)
			reclaimed := takeAllReclaimed(t, pool)
			first := unsafe.SliceData(reclaimed[len(reclaimed)-1])
			pool.mu.Lock()
			pool.reclaimed, pool.reclaimedBytes = reclaimed, 1<<20
			pool.mu.Unlock()
			page, err := items.ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
			if err != nil || !bytes.Equal(page.Items[len(page.Items)-1].Document, want) {
				t.Fatalf("page %+v: %v", page, err)
			}
			if unsafe.SliceData(page.buffer.bytes) != first {
				t.Error("a page has new memory though some was reclaimed")
			}
		})
	}
}

func TestReclaimedMemoryFits(t *testing.T) {
	const size = 100 << 10
	for name, test := range map[string]struct {
		body  int
		taken bool
	}{
		"of the same size": {size, true}, "a little smaller": {size - size/8, true},
		"larger": {size + 1, false}, "much smaller": {size / 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &bufferPool{reclaimed: [][]byte{make([]byte, 0, size)}, reclaimedBytes: size}
			if taken := pool.takeReclaimed(test.body) != nil; taken != test.taken {
				t.Errorf("taken: %v", taken)
			}
			if len(pool.reclaimed) != 0 || pool.reclaimedBytes != 0 {
				t.Errorf("%d bytes still wait, so that pages of another size have no room", pool.reclaimedBytes)
			}
		})
	}
}

func TestMemoryToReclaimIsBounded(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection but those of the test
	pool := &bufferPool{}
	pool.reclaim(make([]byte, minReclaimed-1))
	if pool.newBytes != 0 {
		t.Error("a small page has a finalizer")
	}
	for range 3 {
		pool.reclaim(make([]byte, maxReclaimed/2))
	}
	if pool.newBytes != maxReclaimed {
		t.Errorf("%d bytes are to be reclaimed", pool.newBytes)
	}
	if reclaimed := takeAllReclaimed(t, pool); cap(reclaimed[0]) != maxReclaimed/2 {
		t.Errorf("%d bytes were reclaimed", cap(reclaimed[0]))
	}
}

// A function that keeps documents does not end the use of other memory.
func TestKeptDocumentsLeaveRoomToReclaim(t *testing.T) {
	pool, kept := &bufferPool{}, make([]byte, maxReclaimed)
	pool.reclaim(kept)
	for range 1000 {
		runtime.GC()
		pool.mu.Lock()
		seen := pool.newBytes == 0
		pool.mu.Unlock()
		if seen {
			break
		}
	}
	pool.reclaim(make([]byte, minReclaimed))
	if reclaimed := takeAllReclaimed(t, pool); cap(reclaimed[0]) != minReclaimed {
		t.Errorf("%d bytes were reclaimed", cap(reclaimed[0]))
	}
	runtime.KeepAlive(kept)
}

func TestSmallPagesLeaveReclaimedMemory(t *testing.T) {
	pool := &bufferPool{reclaimed: [][]byte{make([]byte, 0, 1<<20)}, reclaimedBytes: 1 << 20}
	if pool.takeReclaimed(1000) != nil || len(pool.reclaimed) != 1 {
		t.Error("a small page takes the memory of a large one away")
	}
}

// A page that fits is not refused because the memory that was reclaimed for it does not.
func TestReclaimedMemoryThatIsNotAdmitted(t *testing.T) {
	body := string(feedPage(100, 4000))
	client := pageService(t, body, int64(len(body))).client(nil)
	size := len(body) + len(body)/8
	client.buffers.reclaimed, client.buffers.reclaimedBytes = [][]byte{make([]byte, 0, size)}, size
	admit := func(n int) bool { return n <= len(body) }
	page, err := client.Container("Games", "High Scores").ReadFeed(t.Context(), FeedRequest{Range: wholeRange, Admit: admit})
	if err != nil || len(page.Items) != 100 || cap(page.buffer.bytes) >= size {
		t.Errorf("page %+v: %v", page, err)
	}
}
