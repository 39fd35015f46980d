package operate

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"halley/trigger"
)

// LetterPager lists the records of several stores as one list, the newest first, a page at a
// time. A page needs nothing but the token of the page before, so that any process can answer it.
type LetterPager struct {
	Stores []Store
	Select Selection                     // that the stores evaluate; IDs do not count
	Wants  func(trigger.DeadLetter) bool // a further filter, for which records are read; nil: none
	Limit  int                           // of the records of a page

	// A page ends early after so many records were read for it, or so much time: 0 is no bound.
	MaxSearched int
	MaxTime     time.Duration
}

// LetterPage is a page of the records of several stores. The counts include those of the pages
// before.
type LetterPage struct {
	Records  []StoredLetter
	Next     string // token of the next page; "" if there is none
	Searched int    // records that were read

	// Dead and Postponed are the records that the stores select, of which a further filter may
	// leave out some.
	Dead, Postponed int

	Stopped  bool    // at a bound, before the page was full
	Failures []error // about stores and damaged records; the others are listed
}

// letterToken is the place behind a page.
type letterToken struct {
	Time  time.Time `json:"t"` // of the last record
	Order int64     `json:"o,omitempty"`
	IDs   []string  `json:"i"` // of the records that were listed with this time and order

	Cursors map[string]string `json:"c"` // of the stores whose end is not reached, by source

	Searched  int `json:"s"`
	Dead      int `json:"d"`
	Postponed int `json:"p"`
}

// letterSource is one kind of records of one store, during a page.
type letterSource struct {
	name   string
	store  Store
	query  trigger.DeadLetterQuery // its cursor is that of buffer
	buffer []trigger.DeadLetter    // not listed yet, the newest first
	read   int                     // records that were read for buffer
	next   string                  // cursor behind buffer
	asked  bool
	ended  bool // there is nothing behind buffer
	failed bool
}

// letterMerge is the making of one page.
type letterMerge struct {
	*LetterPager
	token    letterToken
	isFirst  bool
	sources  []*letterSource
	page     LetterPage
	searched int // for this page alone
	deadline time.Time
}

// Page returns the page behind a token; "" is the first. The error is about the token.
func (p *LetterPager) Page(ctx context.Context, token string) (LetterPage, error) {
	m := &letterMerge{LetterPager: p, isFirst: token == ""}
	if p.MaxTime > 0 {
		m.deadline = time.Now().Add(p.MaxTime)
	}
	if err := m.parse(token); err != nil {
		return LetterPage{}, err
	}
	m.addSources()
	for len(m.page.Records) < p.Limit {
		source := m.newestSource(ctx)
		if source == nil {
			break
		}
		m.take(source)
	}
	return m.finish()
}

func (m *letterMerge) parse(token string) error {
	if m.isFirst {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &m.token)
	}
	if err != nil {
		return fmt.Errorf("the token %.40q is not that of a page of dead letters: leave it out to begin with the newest", token)
	}
	m.page.Searched, m.page.Dead, m.page.Postponed = m.token.Searched, m.token.Dead, m.token.Postponed
	return nil
}

// addSources adds the kinds of records of all stores whose end is not reached.
func (m *letterMerge) addSources() {
	kinds := m.Select.kinds()
	limit := LettersOfPage
	if m.Wants == nil { // more than the page's share would be read in vain
		limit = min(limit, max(m.Limit/max(len(m.Stores)*len(kinds), 1), 10))
	}
	for _, store := range m.Stores {
		for _, kind := range kinds {
			s := &letterSource{name: store.Function + " " + string(kind), store: store, query: m.Select.query(kind)}
			s.query.Source, s.query.NewestFirst, s.query.Limit = store.Source, true, limit
			if !m.isFirst {
				cursor, open := m.token.Cursors[s.name]
				s.query.Cursor, s.ended = cursor, !open
			}
			m.sources = append(m.sources, s)
		}
	}
}

// newestSource returns the source with the newest record, or nil if there is none or a bound is
// reached: then an older record of one source might come before a newer one of another.
func (m *letterMerge) newestSource(ctx context.Context) (newest *letterSource) {
	for _, s := range m.sources {
		for len(s.buffer) == 0 && !s.ended && !s.failed {
			if m.isAtBound(ctx) {
				m.page.Stopped = true
				return nil
			}
			m.fill(ctx, s)
		}
		if len(s.buffer) > 0 && (newest == nil || m.compare(s.buffer[0], newest.buffer[0]) > 0) {
			newest = s
		}
	}
	return newest
}

func (m *letterMerge) isAtBound(ctx context.Context) bool {
	return ctx.Err() != nil || m.MaxSearched > 0 && m.searched >= m.MaxSearched || !m.deadline.IsZero() && m.searched > 0 && time.Now().After(m.deadline)
}

// fill reads the next records of a source.
func (m *letterMerge) fill(ctx context.Context, s *letterSource) {
	if s.asked {
		s.query.Cursor = s.next
	}
	found, err := s.store.Query(ctx, s.query)
	if err == nil && found.Cursor != "" && found.Cursor == s.query.Cursor {
		err = errors.New("the store gives the same page again")
	}
	for _, damage := range found.Damaged {
		m.addFailure(s, damage)
	}
	if err != nil {
		s.failed = true
		m.addFailure(s, err)
		return
	}
	s.asked, s.next, s.ended, s.read = true, found.Cursor, found.Cursor == "", found.Searched
	m.searched += found.Searched
	m.page.Searched += found.Searched
	if m.isFirst && s.query.Kind == trigger.RecordDead {
		m.page.Dead += found.Total
	} else if m.isFirst {
		m.page.Postponed += found.Total
	}
	s.buffer = slices.DeleteFunc(found.Records, func(d trigger.DeadLetter) bool { return m.wasListed(d) || m.Wants != nil && !m.Wants(d) })
}

// addFailure adds an error of a source. A record may be damaged in the lists of both kinds.
func (m *letterMerge) addFailure(s *letterSource, err error) {
	err = fmt.Errorf("dead letters of %s: %w", s.store.Function, err)
	if !slices.ContainsFunc(m.page.Failures, func(other error) bool { return other.Error() == err.Error() }) {
		m.page.Failures = append(m.page.Failures, err)
	}
}

// wasListed reports whether a record is on a page before.
func (m *letterMerge) wasListed(d trigger.DeadLetter) bool {
	if m.isFirst || len(m.token.IDs) == 0 {
		return false
	}
	order := m.compare(d, trigger.DeadLetter{Time: m.token.Time, Order: m.token.Order})
	return order > 0 || order == 0 && slices.Contains(m.token.IDs, d.ID)
}

// compare orders records as their stores do: a newer one is larger.
func (m *letterMerge) compare(a, b trigger.DeadLetter) int {
	if m.Select.Key != "" {
		return cmp.Or(cmp.Compare(a.Order, b.Order), a.Time.Compare(b.Time))
	}
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Order, b.Order))
}

// take lists the newest record of a source.
func (m *letterMerge) take(s *letterSource) {
	d := s.buffer[0]
	s.buffer = s.buffer[1:]
	m.page.Records = append(m.page.Records, StoredLetter{d, s.store})
	if len(m.token.IDs) == 0 || !m.token.Time.Equal(d.Time) || m.token.Order != d.Order {
		m.token.Time, m.token.Order, m.token.IDs = d.Time, d.Order, nil
	}
	m.token.IDs = append(m.token.IDs, d.ID)
}

// finish adds the token of the next page. A source with records that were read and not listed
// is read again from its cursor.
func (m *letterMerge) finish() (LetterPage, error) {
	m.token.Cursors = map[string]string{}
	for _, s := range m.sources {
		switch {
		case len(s.buffer) > 0:
			m.token.Cursors[s.name] = s.query.Cursor
			m.page.Searched -= s.read
		case s.failed || !s.asked && !s.ended:
			m.token.Cursors[s.name] = s.query.Cursor
		case !s.ended:
			m.token.Cursors[s.name] = s.next
		}
	}
	if len(m.token.Cursors) == 0 || len(m.page.Records) == 0 && !m.page.Stopped {
		return m.page, nil
	}
	m.token.Searched, m.token.Dead, m.token.Postponed = m.page.Searched, m.page.Dead, m.page.Postponed
	b, err := json.Marshal(m.token)
	m.page.Next = base64.RawURLEncoding.EncodeToString(b)
	return m.page, err
}
