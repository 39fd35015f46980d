// Package delivery delivers the changes of one leased range: it spreads them over
// lanes, calls the handler with batches, retries, isolates and dead-letters failing
// changes, and finds the acknowledged prefix that a checkpoint may hold.
//
// It knows no lease, no client and no logger: its worker implements [Calls] and
// [Store]. The way of a change through the package:
//
//	page → filter → dispatch → lane → Admit → batch → Calls.CallHandler → Verdict → effects → acknowledged prefix → Calls.AdvancePosition
//
// Three pure functions decide. [Admit] says whether a change may be delivered, by the state of
// its key; [Decide] is the retry policy; effectsOf turns a verdict into what the lane does
// (effects.go). A group that fails waits aside with the later changes of its keys, while the
// other keys of its lane continue (keys.go); an outage of the sink is told from failures of
// keys (sink.go). Crash isolation is a protocol of its own (isolation.go), and so are
// postponed changes (postponed.go).
//
// # Goroutines and locks
//
// The goroutine that calls [Delivery.Run] dispatches. With one lane it runs the
// lane itself; with more it starts one goroutine for each and waits for them. Lanes
// share the progress, the retry records, the blocked keys and the breaker; each of these
// has a lock of its own. Calls.AdvancePosition is called under
// the lock of the progress, so that positions reach the lease's writer in order; the locks
// of the writer and of its scheduler are the only ones that may be taken under it.
package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// Config is the part of a function's settings that delivery follows, with the
// defaults filled in, and the state of the lease as acquired.
type Config struct {
	Policy
	BatchPolicy
	Checkpoint Checkpoint

	// Passes reports whether a change passes the filter, by its document and its previous
	// image, each of which may be nil. If it is nil, all changes pass.
	Passes func(document, previous []byte) bool

	// LeavesRetention reports whether a change that was written at a time (Unix seconds) is
	// about to leave the retention of the feed. If it is nil, none does.
	LeavesRetention func(written int64) bool

	MergedRange   bool   // the lease covers a part of a physical range: LSNs do not name positions in it
	Continuation  string // of the lease as acquired
	FirstItems    int    // saved by the previous owner, see [Delivery.FirstItems]
	ReadAhead     ReadAhead
	FirstOrder    int64            // of the records that this owner puts into the store: above those of earlier owners
	SavedRetries  string           // saved by the previous owner, see [Delivery.RetryProperty]
	Finished      finished.Binding // of the values that this owner saves, with the continuation of the lease as acquired
	SavedFinished string           // saved by the previous owner, see [Delivery.Snapshot]
	Announce      bool             // the previous owner ended without releasing the lease, see isolation.go
	SuspectSlot   chan struct{}    // capacity 1, one for each process
	KeyPaths      []string         // partition key paths of the container
}

// BatchPolicy says how the changes of a range are read and made into handler calls. The
// worker converts it, [RetryPolicy] and [GiveUpPolicy] from the types of these names in
// package trigger, so that a field that one side lacks does not compile.
type BatchPolicy struct {
	MaxItemsPerInvocation int // changes in a batch at most
	BatchBytes            int // bytes in a batch at most; a single change may be larger
	PageItems             int // changes in a page, usually at most; 0 if pages grow
	BatchWindow           time.Duration
	Lanes                 int  // ordered queues of the range
	LanesByID             bool // keep the order per document only
	MaxAhead              int  // changes read, from the first unfinished one whose key does not wait, at which reading stops
}

// usualItems is the number of changes in a page that has not grown.
func (p *BatchPolicy) usualItems() int { return cmp.Or(p.PageItems, feed.UsualItems) }

// mostTaken bounds the changes from the first unfinished one to the newest that an owner has
// taken in: those are delivered again after its end.
func (p *BatchPolicy) mostTaken() int { return p.MaxAhead + p.usualItems() }

// ReadAhead is what the previous owner had read behind the continuation of the lease. It is
// known if that owner has ended in good order and no other one had the lease since.
type ReadAhead struct {
	IsKnown bool
	Changes int64     // number of changes, at most
	Until   time.Time // when it had ended, on the service's clock
}

// Calls are the requests of delivery to its worker. All but CallHandler and those that
// wait return quickly. Several lanes make them at a time.
type Calls interface {
	// CallHandler calls the handler once and returns its verdict. ctx ends when the
	// lease is lost or the grace of a stop is over.
	CallHandler(ctx context.Context, lane int, items []*Item, attempt int) Verdict
	// WaitRate returns once the function's rate allows a call with so many changes, or the
	// cause when ctx ends.
	WaitRate(ctx context.Context, lane, changes int) error
	// WaitTrusted returns once a delivery may begin, or the reason why none may.
	WaitTrusted(ctx context.Context) error
	// ConfirmOwnership returns after a lease write that started after the call has succeeded.
	ConfirmOwnership(ctx context.Context) error
	// AdvancePosition says that everything up to the position is handled. It is to be
	// saved by saveAt; if that is zero, it goes with the next write.
	AdvancePosition(position string, saveAt time.Time)
	// WriteSoon asks for a lease write, without waiting for it.
	WriteSoon()
	// ChargeBytes counts bytes of changes that outlive their pages; negative returns
	// them.
	ChargeBytes(bytes int)
	// MadeProgress says that a page with changes is finished.
	MadeProgress()
	// ReleasePage takes back a page whose bytes delivery does not need any more.
	// handedOver says that the handler may have been called with them.
	ReleasePage(page *feed.Page, handedOver bool)
	// CountFiltered is told the number of changes of a page that do not pass the filter.
	CountFiltered(changes int)
	// Postponed is told of each change that is durable in the store until it is due.
	Postponed(lane int, item *Item, l DeadLetter)
	// DeadLettered is told of each change that is durable in the store.
	DeadLettered(lane int, item *Item, l DeadLetter)
	// ReportProblem says why a lane, or the range as a whole (AllLanes), makes no progress.
	ReportProblem(lane int, err error)
	// PlanRetry is told, after a failed call, how often the same changes have failed
	// and how long the lane waits before it calls the handler again.
	PlanRetry(lane int, items []*Item, attempt int, wait time.Duration)
	// ServiceNow is the service's clock.
	ServiceNow() time.Time
}

// AllLanes stands for the range as a whole in [Calls].
const AllLanes = -1

// Delivery delivers the changes of one leased range, from its acquisition to its
// release. One worker owns it.
type Delivery struct {
	*laneShared
	lanes     []*lane
	settling  *time.Timer // of dispatchNext; the goroutine that takes pages owns it and laneEnds
	laneEnds  []int       // of sortByLane
	hasBegun  bool        // Run or RunToRest has been called; for its caller
	hasStored atomic.Bool // LoadStored has succeeded
}

// New returns a delivery. A nil store means that the function has none.
func New(c Config, calls Calls, store Store) *Delivery {
	c.DeadLetters = store != nil
	c.BlockKeys = c.BlockKeys && store != nil
	d := &Delivery{laneShared: &laneShared{
		config: c, calls: calls, deadLetters: store,
		progress:        newProgress(c, calls.AdvancePosition),
		retries:         newRetryRecords(c, calls.ServiceNow),
		blockedKeys:     &blockedKeys{listed: &BlockedKeys{}, byKey: map[string]blockedKey{}},
		postponedCounts: make([]atomic.Pointer[postponedCount], c.Lanes),
		isolation:       newIsolation(c),
		changed:         make(chan struct{}, 1),
	}, laneEnds: make([]int, c.Lanes)}
	d.leftAhead.Store(-1)
	for i := range c.Lanes {
		d.lanes = append(d.lanes, newLane(d.laneShared, i))
	}
	return d
}

// LeaveAsideAt has Run end with [ErrLeftAside] at that time, or later once no page
// is left and everything but the changes that wait aside is finished.
func (d *Delivery) LeaveAsideAt(t time.Time) { d.leaveAside.Store(&t) }

// PageRead is called before a page with changes is sent to Run.
func (d *Delivery) PageRead() { d.pagesRead.Add(1) }

// AllRead is called before pages is closed, if the reader has read the feed to its end. A
// reader that ends for another reason may leave changes behind.
func (d *Delivery) AllRead() { d.readToEnd.Store(true) }

// CaughtUp is called when the reader has read everything that was in the feed. If
// everything is finished as well, the owner before cannot have read more.
func (d *Delivery) CaughtUp() {
	d.pagesToEnd.CompareAndSwap(0, d.pagesRead.Load()+1)
	if d.pagesRead.Load() == d.pagesTaken.Load() && d.progress.allFinished() {
		d.isolation.passed(math.MaxInt64)
	}
}

// ErrNewerForm is in the error of [Delivery.LoadStored] about a postponed change of a later form.
var ErrNewerForm = errors.New("a postponed change was written by a newer version of Halley, which has to work on this range")

// LoadStored reads which keys earlier owners have blocked or postponed. It is called
// before Run, and returns once the store has answered, or the cause when ctx ends. If a newer
// version of Halley has postponed changes of the range, it returns [ErrNewerForm]: later changes
// of their keys could not wait for them.
func (d *Delivery) LoadStored(ctx context.Context) error {
	if d.deadLetters == nil || !d.config.BlockKeys && !d.deadLetters.Keeps() {
		return nil
	}
	var newer error
	err := d.untilStored(ctx, AllLanes, func() error {
		listed, err := d.deadLetters.List(ctx)
		if err != nil {
			return fmt.Errorf("list dead letters: %w", err)
		}
		for _, record := range listed.Newer {
			if record.Key == "" || d.deadLetters.Owns(record.Key) {
				newer = fmt.Errorf("%w: %w", ErrNewerForm, record.Err)
				d.calls.ReportProblem(AllLanes, newer)
				return nil
			}
		}
		for _, err := range listed.Damaged {
			if d.config.BlockKeys {
				err = fmt.Errorf("a dead letter cannot be read, so the store is asked about every key: %w", err)
			}
			d.calls.ReportProblem(AllLanes, err)
		}
		if d.config.BlockKeys {
			d.blockedKeys.setListed(listed)
		}
		d.inheritPostponed(listed.postponed)
		d.hasStored.Store(true)
		return nil
	})
	return cmp.Or(newer, err)
}

// HasStored reports whether LoadStored has read the keys of earlier owners. It may
// be called at any time.
func (d *Delivery) HasStored() bool { return d.hasStored.Load() }

// RetryProperty is the failure history of the range for the next owner, or "" if
// there is none. The lease's writer calls it at each write.
func (d *Delivery) RetryProperty() string { return d.retries.encodeProperty() }

// Snapshot returns the acknowledged prefix, "" before its first change, and what is finished
// behind it, as the property [finished.Property] of the lease holds it: "" if nothing is. The
// lease's writer calls it at each write.
func (d *Delivery) Snapshot() (position, value string) {
	return d.progress.snapshot(d.nextRetry())
}

// FirstItems returns the number of changes in the first page that the next owner is to read,
// 0 if it is that of all pages. It may be called at any time.
func (d *Delivery) FirstItems() int {
	d.progress.mu.Lock()
	defer d.progress.mu.Unlock()
	return d.progress.firstPageItems()
}

// nextRetry returns when the first change that is set aside is due, on the service's clock in
// Unix seconds; 0 if some are due.
func (d *Delivery) nextRetry() (earliest int64) {
	for _, l := range d.lanes {
		if due := l.retryDue.Load(); due != nil && due.IsZero() {
			return 0
		} else if due != nil && (earliest == 0 || due.Unix() < earliest) {
			earliest = due.Unix()
		}
	}
	return earliest
}

// ReadAhead returns the number of changes that were read behind a continuation, when Run has
// ended: each change that this owner has put into the store is before that continuation or
// one of these. ok is false if that cannot be told, because this owner does not know what
// earlier ones have put there, or has not read again what they had read.
func (d *Delivery) ReadAhead() (continuation string, changes int64, ok bool) {
	changes = d.leftAhead.Load()
	if changes < 0 || !d.hasStored.Load() || slices.ContainsFunc(d.lanes, func(l *lane) bool { return l.keys.hasListed }) {
		return "", 0, false
	}
	continuation, _ = d.Snapshot()
	return continuation, changes, true
}

// EndAnnouncements takes back the announcements of calls that have ended: the owner
// is releasing the lease in good order. It is called after Run has returned.
func (d *Delivery) EndAnnouncements() { d.retries.endAnnouncements() }

// KeyCounts returns how many keys are being retried, and how many are blocked by dead
// letters. It may be called at any time.
func (d *Delivery) KeyCounts() (waiting, blocked int) {
	return int(d.waitingKeys.Load()), d.blockedKeys.count()
}

// Pending returns the number of changes that are read and not finished. It may be called at
// any time.
func (d *Delivery) Pending() int { return d.progress.pending() }

// OldestUnfinished returns LSN and time (Unix seconds) of the first change that is read and
// not finished.
func (d *Delivery) OldestUnfinished() (lsn, timestamp int64, ok bool) {
	return d.progress.oldestUnfinished()
}
