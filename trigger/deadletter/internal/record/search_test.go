package record

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
	"halley/trigger/deadletter/internal/sample"
)

// fakeStore has records in memory, in no order.
type fakeStore struct {
	records []trigger.DeadLetter
	search  *Search
	scans   int
	load    time.Duration // of each record
}

func newFakeStore(n, window int) *fakeStore {
	s := &fakeStore{search: NewSearch(window)}
	for i := range n {
		d := sample.Letter("f", fmt.Sprintf("%04d", i))
		d.Time = sample.Monday.Add(time.Duration(i / 3))
		s.records = append(s.records, d)
	}
	rand.New(rand.NewPCG(uint64(n), uint64(window))).Shuffle(n, func(i, j int) { s.records[i], s.records[j] = s.records[j], s.records[i] })
	return s
}

func (s *fakeStore) page(q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	w, err := s.search.Window(q, func(*Position) iter.Seq2[Position, error] {
		s.scans++
		return func(yield func(Position, error) bool) {
			for _, d := range s.records {
				if !yield(PositionOf(d, d.ID), nil) {
					return
				}
			}
		}
	})
	if err != nil {
		return trigger.DeadLetterPage{}, err
	}
	return w.Page(func(p Position) (trigger.DeadLetter, bool, error) {
		time.Sleep(s.load)
		i := slices.IndexFunc(s.records, func(d trigger.DeadLetter) bool { return d.ID == p.At })
		if i < 0 {
			return trigger.DeadLetter{}, false, nil
		}
		return s.records[i], true, nil
	})
}

// pages reads all pages.
func (s *fakeStore) pages(t *testing.T, q trigger.DeadLetterQuery) (ids []string, pages []trigger.DeadLetterPage) {
	for {
		page, err := s.page(q)
		sample.Must(t, err)
		ids, pages = append(ids, sample.IDs(page.Records)...), append(pages, page)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return ids, pages
		}
	}
}

// Any window and limit give the same order, and the pages of a window take one scan.
func TestPagesOfAWindowTakeOneScan(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 6, 19, 20, 100} {
		var want []string
		for i := range n {
			want = append(want, fmt.Sprintf("%04d", i))
		}
		for _, window := range []int{1, 2, 5, 20, 1000} {
			for _, limit := range []int{1, 3, 0} {
				s, q := newFakeStore(n, window), sample.Dead("f")
				q.Limit = limit
				if got, _ := s.pages(t, q); !slices.Equal(got, want) {
					t.Errorf("%d in windows of %d: %v", n, window, got)
				}
				if maxScans := max(1, (n+window-1)/window); s.scans > maxScans {
					t.Errorf("%d in windows of %d and pages of %d took %d scans, want at most %d", n, window, limit, s.scans, maxScans)
				}
				q.NewestFirst = true
				slices.Reverse(want)
				if got, _ := s.pages(t, q); !slices.Equal(got, want) {
					t.Errorf("%d in windows of %d, newest first: %v", n, window, got)
				}
				slices.Reverse(want)
			}
		}
	}
}

// A page that is asked for again takes no further scan, and is the same. The first page alone
// says how many records there are to search.
func TestPageOfAWindowIsReadAgain(t *testing.T) {
	s, q := newFakeStore(40, 30), sample.Dead("f")
	q.Limit, q.NewestFirst = 10, true
	first, err := s.page(q)
	sample.Must(t, err)
	q.Cursor = first.Cursor
	for range 3 {
		page, err := s.page(q)
		sample.Must(t, err)
		if got := sample.IDs(page.Records); got[0] != "0029" || len(got) != 10 || page.Total != 0 {
			t.Errorf("the second page is %v, total %d", got, page.Total)
		}
	}
	if s.scans != 1 || first.Total != 40 {
		t.Errorf("%d scans, total %d", s.scans, first.Total)
	}
}

// A page ends at the bounds of reads, bytes and time, says so, and continues.
func TestPagesEndAtTheirBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rare := sample.Dead("f")
		rare.ErrorContains = "rare"
		reads := newFakeStore(2*maxReads+10, DefaultWindow)
		i := slices.IndexFunc(reads.records, func(d trigger.DeadLetter) bool { return d.ID == "2005" })
		reads.records[i].Error = "a rare one"
		ids, pages := reads.pages(t, rare)
		if fmt.Sprint(ids) != "[2005]" || len(pages) != 3 || pages[0].Searched != maxReads || !pages[0].StoppedAtBound || pages[2].StoppedAtBound || pages[2].Searched != 10 {
			t.Errorf("found %v in %d pages: %d searched, stopped at a bound: %v", ids, len(pages), pages[0].Searched, pages[0].StoppedAtBound)
		}
		large := newFakeStore(30, DefaultWindow)
		for i := range large.records {
			large.records[i].Document = make([]byte, 1<<20)
		}
		if ids, pages := large.pages(t, sample.Dead("f")); len(ids) != 30 || len(pages[0].Records) != maxPageBytes>>20 || !pages[0].StoppedAtBound {
			t.Errorf("%d records of 1 MB, %d in the first page", len(ids), len(pages[0].Records))
		}
		slow := newFakeStore(50, DefaultWindow)
		slow.load = time.Second
		if ids, pages := slow.pages(t, sample.Dead("f")); len(ids) != 50 || len(pages[0].Records) != int(maxPageTime/time.Second) || !pages[0].StoppedAtBound {
			t.Errorf("%d slow records, %d in the first page", len(ids), len(pages[0].Records))
		}
	})
}

// Windows that wait for their next page are few, and do not wait for long.
func TestKeptWindowsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, q := newFakeStore(10, DefaultWindow), sample.Dead("f")
		q.Limit = 1
		var cursors []string
		for limit := 1; limit <= 2*maxKept; limit++ {
			q.Limit = limit
			page, err := s.page(q)
			sample.Must(t, err)
			cursors = append(cursors, page.Cursor)
		}
		if len(s.search.kept) != maxKept {
			t.Errorf("%d windows are kept", len(s.search.kept))
		}
		oldScans := s.scans
		q.Cursor = cursors[2*maxKept-1]
		_, err := s.page(q)
		sample.Must(t, err)
		if s.scans != oldScans {
			t.Error("the newest window was not kept")
		}
		time.Sleep(keptFor + 1)
		q.Cursor = cursors[2*maxKept-2]
		page, err := s.page(q)
		sample.Must(t, err)
		if s.scans != oldScans+1 || len(page.Records) != 3 {
			t.Errorf("%d scans for a page of %d records after a minute", s.scans-oldScans, len(page.Records))
		}
	})
}

func TestBrokenScanAndReadEndAQuery(t *testing.T) {
	broken := errors.New("broken")
	_, err := NewSearch(3).Window(sample.Dead("f"), func(*Position) iter.Seq2[Position, error] {
		return func(yield func(Position, error) bool) {
			if yield(Position{At: "a"}, nil) {
				yield(Position{}, broken)
			}
		}
	})
	if !errors.Is(err, broken) {
		t.Errorf("a broken scan: %v", err)
	}
	reads := func(names ...string) iter.Seq2[Position, error] {
		return func(yield func(Position, error) bool) {
			for i, name := range names {
				if !yield(Position{Time: sample.Monday.Add(time.Duration(i)), At: name}, nil) {
					return
				}
			}
		}
	}
	for want, names := range map[string][]string{
		"[a b] 0 <nil>": {"a", "gone", "b"},
		"[a] 1 <nil>":   {"damaged", "a"},
		"[] 0 broken":   {"a", "damaged", "c", "unreadable", "b"},
		"[] 2 <nil>":    {"damaged", "damaged"},
	} {
		w, err := NewSearch(9).Window(sample.Dead("f"), func(*Position) iter.Seq2[Position, error] { return reads(names...) })
		sample.Must(t, err)
		page, err := w.Page(func(p Position) (trigger.DeadLetter, bool, error) {
			switch p.At {
			case "damaged":
				return trigger.DeadLetter{}, false, fmt.Errorf("read: %w", trigger.ErrDamaged)
			case "unreadable":
				return trigger.DeadLetter{}, false, broken
			}
			return sample.Letter("f", p.At), p.At != "gone", nil
		})
		if got := fmt.Sprint(sample.IDs(page.Records), len(page.Damaged), " ", err); got != want {
			t.Errorf("%v: %s, want %s", names, got, want)
		}
	}
}
