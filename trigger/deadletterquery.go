package trigger

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strings"
	"time"
)

// DeadLetterQuery asks a store for records of one source and one kind. Each further filter
// that is set leaves out records. A store in a container of Cosmos DB has the service filter;
// others read records to find those that the query selects.
//
// Records come in the order of their times; records of one time in that of their Order, then
// by range and LSN. If Key is set, their Order comes first: the owners' clocks then do not
// matter.
type DeadLetterQuery struct {
	Source DeadLetterSource
	Kind   RecordKind

	ID            string    // of one record
	Range         string    // lease token
	Key           string    // logical partition key, a JSON array
	ErrorContains string    // a part of the error
	After         time.Time // given up or postponed then or later
	Before        time.Time // given up or postponed earlier

	NewestFirst bool   // reverses the order
	Limit       int    // of the records of a page; 0 leaves it to the store
	Cursor      string // of the page before, which had the same query; "" asks for the first page
}

// DeadLetterPage is one answer to a query.
type DeadLetterPage struct {
	Records  []DeadLetter
	Damaged  []error // about records that cannot be read; each wraps [ErrDamaged]
	Searched int     // records that were read for this page, also those that the query leaves out
	Cursor   string  // of the next page; "" if there is none

	// Total is the number of records that the store has to search for all pages of the query,
	// the damaged ones among them. Only the first page has it, and only of stores that know it
	// without reading the records.
	Total int

	// StoppedAtBound says that the page ended at a bound of the store before it had as many
	// records as its limit, although there may be more: it may even be empty. The next page
	// continues.
	StoppedAtBound bool
}

// Check returns an error if no store can answer the query.
func (q DeadLetterQuery) Check() error {
	switch {
	case q.Kind != RecordDead && q.Kind != RecordPostponed:
		return fmt.Errorf("query of dead letters: kind %q: ask for %q or %q", q.Kind, RecordDead, RecordPostponed)
	case q.Limit < 0:
		return fmt.Errorf("query of dead letters: limit %d is negative", q.Limit)
	}
	return nil
}

// Matches reports whether a query selects the record.
func (d DeadLetter) Matches(q DeadLetterQuery) bool {
	return d.Source() == q.Source && d.Kind == q.Kind && (q.ID == "" || d.ID == q.ID) &&
		(q.Range == "" || d.Range == q.Range) && (q.Key == "" || d.Key == q.Key) && strings.Contains(d.Error, q.ErrorContains) &&
		!d.Time.Before(q.After) && (q.Before.IsZero() || d.Time.Before(q.Before))
}

// AllDeadLetters goes through the records of all pages of a query, from its Cursor on. An error
// about a damaged record wraps [ErrDamaged] and comes after the records of its page; any
// other error is the last.
func AllDeadLetters(ctx context.Context, store DeadLetters, q DeadLetterQuery) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		for {
			page, err := store.Query(ctx, q)
			if err == nil && page.Cursor != "" && page.Cursor == q.Cursor {
				err = fmt.Errorf("dead letters of %v: the store gives the same page again", q.Source)
			}
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, d := range page.Records {
				if !yield(d, nil) {
					return
				}
			}
			for _, damage := range page.Damaged {
				if !yield(DeadLetter{}, damage) {
					return
				}
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				return
			}
		}
	}
}

// pageLimit is the number of records of a page without a limit.
const pageLimit = 100

// SelectDeadLetters answers a query from records in memory, which are in any order: a store that
// holds them there needs no more. The first page reports those of an unknown form.
func SelectDeadLetters(records iter.Seq[DeadLetter], q DeadLetterQuery) (page DeadLetterPage, err error) {
	if err := q.Check(); err != nil {
		return page, err
	}
	last, err := parseCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	var found []DeadLetter
	for d := range records {
		if damage := d.CheckForm(); damage != nil {
			if q.Cursor == "" && d.Source() == q.Source {
				page.Damaged = append(page.Damaged, fmt.Errorf("dead letter %q: %w", d.ID, damage))
			}
			continue
		}
		if d.Matches(q) && (q.Cursor == "" || compareLetters(q, d, last) > 0) {
			found = append(found, d)
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return compareLetters(q, found[i], found[j]) < 0 })
	page.Records, page.Searched = found, len(found)
	if q.Cursor == "" {
		page.Total = len(found) + len(page.Damaged)
	}
	if limit := cmp.Or(q.Limit, pageLimit); len(found) > limit {
		page.Records, page.Searched = found[:limit:limit], limit
		page.Cursor, err = cursorAt(found[limit-1])
	}
	return page, err
}

// compareLetters orders two records as a query asks for them.
func compareLetters(q DeadLetterQuery, a, b DeadLetter) int {
	order := cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Order, b.Order))
	if q.Key != "" {
		order = cmp.Or(cmp.Compare(a.Order, b.Order), a.Time.Compare(b.Time))
	}
	order = cmp.Or(order, cmp.Compare(a.Range, b.Range), cmp.Compare(a.LSN, b.LSN), cmp.Compare(a.ID, b.ID))
	if q.NewestFirst {
		return -order
	}
	return order
}

// cursorPosition is the content of a cursor of SelectDeadLetters: the place of the last record.
type cursorPosition struct {
	Time  time.Time `json:"time"`
	Order int64     `json:"order"`
	Range string    `json:"range"`
	LSN   int64     `json:"lsn"`
	ID    string    `json:"id"`
}

// cursorAt returns the cursor of the page behind a record.
func cursorAt(d DeadLetter) (string, error) {
	b, err := json.Marshal(cursorPosition{d.Time, d.Order, d.Range, d.LSN, d.ID})
	return base64.RawURLEncoding.EncodeToString(b), err
}

// parseCursor returns a record with the place of a cursor.
func parseCursor(cursor string) (d DeadLetter, err error) {
	if cursor == "" {
		return d, nil
	}
	var p cursorPosition
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return d, errors.New("query of dead letters: the cursor is not one of this store")
	}
	return DeadLetter{Time: p.Time, Order: p.Order, Range: p.Range, LSN: p.LSN, ID: p.ID}, nil
}
