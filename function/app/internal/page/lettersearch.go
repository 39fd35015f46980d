package page

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// lettersEvery is the time between two lists of dead letters with the same query, unless
	// the recorder knows of a change.
	lettersEvery = 10 * time.Second
	// lettersShare bounds the time that the process spends on a list that changes all the
	// time: the next one begins after so many times the time that the last one took.
	lettersShare = 3
	// maxLetterLists bounds the lists that are kept in memory, without documents.
	maxLetterLists = 16
)

// letterList is a list of dead letters and postponed changes. It does not change.
type letterList struct {
	items[letterRow]
	err error // about the token
}

// letterLists are the latest lists. All viewers share them.
type letterLists struct {
	mu      sync.Mutex // guards byQuery
	byQuery map[LetterQuery]*cache[letterList]
}

// cacheOf returns the cache of a query.
func (s *letterLists) cacheOf(q LetterQuery) *cache[letterList] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.byQuery[q]; c != nil {
		return c
	}
	if s.byQuery == nil || len(s.byQuery) >= maxLetterLists {
		s.byQuery = map[LetterQuery]*cache[letterList]{}
	}
	c := &cache[letterList]{}
	c.init(lettersEvery, lettersShare)
	s.byQuery[q] = c
	return c
}

// letterList returns a page of the list of dead letters.
func (p *Page) letterList(ctx context.Context, q LetterQuery) letterList {
	return p.letters.cacheOf(q).get(ctx, p.options.Recorder.letterVersion(), func(ctx context.Context) letterList { return p.readLetters(ctx, q) })
}

// newestLetters returns the first page without a filter if it has been read before. It is read
// in the background: a store with many records needs its time, and a viewer who looks at the
// ranges does not wait for it. A page that is polled may have no time between two requests.
func (p *Page) newestLetters(ctx context.Context) (l letterList, isKnown bool) {
	q := LetterQuery{Limit: defaultLimit}
	if p.options.Polled {
		return p.letterList(ctx, q), true
	}
	c := p.letters.cacheOf(q)
	l, isFresh, isKnown := c.stored(p.options.Recorder.letterVersion())
	if !isFresh && !c.isBusy() {
		p.working.Go(func() { p.letterList(p.ctx, q) })
	}
	return l, isKnown
}

func (p *Page) readLetters(ctx context.Context, q LetterQuery) letterList {
	found, err := p.options.Source.DeadLetters(ctx, q)
	l := letterList{err: err, items: items[letterRow]{
		Items: []letterRow{}, Total: found.Dead, Next: found.Next, Problem: firstLine(found.Problem), Postponed: found.Postponed, Stopped: found.Stopped, Searched: found.Searched,
	}}
	for _, d := range found.Records {
		l.Items = append(l.Items, rowOf(d))
	}
	return l
}

// mark differs from that of another list.
func (l letterList) mark() string {
	mark := fmt.Sprint(l.Total, l.Postponed, l.Problem)
	if len(l.Items) > 0 {
		mark += l.Items[0].ID
	}
	return mark
}
