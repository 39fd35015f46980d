package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// laneShared is the state that the lanes of a range share. Its parts have locks of
// their own.
type laneShared struct {
	config          Config
	calls           Calls
	deadLetters     Store // nil if the function has none
	progress        *progress
	retries         *retryRecords
	blockedKeys     *blockedKeys
	uncovered       uncoveredLetters
	postponedCounts []atomic.Pointer[postponedCount] // by lane; nil if it has no postponed keys
	breaker         breaker
	isolation       *isolation

	leaveAside atomic.Pointer[time.Time] // see Delivery.LeaveAsideAt; nil is never

	untaken   pageRest  // of the page that is being taken in; the goroutine that takes pages owns it
	passed    []int     // of filterPart; likewise
	takenPart feedPlace // the end of the part that was taken last, with the number of its changes; likewise

	pagesRead     atomic.Int64  // pages with changes that the reader has read
	pagesTaken    atomic.Int64  // and of these: those that Run has passed to the lanes
	lastLSN       atomic.Int64  // of the last change in these
	takenItems    atomic.Int64  // changes in these, filtered ones too
	formerLSN     atomic.Int64  // up to which the owner before may have read, as far as this one has; see lateletters.go
	leftAhead     atomic.Int64  // changes behind the acknowledged prefix that were taken, when Run had ended; -1 before
	pagesToEnd    atomic.Int64  // one more than pagesRead when the reader first found no more; 0 before
	readToEnd     atomic.Bool   // the last page that comes ends the feed, see Delivery.AllRead
	waitingKeys   atomic.Int64  // keys with a failed group, over all lanes
	waitingGroups atomic.Int64  // failed groups that wait, likewise
	asideBytes    atomic.Int64  // bytes of changes that outlive their pages
	changed       chan struct{} // capacity 1: a limit of reading may have cleared, or no lane is at work
	lanesAtRest   atomic.Int64  // lanes that wait for work
	paused        atomic.Bool   // reading has paused at a limit
	stalled       atomic.Bool   // the lanes were told since reading could last continue, and since the last call
}

// receivePage takes a page that takePart takes in.
func (s *laneShared) receivePage(page *feed.Page) {
	s.untaken = pageRest{pageBytes: pageBytes{page: page}, areNamed: s.progress.namesPositions(page)}
}

// takePart takes in the next part of the page and numbers its changes, which belong to the
// progress. Those that do not pass the filter are as if they were not in the page, except for
// its position. room is the number of changes that there is room for.
func (s *laneShared) takePart(room int) []Item {
	handedOver := s.untaken.taken > 0
	part := s.untaken.cut(room)
	s.takenPart = feedPlace{}
	items, released := s.progress.addPart(part, s.filterPart(part.items))
	if n := len(part.items); n > 0 {
		s.takenPart = feedPlace{lsn: part.items[n-1].LSN, changes: int64(n)}
		s.noteFormer()
		s.retries.matchPage(items, s.takenPart.lsn)
		s.isolation.pageTaken(s.takenPart.lsn, s.progress.newest())
	}
	s.releasePages(released, handedOver)
	s.finishItems(nil) // a page without changes is finished at once
	return items
}

// partPassed is called when the lanes have the changes of the part that was taken last.
func (s *laneShared) partPassed() {
	if s.takenPart.changes == 0 {
		return
	}
	s.lastLSN.Store(s.takenPart.lsn)
	s.takenItems.Add(s.takenPart.changes)
	if s.untaken.page == nil {
		s.pagesTaken.Add(1)
	}
}

// feedPlace is how far lanes have taken in the feed.
type feedPlace struct {
	lsn     int64 // of the last change
	changes int64 // number of changes since this owner began
	ended   bool  // the lanes have everything that was in the feed at some time
}

// takenPlace returns the end of the last page of which the lanes have all changes.
func (s *laneShared) takenPlace() feedPlace {
	toEnd := s.pagesToEnd.Load()
	return feedPlace{s.lastLSN.Load(), s.takenItems.Load(), toEnd > 0 && s.pagesTaken.Load() >= toEnd-1}
}

// filterPart returns the places of the changes that are to be delivered, until the next
// call: those that pass the filter and that no earlier owner has finished.
func (s *laneShared) filterPart(items []feed.Item) (passed []int) {
	passed = s.passed[:0]
	filtered := 0
	for i := range items {
		switch c := &items[i]; {
		case s.config.Passes != nil && !s.config.Passes(c.Document, c.Previous):
			filtered++
		case !s.progress.isInherited(c):
			passed = append(passed, i)
		}
	}
	s.passed = passed
	if filtered > 0 {
		s.calls.CountFiltered(filtered)
	}
	return passed
}

// keyOf returns the order key of a change. Changes with equal keys are delivered in
// order. It is computed once, as most functions need it only after a failure.
func (s *laneShared) keyOf(c *Item) uint64 {
	if !c.hasKey {
		if s.config.BlockKeys && c.Key == "" { // the dead letter store goes by it
			c.Key = feed.PartitionKey(c.Item, s.config.KeyPaths)
		}
		c.orderKey, c.hasKey = c.OrderKey(s.config.KeyPaths, s.config.LanesByID), true
	}
	return c.orderKey
}

// keysOf returns the order keys of changes.
func (s *laneShared) keysOf(items []*Item) map[uint64]bool {
	for _, c := range items {
		s.keyOf(c)
	}
	return orderKeys(items)
}

func (s *laneShared) nameOf(c *Item) string { return c.Name(s.config.KeyPaths) }

// resumeGroup returns the group of these changes, with the history that an earlier
// owner has saved. In a merged range LSNs do not tell which changes were in a
// group, so several changes start from zero there.
func (s *laneShared) resumeGroup(items []*Item) *group {
	g := &group{items: items}
	r := items[0].resumedRecord
	if r == nil {
		return g
	}
	g.retry, g.suspect = r.RetryState, r.InFlight
	if len(items) > 1 && s.config.MergedRange {
		g.retry = RetryState{Tries: g.retry.Tries}
	}
	return g
}

// finishItems counts changes as handled or dead-lettered.
func (s *laneShared) finishItems(items []*Item) {
	s.retries.forgetItems(items)
	for _, c := range items {
		s.chargeBytes(-c.copiedBytes)
		c.copiedBytes = 0
	}
	s.afterProgress(s.progress.finishItems(items))
}

// keepAside sets changes aside, so that they hold neither their pages nor Q. It returns them
// with memory of their own: the pointers that it got are not valid any more.
func (s *laneShared) keepAside(items []*Item) []*Item {
	kept, released, copied, pageFinished := s.progress.setAside(items)
	s.chargeBytes(copied)
	s.afterProgress(released, pageFinished)
	return kept
}

func (s *laneShared) afterProgress(released []*feed.Page, pageFinished bool) {
	s.releasePages(released, true)
	if pageFinished {
		s.calls.MadeProgress()
	}
	s.notifyChange()
}

func (s *laneShared) chargeBytes(n int) {
	if n != 0 {
		s.asideBytes.Add(int64(n))
		s.calls.ChargeBytes(n)
	}
}

func (s *laneShared) releasePages(pages []*feed.Page, handedOver bool) {
	for _, page := range pages {
		s.calls.ReleasePage(page, handedOver)
	}
}

// notifyChange wakes the dispatcher if it waits for a limit of reading.
func (s *laneShared) notifyChange() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// mayRead reports whether further changes may be taken. Retries, and changes that are
// in memory already, are delivered in any case.
func (s *laneShared) mayRead() bool { return s.readRoom() > 0 }

// readRoom returns the number of changes that may be taken in at one time, 0 if none may: up to
// a page of the usual size beyond MaxAhead.
func (s *laneShared) readRoom() int {
	crowded := s.waitingKeys.Load() > finished.MaxMarks
	ahead := s.progress.ahead(crowded)
	_, unacknowledged := s.progress.firstWaiting()
	if ahead >= s.config.MaxAhead || s.waitingGroups.Load() >= maxRecords ||
		s.asideBytes.Load() >= maxAsideBytes || unacknowledged >= maxUnacknowledged {
		return 0
	}
	return s.config.mostTaken() - ahead
}

const (
	// maxAsideBytes bounds the bytes of a range's changes that wait aside.
	maxAsideBytes = 4 << 20
	// maxUnacknowledged bounds the changes from the oldest waiting key to Q: the next owner
	// reads all of them again. maxLeftBehind does so at the end of a drain.
	maxUnacknowledged, maxLeftBehind = 1_000_000, 10_000
)

// limitReached returns an error that names the limit that waiting keys have brought the range
// to, or nil. first and unacknowledged are those of firstWaiting. isLeaving says that the owner
// leaves them to the next one.
func (s *laneShared) limitReached(first *asideChange, unacknowledged int64, isLeaving bool) error {
	switch {
	case s.asideBytes.Load() >= maxAsideBytes:
		return fmt.Errorf("changes of waiting keys take %d MiB of memory", maxAsideBytes>>20)
	case unacknowledged >= maxUnacknowledged, isLeaving && unacknowledged > maxLeftBehind:
		return fmt.Errorf("%d changes behind the oldest waiting key are read", unacknowledged)
	case first != nil && s.config.LeavesRetention != nil && s.config.LeavesRetention(first.timestamp):
		return errors.New("the oldest waiting key will leave the retention of the change feed")
	}
	return nil
}

// mayDeliver returns once a delivery may begin, or the reason why none may.
func (s *laneShared) mayDeliver(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return s.calls.WaitTrusted(ctx)
}

// abandon gives everything back that is not finished, when the worker ends.
func (s *laneShared) abandon() {
	s.progress.concludePages(s.readToEnd.Load() && s.pagesRead.Load() == s.pagesTaken.Load())
	pages, readAhead := s.progress.abandonPages()
	s.leftAhead.Store(readAhead)
	s.releasePages(append(pages, s.untaken.letGo()...), true)
	s.chargeBytes(-int(s.asideBytes.Load()))
}
