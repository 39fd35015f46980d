package trigger

import (
	"context"
	"encoding/json"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// deliver calls the handler with the changes of a page until it accepts them.
// It returns an error only when no further delivery may begin: reader ended, or
// the lease is lost. The changes are then not handled.
func (w *worker) deliver(reader, held context.Context, page *cosmos.Page) error {
	if len(page.Items) == 0 {
		return nil
	}
	for attempt := 1; ; attempt++ {
		if cause := context.Cause(reader); cause != nil {
			return cause
		}
		if err := w.keeper.await(reader); err != nil {
			return err
		}
		batch := w.batch(page.Items, attempt)
		began := time.Now()
		err := w.call(held, batch)
		event := Event{
			Kind: Delivered, Range: w.lease.token, Epoch: batch.Epoch, Changes: len(batch.Changes), Attempt: attempt,
			LastLSN: page.Items[len(page.Items)-1].LSN, Duration: time.Since(began), Err: err,
		}
		if err == nil {
			w.tally.delivered(event)
			w.f.event(event)
			return nil
		}
		event.Kind = Failed
		w.tally.failed(event)
		w.f.event(event)
		w.log.Error("handler failed; the batch comes again", zap.Error(err),
			zap.Int("attempt", attempt), zap.Int("changes", len(batch.Changes)), stackField(err))
		if err := sleep(reader, backoff(attempt, w.f.host.opts.RetryMin, w.f.host.opts.RetryMax, w.keeper.id.owner, w.lease.token)); err != nil {
			return err
		}
	}
}

// batch copies items into a batch of its own. The copy is what lets a handler
// keep and change the bytes while the page's buffer is used again and a
// further attempt sees what the feed said.
func (w *worker) batch(items []cosmos.Item, attempt int) Batch {
	size := 0
	for _, item := range items {
		size += len(item.Document)
	}
	buffer := make([]byte, 0, size)
	changes := make([]Change, len(items))
	for i, item := range items {
		from := len(buffer)
		buffer = append(buffer, item.Document...)
		changes[i] = Change{
			Document: json.RawMessage(buffer[from:len(buffer):len(buffer)]),
			LSN:      item.LSN,
			Time:     time.Unix(item.Timestamp, 0).UTC(),
		}
	}
	return Batch{
		Function: w.f.Name, Range: w.lease.asRange(), Changes: changes, Attempt: attempt, Epoch: w.keeper.id.epoch,
	}
}

// asRange is the leased span as handlers see it.
func (l *lease) asRange() cosmos.Range {
	return cosmos.Range{ID: l.token, Min: l.span.Min, Max: l.span.Max}
}

// call runs the handler once, under its deadline, and turns a panic into a
// verdict. A handler that returns nil after its context ended is believed.
func (w *worker) call(ctx context.Context, b Batch) (err error) {
	ctx, cancel := context.WithTimeout(ctx, w.f.HandlerTimeout)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return w.f.Handler(ctx, b)
}
