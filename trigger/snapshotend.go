package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/internal/delivery"
	"halley/trigger/stall"
)

// At the end of a range's snapshot, Function.SnapshotRead removes rows from the sink that the
// snapshot has not shown, while the lease is still in the snapshot:
//
//  1. Everything up to P is handled, or its key has changes in the dead letter store. The rows
//     that the snapshot has shown have its generation, by this owner or by an earlier one.
//  2. The owner lists the keys in the store, and calls SnapshotRead with them until it succeeds.
//  3. The release of the lease ends the phase. If host A crashes before, host B reads the end of
//     the snapshot again, and makes the call again.
//
// A call that is late, because A has lost the lease, removes nothing that changes after P have
// written: B delivers those with the generation of the snapshot or with a higher one. A document
// that was written again after P is not shown, so that its old row is removed; its change after P
// brings it back.

// snapshotLane stands for Function.SnapshotRead among the lanes of [rangeStats].
const snapshotLane = flushLane - 1

// finishSnapshot calls Function.SnapshotRead until it succeeds, and returns ended then. If it does
// not before reading ends, or if the snapshot has to begin again, it returns why the lease stays
// in the snapshot.
func (w *rangeWorker) finishSnapshot(reading, held context.Context, ended error) error {
	if w.flushErr != nil {
		return fmt.Errorf("end snapshot: %w", w.flushErr) // its last changes are delivered again
	}
	generation := w.feedOrigin.Load().generation
	if w.function.SnapshotRead == nil || w.isSnapshotLate() {
		return ended
	}
	if generation == 0 {
		w.log.Warn("an older version of Halley began this snapshot, so that what it has not shown stays in the sink: begin another one with leases seek --to snapshot")
		return ended
	}
	if err := w.awaitStore(reading); err != nil {
		return err
	}
	for failures := 1; ; failures++ {
		err := w.callSnapshotRead(held, generation)
		w.removeErr = err
		var hung *delivery.HungError
		switch {
		case err == nil:
			w.rangeStats.clearStall(snapshotLane)
			w.rangeStats.endInherited(stall.Removing)
			w.rangeStats.reportRecovery()
			w.log.Info("what the snapshot has not shown is removed", slog.Int64("generation", generation))
			return ended
		case errors.As(err, &hung):
			w.callbackRuns = true
			return err
		case errors.Is(err, errLeftBehind):
			w.callbackRuns = true
		}
		if cause := context.Cause(held); cause != nil {
			return cause
		}
		if w.rangeStats.setProblem(snapshotLane, stall.Removing, err) {
			w.log.Error("snapshot does not end", slog.Any("error", err), slog.Int("failures", failures))
		}
		if err := backoff.Sleep(reading, backoff.Wait(failures, w.function.RetryMin, w.function.RetryMax, w.jitterKey()...)); err != nil {
			return err
		}
		if w.isSnapshotLate() {
			return errSnapshotVoid
		}
	}
}

// awaitStore waits until the dead letter store shows what this owner, or the one before, has put.
func (w *rangeWorker) awaitStore(ctx context.Context) error {
	if !w.function.keepsDeadLetters() {
		return nil
	}
	age := min(time.Since(time.Unix(0, w.storePut.Load())), w.leases.Now().Sub(w.held.FormerWrite()))
	return backoff.Sleep(ctx, delivery.StoreLag-age)
}

// callSnapshotRead calls Function.SnapshotRead once, as a handler is called.
func (w *rangeWorker) callSnapshotRead(held context.Context, generation int64) error {
	w.rangeStats.callBegins(snapshotLane)
	defer w.rangeStats.snapshotCallEnds()
	kept, err := w.keptKeys(held)
	if err != nil {
		return fmt.Errorf("list the keys with dead letters, which the sink keeps: %w", err)
	}
	if err := w.held.WaitTrusted(held); err != nil {
		return err
	}
	s := SnapshotEnd{RangeInfo: w.rangeInfo(), Generation: generation, KeptKeys: kept, partitionKey: w.leases.Monitored().PartitionKey}
	s.Range.Min, s.Range.Max = cosmos.TrimKey(s.Range.Min), cosmos.TrimKey(s.Range.Max)
	err = w.invokeHandler(held, func(ctx context.Context, _ Batch) error { return w.function.SnapshotRead(ctx, s) }, Batch{})
	if err != nil {
		return fmt.Errorf("call SnapshotRead: %w", err)
	}
	return nil
}

// snapshotCallEnds notes that Function.SnapshotRead has returned or was left behind.
func (s *rangeStats) snapshotCallEnds() {
	s.callEnds(snapshotLane)
	s.reportRecovery()
}

// keptKeys returns the keys of the range with changes in the dead letter store. If a record cannot
// be read, nothing can be removed: any key may be its own.
func (w *rangeWorker) keptKeys(ctx context.Context) ([]string, error) {
	if !w.function.keepsDeadLetters() {
		return nil, nil
	}
	ctx, progress, end := whileAnswering(ctx)
	defer end()
	keys := map[string]bool{} // of this call alone, which may be left behind
	err := w.callStore(ctx, func() error {
		for _, kind := range []RecordKind{RecordDead, RecordPostponed} {
			query := DeadLetterQuery{Source: w.function.DeadLetterSource(), Kind: kind}
			for d, err := range AllDeadLetters(ctx, w.function.DeadLetters, query) {
				if err != nil {
					return err
				}
				progress()
				keys[d.Key] = true
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(keys, func(key string, _ bool) bool { return !w.ownsKey(key) })
	return slices.Sorted(maps.Keys(keys)), nil
}
