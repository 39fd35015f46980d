package triggertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger"
)

// testOrder tests the order of time, in both directions, and deletes while pages are read.
func (s letterStore) testOrder(t *testing.T) {
	var want []string
	var all []trigger.DeadLetter
	for i, p := range []struct {
		after time.Duration
		order int64
		token string
		lsn   int64
	}{{0, 5, "0", 9}, {0, 5, "0", 10}, {0, 5, "05C1-FF", 1}, {0, 5, "1", 2}, {0, 6, "0", 1}, {1, 4, "0", 1}, {time.Second, 5, "", 0}, {24 * time.Hour, 5, "0", 1}} {
		d := sampleLetter("order", fmt.Sprintf("letter %d", i))
		d.Time, d.Order, d.Range, d.LSN = letterTime.Add(p.after), p.order, p.token, p.lsn
		want, all = append(want, d.ID), append(all, d)
	}
	for _, i := range []int{4, 0, 6, 2, 7, 5, 3, 1} {
		s.put(t, all[i])
	}
	q := deadOf("order")
	s.reopened(t).checkIDs(t, q, want...)
	newest := q
	newest.NewestFirst = true
	s.checkIDs(t, newest, reversed(want)...)
	for range trigger.AllDeadLetters(t.Context(), s, q) { // a caller may stop early
		break
	}
	q.Limit = 3
	var deleted []string
	for d, err := range trigger.AllDeadLetters(t.Context(), s, q) {
		mustLetter(t, err)
		mustLetter(t, s.Delete(t.Context(), d))
		deleted = append(deleted, d.ID)
	}
	sameLetters(t, deleted, want)
	s.reopened(t).checkIDs(t, deadOf("order"))
}

// testKeyOrder tests records of one key whose owners' clocks contradict their order.
func (s letterStore) testKeyOrder(t *testing.T) {
	for i, id := range []string{"third", "first", "second", "fourth"} {
		d := sampleLetter("clocks", id)
		d.Order = []int64{3 << 24, -1 << 24, 64, 3 << 24}[i]
		d.Time = letterTime.Add([]time.Duration{0, 3 * time.Hour, 2 * time.Hour, time.Hour}[i])
		other := d
		other.ID, other.Key = "other "+id, `["other"]`
		s.put(t, d, other)
	}
	q := deadOf("clocks")
	q.Key = `["k"]`
	want := []string{"first", "second", "third", "fourth"}
	s.reopened(t).checkIDs(t, q, want...)
	q.Limit = 1
	s.checkIDs(t, q, want...)
	q.NewestFirst = true
	s.checkIDs(t, q, reversed(want)...)
}

func reversed(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Reverse(ids)
	return ids
}

// testPages tests that pages join without gaps and repeats, whatever is put and deleted
// meanwhile.
func (s letterStore) testPages(t *testing.T) {
	const letters = 7
	var want []string
	for i := range letters {
		d := sampleLetter("pages", fmt.Sprint(i))
		d.Time, d.LSN = letterTime.Add(time.Duration(i/2)*time.Hour), int64(i) // pairs have one time
		s.put(t, d)
		want = append(want, d.ID)
	}
	for limit := 1; limit <= letters+1; limit++ {
		for _, newest := range []bool{false, true} {
			q := deadOf("pages")
			q.Limit, q.NewestFirst = limit, newest
			wanted := want
			if newest {
				wanted = reversed(want)
			}
			sameLetters(t, s.readPages(t, q), wanted)
		}
	}
	q := deadOf("pages")
	q.Limit = 1
	first, err := s.Query(t.Context(), q)
	mustLetter(t, err)
	mustLetter(t, s.Delete(t.Context(), sampleLetter("pages", "0"))) // the place of the cursor stays
	mustLetter(t, s.Delete(t.Context(), sampleLetter("pages", "2")))
	q.Cursor = first.Cursor
	s.reopened(t).checkIDs(t, q, "1", "3", "4", "5", "6")
	q.Cursor = "no cursor"
	if _, err := s.Query(t.Context(), q); err == nil {
		t.Error("a foreign cursor is taken")
	}
	q.Cursor, q.Limit = "", -1
	if _, err := s.Query(t.Context(), q); err == nil {
		t.Error("a negative limit is taken")
	}
}

// testPagesAfterPut tests that no page comes from the scan of an earlier list: an owner of a range
// has to find the records that the owner before it has put since.
func (s letterStore) testPagesAfterPut(t *testing.T) {
	var want []string
	for i := range 8 {
		for _, newest := range []bool{false, true} {
			q := deadOf("pages after a put")
			q.Limit, q.NewestFirst = 1, newest
			wanted := want
			if newest {
				wanted = reversed(want)
			}
			s.checkIDs(t, q, wanted...)
		}
		d := sampleLetter("pages after a put", fmt.Sprint(i))
		d.Time = letterTime.Add(time.Duration(i) * time.Hour)
		s.put(t, d)
		want = append(want, d.ID)
	}
}

// readPages reads the pages of a query in turn from the store and from another process, and
// checks what they say of themselves.
func (s letterStore) readPages(t *testing.T, q trigger.DeadLetterQuery) (ids []string) {
	t.Helper()
	stores := []letterStore{s, s.reopened(t)}
	searched, total := 0, 0
	for number := 0; number == 0 || q.Cursor != ""; number++ {
		page, err := stores[number%2].Query(t.Context(), q)
		mustLetter(t, err)
		short := len(page.Records) < q.Limit
		switch {
		case len(page.Records) > q.Limit, len(page.Damaged) > 0, page.Searched < len(page.Records),
			page.Cursor != "" && short != page.StoppedAtBound, page.Cursor == "" && page.StoppedAtBound, number > 1000:
			t.Fatalf("page %d of %+v has %d records, %d were searched, stopped at a bound: %v, next %q, damage %v",
				number, q, len(page.Records), page.Searched, page.StoppedAtBound, page.Cursor, page.Damaged)
		}
		if number == 0 {
			total = page.Total
		} else if page.Total != 0 {
			t.Errorf("page %d has the total %d, which is for the first page alone", number, page.Total)
		}
		ids, searched = append(ids, idsOf(page.Records)...), searched+page.Searched
		q.Cursor = page.Cursor
	}
	if searched < len(ids) {
		t.Errorf("%d of %d records were searched", searched, len(ids))
	}
	if total != 0 && total != len(ids) {
		t.Errorf("the total is %d, want %d, or 0 if the store does not know it", total, len(ids))
	}
	return ids
}

// testFilters tests each filter, and all of them together.
func (s letterStore) testFilters(t *testing.T) {
	for i, token := range []string{"0", "1", "0", "05C1-FF"} {
		d := sampleLetter("filters", fmt.Sprint("letter ", i))
		d.Range, d.Key, d.Time = token, fmt.Sprintf(`["key %d"]`, i%2), letterTime.Add(time.Duration(i)*time.Hour)
		d.Error = []string{"sink: timeout after 5s", "sink: refused", "100% 'sure' \\ _", ""}[i]
		s.put(t, d)
		d.Kind, d.ID = trigger.RecordPostponed, "postponed "+fmt.Sprint(i)
		s.put(t, d)
	}
	for name, test := range map[string]struct {
		filter func(q *trigger.DeadLetterQuery)
		want   string
	}{
		"none":              {func(*trigger.DeadLetterQuery) {}, "0123"},
		"id":                {func(q *trigger.DeadLetterQuery) { q.ID = "letter 2" }, "2"},
		"id of another":     {func(q *trigger.DeadLetterQuery) { q.ID = "postponed 2" }, ""},
		"part of an id":     {func(q *trigger.DeadLetterQuery) { q.ID = "letter" }, ""},
		"range":             {func(q *trigger.DeadLetterQuery) { q.Range = "0" }, "02"},
		"key":               {func(q *trigger.DeadLetterQuery) { q.Key = `["key 1"]` }, "13"},
		"part of a key":     {func(q *trigger.DeadLetterQuery) { q.Key = `["key` }, ""},
		"error":             {func(q *trigger.DeadLetterQuery) { q.ErrorContains = "sink" }, "01"},
		"error as written":  {func(q *trigger.DeadLetterQuery) { q.ErrorContains = "SINK" }, ""},
		"characters of SQL": {func(q *trigger.DeadLetterQuery) { q.ErrorContains = "% 'sure' \\ _" }, "2"},
		"after, inclusive":  {func(q *trigger.DeadLetterQuery) { q.After = letterTime.Add(2 * time.Hour) }, "23"},
		"a moment later":    {func(q *trigger.DeadLetterQuery) { q.After = letterTime.Add(2*time.Hour + 1) }, "3"},
		"before, exclusive": {func(q *trigger.DeadLetterQuery) { q.Before = letterTime.Add(2 * time.Hour) }, "01"},
		"a span": {func(q *trigger.DeadLetterQuery) {
			q.After, q.Before = letterTime.Add(time.Hour).In(time.FixedZone("", -3600)), letterTime.Add(3*time.Hour)
		}, "12"},
		"all": {func(q *trigger.DeadLetterQuery) {
			q.Range, q.Key, q.ErrorContains, q.After, q.Before = "0", `["key 0"]`, "timeout", letterTime, letterTime.Add(1)
		}, "0"},
		"none of all": {func(q *trigger.DeadLetterQuery) { q.Range, q.Key = "1", `["key 0"]` }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := deadOf("filters")
			test.filter(&q)
			var want []string
			for _, number := range strings.Split(test.want, "") {
				want = append(want, "letter "+number)
			}
			s.checkIDs(t, q, want...)
			q.NewestFirst, q.Limit = true, 1
			s.checkIDs(t, q, reversed(want)...)
		})
	}
}

// testDamage damages the oldest of three dead letters. Queries report it, in both
// directions and whatever they filter, and find the others.
func (s letterStore) testDamage(t *testing.T, damage DeadLetterDamage) {
	var all []trigger.DeadLetter
	for i, id := range []string{"a", "b", "c"} {
		d := sampleLetter("damage "+damage.Name, id)
		d.Key, d.Time = `["`+id+`"]`, d.Time.Add(time.Duration(i)*time.Hour)
		s.put(t, d)
		all = append(all, d)
	}
	text := damage.Do(t, all[0])
	for _, s := range []letterStore{s, s.reopened(t)} {
		q := deadOf(all[0].Function)
		s.checkDamage(t, q, text, "b", "c")
		q.NewestFirst, q.Limit = true, 1
		s.checkDamage(t, q, text, "c", "b")
		for i, d := range all {
			if i > 0 || damage.KeepsKey {
				s.checkHolds(t, d.Source(), d.Key, true)
			}
		}
	}
	mustLetter(t, s.Delete(t.Context(), all[1]))
	mustLetter(t, s.Delete(t.Context(), all[2]))
}

// checkDamage fails the test unless a query finds these records and exactly one damaged one.
func (s letterStore) checkDamage(t *testing.T, q trigger.DeadLetterQuery, text string, want ...string) {
	t.Helper()
	var got []string
	damaged := 0
	for d, err := range trigger.AllDeadLetters(t.Context(), s, q) {
		if err == nil {
			got = append(got, d.ID)
			continue
		}
		damaged++
		if !errors.Is(err, trigger.ErrDamaged) || !strings.Contains(err.Error(), text) {
			t.Errorf("damage of %s: %v", text, err)
		}
	}
	if !slices.Equal(got, want) || damaged != 1 {
		t.Errorf("found %q and %d damaged, want %q and 1", got, damaged, want)
	}
}
