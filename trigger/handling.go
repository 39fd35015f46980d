package trigger

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"halley/trigger/internal/delivery"
)

// callHandler calls the handler once with changes of one lane and returns its verdict.
func (w *rangeWorker) callHandler(held context.Context, lane int, items []*delivery.Item, attempt int) delivery.Verdict {
	b := w.batch(items, attempt)
	began := time.Now()
	err := invokeHandler(held, w.function.Handler, b, w.callTimeout, w.host.options.StuckGrace, &w.host.abandonedCalls, w.log)
	var hung *delivery.HungError
	if errors.As(err, &hung) {
		w.rangeStats.markHung()
		w.endWork(err) // the calls in other lanes end too
		return delivery.Verdict{Outcome: delivery.Hung, Err: err}
	}
	event := Event{
		Kind: Delivered, Range: b.Range.ID, Epoch: b.Epoch, Changes: len(items), Attempt: attempt,
		LastLSN: items[len(items)-1].LSN, Duration: time.Since(began), Err: err,
	}
	if err != nil {
		event.Kind = DeliveryFailed
		w.rangeStats.countFailed(lane, event)
		w.log.Error("handler failed", zap.Error(err), zap.Int("attempt", attempt),
			zap.Int("changes", len(items)), zap.Int64("lastLsn", event.LastLSN), stackField(err))
		w.watchRetention(items[0].Timestamp)
	} else {
		w.rangeStats.countDelivered(lane, event)
	}
	w.emitEvent(event)
	return verdictOf(items, b, err)
}

// verdictOf translates a handler's error.
func verdictOf(items []*delivery.Item, b Batch, err error) delivery.Verdict {
	if err == nil {
		return delivery.Verdict{Outcome: delivery.Handled, Checkpoint: b.checkpoint.Load()}
	}
	failed, final := judgeBatch(b.Changes, err)
	v := delivery.Verdict{Outcome: delivery.Failed, Err: err}
	if final {
		v.Outcome = delivery.GivenUp
	}
	for _, i := range failed {
		v.FailedItems = append(v.FailedItems, items[i])
	}
	return v
}

// batch makes the argument of a handler call. Unless the function reuses buffers,
// the bytes are copied, as those of the page are used again after the call.
func (w *rangeWorker) batch(items []*delivery.Item, attempt int) Batch {
	keyPaths := w.leases.Monitored().PartitionKey.Paths
	changes := make([]Change, len(items))
	size := 0
	for i, c := range items {
		changes[i] = w.function.changeOf(&c.Change, c.Seq, keyPaths)
		size += c.Size()
	}
	if !w.function.ReuseBuffers {
		buffer := make([]byte, 0, size)
		for i := range changes {
			buffer = changes[i].copyTo(buffer)
		}
	}
	return Batch{
		Function: w.function.Name, Range: w.rangeOf(), Changes: changes, Attempt: attempt, Epoch: w.held.Epoch(),
		checkpoint: new(atomic.Bool),
	}
}

// reportProblem notes why a lane, or the range as a whole, makes no progress. The log
// tells it once, until it changes.
func (w *rangeWorker) reportProblem(lane int, err error) {
	if w.rangeStats.setProblem(lane, err) {
		w.log.Error("range waits", zap.Error(err))
	}
}

// stackField is the stack of a panic, for the log.
func stackField(err error) zap.Field {
	var p *PanicError
	if errors.As(err, &p) {
		return zap.ByteString("stack", p.Stack)
	}
	return zap.Skip()
}
