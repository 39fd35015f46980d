package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
)

// flushLane stands for Function.Flush among the lanes of [rangeStats].
const flushLane = openedLane - 1

// errTrustEnded ends the context of Function.Flush.
var errTrustEnded = errors.New("lease was not written for so long that another host may have acquired it")

// flush calls Function.Flush, and has the release or the children of a split save what it
// has made durable. It is called when all handler calls of the range have returned or were
// left behind. ended is why the work on the range ends; flush returns it, or the error of a
// call that hangs.
func (w *rangeWorker) flush(held context.Context, ended error) error {
	if w.function.Flush == nil || w.callsAnswered.Load() == 0 || w.rangeStats.hasHungCall() {
		return ended
	}
	ctx, end := w.flushContext(held)
	defer end()
	began := time.Now()
	err := w.held.WaitTrusted(ctx)
	switch {
	case errors.Is(err, lease.ErrLost):
		return ended
	case err != nil:
		err = fmt.Errorf("no call of Flush: %w", err)
	default:
		err = w.callFlush(ctx)
	}
	if err == nil {
		err = w.rangeDelivery.RequestCheckpoint(ctx, w.callsAnswered.Load())
	}
	if err != nil {
		w.flushErr = err
		w.rangeStats.setProblem(flushLane, stall.Flushing, err)
	}
	w.emitEvent(Event{Kind: EventFlushed, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Duration: time.Since(began), Err: err})
	var hung *delivery.HungError
	isHung := errors.As(err, &hung)
	w.callbackRuns = isHung || errors.Is(err, errLeftBehind)
	if isHung {
		return err
	}
	return ended
}

// callFlush calls Function.Flush once, as a handler is called.
func (w *rangeWorker) callFlush(ctx context.Context) error {
	info := w.rangeInfo()
	w.rangeStats.callBegins(flushLane)
	defer w.rangeStats.flushEnds()
	err := w.invokeHandler(ctx, func(ctx context.Context, _ Batch) error { return w.function.Flush(ctx, info) }, Batch{})
	if loss := w.held.Err(); err == nil && loss != nil {
		err = loss
	}
	if err != nil {
		err = fmt.Errorf("call Flush: %w", err)
	}
	return err
}

// flushEnds notes that Function.Flush has returned or was left behind.
func (s *rangeStats) flushEnds() {
	s.callEnds(flushLane)
	s.reportRecovery()
}

// flushContext returns the context of Function.Flush. After a stop it outlives held, so that
// calls which need all of their time leave some to Flush. The caller calls end.
func (w *rangeWorker) flushContext(held context.Context) (ctx context.Context, end func()) {
	timed, cancel := context.WithTimeout(w.stop.flush, w.callTimeout)
	ctx, stop := context.WithCancelCause(timed)
	unregister := onEnd(held, func() {
		if loss := w.held.Err(); loss != nil {
			stop(loss)
		}
	})
	var watching sync.WaitGroup
	watching.Go(func() { w.watchTrust(ctx, stop) })
	return ctx, func() {
		unregister()
		stop(nil)
		watching.Wait()
		cancel()
	}
}

// watchTrust ends a context when this host cannot rely on the lease any more. It returns when
// the context has ended.
func (w *rangeWorker) watchTrust(ctx context.Context, stop context.CancelCauseFunc) {
	for {
		remaining := time.Until(w.held.TrustedUntil())
		if remaining <= 0 {
			stop(errTrustEnded)
			return
		}
		if backoff.Sleep(ctx, remaining) != nil {
			return
		}
	}
}
