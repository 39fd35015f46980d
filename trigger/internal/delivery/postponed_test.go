package delivery

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// keptStore keeps postponed changes in memory. Each request takes a time.
type keptStore struct {
	takes time.Duration
	byKey map[string][]StoredChange
	puts  int
}

func (s *keptStore) Keeps() bool      { return true }
func (s *keptStore) Owns(string) bool { return true }

func (s *keptStore) Put(_ context.Context, c *Item, l DeadLetter) error {
	time.Sleep(s.takes)
	s.puts++
	s.byKey[c.Key] = append(s.byKey[c.Key], StoredChange{Change: c.Change, DeadLetter: l, LetterID: fmt.Sprint(c.Name(nil), "-", l.Postponed)})
	return nil
}

func (s *keptStore) Delete(_ context.Context, c *StoredChange) error {
	time.Sleep(s.takes)
	s.byKey[c.Key] = slices.DeleteFunc(s.byKey[c.Key], func(o StoredChange) bool { return o.LetterID == c.LetterID })
	return nil
}

func (s *keptStore) LoadKey(_ context.Context, key string, take func(StoredChange) bool) error {
	time.Sleep(s.takes)
	for _, c := range slices.Clone(s.byKey[key]) {
		if !take(c) {
			break
		}
	}
	return nil
}

func (s *keptStore) Holds(context.Context, string) (bool, error) { return false, nil }
func (s *keptStore) List(context.Context) (*BlockedKeys, error)  { return &BlockedKeys{}, nil }

// verdictCalls are the calls of a test whose handler answers with a verdict, and that
// keeps its pages.
type verdictCalls struct {
	*testRange
	judge func(items []*Item) Verdict
}

func (c verdictCalls) CallHandler(_ context.Context, _ int, items []*Item, _ int) Verdict {
	return c.judge(items)
}

func (verdictCalls) ReleasePage(*feed.Page, bool) {}

// A key is postponed by a second while its range is busy and each request to the store
// takes 20 ms. The handler works for 1 ms with each change. The changes of the other keys
// take less than 5 % longer than without, although the key has a fifth of the changes.
func TestPostponedKeyCostsOthersLittle(t *testing.T) {
	const changes, keys = 4000, 5
	run := func(postpones bool) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			r := newTestRange(t)
			r.config.MaxItemsPerInvocation = 1
			kept := &keptStore{takes: 20 * time.Millisecond, byKey: map[string][]StoredChange{}}
			began, others, done, postponed := time.Now(), 0, 0, false
			last := int64(0)
			calls := verdictCalls{r, func(items []*Item) Verdict {
				time.Sleep(time.Millisecond)
				c := items[0]
				switch {
				case keyText(c) != `["0"]`:
					if others++; others == changes*(keys-1)/keys {
						took = time.Since(began)
					}
				case postpones && !postponed:
					postponed = true
					return Verdict{Outcome: Failed, Err: errBad, FailedItems: items, Postponed: map[*Item]time.Duration{c: time.Second}}
				case c.LSN < last:
					t.Errorf("change %d of the key was handled after %d", c.LSN, last)
				default:
					done, last = done+1, c.LSN
				}
				return Verdict{Outcome: Handled}
			}}
			var pages []*feed.Page
			for from := 0; from < changes; from += 100 {
				pages = append(pages, postponedPage(from, keys))
			}
			if err := r.deliver(New(r.config, calls, kept), pages); err != nil {
				t.Error(err)
			}
			if n := len(kept.byKey[`["0"]`]); done != changes/keys || n != 0 || postpones && kept.puts == 0 {
				t.Errorf("%d changes of the key were handled, %d left in the store after %d puts", done, n, kept.puts)
			}
		})
		return took
	}
	plainTime, postponedTime := run(false), run(true)
	cost := float64(postponedTime-plainTime) / float64(plainTime)
	t.Logf("the changes of other keys took %s, and %s while a key was postponed: %.1f %% more", plainTime, postponedTime, cost*100)
	if cost >= 0.05 {
		t.Errorf("a postponed key costs the others %.1f %%, at most 5 %% are allowed", cost*100)
	}
}

// postponedPage is a page of a hundred changes, whose keys take turns.
func postponedPage(from, keys int) *feed.Page {
	page := &feed.Page{Continuation: feed.QuotedLSN(int64(from + 100))}
	for i := from; i < from+100; i++ {
		document := fmt.Sprintf(`{"id":"d%d","key":"%d","_lsn":%d}`, i, i%keys, i+1)
		page.Items = append(page.Items, cosmos.Item{Document: []byte(document), LSN: int64(i + 1), Timestamp: int64(i)})
	}
	return page
}
