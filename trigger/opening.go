package trigger

import (
	"context"
	"log/slog"
	"time"

	"halley/trigger/stall"
)

// openedLane stands for Function.Opened among the lanes of [rangeStats].
const openedLane = leaseLane - 1

// beginOpened calls Function.Opened in a goroutine of its own, so that the lease is
// renewed and the feed is read meanwhile. The call's context is ctx. done gets a value
// when the call has returned.
func (w *rangeWorker) beginOpened(ctx context.Context) (done <-chan error) {
	returned := make(chan error, 1)
	if w.function.Opened == nil {
		returned <- nil
		return returned
	}
	info := w.rangeInfo()
	w.rangeStats.callBegins(openedLane)
	go func() { // ends with the call
		defer func() { returned <- nil }() // also if Opened ends the goroutine
		guardCallback(w.log, "Opened", func() { w.function.Opened(ctx, info) })
	}()
	return returned
}

// awaitOpened returns when the call of Function.Opened has returned. After the end of ctx
// it waits as for a handler call: for StuckGrace, or until the grace of a stop is over.
// Then it leaves the call behind.
func (w *rangeWorker) awaitOpened(ctx context.Context, done <-chan error) {
	defer w.rangeStats.openedEnds()
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	endedAt, grace := time.Now(), w.host.options.StuckGrace
	defer w.runningCalls.beginCall(endedAt.Add(grace))() // the answer to another host that has requested the range
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
		return
	case <-w.stop.abandon.Done():
	case <-late.C:
	}
	w.callbackRuns = true
	n := w.host.abandonedCalls.addCall(done)
	w.log.Error("Opened ignores the end of its context and is left behind", slog.Any("cause", context.Cause(ctx)),
		slog.Duration("ignored", time.Since(endedAt)), slog.Int64("abandoned", n))
}

// openedEnds notes that Function.Opened has returned or was left behind.
func (s *rangeStats) openedEnds() {
	s.endInherited(stall.Opening)
	s.callEnds(openedLane)
	s.reportRecovery()
}

// runningKind is the kind of a stall while a call runs.
func runningKind(lane int) stall.Kind {
	switch lane {
	case openedLane:
		return stall.Opening
	case flushLane:
		return stall.Flushing
	case snapshotLane:
		return stall.Removing
	}
	return stall.CallRuns
}

// stallIsOver reports whether the reported stall is over. Pages are read while Opened runs, and
// the lease is written while Flush or SnapshotRead runs, so none ends its stall, nor that of the
// last owner before the range has made progress here. mu is held.
func (s *rangeStats) stallIsOver() bool {
	_, opening := s.runningCalls[openedLane]
	_, flushing := s.runningCalls[flushLane]
	_, removing := s.runningCalls[snapshotLane]
	return s.reportedStall != nil && len(s.laneStalls) == 0 && !opening && !flushing && !removing && s.inherited.Kind == ""
}
