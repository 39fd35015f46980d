package page

import (
	"context"
	"sort"
	"sync"

	"halley/trigger"
)

// maxSearches bounds the searches that are kept in memory.
const maxSearches = 16

// letterSearches are the latest searches of the dead letter stores.
type letterSearches struct {
	mu       sync.Mutex // guards byFilter
	byFilter map[filter]*cache[letterList]
}

// searchOf returns the search for a filter. All viewers share it.
func (s *letterSearches) searchOf(f filter) *cache[letterList] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byFilter[f]; c != nil {
		return c
	}
	if s.byFilter == nil || len(s.byFilter) >= maxSearches {
		s.byFilter = map[filter]*cache[letterList]{}
	}
	c := &cache[letterList]{}
	c.init(lettersEvery)
	s.byFilter[f] = c
	return c
}

// lettersFor returns a list that has the letters of a filter. If the list of all letters is
// cut, the stores are searched, at most once in lettersEvery: a store may have to read each
// record.
func (p *Page) lettersFor(ctx context.Context, f filter) letterList {
	list := p.letterList(ctx)
	f.State = ""
	if !list.isCut || f == (filter{}) {
		return list
	}
	return p.searches.searchOf(f).get(ctx, 0, func(ctx context.Context) letterList { return p.searchLetters(ctx, f) })
}

// searchLetters searches the stores for the newest letters of a filter.
func (p *Page) searchLetters(ctx context.Context, f filter) letterList {
	l := letterList{searched: new(int)}
	search := func(kind trigger.RecordKind) (found int) {
		searched, stopped := p.options.Source.SearchDeadLetters(ctx, kind, Selection{Function: f.Function, Range: f.Range, Key: f.Key}, func(d trigger.DeadLetter, err error) bool {
			if err != nil {
				l.problem = firstLine(err.Error())
				return true
			}
			found++
			l.rows = append(l.rows, rowOf(d))
			return found < maxLetters
		})
		*l.searched += searched
		l.isCut = l.isCut || stopped
		return found
	}
	l.dead, l.postponed = search(trigger.RecordDead), search(trigger.RecordPostponed)
	sort.SliceStable(l.rows, func(i, j int) bool { return l.rows[i].Time.After(l.rows[j].Time) })
	return l
}
