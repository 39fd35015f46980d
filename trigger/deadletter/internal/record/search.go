package record

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"halley/trigger"
)

// Position is the sort order of a record and its place in the store. If the sort order
// cannot be read, only the place is set.
type Position struct {
	Time  time.Time `json:"time,omitzero"`
	Order int64     `json:"order,omitempty"`
	Token string    `json:"range,omitempty"` // of the range
	LSN   int64     `json:"lsn,omitempty"`
	At    string    `json:"at"` // name in the store
}

// PositionOf returns the position of a record.
func PositionOf(d trigger.DeadLetter, name string) Position {
	return Position{Time: d.Time.UTC(), Order: d.Order, Token: d.Range, LSN: d.LSN, At: name}
}

// TimeLayout is a layout whose text sorts by time.
const TimeLayout = "2006-01-02T15:04:05.000000000Z"

const (
	// DefaultWindow is the default number of positions that a search sorts in memory: about
	// 2 MB.
	DefaultWindow = 10_000
	// defaultLimit is the number of records of a page without a limit.
	defaultLimit = 100
	// maxReads, maxPageBytes and maxPageTime bound a page: so many records are read for it,
	// with so much data, in so much time. A page has at least one of them.
	maxReads     = 1000
	maxPageBytes = 8 << 20
	maxPageTime  = 20 * time.Second
	// maxKept windows wait for the query of their next page, each for keptFor at most.
	maxKept = 4
	keptFor = time.Minute
)

// Search answers the queries of a store that cannot sort its records. It sorts a window of
// positions, the first ones behind the cursor, reads the records of the first page, and keeps
// the window for the pages that follow, also for a page that is asked for again: so n records
// take n/window scans. A cursor names its window: the pages of one list never come from the
// scan of an earlier list, which lacks the records put since. mu guards kept.
type Search struct {
	window int

	mu   sync.Mutex
	kept []*Window // the oldest first
}

// NewSearch returns a search with a window.
func NewSearch(window int) *Search { return &Search{window: window} }

// Window is a part of the records that a query may select, in its order. Its positions do not
// change after the scan.
type Window struct {
	search    *Search
	number    uint64 // random, so that the cursors of other processes do not name it
	query     trigger.DeadLetterQuery
	positions []Position
	total     int       // that the scan of a first page has found
	hasMore   bool      // there are positions behind these
	kept      time.Time // when it was kept, or last used; search.mu guards that of a kept window
}

// Window returns the first positions behind the cursor of a query. scan yields all positions
// of records that the query may select, in any order, or only those from the given one on, if
// that is not nil. Those of records that cannot be read come first.
func (s *Search) Window(q trigger.DeadLetterQuery, scan func(from *Position) iter.Seq2[Position, error]) (*Window, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var last *Position
	if q.Cursor != "" {
		c, err := parseCursor(q.Cursor)
		if err != nil {
			return nil, err
		}
		if w := s.find(q, c); w != nil {
			return w, nil
		}
		last = &c.Position
	}
	w := &Window{search: s, number: rand.Uint64(), query: q}
	for p, err := range scan(last) {
		if err != nil {
			return nil, err
		}
		if last == nil {
			w.total++
		} else if compare(q, p, *last) <= 0 {
			continue
		}
		if w.positions = append(w.positions, p); len(w.positions) == 2*s.window {
			w.cut()
		}
	}
	w.cut()
	return w, nil
}

// cut sorts the positions and drops those behind the window.
func (w *Window) cut() {
	// slices.SortFunc would be compiled for this type: 15 kB of every app.
	sort.Slice(w.positions, func(i, j int) bool { return compare(w.query, w.positions[i], w.positions[j]) < 0 })
	if size := w.search.window; len(w.positions) > size {
		w.positions, w.hasMore = w.positions[:size], true
	}
}

// Positions are those that a page reads at most.
func (w *Window) Positions() []Position { return w.positions[:min(len(w.positions), maxReads)] }

// Page reads the records of the next page in their order. read returns found as false if the
// record was deleted meanwhile. A damaged record is reported, and does not hide others.
func (w *Window) Page(read func(Position) (d trigger.DeadLetter, found bool, err error)) (page trigger.DeadLetterPage, err error) {
	limit := cmp.Or(w.query.Limit, defaultLimit)
	began, bytes, n := time.Now(), 0, 0
	positions := w.Positions()
	page.Total = w.total
	for n < len(positions) && len(page.Records) < limit && bytes < maxPageBytes && (n == 0 || time.Since(began) < maxPageTime) {
		d, found, err := read(positions[n])
		n++
		switch {
		case errors.Is(err, trigger.ErrDamaged):
			page.Searched, page.Damaged = page.Searched+1, append(page.Damaged, err)
		case err != nil:
			return trigger.DeadLetterPage{}, err
		case found:
			page.Searched++
			if d.Matches(w.query) {
				page.Records = append(page.Records, d)
				bytes += len(d.Document) + len(d.Previous)
			}
		}
	}
	if n == len(w.positions) && !w.hasMore {
		return page, nil
	}
	page.StoppedAtBound = len(page.Records) < limit
	page.Cursor, err = cursor{w.positions[n-1], w.number}.encode()
	w.keep(n)
	return page, err
}

// keep keeps the window for the pages behind its first n positions, if there are some. One that
// was found among the kept ones is one of these already.
func (w *Window) keep(n int) {
	if n == len(w.positions) || !w.kept.IsZero() {
		return
	}
	s := w.search
	s.mu.Lock()
	defer s.mu.Unlock()
	w.kept = time.Now()
	if s.kept = append(s.kept, w); len(s.kept) > maxKept {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
}

// find returns the part of a kept window that is behind a cursor, or nil.
func (s *Search) find(q trigger.DeadLetterQuery, last cursor) *Window {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = slices.DeleteFunc(s.kept, func(w *Window) bool { return time.Since(w.kept) > keptFor })
	for _, w := range s.kept {
		wanted := w.query
		wanted.Limit, wanted.Cursor = q.Limit, q.Cursor
		if wanted != q || w.number != last.Window {
			continue
		}
		i := sort.Search(len(w.positions), func(i int) bool { return compare(q, w.positions[i], last.Position) >= 0 })
		if i < len(w.positions)-1 && compare(q, w.positions[i], last.Position) == 0 {
			w.kept = time.Now()
			return &Window{search: s, number: w.number, query: q, positions: w.positions[i+1:], hasMore: w.hasMore, kept: w.kept}
		}
	}
	return nil
}

// compare orders positions as [trigger.DeadLetterQuery] says. Those whose order cannot be read
// come first, in both directions.
func compare(q trigger.DeadLetterQuery, a, b Position) int {
	if a.Time.IsZero() != b.Time.IsZero() {
		if a.Time.IsZero() {
			return -1
		}
		return 1
	}
	order := cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Order, b.Order))
	if q.Key != "" {
		order = cmp.Or(cmp.Compare(a.Order, b.Order), a.Time.Compare(b.Time))
	}
	order = cmp.Or(order, cmp.Compare(a.Token, b.Token), cmp.Compare(a.LSN, b.LSN), cmp.Compare(a.At, b.At))
	if q.NewestFirst {
		return -order
	}
	return order
}

// cursor is the place of a page's last record, and the number of the window that has it.
type cursor struct {
	Position
	Window uint64 `json:"window"`
}

func (c cursor) encode() (string, error) {
	b, err := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(b), err
}

// parseCursor reverses encode.
func parseCursor(text string) (c cursor, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.At == "" {
		return c, fmt.Errorf("the cursor %.40q is not one of this store", text)
	}
	return c, nil
}
