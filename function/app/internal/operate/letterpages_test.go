package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
)

// pagedStore answers queries from memory. A query takes wait, and reads at most bound records if
// that is not 0.
type pagedStore struct {
	trigger.DeadLetters
	records []trigger.DeadLetter
	queries []trigger.DeadLetterQuery
	wait    time.Duration
	broken  error
}

func (s *pagedStore) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	time.Sleep(s.wait)
	s.queries = append(s.queries, q)
	if s.broken != nil {
		return trigger.DeadLetterPage{}, s.broken
	}
	return trigger.SelectDeadLetters(slices.Values(s.records), q)
}

var firstTime = time.Unix(1_790_000_000, 0)

// add adds a record of a time in seconds.
func (s *pagedStore) add(function string, kind trigger.RecordKind, id string, second int) {
	s.records = append(s.records, trigger.DeadLetter{
		Version: trigger.DeadLetterVersion, Kind: kind, ID: id, Function: function, Container: "c", Key: `["k"]`, Time: firstTime.Add(time.Duration(second) * time.Second), Due: firstTime,
	})
}

func storeOf(function string, s *pagedStore) Store {
	return Store{Function: function, Source: trigger.DeadLetterSource{Function: function, Container: "c"}, DeadLetters: s}
}

// allPages reads all pages, and checks their length.
func allPages(t *testing.T, p *LetterPager) (ids []string, pages []LetterPage) {
	t.Helper()
	for token := ""; ; {
		page, err := p.Page(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) > p.Limit || page.Next != "" && !page.Stopped && len(page.Records) < p.Limit || len(pages) > 200 {
			t.Fatalf("page %d has %d records of %d, next %q", len(pages), len(page.Records), p.Limit, page.Next)
		}
		for _, l := range page.Records {
			ids = append(ids, l.ID)
		}
		pages = append(pages, page)
		if token = page.Next; token == "" {
			return ids, pages
		}
	}
}

// The records of several functions, dead and postponed, of which many have one time, come as one
// list without gaps and repeats, whatever the length of a page.
func TestPagesJoinTheStoresOfAllFunctions(t *testing.T) {
	orders, mails := &pagedStore{}, &pagedStore{}
	var want []string
	for i := range 120 {
		id := fmt.Sprintf("%03d", i)
		want = append(want, id)
		switch {
		case i%4 == 0:
			orders.add("orders", trigger.RecordPostponed, id, i/5)
		case i < 40 || i%3 == 0:
			orders.add("orders", trigger.RecordDead, id, i/5)
		default:
			mails.add("mails", trigger.RecordDead, id, i/5)
		}
	}
	for _, limit := range []int{1, 7, 50, 119, 120, 500} {
		p := &LetterPager{Stores: []Store{storeOf("orders", orders), storeOf("mails", mails)}, Limit: limit}
		ids, pages := allPages(t, p)
		sorted := slices.Clone(ids)
		slices.Sort(sorted)
		if !slices.Equal(sorted, want) {
			t.Errorf("pages of %d have %d records: %v", limit, len(ids), ids)
		}
		times := map[string]time.Time{}
		for _, d := range slices.Concat(orders.records, mails.records) {
			times[d.ID] = d.Time
		}
		if !slices.IsSortedFunc(ids, func(a, b string) int { return times[b].Compare(times[a]) }) {
			t.Errorf("pages of %d are not the newest first: %v", limit, ids)
		}
		last := pages[len(pages)-1]
		if last.Dead != 90 || last.Postponed != 30 || last.Searched != 120 {
			t.Errorf("pages of %d: %d dead, %d postponed, %d searched", limit, last.Dead, last.Postponed, last.Searched)
		}
	}
}

// The stores evaluate a selection, and a page reads little more than it lists.
func TestPageReadsLittleMoreThanItLists(t *testing.T) {
	var stores []Store
	var all []*pagedStore
	for f := range 12 {
		s := &pagedStore{}
		for i := range 1000 {
			s.add(fmt.Sprint("f", f), trigger.RecordDead, fmt.Sprint(f, "-", i), i*12+f)
		}
		all, stores = append(all, s), append(stores, storeOf(fmt.Sprint("f", f), s))
	}
	p := &LetterPager{Stores: stores, Select: Selection{Range: "3", Text: "boom"}, Limit: 100}
	if page, err := p.Page(t.Context(), ""); err != nil || len(page.Records) != 0 || page.Next != "" || page.Dead != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	if q := all[0].queries[0]; q.Range != "3" || q.ErrorContains != "boom" || !q.NewestFirst {
		t.Errorf("the store is asked %+v", q)
	}
	p.Select = Selection{}
	page, err := p.Page(t.Context(), "")
	if err != nil || len(page.Records) != 100 || page.Dead != 12_000 || page.Records[0].ID != "11-999" || page.Records[99].ID != "8-991" {
		t.Errorf("%d records of %d, %v", len(page.Records), page.Dead, err)
	}
	read := 0
	for _, s := range all {
		for _, q := range s.queries[2:] {
			read += q.Limit
		}
	}
	if read > 500 {
		t.Errorf("up to %d records are read for a page of 100", read)
	}
}

// A search for records that the stores cannot select stops at its bounds, says so, and continues
// from there.
func TestSearchStopsAtItsBoundsAndContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pagedStore{wait: time.Second}
		for i := range 1000 {
			s.add("orders", trigger.RecordDead, fmt.Sprint(i), i)
		}
		wanted := func(d trigger.DeadLetter) bool { return d.ID == "7" }
		for name, p := range map[string]*LetterPager{
			"records": {Stores: []Store{storeOf("orders", s)}, Limit: 10, Wants: wanted, MaxSearched: 300},
			"time":    {Stores: []Store{storeOf("orders", s)}, Limit: 10, Wants: wanted, MaxTime: 2 * time.Second},
		} {
			ids, pages := allPages(t, p)
			if len(ids) != 1 || len(pages) != 4 || !pages[0].Stopped || pages[0].Searched != 300 || pages[1].Searched != 600 || pages[0].Dead != 1000 || pages[3].Searched != 1000 {
				t.Errorf("bound of %s: %v in %d pages, the first of %d searched", name, ids, len(pages), pages[0].Searched)
			}
		}
	})
}

// A store that fails hides no other.
func TestPageTellsOfStoresThatFail(t *testing.T) {
	broken, whole := &pagedStore{broken: errors.New("no rights")}, &pagedStore{}
	whole.add("mails", trigger.RecordDead, "a", 1)
	p := &LetterPager{Stores: []Store{storeOf("orders", broken), storeOf("mails", whole)}, Limit: 10}
	page, err := p.Page(t.Context(), "")
	if err != nil || len(page.Records) != 1 || len(page.Failures) != 1 || page.Failures[0].Error() != "dead letters of orders: no rights" {
		t.Errorf("%+v, %v", page, err)
	}
	if _, err := p.Page(t.Context(), "not a token"); err == nil || !strings.Contains(err.Error(), "leave it out") {
		t.Errorf("a foreign token: %v", err)
	}
}
