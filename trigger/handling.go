package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/stall"
)

// CallHandler calls the handler once with changes of one lane and returns its verdict.
func (w *rangeWorker) CallHandler(held context.Context, lane int, items []*delivery.Item, attempt int) delivery.Verdict {
	b := w.batch(items, attempt)
	if w.function.ReuseBuffers {
		defer w.reuseChanges(b.Changes)
	}
	began := time.Now()
	w.rangeStats.callBegins(lane)
	err := w.invokeHandler(held, w.function.Handler, b)
	answered := w.callsAnswered.Add(1)
	var hung *delivery.HungError
	if errors.As(err, &hung) { // it still runs: the release of the lease tells the next owner since when
		w.rangeStats.markHung()
		w.endWork(err) // the calls in other lanes end too
		return delivery.Verdict{Outcome: delivery.Hung, Err: err}
	}
	w.rangeStats.callEnds(lane)
	v := w.verdictOf(items, b, err)
	v.Answered = answered
	event := Event{
		Kind: EventDelivered, Range: b.Range.ID, Epoch: b.Epoch, Changes: len(items), Handled: v.CountHandled(items), Attempt: attempt,
		LastLSN: items[len(items)-1].LSN, Duration: time.Since(began), Err: err,
	}
	if err != nil {
		event.Kind = EventDeliveryFailed
		w.rangeStats.countFailed(lane, event, w.function.MaxAttempts, v)
		if held.Err() != nil {
			w.log.Info("handler call interrupted", slog.Any("error", err), slog.Int("changes", len(items)))
		}
		if !items[0].IsStored() {
			w.watchRetention(items[0].Timestamp)
		}
	} else {
		w.rangeStats.countDelivered(lane, event)
	}
	w.emitEvent(event)
	return v
}

// verdictOf translates a handler's error. It goes by the changes in the order in which they
// were delivered: the handler may have sorted those of its batch.
func (w *rangeWorker) verdictOf(items []*delivery.Item, b Batch, err error) delivery.Verdict {
	if err == nil {
		return delivery.Verdict{Outcome: delivery.Handled, Requested: b.checkpoint.requested.Load()}
	}
	numbers := make([]int64, len(items))
	for i := range items {
		numbers[i] = b.firstNumber + int64(i)
	}
	fates, end := judgeBatch(numbers, err, !b.noBisection)
	v := delivery.Verdict{Outcome: delivery.Failed, Err: err}
	switch end {
	case endGivenUp:
		v.Outcome = delivery.GivenUp
	case endHalved:
		v.Outcome = delivery.Halved
	}
	for i, c := range items {
		if fates[i].failed {
			v.FailedItems = append(v.FailedItems, c)
		}
		if fates[i].after > 0 {
			if v.Postponed == nil {
				v.Postponed = map[*delivery.Item]time.Duration{}
			}
			v.Postponed[c] = fates[i].after
		}
	}
	if len(v.Postponed) > 0 && !w.function.keepsDeadLetters() {
		v.Postponed, v.Err = nil, fmt.Errorf("%w (%w)", err, errNoPostponing)
		if !w.toldNoPostponing.Swap(true) {
			w.log.Warn("handler asks for a later retry, which counts as a plain failure", slog.Any("error", v.Err))
		}
	}
	return v
}

// errNoPostponing says why a change that its handler postpones fails instead.
var errNoPostponing = errors.New("RetryAfter needs a dead letter store that keeps changes: set DeadLetters, HALLEY_DEAD_LETTERS=container")

// batch makes the argument of a handler call. The bytes are those of the page.
func (w *rangeWorker) batch(items []*delivery.Item, attempt int) Batch {
	changes, first := w.newChanges(len(items)), takeCallNumbers(len(items))
	for i, c := range items {
		changes[i] = w.function.changeOf(&c.Change, first+int64(i), w.feedOrigin.Load())
		if changes[i].Operation == cosmos.OperationDelete && w.function.SoftDeleteProperty != "" {
			w.softDeletes.observe(changes[i].Document, w.leases.Monitored().DefaultTTL)
		}
	}
	return Batch{
		Function: w.function.Name, Range: w.rangeOf(), Changes: changes, Attempt: attempt, Epoch: w.held.Epoch(),
		firstNumber: first, checkpoint: &checkpointRequest{answered: &w.callsAnswered}, noBisection: w.function.NoBisection,
	}
}

// changeSlices holds slices of batches whose handlers have returned.
var changeSlices sync.Pool

// newChanges returns n changes to fill in. They are the handler's, which may keep them,
// unless the function reuses buffers.
func (w *rangeWorker) newChanges(n int) []Change {
	if w.function.ReuseBuffers {
		if reused, _ := changeSlices.Get().(*[]Change); reused != nil && cap(*reused) >= n {
			return (*reused)[:n]
		}
	}
	return make([]Change, n)
}

// reuseChanges takes back the changes of a call that has ended, unless a call was left
// behind: it may still read them.
func (w *rangeWorker) reuseChanges(changes []Change) {
	if !w.rangeStats.hasHungCall() {
		clear(changes)
		changeSlices.Put(&changes)
	}
}

// PlanRetry logs a failed call, unless equal failures were logged a moment ago, and
// which attempt comes when.
func (w *rangeWorker) PlanRetry(lane int, items []*delivery.Item, attempt int, wait time.Duration) {
	cause, failures, isNews := w.rangeStats.planRetry(lane, attempt, wait)
	if !isNews {
		return
	}
	limit := slog.Attr{}
	if cause.Attempts > 0 {
		limit = slog.Int("attempts", cause.Attempts)
	}
	w.log.Error("handler failed", slog.String("error", cause.Text), slog.Int("attempt", cause.Attempt), limit,
		slog.Duration("next", wait), slog.Int("failures", failures), slog.Int("changes", len(items)),
		slog.String("documentId", items[0].DocumentID()), slog.String("key", w.keyOf(items[0])), slog.Int64("lsn", items[0].LSN))
}

// CountFiltered is told of changes that do not pass the filter.
func (w *rangeWorker) CountFiltered(changes int) {
	w.rangeStats.countFiltered(changes)
	w.emitEvent(Event{Kind: EventFiltered, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Changes: changes})
}

// keyOf is the logical partition key of a change, a JSON array.
func (w *rangeWorker) keyOf(c *delivery.Item) string {
	if c.Key != "" {
		return c.Key
	}
	return feed.PartitionKey(c.Item, w.leases.Monitored().PartitionKey.Paths)
}

// AdvancePosition passes the acknowledged position on to the lease's writer.
func (w *rangeWorker) AdvancePosition(position string, saveAt time.Time) {
	w.rangeStats.positionMoved()
	w.held.Advance(position, saveAt)
}

// reportStall tells that the range is stalled, or that it has recovered: here, and by a write of
// the lease at once to other machines.
func (w *rangeWorker) reportStall(kind EventKind, s stall.Stall) {
	w.held.WriteSoon()
	w.emitEvent(Event{Kind: kind, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Stall: &s, Lasting: w.leases.Now().Sub(s.Since)})
}

// ReportProblem notes why a lane, or the range as a whole, makes no progress. The log
// tells it once, until it changes.
func (w *rangeWorker) ReportProblem(lane int, err error) {
	if w.rangeStats.setProblem(lane, stallOf(err), err) {
		w.log.Error("range waits", slog.Any("error", err))
	}
}
