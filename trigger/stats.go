package trigger

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
)

// leaseLane stands for the lease's writer next to delivery.AllLanes, which stands for
// the reader.
const leaseLane = delivery.AllLanes - 1

// rangeStats are the counters of one worker, for [Host.Status], and watch over its
// progress: they report a range that is stalled, and its recovery.
//
// mu guards the fields below it, and no other lock is taken under it. reportMu keeps
// the reports in order; mu may be taken under it.
type rangeStats struct {
	writeProblem  func() error // why the lease is not written
	expiryError   func() error // whether changes may be lost soon, because the range is late
	unfinished    func() (lsn, timestamp int64, ok bool)
	pending       func() int
	keyCounts     func() (waiting, blocked int)
	postponedKeys func() (keys int, due time.Time) // due on the local clock
	serviceNow    func() time.Time
	stallAfter    time.Duration
	report        func(kind EventKind, s stall.Stall)
	movedAt       atomic.Int64 // when the position last moved, Unix seconds on the service's clock

	reportMu sync.Mutex

	mu            sync.Mutex
	rangeStatus   RangeStatus
	inherited     stall.Stall         // as the previous owner left it, or zero
	deadLetters   int                 // of earlier owners
	laneStalls    map[int]laneStall   // by lane, delivery.AllLanes, leaseLane or flushLane
	postponing    map[int]stall.Stall // by lane, see countFailed
	runningCalls  map[int]time.Time   // start of the running call, by lane, openedLane or flushLane; local clock
	limitWaits    []limitWait         // of the reader, and of the lanes in their order; nil if the function has no limit
	watch         *time.Timer         // fires when the oldest of the two may have lasted too long; nil before the first
	watchIsArmed  bool
	reportedStall *stall.Stall // not over yet
	hasHung       bool         // a handler call was left behind
	newestLSN     int64        // of the range, as the last page said
	isCaughtUp    bool         // the last read found nothing more
	isClosed      bool         // the worker has ended
}

// limitWait is the waits of a lane for a limit of the function, one soon after the other.
type limitWait struct {
	stall.Stall
	began, ended time.Time // local clock; ended is zero while it waits
}

// limitPause is the longest time between two waits of one limitWait, and the shortest
// one that is shown: a wait of milliseconds explains nothing, many in a row do.
const limitPause = time.Second

// isCurrent reports whether the lane waits, or has waited a moment ago.
func (w *limitWait) isCurrent() bool {
	return w.isWaiting() || time.Since(w.ended) < limitPause
}

func (w *limitWait) isWaiting() bool { return !w.began.IsZero() && w.ended.IsZero() }

// limitWaitOf returns the waits of a lane, or of the reader (delivery.AllLanes). mu is held.
func (s *rangeStats) limitWaitOf(lane int) *limitWait { return &s.limitWaits[lane-delivery.AllLanes] }

// isHeldBack reports whether a lane or the reader waits for a limit. Neither the lease's
// writer nor Function.Flush does. mu is held.
func (s *rangeStats) isHeldBack(lane int) bool {
	return len(s.limitWaits) > 0 && lane >= delivery.AllLanes && s.limitWaitOf(lane).isWaiting()
}

func newRangeStats(l *lease.Lease, f *Function, serviceNow func() time.Time) *rangeStats {
	s := &rangeStats{
		serviceNow: serviceNow, stallAfter: f.StallAfter, laneStalls: map[int]laneStall{}, postponing: map[int]stall.Stall{}, runningCalls: map[int]time.Time{},
		writeProblem: func() error { return nil }, expiryError: func() error { return nil }, unfinished: func() (int64, int64, bool) { return 0, 0, false },
		pending:   func() int { return 0 },
		keyCounts: func() (int, int) { return 0, 0 }, postponedKeys: func() (int, time.Time) { return 0, time.Time{} }, report: func(EventKind, stall.Stall) {},
		rangeStatus: RangeStatus{Range: l.Token(), Epoch: l.Epoch(), Continuation: l.Continuation(), Since: time.Now()},
	}
	inheritedStatus := parseLeaseStatus(l)
	if f.Rate+f.ReadRequestUnits > 0 {
		s.limitWaits = make([]limitWait, 1+f.Lanes)
	}
	if cause, ok := inheritedStatus.stall(); ok && !cause.Kind.IsLimit() {
		if s.inherited = cause; inheritedStatus.Told {
			s.reportedStall = &cause
		}
	}
	s.deadLetters = inheritedStatus.DeadLetters
	s.movedAt.Store(inheritedStatus.Checkpoint)
	return s
}

func (s *rangeStats) currentStatus() RangeStatus {
	now := s.serviceNow()
	s.mu.Lock()
	status := s.rangeStatus
	status.Stalls = s.allStalls(now)
	newest, caughtUp := s.newestLSN, s.isCaughtUp
	s.mu.Unlock()
	if lsn, timestamp, ok := s.unfinished(); ok {
		status.Behind, status.BehindKnown = max(newest-lsn+1, 1), newest > 0
		status.BehindSeconds = max(now.Sub(time.Unix(timestamp, 0)).Seconds(), 0)
	} else {
		status.BehindKnown = caughtUp
	}
	status.Pending = s.pending()
	status.WaitingKeys, status.BlockedKeys = s.keyCounts()
	if keys, due := s.postponedKeys(); keys > 0 {
		status.PostponedKeys, status.NextDue = keys, now.Add(time.Until(due))
	}
	status.Checkpointed = unixTime(s.movedAt.Load())
	problems := describeStalls(status.Stalls, now)
	expiry := s.expiryError()
	status.Expiring = expiry != nil
	if err := errors.Join(s.writeProblem(), expiry); err != nil {
		problems = append(problems, err.Error())
	}
	status.Limited = len(status.Stalls) > 0 && status.Stalls[0].Kind.IsLimit() && len(problems) == len(status.Stalls) // limits come last
	status.Problem = strings.Join(slices.Compact(problems), "; ")
	return status
}

// allStalls returns the current stalls, or that of the last owner until the range has shown
// whether it makes progress here, and the waits for limits of the function. mu is held.
func (s *rangeStats) allStalls(now time.Time) []stall.Stall {
	stalls := s.currentStalls(now)
	if len(stalls) == 0 && s.inherited.Kind != "" {
		stalls = append(stalls, s.inherited)
	}
	for _, w := range s.limitWaits {
		if w.isCurrent() && time.Since(w.began) >= limitPause {
			stalls = append(stalls, w.Stall)
		}
	}
	return stalls
}

// property returns the status for the lease. The lease's writer calls it at each write.
func (s *rangeStats) property() string {
	now, expiry := s.serviceNow(), s.expiryError()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := leaseStatus{Checkpoint: s.movedAt.Load(), DeadLetters: s.deadLetters + s.rangeStatus.DeadLetters}
	if expiry != nil {
		p.Expiry = lease.CleanText(expiry.Error())
	}
	if cause, ok := longestStall(s.allStalls(now)); ok {
		p.Told = s.reportedStall != nil
		p.Kind, p.Since, p.Text = cause.Kind, unixSeconds(cause.Since), cause.Text
		p.Attempt, p.Attempts, p.Next = cause.Attempt, cause.Attempts, unixSeconds(cause.Next)
	}
	return p.encode()
}

// lastStall returns why the range has made no progress here when its worker ended with an error
// that is not in order.
func (s *rangeStats) lastStall(err error) stall.Stall {
	now := s.serviceNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	cause, ok := longestStall(s.currentStalls(now))
	if !ok {
		cause = stall.Stall{Kind: stallOf(err), Since: now}
	}
	cause.Text = cmp.Or(cause.Text, err.Error())
	return cause
}

// positionMoved notes that the acknowledged position has moved.
func (s *rangeStats) positionMoved() { s.movedAt.Store(s.serviceNow().Unix()) }

// countPage counts a page: the feed works. It reports whether the range has caught up
// for the first time since its acquisition.
func (s *rangeStats) countPage(p *cosmos.Page) (caughtUp bool) {
	isBusy := s.pending() > 0
	s.mu.Lock()
	isIdle := p.NotModified && s.isCaughtUp && !isBusy // for a while: changes that were read are pending by now
	s.rangeStatus.Continuation = p.Continuation
	s.newestLSN, s.isCaughtUp = p.SessionLSN, p.NotModified
	delete(s.laneStalls, delivery.AllLanes)
	if isOver(s.inherited.Kind, isIdle) {
		s.inherited = stall.Stall{}
	}
	if p.NotModified && s.rangeStatus.CaughtUp.IsZero() {
		s.rangeStatus.CaughtUp, caughtUp = time.Now(), true
	}
	s.mu.Unlock()
	s.reportRecovery()
	return caughtUp
}

// callBegins notes that a lane's handler call begins. If the call of the last owner did not
// return, the range has made no progress since that one began.
func (s *rangeStats) callBegins(lane int) {
	now := s.serviceNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runningCalls[lane] = time.Now().Add(-now.Sub(s.stalledSince(runningKind(lane), now)))
	s.arm(s.stallAfter)
}

// callEnds notes that a lane's handler call has returned, or was left behind as the host stops.
func (s *rangeStats) callEnds(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runningCalls, lane)
}

// beginLimitWait notes that a lane, or the reader, waits for a limit of the function.
func (s *rangeStats) beginLimitWait(lane int, cause stall.Stall, wait time.Duration) {
	cause.Since = s.serviceNow()
	cause.Next = cause.Since.Add(wait)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := limitWait{Stall: cause, began: time.Now()}
	if previous := s.limitWaitOf(lane); previous.isCurrent() {
		next.Since, next.began = previous.Since, previous.began
	}
	*s.limitWaitOf(lane) = next
}

// endLimitWait notes that the wait is over. It is not called if the work ended during the
// wait: then the status names the limit until the next owner.
func (s *rangeStats) endLimitWait(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limitWaitOf(lane).ended = time.Now()
}

// countDelivered counts a batch that the handler accepted.
func (s *rangeStats) countDelivered(lane int, e Event) {
	s.mu.Lock()
	s.rangeStatus.Batches++
	s.rangeStatus.Changes += e.Handled
	s.rangeStatus.LastLSN = e.LastLSN
	delete(s.laneStalls, lane)
	s.inherited = stall.Stall{}
	s.mu.Unlock()
	s.reportRecovery()
}

// planRetry notes which attempt has failed and when the next one begins. It returns
// the failures in a row that were equal, and whether the log is to tell of this one: it
// tells of the first, second, fourth, eighth and so on, and of one in each minute.
func (s *rangeStats) planRetry(lane, attempt int, wait time.Duration) (cause stall.Stall, failures int, isNews bool) {
	next := s.serviceNow().Add(wait)
	s.notPostponed(lane)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, isStalled := s.laneStalls[lane]
	if !isStalled {
		return stall.Stall{}, 0, false
	}
	l.Attempt, l.Next = attempt, next
	if isNews = l.failures&(l.failures-1) == 0 || time.Since(l.logged) >= time.Minute; isNews {
		l.logged = time.Now()
	}
	s.laneStalls[lane] = l
	return l.Stall, l.failures, isNews
}

// countDeadLetter counts a change that is in the dead letter store.
func (s *rangeStats) countDeadLetter(lane int) {
	s.mu.Lock()
	s.rangeStatus.DeadLetters++
	delete(s.laneStalls, lane)
	s.inherited = stall.Stall{}
	s.mu.Unlock()
	s.reportRecovery()
}

// countFiltered counts changes that do not pass the filter.
func (s *rangeStats) countFiltered(changes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rangeStatus.Filtered += changes
}

// leaseWritten is told the result of each attempt to write the lease.
func (s *rangeStats) leaseWritten(err error) {
	if err == nil {
		s.endInherited(stall.LeaseFails)
		s.clearStall(leaseLane)
		return
	}
	if !errors.Is(err, lease.ErrLost) && !errors.Is(err, lease.ErrChanged) {
		s.setProblem(leaseLane, stall.LeaseFails, err)
	}
}

func (s *rangeStats) markHung() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasHung = true
}

func (s *rangeStats) hasHungCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasHung
}
