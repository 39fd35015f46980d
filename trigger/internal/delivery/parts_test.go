package delivery

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

func TestPartsDoNotDivideTransactions(t *testing.T) {
	for _, test := range []struct {
		lsns []int64
		room int
		want []int // lengths of all parts
	}{
		{[]int64{1, 2, 3}, 5, []int{3}},
		{[]int64{1, 2, 3}, 3, []int{3}},
		{[]int64{1, 2, 3, 4, 5}, 2, []int{2, 2, 1}},
		{[]int64{1, 2, 2, 3, 4}, 2, []int{1, 2, 2}},
		{[]int64{1, 1, 1, 1, 2, 3}, 2, []int{4, 2}},
		{[]int64{1, 2, 2, 2}, 2, []int{1, 3}},
		{[]int64{1, 1, 1}, 1, []int{3}},
	} {
		page := &feed.Page{Continuation: `"9"`}
		for _, lsn := range test.lsns {
			page.Items = append(page.Items, cosmos.Item{LSN: lsn})
		}
		for _, areNamed := range []bool{true, false} {
			rest := pageRest{pageBytes: pageBytes{page: page}, areNamed: areNamed}
			want := test.want
			if !areNamed {
				want = []int{len(test.lsns)}
			}
			for i, length := range want {
				position, isLast := page.Continuation, i == len(want)-1
				part := rest.cut(test.room)
				if !isLast {
					position = feed.QuotedLSN(part.items[len(part.items)-1].LSN)
				}
				if len(part.items) != length || part.position != position || part.isLast != isLast || (rest.page == nil) != isLast {
					t.Errorf("%v with room for %d: part %d has %d changes and ends at %s, want %d and %s", test.lsns, test.room, i, len(part.items), part.position, length, position)
				}
			}
		}
	}
}

// An owner has a page of the usual size more than MaxAhead before it at most, however large its
// pages are, and repeats no more after its end. Where positions have no names, a page is taken in
// as a whole.
func TestLargePagesAreTakenInByParts(t *testing.T) {
	for name, test := range map[string]struct {
		pageItems int
		isMerged  bool
		most      int
	}{
		"pages that grow": {0, false, 150 + feed.UsualItems},
		"a set size":      {30, false, 150 + 30},
		"merged":          {0, true, 150 + 800},
	} {
		for _, lanes := range []int{1, 4} {
			t.Run(fmt.Sprint(name, lanes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newTestRange(t)
					r.config.Lanes, r.config.MaxAhead, r.config.PageItems, r.config.MergedRange = lanes, 150, test.pageItems, test.isMerged
					r.config.MaxItemsPerInvocation = 10
					r.call = time.Millisecond
					d := r.delivery()
					var keys []string
					for i := range 1600 {
						keys = append(keys, fmt.Sprint("k", i))
					}
					var mu sync.Mutex
					most := 0
					r.handle = func(items []*Item, _ int) error {
						mu.Lock()
						defer mu.Unlock()
						if items[0].Seq == 1 { // the others go on meanwhile
							mu.Unlock()
							time.Sleep(time.Minute)
							mu.Lock()
						}
						most = max(most, d.progress.ahead(false))
						return nil
					}
					if err := r.deliver(d, changes(800, keys...)); err != nil {
						t.Fatal(err)
					}
					r.complete(len(keys))
					if most > test.most || most < test.most/2 {
						t.Errorf("%d changes were ahead, want at most %d", most, test.most)
					}
					if r.released != 2 {
						t.Errorf("%d pages are released, want 2", r.released)
					}
				})
			})
		}
	}
}

// An owner that ends in the middle of a page releases it once.
func TestPageTakenInByPartsIsReleasedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.MaxAhead, r.config.PageItems, r.config.MaxItemsPerInvocation = 10, 5, 1
		d := r.delivery()
		for _, page := range changes(40, make([]string, 40)...) {
			d.receivePage(page)
			for range 2 {
				d.takePart(12)
				d.partPassed()
			}
		}
		d.abandon()
		if r.released != 1 || d.pagesTaken.Load() != 0 {
			t.Errorf("%d pages are released, %d taken in", r.released, d.pagesTaken.Load())
		}
	})
}
