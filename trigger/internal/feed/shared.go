package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/units"
)

// SharedReads lets functions that read one container in one mode, with pages of one size,
// share their reads: those at one position of one range cost one request. It lives for
// one run or one drain of a host. A function that takes the page of another one asks for the next
// page with its size, so that pages grow for all of them together.
//
// A function that needs an answer while another one's request for it is under way waits
// for that request. A page with changes is kept for the functions that are still
// before its end, see also [Budget.ShareFrom]. An answer without changes says only that there was nothing new when it
// was given. It serves another function if
//
//   - its request is newer than the last read of that function,
//   - it is younger than that function's [Source].MaxAge, and
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
	readers  map[feedPart]map[*ReservedBytes]*sharedReader
	requests int64 // number of the newest request
}

// keptFor is how long a page waits for other functions. One whose handler takes longer
// for its pages than that reads on its own.
const keptFor = time.Minute

// feedPart is the part of the container that a lease covers. A function for which it is opaque
// does not get the large pages of others.
type feedPart struct {
	resourceID, rangeID, min, max string
	isOpaque                      bool
}

// pagePosition identifies a page to be read.
type pagePosition struct {
	part         feedPart
	continuation string
	start        cosmos.Start // if the continuation is empty
}

// sharedReader is a range of one function, among those that read one part. The budget's
// lock guards it.
type sharedReader struct {
	continuation string // of its last read
	request      int64  // number of the newest request that has answered it
}

// sharedAnswer is one request and its answer. The budget's lock guards it; those that
// wait for done may read err after it.
type sharedAnswer struct {
	position pagePosition
	request  int64 // its number, in the order in which requests began
	items    int   // that were requested
	done     chan struct{}
	waiting  int       // functions that have waited for it
	err      error     // for those that wait; nil if they have to read on their own
	kept     *keptPage // nil before the answer
	wanted   int       // functions that may still want the page
}

// sharedRequest is a request of a function that shares its reads.
type sharedRequest struct {
	cosmos.FeedRequest
	container *cosmos.Container
	maxAge    time.Duration // of the function's [Source]
	isOpaque  bool          // likewise
	meter     *units.Meter  // likewise
}

// NewSharedReads returns the shared reads of a number of functions. The caller calls
// Close when all of them have ended.
func NewSharedReads(b *Budget, functions int, draining bool) *SharedReads {
	return &SharedReads{
		budget: b, functions: functions, draining: draining,
		answers: map[pagePosition]*sharedAnswer{}, readers: map[feedPart]map[*ReservedBytes]*sharedReader{},
	}
}

// Close releases all kept pages.
func (s *SharedReads) Close() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	for _, answer := range s.answers { // dropping one deletes it
		s.budget.dropPage(answer.kept)
	}
}

// readPage reads a page, or takes that of another function.
func (s *SharedReads) readPage(ctx context.Context, request sharedRequest, reading *Reading) (*Page, error) {
	for {
		page, answer, turn := s.find(request, reading)
		switch {
		case page != nil:
			if reading.age() == 0 { // as if it had waited
				_ = backoff.Sleep(ctx, waitTurn)
			}
			return page, nil
		case turn == 0:
			page, err := readFeed(ctx, request.container, request.FeedRequest, request.meter)
			s.finish(answer, page, err, ctx.Err() != nil, reading.by)
			return page, err
		}
		select {
		case <-answer.done:
			if err := backoff.Sleep(ctx, time.Duration(turn)*waitTurn); err != nil {
				return nil, fmt.Errorf("%w: %w", errOtherReads, err)
			}
			if answer.err != nil {
				return nil, answer.err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errOtherReads, context.Cause(ctx))
		}
	}
}

// Functions that share reads continue after each other: their order decides which of them
// makes the next request, so that a simulated run repeats. Those that have waited for one
// answer are waitTurn apart. All functions but one sleep for up to functionSpread longer.
const (
	waitTurn       = time.Microsecond
	functionSpread = 512 * time.Microsecond
)

// errOtherReads is the error of a read whose time has ended while it waited for the read of
// another function, which has a time of its own. It tells nothing about the service.
var errOtherReads = errors.New("the page is still being read for another function")

// find returns a share of a page that was read, or the answer to wait for and the caller's
// turn among those that wait. A caller whose turn is 0 reads the page and calls finish.
func (s *SharedReads) find(request sharedRequest, reading *Reading) (page *Page, answer *sharedAnswer, turn int) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropOlder(keptFor)
	position := request.position()
	reader := s.join(reading.by, position)
	answer = s.answers[position]
	switch {
	case answer == nil:
	case answer.kept == nil:
		answer.waiting++
		return nil, answer, answer.waiting
	case answer.serves(request, reader, reading.by.sharesFrom):
		return s.take(answer, reader, reading), nil, 0
	default:
		b.dropPage(answer.kept)
	}
	s.requests++
	answer = &sharedAnswer{position: position, request: s.requests, items: request.MaxItems, done: make(chan struct{})}
	s.answers[position], reader.request = answer, answer.request
	return nil, answer, 0
}

func (r *sharedRequest) position() pagePosition {
	return pagePosition{feedPart{r.ResourceID, r.Range.ID, r.Min, r.Max, r.isOpaque}, r.Continuation, r.Start}
}

// join notes where a range reads now. The lock is held.
func (s *SharedReads) join(reserved *ReservedBytes, position pagePosition) *sharedReader {
	reader := s.readers[position.part][reserved]
	if reader == nil {
		if reserved.onLeave != nil {
			reserved.onLeave() // it has read another part
		}
		reader = &sharedReader{}
		if !s.draining { // answers from before it began to read are not for it
			reader.request = s.requests
		}
		if s.readers[position.part] == nil {
			s.readers[position.part] = map[*ReservedBytes]*sharedReader{}
		}
		s.readers[position.part][reserved] = reader
		reserved.onLeave = func() { s.leave(reserved, position.part) }
	}
	reader.continuation = position.continuation
	return reader
}

// leave takes a range away from those that read its part. The lock is held.
func (s *SharedReads) leave(reserved *ReservedBytes, part feedPart) {
	delete(s.readers[part], reserved)
	if len(s.readers[part]) == 0 {
		delete(s.readers, part)
	}
}

// serves reports whether a reader may take an answer of a time or later. The lock is held.
func (a *sharedAnswer) serves(request sharedRequest, reader *sharedReader, from time.Time) bool {
	if !a.kept.page.NotModified {
		return !a.kept.since.Before(from)
	}
	return a.request > reader.request && time.Since(a.kept.since) < request.maxAge &&
		a.kept.page.SessionToken == request.container.SessionToken(request.Range)
}

// take returns a share of an answer's page. The range continues with the size of that page, so
// that functions which read the same pages ask for the same ones. The lock is held.
func (s *SharedReads) take(a *sharedAnswer, reader *sharedReader, reading *Reading) *Page {
	page := a.kept.page.Share()
	reader.request = max(reader.request, a.request)
	reading.Items, reading.answeredAt = a.items, a.kept.since
	if a.wanted--; a.wanted == 0 {
		s.budget.dropPage(a.kept)
	}
	return page
}

// finish is told the outcome of a request. isOver says that the time of its reader is
// over, which tells nothing about the service unless the error says that it throttles.
func (s *SharedReads) finish(a *sharedAnswer, page *Page, err error, isOver bool, reserved *ReservedBytes) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	defer close(a.done)
	if err != nil {
		delete(s.answers, a.position)
		throttled, _ := cosmos.IsThrottled(err)
		if (!isOver || throttled) && !errors.Is(err, cosmos.ErrNotAdmitted) {
			a.err = err
		}
		return
	}
	if a.wanted = s.countWanting(a, reserved); a.wanted == 0 || !advances(page, a.position.continuation) {
		delete(s.answers, a.position)
		return
	}
	a.kept = &keptPage{page: page.Share(), since: time.Now(), onDrop: func() { delete(s.answers, a.position) }}
	b.keepPage(a.kept)
}

// countWanting counts the functions that may want an answer that a reader has. The lock
// is held.
func (s *SharedReads) countWanting(a *sharedAnswer, reserved *ReservedBytes) (n int) {
	if s.draining {
		return s.functions - 1
	}
	for member, other := range s.readers[a.position.part] {
		isAhead := a.position.continuation == "" && other.continuation != "" || IsLess(a.position.continuation, other.continuation)
		if member != reserved && !isAhead {
			n++
		}
	}
	return n
}

// advances reports whether the next read after a page begins behind its continuation,
// as [Reader] requires it. An answer that is repeated must not come from memory again.
func advances(page *Page, continuation string) bool {
	return !IsLess(page.Continuation, continuation) && (page.NotModified || page.Continuation != continuation)
}
