package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// FuzzAcknowledgedPrefix finishes the changes of some pages in any order and
// wants every position that may be saved to have nothing unfinished before it.
// Each byte of changes is a change: what it adds to the LSN, 0 to 3, so that some
// share a transaction; the top bit begins a page, and with the next bit the change does
// not pass the filter. order draws what is finished next, or with the top bit set aside.
// The keys of the changes are drawn from their LSNs and places.
func FuzzAcknowledgedPrefix(f *testing.F) {
	f.Add([]byte{1, 1, 1, 0x81, 1}, []byte{4, 3, 2, 1, 0}, false, uint8(0))
	f.Add([]byte{1, 0, 0, 1, 0x81, 0}, []byte{0, 0, 3}, false, uint8(0))
	f.Add([]byte{1, 2, 3, 1}, []byte{1, 0}, true, uint8(0))
	f.Add([]byte{1, 2, 3, 1}, []byte{0, 1}, false, uint8(5))
	f.Add([]byte{0x41, 1, 0x41, 0x40, 1, 0x41, 0xc1, 0x41, 0x81}, []byte{1, 0}, false, uint8(0))
	f.Add([]byte{0x41, 0xc1, 0x40, 0xc1}, []byte{}, false, uint8(2))
	f.Add([]byte{1, 1, 1, 1, 0x81, 1, 0, 0x81, 1}, []byte{0x80, 0x81, 3, 2, 2, 0}, false, uint8(0))
	f.Fuzz(func(t *testing.T, changes, order []byte, merged bool, etag uint8) {
		var todo []*Item
		pageEnds := map[string]bool{}
		saved := ""
		p := newProgress(Config{MergedRange: merged, KeyPaths: []string{"/pk"}}, nil)
		p.advancePosition = func(end string, _ time.Time) {
			if slices.ContainsFunc(todo, func(c *Item) bool { return c.Seq <= p.acknowledged.seq }) {
				t.Fatalf("%s is said to be after change %d, but not all before that are handled", end, p.acknowledged.seq)
			}
			checkPosition(t, end, saved, todo, pageEnds[end], merged)
			saved = end
		}
		end := ""
		for _, page := range pagesOf(changes, etag) {
			end = page.Continuation
			pageEnds[end] = true
			items := p.addWhole(page, passedOf(page))
			for i := range items {
				todo = append(todo, &items[i])
			}
		}
		_, _ = p.finishItems(nil)
		for step := 0; len(todo) > 0; step++ {
			place := 0
			if step < len(order) {
				place = int(order[step]) % len(todo)
			}
			if c := todo[place]; step < len(order) && order[step]&0x80 != 0 {
				item := *c // its page may be used again
				todo[place] = &item
				kept, _, _, _ := p.setAside([]*Item{c})
				todo[place] = kept[0]
			} else {
				todo = slices.Delete(todo, place, place+1)
				_, _ = p.finishItems([]*Item{c})
			}
			checkMarks(t, p, saved, todo)
		}
		if _, value := p.snapshot(0); value != "" {
			t.Fatalf("all is handled, and the lease says %s", value)
		}
		if saved != end {
			t.Fatalf("all is handled and %s is saved, want %s", saved, end)
		}
		if len(p.openPages) != 0 || p.ahead(false) != 0 {
			t.Fatalf("%d pages are still open, and the reader is %d changes ahead", len(p.openPages), p.ahead(false))
		}
	})
}

// checkMarks wants what the lease says about finished changes to be true, and to belong to
// the position.
func checkMarks(t *testing.T, p *progress, saved string, unfinished []*Item) {
	t.Helper()
	position, value := p.snapshot(0)
	if value == "" {
		return
	}
	v, ok := finished.Parse(value)
	if !ok || v.Continuation != position || position != saved {
		t.Fatalf("at %s, saved %s: %s", position, saved, value)
	}
	for _, c := range unfinished {
		if v.Finished(p.markKey(&c.Change), c.LSN) {
			t.Fatalf("change %d, LSN %d, is not handled, and the lease says that it is: %+v", c.Seq, c.LSN, v)
		}
	}
}

// checkPosition wants no unfinished change at or before a position that is to
// be saved, and no step back.
func checkPosition(t *testing.T, end, saved string, unfinished []*Item, isWhole, merged bool) {
	t.Helper()
	if merged && !isWhole {
		t.Fatalf("%s is inside a page of a range that is not alone in its physical range", end)
	}
	var lsn, last int64
	if _, err := fmt.Sscanf(end, `"%d"`, &lsn); err != nil {
		return // an opaque etag, which names the end of a page: see the last check of the caller
	}
	if _, err := fmt.Sscanf(saved, `"%d"`, &last); err == nil && lsn < last {
		t.Fatalf("the position went back from %d to %d", last, lsn)
	}
	for _, c := range unfinished {
		if c.LSN <= lsn {
			t.Fatalf("position %d is to be saved and change %d, LSN %d, is not handled", lsn, c.Seq, c.LSN)
		}
	}
}

// pagesOf makes pages as [FuzzAcknowledgedPrefix] describes them. A page ends
// with its transaction. etag makes some continuations opaque: the n-th page's,
// where bit n is set.
func pagesOf(changes []byte, etag uint8) []*feed.Page {
	var pages []*feed.Page
	lsn := int64(1)
	for i, b := range changes {
		step := int64(b & 3)
		if begins := i == 0 || b&0x80 != 0 && step > 0; begins {
			pages = append(pages, &feed.Page{})
		}
		lsn += step
		page := pages[len(pages)-1]
		page.Items = append(page.Items, cosmos.Item{LSN: lsn, ID: fmt.Sprint(b&0x40 != 0), PartitionKey: fmt.Appendf(nil, "[%d]", (int(lsn)+i/3)%4)})
		page.Continuation = feed.QuotedLSN(lsn)
		if n := len(pages) - 1; n < 8 && etag>>n&1 == 1 {
			page.Continuation = fmt.Sprintf(`"page-%d"`, n)
		}
	}
	return pages
}

// passedOf returns the places of the changes that pass the filter.
func passedOf(page *feed.Page) (passed []int) {
	for i, item := range page.Items {
		if item.ID == "false" {
			passed = append(passed, i)
		}
	}
	return passed
}
