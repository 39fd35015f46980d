package feed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestNextPageSize(t *testing.T) {
	growing, fixed := pageSizes{100, 1000}, pageSizes{30, 30}
	for _, test := range []struct {
		name  string
		sizes pageSizes
		items int
		seen  pageKind
		want  int
	}{
		{"a full page is followed by a large one", growing, 100, pageFull, 1000},
		{"a large page that is full stays large", growing, 1000, pageFull, 1000},
		{"bytes have ended a large page", growing, 1000, pagePartial, 1000},
		{"the range is not behind", growing, 100, pagePartial, 100},
		{"caught up", growing, 1000, pageCaughtUp, 100},
		{"nothing new again", growing, 100, pageCaughtUp, 100},
		{"no change before the end", growing, 1000, pageEmpty, 1000},
		{"a saved size doubles", growing, 1, pageFull, 2},
		{"and with pages that are not full", growing, 32, pagePartial, 64},
		{"up to the usual size", growing, 64, pageFull, 100},
		{"and waits for changes", growing, 4, pageCaughtUp, 4},
		{"likewise", growing, 4, pageEmpty, 4},
		{"a set size is kept", fixed, 30, pageFull, 30},
		{"when caught up, too", fixed, 30, pageCaughtUp, 30},
		{"a larger page of another function", fixed, 1000, pageFull, 30},
		{"or a part of one", fixed, 1000, pagePartial, 30},
	} {
		if got := test.sizes.next(test.items, test.seen); got != test.want {
			t.Errorf("%s: %d after %d, want %d", test.name, got, test.items, test.want)
		}
	}
}

func TestKindOfPage(t *testing.T) {
	for _, test := range []struct {
		page      Page
		requested int
		want      pageKind
	}{
		{Page{NotModified: true}, 100, pageCaughtUp},
		{Page{}, 100, pageEmpty},
		{Page{Items: make([]Item, 99)}, 100, pagePartial},
		{Page{Items: make([]Item, 100)}, 100, pageFull},
		{Page{Items: make([]Item, 150)}, 100, pageFull}, // a transaction is never divided
		{Page{Items: make([]Item, 37)}, 37, pageFull},   // the budget has granted no more
	} {
		if got := kindOf(&test.page, test.requested); got != test.want {
			t.Errorf("%d changes of %d: kind %d, want %d", len(test.page.Items), test.requested, got, test.want)
		}
	}
}

func TestSizesOfASource(t *testing.T) {
	for name, test := range map[string]struct {
		source Source
		want   pageSizes
	}{
		"growing":               {Source{MaxItems: 100, MostItems: 1000}, pageSizes{100, 1000}},
		"set":                   {Source{MaxItems: 30}, pageSizes{30, 30}},
		"set above the largest": {Source{MaxItems: 5000, MostItems: 1000}, pageSizes{5000, 5000}},
		"without positions":     {*(&Source{MaxItems: 100, MostItems: 1000}).AsOpaque(), pageSizes{100, 100}},
	} {
		if got := test.source.pageSizes(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// A page that has grown takes a quarter of its range's share, and no more than one answer of the
// service has.
func TestGrownPagesFitTheirShare(t *testing.T) {
	for _, test := range []struct {
		limit, itemBytes int64
		ranges           int
		want             int
	}{
		{64 << 20, 1400, 1, 1000},
		{64 << 20, 20_000, 1, mostBytes / 20_000},
		{8 << 20, 4096, 4, 128},
		{8 << 20, 4096, 8, 100}, // the usual size is not bounded here
		{64 << 20, 0, 1, 1000},  // nothing is known
	} {
		b := NewBudget(test.limit)
		reserved := b.Join()
		for range test.ranges - 1 {
			b.Join()
		}
		reserved.itemBytes = test.itemBytes
		if got := b.GrownItems(reserved, 100, 1000); got != test.want {
			t.Errorf("%+v: %d changes", test, got)
		}
		if got := b.GrownItems(reserved, 100, 7); got != 7 {
			t.Errorf("%+v: %d changes instead of 7", test, got)
		}
	}
}

// growing returns a reader of one function, of pages that grow from two changes to eight.
func (f *functionReader) growing() *Reader {
	f.source.MostItems = 8
	return &Reader{
		Source: f.source, Budget: f.budget, Reserved: f.reserved, PollDelay: time.Second, ReadTimeout: time.Minute, nextItems: f.source.MaxItems,
		Locate:         func(context.Context) (Target, error) { return f.account.target, nil },
		IsFinal:        func(error) bool { return false },
		Verify:         func(context.Context, *Page, string) error { return nil },
		VerifyPosition: func(context.Context, string) error { return nil },
		PayRead:        func(context.Context) (func(float64), error) { return func(float64) {}, nil },
		ObservePage: func(page *Page) {
			f.pages = append(f.pages, page)
		},
		PageSent:      func() {},
		ReportProblem: func(err error, _ int) { f.account.t.Error(err) },
	}
}

// next reads the next page and wants so many changes in it.
func (f *functionReader) next(r *Reader, continuation string, changes int) string {
	f.account.t.Helper()
	page, _, err := r.readNext(f.account.t.Context(), continuation)
	must(f.account.t, err)
	if len(page.Items) != changes {
		f.account.t.Errorf("%d changes after %q, want %d", len(page.Items), continuation, changes)
	}
	return page.Continuation
}

// Functions that share reads have one state of growth: one that begins with a large page of
// another asks for the same pages from then on, and so they find each other's.
func TestFunctionsThatShareReadsGrowTogether(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 2, true)
		one, two := readers[0].growing(), readers[1].growing()
		for i := range 7 {
			a.write(a.writer, fmt.Sprint("a", i))
		}
		second := readers[0].next(one, "", 2)
		third := readers[0].next(one, second, 5) // of eight that were requested
		readers[1].next(two, second, 5)          // its first page
		a.expectReads(2)
		if one.nextItems != 8 || two.nextItems != 8 {
			t.Errorf("the next pages have %d and %d changes, want 8", one.nextItems, two.nextItems)
		}
		for i := range 6 {
			a.write(a.writer, fmt.Sprint("b", i))
		}
		fourth := readers[1].next(two, third, 6)
		readers[0].next(one, third, 6)
		readers[0].next(one, fourth, 0)
		readers[1].next(two, fourth, 0)
		a.expectReads(2)
		if one.nextItems != 2 || two.nextItems != 2 {
			t.Errorf("caught up, the next pages have %d and %d changes, want 2", one.nextItems, two.nextItems)
		}
		a.closeAll(shared, readers...)
	})
}

// A function whose range is opaque does not get the large page of another one.
func TestLargePagesAreNotForOpaqueRanges(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		readers, shared := a.readers(NewBudget(1<<20), 2, true)
		one, two := readers[0].growing(), readers[1].growing()
		two.Source = two.Source.AsOpaque()
		for i := range 9 {
			a.write(a.writer, fmt.Sprint("a", i))
		}
		second := readers[0].next(one, "", 2)
		readers[0].next(one, second, 7)
		if got := readers[1].next(two, "", 2); got != second {
			t.Errorf("the first page ends at %s, want %s", got, second)
		}
		readers[1].next(two, second, 2)
		a.expectReads(4)
		a.closeAll(shared, readers...)
	})
}

// A large page whose LSNs name no positions is read again in pages of the usual size, and pages
// do not grow any more.
func TestLargePageWithoutPositionsIsReadAgain(t *testing.T) {
	b := NewBudget(1 << 20)
	reserved := b.Join()
	r := &Reader{Source: &Source{MaxItems: 2, MostItems: 8}, Budget: b, Reserved: reserved, nextItems: 8}
	page := func(lsns ...int64) *Page {
		p := &Page{Continuation: `"9"`}
		for _, lsn := range lsns {
			p.Items = append(p.Items, cosmos.Item{LSN: lsn})
		}
		return p
	}
	for name, test := range map[string]struct {
		page      *Page
		requested int
		want      bool
	}{
		"positions have names":      {page(4, 5, 6), 8, false},
		"fewer than the usual size": {page(0, 0), 8, false},
		"a long transaction":        {page(0, 0, 0), 2, false},
	} {
		if got := r.refuseLarge(test.page, test.requested, `"3"`); got != test.want {
			t.Errorf("%s: refused %v", name, got)
		}
	}
	reading, err := b.ReserveRead(t.Context(), reserved, 8)
	must(t, err)
	refused := page(6, 5, 4)
	reading.Keep(refused)
	if !r.refuseLarge(refused, 8, `"3"`) || r.nextItems != 2 || r.Source.pageSizes() != (pageSizes{2, 2}) || b.UsedBytes() != 0 {
		t.Errorf("pages of %d changes follow, of the source %+v; %d bytes are held", r.nextItems, r.Source.pageSizes(), b.UsedBytes())
	}
}
