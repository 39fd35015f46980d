package page

import (
	"context"
	"slices"
	"time"

	"halley/trigger"
)

// watchFailures records failed calls, and the later calls with the changes of these.
func (r *Recorder) watchFailures(host string, limit int, handle trigger.Handler) trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		began, err := time.Now(), errGoexit
		defer func() { // also if the handler ends the goroutine
			if told := r.toldOf(b, err); len(told.Changes) > 0 {
				r.end(r.begin(ctx, host, limit, told, began), b, err)
			}
		}()
		err = guardPanic(ctx, b, handle)
		return err
	}
}

// toldOf returns the batch with the changes alone that are recorded: those that failed,
// and those that failed before.
func (r *Recorder) toldOf(b trigger.Batch, err error) trigger.Batch {
	if err == nil && !r.hasOpen() {
		b.Changes = nil
		return b
	}
	failed := b.Judge(err).Failed
	ids := map[string]bool{}
	for _, c := range failed {
		ids[idOf(b.Function, string(c.PartitionKey()), c.ID(), c)] = true
	}
	b.Changes = slices.DeleteFunc(slices.Clone(b.Changes), func(c trigger.Change) bool {
		id := idOf(b.Function, string(c.PartitionKey()), c.ID(), c)
		return !ids[id] && !r.isOpen(id)
	})
	return b
}

// hasOpen reports whether a recorded change may be delivered again.
func (r *Recorder) hasOpen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.order, (*entry).isOpen)
}

func (r *Recorder) isOpen(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[id]
	return e != nil && e.isOpen()
}

func (e *entry) isOpen() bool { return e.State == Failing || e.State == Delivering || e.Letter != "" }
