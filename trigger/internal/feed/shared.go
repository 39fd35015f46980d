package feed

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// SharedReads lets functions that read one container in one mode, with one page size,
// share their reads: those at one position of one range cost one request. It lives for
// one run or one drain of a host.
//
// A function that needs an answer while another one's request for it is under way waits
// for that request. A page with changes is kept for the functions that are still
// before its end. An answer without changes says only that there was nothing new when it
// was given. It serves another function if
//
//   - its request is newer than the last read of that function,
//   - it is younger than that function's poll delay, and
//   - this client has seen no newer session of the range since: no function misses a
//     change that another one, or a handler's own write, has shown to this process.
//
// That function then waits as if it had polled at that time, so that it finds no change
// later than its poll delay allows.
//
// Kept pages take memory that no range has reserved: they are dropped, the oldest first,
// when a range reserves it. A shared page counts for each range that has it, as a page of
// its own would, so that the bound of the budget holds whichever range releases it first.
type SharedReads struct {
	budget    *Budget
	functions int  // that run
	draining  bool // each function reads each range from the position of its lease, sooner or later

	// The budget's lock guards the fields below.
	answers  map[pagePosition]*sharedAnswer
	kept     []*sharedAnswer // those of answers that have a page, oldest first
	requests int64           // number of the newest request
	readers  map[feedPart][]*sharedReader
}

// keptFor is how long a page waits for other functions. One whose handler takes longer
// for its pages than that reads on its own.
const keptFor = time.Minute

// feedPart is the part of the container that a lease covers.
type feedPart struct{ resourceID, rangeID, min, max string }

// pagePosition identifies a page to be read.
type pagePosition struct {
	part         feedPart
	continuation string
	start        cosmos.Start // if the continuation is empty
}

// sharedReader is a range of one function, among those that read one part. The budget's
// lock guards it.
type sharedReader struct {
	part         feedPart
	continuation string // of its last read
	request      int64  // number of the newest request that has answered it
}

// sharedAnswer is one request and its answer. The budget's lock guards it; those that
// wait for done may read err after it.
type sharedAnswer struct {
	position   pagePosition
	request    int64 // its number, in the order in which requests began
	items      int   // that were requested
	done       chan struct{}
	err        error     // for those that wait; nil if they have to read on their own
	page       *Page     // nil before the answer; kept until all have it
	answeredAt time.Time // valid with page
	wanted     int       // functions that may still want the page
}

// NewSharedReads returns the shared reads of a number of functions. The caller calls
// Close when all of them have ended.
func NewSharedReads(b *Budget, functions int, draining bool) *SharedReads {
	s := &SharedReads{
		budget: b, functions: functions, draining: draining,
		answers: map[pagePosition]*sharedAnswer{}, readers: map[feedPart][]*sharedReader{},
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shared = append(b.shared, s)
	return s
}

// Close releases all kept pages.
func (s *SharedReads) Close() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(s.kept) > 0 {
		s.drop(s.kept[0])
	}
	b.shared = slices.DeleteFunc(b.shared, func(other *SharedReads) bool { return other == s })
}

// readPage reads a page, or takes that of another function.
func (s *SharedReads) readPage(ctx context.Context, source *Source, request cosmos.FeedRequest, reading *Reading) (*Page, error) {
	for {
		page, answer, isFirst := s.find(source, request, reading)
		switch {
		case page != nil:
			return page, nil
		case isFirst:
			page, err := source.Container.ReadFeed(ctx, request)
			s.finish(answer, page, err, ctx.Err() != nil, reading.by.reader)
			return page, err
		}
		select {
		case <-answer.done:
			if answer.err != nil {
				return nil, answer.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// find returns a share of a page that was read, or the answer to wait for. If the caller
// isFirst, it reads the page and calls finish.
func (s *SharedReads) find(source *Source, request cosmos.FeedRequest, reading *Reading) (page *Page, answer *sharedAnswer, isFirst bool) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(s.kept) > 0 && time.Since(s.kept[0].answeredAt) > keptFor {
		s.drop(s.kept[0])
	}
	position := positionOf(request)
	reader := s.join(reading.by, position)
	answer = s.answers[position]
	switch {
	case answer == nil:
	case answer.page == nil:
		return nil, answer, false
	case s.serves(answer, source, request.Range, reader):
		return s.take(answer, reader, reading), nil, false
	default:
		s.drop(answer)
	}
	s.requests++
	answer = &sharedAnswer{position: position, request: s.requests, items: request.MaxItems, done: make(chan struct{})}
	s.answers[position], reader.request = answer, answer.request
	return nil, answer, true
}

func positionOf(r cosmos.FeedRequest) pagePosition {
	return pagePosition{feedPart{r.ResourceID, r.Range.ID, r.Min, r.Max}, r.Continuation, r.Start}
}

// join notes where a range reads now. The lock is held.
func (s *SharedReads) join(by *ReservedBytes, at pagePosition) *sharedReader {
	if by.reader == nil || by.sharing != s || by.reader.part != at.part {
		by.leaveShared()
		by.sharing, by.reader = s, &sharedReader{part: at.part}
		if !s.draining { // answers from before it began to read are not for it
			by.reader.request = s.requests
		}
		s.readers[at.part] = append(s.readers[at.part], by.reader)
	}
	by.reader.continuation = at.continuation
	return by.reader
}

// leaveShared takes a range away from those that read its part. The lock is held.
func (by *ReservedBytes) leaveShared() {
	if by.reader == nil {
		return
	}
	readers, part := by.sharing.readers, by.reader.part
	readers[part] = slices.DeleteFunc(readers[part], func(r *sharedReader) bool { return r == by.reader })
	if len(readers[part]) == 0 {
		delete(readers, part)
	}
	by.sharing, by.reader = nil, nil
}

// serves reports whether a reader may take an answer. The lock is held.
func (s *SharedReads) serves(a *sharedAnswer, source *Source, physical cosmos.Range, reader *sharedReader) bool {
	if !a.page.NotModified {
		return true
	}
	return a.request > reader.request && time.Since(a.answeredAt) < source.PollDelay &&
		a.page.SessionToken == source.Container.SessionToken(physical)
}

// take returns a share of an answer's page. The lock is held.
func (s *SharedReads) take(a *sharedAnswer, reader *sharedReader, reading *Reading) *Page {
	page := a.page.Share()
	reader.request = max(reader.request, a.request)
	reading.Items, reading.answeredAt = max(reading.Items, a.items), a.answeredAt
	if a.wanted--; a.wanted == 0 {
		s.drop(a)
	}
	return page
}

// finish is told the outcome of a request. isOver says that the time of its reader is
// over, which tells nothing about the service.
func (s *SharedReads) finish(a *sharedAnswer, page *Page, err error, isOver bool, reader *sharedReader) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(a.done)
	if err != nil {
		delete(s.answers, a.position)
		if !isOver && !errors.Is(err, cosmos.ErrNotAdmitted) {
			a.err = err
		}
		return
	}
	if a.wanted = s.countWanting(a, reader); a.wanted == 0 || !advances(page, a.position.continuation) {
		delete(s.answers, a.position)
		return
	}
	a.page, a.answeredAt = page.Share(), time.Now()
	s.kept = append(s.kept, a)
	b.keptBytes += pageSize(a.page)
	b.dropKept()
}

// countWanting counts the functions that may want an answer that a reader has. The lock
// is held.
func (s *SharedReads) countWanting(a *sharedAnswer, reader *sharedReader) (n int) {
	if s.draining {
		return s.functions - 1
	}
	for _, other := range s.readers[a.position.part] {
		isAhead := a.position.continuation == "" && other.continuation != "" || isLess(a.position.continuation, other.continuation)
		if other != reader && !isAhead {
			n++
		}
	}
	return n
}

// advances reports whether the next read after a page begins behind its continuation,
// as [Reader] requires it. An answer that is repeated must not come from memory again.
func advances(page *Page, continuation string) bool {
	return !isLess(page.Continuation, continuation) && (page.NotModified || page.Continuation != continuation)
}

// isLess compares continuations that are LSNs. It is false for all others.
func isLess(continuation, than string) bool {
	a, aErr := strconv.ParseInt(strings.Trim(continuation, `"`), 10, 64)
	b, bErr := strconv.ParseInt(strings.Trim(than, `"`), 10, 64)
	return aErr == nil && bErr == nil && a < b
}

// drop releases an answer that is kept. The lock is held.
func (s *SharedReads) drop(a *sharedAnswer) {
	delete(s.answers, a.position)
	s.kept = slices.DeleteFunc(s.kept, func(other *sharedAnswer) bool { return other == a })
	s.budget.keptBytes -= pageSize(a.page)
	a.page.Release()
}

// dropKept drops kept pages until the others are at most half of the budget, and fit
// into the bytes that no range has reserved. The lock is held.
func (b *Budget) dropKept() {
	for _, s := range b.shared {
		for len(s.kept) > 0 && b.keptBytes > max(min(b.byteLimit/2, b.byteLimit-b.usedBytes), 0) {
			s.drop(s.kept[0])
		}
	}
}
