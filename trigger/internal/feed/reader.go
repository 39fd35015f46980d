package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// ErrCaughtUp ends a [Reader] that reads only until it has caught up.
var ErrCaughtUp = errors.New("caught up with the feed")

// ErrSnapshotRead ends a [Reader] that has read everything up to [Reader.SnapshotEnd].
var ErrSnapshotRead = errors.New("read the snapshot to its end")

// ErrStale is the error of a page that is older than the position that it was read
// from: a replica that lags has answered.
var ErrStale = errors.New("the feed answered from an older position")

// AheadError is the error of a position that no region of the account has reached: changes up to
// it are lost, or it is of another feed. Until the feed passes it, new changes would be skipped.
type AheadError struct {
	Position, Newest int64 // LSNs; Newest is 0 if the range has failed over and the committed LSN is not known
	IsKeptKnown      bool  // the range is read again soon, from KeptLSN
	KeptLSN          int64
	SeekTo           time.Time // a time at which the feed was the one that the position is of, on the service's clock; zero if it is not known
}

func (e *AheadError) Error() string {
	text := fmt.Sprintf("position %d is ahead of the account, whose newest change has LSN %d: ", e.Position, e.Newest)
	if e.Newest == 0 {
		text = fmt.Sprintf("position %d is of before the range failed over, and the service does not tell whether changes up to it were kept: ", e.Position)
	}
	switch {
	case e.IsKeptKnown:
		return text + fmt.Sprintf("a failover may have lost changes; the range is read again from LSN %d soon, unless a region has them", e.KeptLSN)
	case e.SeekTo.IsZero():
		return text + "a failover has lost changes, or the position is of another feed; set it back to a time before that"
	}
	return text + "a failover has lost changes, or the position is of another feed; set it back to a time before that, for example " + e.SeekTo.UTC().Format(time.RFC3339)
}

// errNotAdvancing is the error of a page that would be read forever.
var errNotAdvancing = errors.New("the feed answered with changes but the same continuation")

// maxReadFailures is the number of failed reads in a row after which a range is
// given up: another host may have the connection that this one lacks. The client
// has already retried within each. A read that the service throttles does not count.
const maxReadFailures = 5

// Reader reads the pages of one leased range. Its worker calls Step, or Discard, never two at a
// time. All fields but FirstPage, FirstItems and ChangedAt are required.
type Reader struct {
	Source        *Source
	LeaseToken    string        // of the lease, for errors
	FirstPage     *Page         // read before the lease was acquired, reserved and not stale, or nil
	FirstItems    int           // changes in the first page if an earlier owner has saved a smaller size than that of Source, else 0
	MergedRange   bool          // the lease covers a part of a physical range
	UntilCaughtUp bool          // end with ErrCaughtUp instead of polling
	PollMin       time.Duration // wait before the first poll after changes; doubles with each poll that brings nothing
	PollDelay     time.Duration // up to this
	ChangedAt     time.Time     // when an earlier owner last had changes; zero is not known
	ReadTimeout   time.Duration // of one read, with the client's retries
	JitterKey     []any
	Budget        *Budget
	Reserved      *ReservedBytes

	// FirstPosition returns the continuation to read first. It is called again if it fails.
	FirstPosition func(ctx context.Context) (string, error)
	// Locate returns the range that holds the lease's changes now.
	Locate func(ctx context.Context) (Target, error)
	// Relocate is called after the service said that the range is gone. Its error
	// ends the reader.
	Relocate func(ctx context.Context) error
	// IsFinal reports whether an error of Begin or Locate ends the reader.
	IsFinal func(error) bool
	// SnapshotEnd returns the continuation up to which changes are read, "" if there is no end.
	// It is called after FirstPosition.
	SnapshotEnd func() string
	// PayRead waits until the function may spend request units on a read. The function
	// that it returns is told the charge of the read, unless it fails.
	PayRead func(ctx context.Context) (charged func(units float64), err error)
	// UntilPoll is the wait of a range that has nothing new.
	UntilPoll func() time.Duration
	// Verify returns an error if a page that was read after the continuation cannot follow it.
	Verify func(ctx context.Context, page *Page, continuation string) error
	// VerifyPosition returns an error if a read was refused, or no region had reached its session,
	// because of the continuation.
	VerifyPosition func(ctx context.Context, continuation string) error
	// ObservePage is told each page before it is sent on.
	ObservePage func(*Page)
	// PageSent is called after each page that was sent.
	PageSent func()
	// ReportProblem is told each failure, with the number of failures in a row.
	ReportProblem func(err error, failures int)

	hasBegun     bool
	continuation string        // of the next page
	wait         time.Duration // before the next poll, if it is not due for another reason
	changedAt    time.Time     // when the last changes were read
	nextItems    int           // changes in the next page, see [pageSizes]
	pace         pace
	snapshotEnd  string
	isPastEnd    bool // the page that was read last has passed it
}

// Step reads pages and sends them until there is nothing new, and returns how long to wait before
// the next step. Its error, which is the cause if ctx ends, the reason why the feed keeps failing,
// ErrCaughtUp or ErrSnapshotRead, ends the reader. It sends each page before it requests the next one.
func (r *Reader) Step(ctx context.Context, pages chan<- *Page) (wait time.Duration, err error) {
	if !r.hasBegun {
		if err := r.begin(ctx, pages); err != nil {
			return 0, err
		}
	}
	for {
		page, reading, err := r.readNext(ctx, r.continuation)
		if err != nil {
			return 0, err
		}
		idle, moved := page.NotModified, page.Continuation != r.continuation && !IsStale(page, r.continuation, r.MergedRange)
		if moved {
			r.continuation = page.Continuation
		}
		if !idle || moved {
			if err := r.sendPage(ctx, pages, page); err != nil {
				return 0, err
			}
		} else {
			r.Budget.ReleasePage(page, r.Reserved)
		}
		if r.isPastEnd {
			return 0, ErrSnapshotRead
		}
		if idle && r.UntilCaughtUp {
			return 0, ErrCaughtUp
		}
		age := reading.age()
		if !idle {
			r.wait, r.changedAt = r.PollMin, time.Now().Add(-age)
			continue
		}
		if age > 0 { // another function has polled since the changes
			r.wait = min(max(r.wait, time.Since(r.changedAt)-age), r.PollDelay)
		}
		wait := min(r.wait-age, r.UntilPoll())
		r.wait = min(2*r.wait, r.PollDelay)
		return wait + r.turn(), nil
	}
}

// cutAt leaves the changes after a continuation out of a page of a snapshot, and reports
// whether the feed has passed that: no later page has changes up to it. A replica that lags may
// answer that nothing is new, and has not passed it.
func cutAt(page *Page, end string) (isPassed bool) {
	last := LSNOf(end)
	if page.NotModified {
		return max(page.SessionLSN, LSNOf(page.Continuation)) >= last
	}
	n := len(page.Items)
	for n > 0 && page.Items[n-1].LSN > last {
		n--
	}
	isPassed = n < len(page.Items) || LSNOf(page.Continuation) >= last
	page.Items = page.Items[:n]
	if IsLess(end, page.Continuation) {
		page.Continuation = end
	}
	return isPassed
}

// begin finds the position that the next read begins with, and sends the first page if there is one.
func (r *Reader) begin(ctx context.Context, pages chan<- *Page) error {
	r.nextItems = r.Source.WithPages(r.FirstItems).MaxItems
	r.hasBegun = true
	continuation, err := r.findStart(ctx)
	if err != nil {
		r.Discard()
		return err
	}
	r.snapshotEnd, r.wait, r.changedAt = r.SnapshotEnd(), r.PollDelay, time.Now()
	if !r.ChangedAt.IsZero() {
		r.wait, r.changedAt = min(max(time.Since(r.ChangedAt), r.PollMin), r.PollDelay), r.ChangedAt
	}
	if r.FirstPage != nil {
		if err := r.Verify(ctx, r.FirstPage, continuation); err != nil {
			r.Discard()
			if r.FirstPage = nil; r.IsFinal(err) {
				return err
			}
		}
	}
	if r.continuation = continuation; r.FirstPage == nil || r.refuseLarge(r.FirstPage, r.Source.pageSizes().most, continuation) {
		return nil
	}
	first := r.FirstPage
	r.FirstPage = nil
	r.pace.observe(time.Now(), first.Throttled)
	r.growPages(first, r.nextItems, continuation)
	r.continuation = first.Continuation
	return r.sendPage(ctx, pages, first)
}

// readNext reads the page after the continuation, and repeats reads that fail. An error
// ends the reader.
func (r *Reader) readNext(ctx context.Context, continuation string) (*Page, *Reading, error) {
	var failed readFailures
	for {
		if err := context.Cause(ctx); err != nil {
			return nil, nil, err
		}
		if pause := r.pace.untilRead(time.Now()); pause > 0 {
			if err := backoff.Sleep(ctx, pause); err != nil {
				return nil, nil, err
			}
		}
		charged, err := r.PayRead(ctx)
		if err != nil {
			return nil, nil, err
		}
		source := r.Source.WithPages(r.nextItems)
		reading, err := r.Budget.ReserveRead(ctx, r.Reserved, r.Budget.GrownItems(r.Reserved, source.MaxItems, r.nextItems))
		if err != nil {
			return nil, nil, err
		}
		page, err := r.readPage(ctx, source, continuation, reading)
		switch {
		case err == nil:
			r.pace.observe(time.Now(), page.Throttled)
			charged(page.Charge)
			if r.refuseLarge(page, reading.Items, continuation) {
				continue
			}
			if reading.isShared() { // equal pages for all functions that share them
				r.nextItems = max(reading.Items, r.Source.MaxItems)
			}
			r.growPages(page, reading.Items, continuation)
			r.ObservePage(page)
			return page, reading, nil
		case errors.Is(err, cosmos.ErrNotAdmitted): // the next read is smaller, or waits
			continue
		case errors.Is(err, errOtherReads) && ctx.Err() == nil:
			continue
		}
		if err := r.afterFailure(ctx, err, &failed); err != nil {
			return nil, nil, err
		}
	}
}

// Discard releases the first page. It is called instead of Step, if no step can begin.
func (r *Reader) Discard() {
	if r.FirstPage != nil {
		r.Budget.ReleasePage(r.FirstPage, r.Reserved)
	}
}

func (r *Reader) findStart(ctx context.Context) (string, error) {
	var failed readFailures
	for {
		continuation, err := r.FirstPosition(ctx)
		if err == nil {
			return continuation, nil
		}
		if err := r.afterFailure(ctx, err, &failed); err != nil {
			return "", err
		}
	}
}

// growPages chooses the size of the next page after one for which so many changes were requested.
// If positions inside this page have no names, or the service throttles the reader, the next one
// has the usual size at most.
func (r *Reader) growPages(page *Page, requested int, continuation string) {
	r.nextItems = r.Source.pageSizes().next(r.nextItems, kindOf(page, requested))
	if r.nextItems > r.Source.MaxItems && (r.pace.isSlow() || !NamesPositions(page, continuation)) {
		r.nextItems = r.Source.MaxItems
	}
}

// refuseLarge releases a page that has grown and cannot be taken in by parts, as the positions
// inside it have no names: an owner that ends inside such a page repeats all of it. From then on
// the reader asks for pages of the usual size. requested is the number of changes asked for.
func (r *Reader) refuseLarge(page *Page, requested int, continuation string) bool {
	usual := r.Source.MaxItems
	if len(page.Items) <= usual || requested <= usual || NamesPositions(page, continuation) {
		return false
	}
	r.Budget.ReleasePage(page, r.Reserved)
	r.Source, r.nextItems = r.Source.AsOpaque(), usual
	return true
}

// readPage reads the page after the continuation. It ends the reservation if it fails.
func (r *Reader) readPage(ctx context.Context, source *Source, continuation string, reading *Reading) (page *Page, err error) {
	defer func() {
		if err != nil {
			reading.Cancel()
		} else {
			reading.Keep(page)
		}
	}()
	target, err := r.Locate(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, r.ReadTimeout)
	defer cancel()
	page, err = source.ReadPage(limited, target, continuation, reading)
	if cosmos.Classify(err) == cosmos.OutcomeInvalid || cosmos.IsBehindSession(err) {
		if cause := r.VerifyPosition(ctx, continuation); cause != nil {
			return nil, fmt.Errorf("%w (%v)", cause, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := r.Verify(ctx, page, continuation); err != nil {
		page.Release()
		return nil, err
	}
	if r.snapshotEnd != "" {
		r.isPastEnd = cutAt(page, r.snapshotEnd)
	}
	if !page.NotModified && page.Continuation == continuation && !r.isPastEnd {
		page.Release()
		return nil, errNotAdvancing
	}
	if !page.NotModified && IsStale(page, continuation, r.MergedRange) {
		page.Release()
		return nil, ErrStale
	}
	return page, nil
}

// IsStale reports whether a page is from before the continuation. Only LSNs can be
// compared, and those of a merged range may have started again.
func IsStale(page *Page, continuation string, mergedRange bool) bool {
	if mergedRange {
		return false
	}
	return IsLess(page.Continuation, continuation)
}

// sendPage passes a page on, which is reserved, unless ctx ends before.
func (r *Reader) sendPage(ctx context.Context, pages chan<- *Page, page *Page) error {
	if ctx.Err() == nil {
		select {
		case pages <- page:
			r.PageSent()
			return nil
		case <-ctx.Done():
		}
	}
	r.Budget.ReleasePage(page, r.Reserved)
	return context.Cause(ctx)
}

// readFailures counts the failed reads in a row, and those since the service last
// throttled one: its answer shows that this host has a connection.
type readFailures struct{ inRow, sinceThrottle int }

func (f *readFailures) count(throttled bool) {
	f.inRow++
	f.sinceThrottle++
	if throttled {
		f.sinceThrottle = 0
	}
}

// afterFailure counts a failure and waits until the read can be repeated, or returns the
// error that ends the reader.
func (r *Reader) afterFailure(ctx context.Context, err error, failed *readFailures) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if r.IsFinal(err) {
		return err
	}
	throttled, retryAfter := cosmos.IsThrottled(err)
	failed.count(throttled)
	if throttled {
		r.pace.observe(time.Now(), true)
	}
	var ahead *AheadError
	isAhead := errors.As(err, &ahead)
	switch outcome := cosmos.Classify(err); {
	case isAhead:
		if !r.UntilCaughtUp { // it says nothing about this host's connection
			failed.sinceThrottle = 0
		}
	case outcome == cosmos.OutcomeRangeGone:
		if err := r.Relocate(ctx); err != nil {
			return err
		}
		failed.sinceThrottle = min(failed.sinceThrottle, maxReadFailures-1) // a split takes its time
	case outcome == cosmos.OutcomeContainerGone, outcome == cosmos.OutcomeNotFound, outcome == cosmos.OutcomeDenied, outcome == cosmos.OutcomeInvalid:
		r.ReportProblem(err, failed.inRow) // another host tries it: the lease tells it why, and since when
		return fmt.Errorf("read feed of range %q: %w", r.LeaseToken, err)
	}
	r.ReportProblem(err, failed.inRow)
	if (errors.Is(err, errNotAdvancing) || isAhead) && !r.UntilCaughtUp { // no other host could do better, and the problem stays in sight
		return r.sleep(ctx, backoff.Wait(failed.inRow, backoff.Min, r.PollDelay, r.JitterKey...))
	}
	if throttled { // likewise
		return r.sleep(ctx, max(retryAfter, backoff.Wait(min(failed.inRow, 3), backoff.Min, r.PollDelay, r.JitterKey...)))
	}
	if failed.sinceThrottle >= maxReadFailures {
		return fmt.Errorf("read feed of range %q: %d failures in a row: %w", r.LeaseToken, failed.sinceThrottle, err)
	}
	return r.sleep(ctx, backoff.Wait(failed.sinceThrottle, backoff.Min, r.PollDelay, r.JitterKey...))
}

// sleep waits for d and the reader's turn.
func (r *Reader) sleep(ctx context.Context, d time.Duration) error {
	return backoff.Sleep(ctx, d+r.turn())
}

// turn returns a short time by which the next read is later. Functions that share reads would often
// read in one instant: all but one wait a little, each time for another time.
func (r *Reader) turn() time.Duration {
	place := r.Source.Place
	if place == 0 {
		return 0
	}
	return backoff.Spread(functionSpread, place, time.Now().UnixNano())
}
