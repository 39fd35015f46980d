package triggertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Deliver calls a handler once with changes, as on their first delivery in epoch 1,
// and returns its verdict; a panic is one, too. It fails the test if the handler
// modifies the bytes of a change.
func Deliver(t testing.TB, handler trigger.Handler, changes ...trigger.Change) trigger.Verdict {
	t.Helper()
	return Call{}.Deliver(t, handler, changes...)
}

// Call describes a handler call. A zero field means the value in its comment.
type Call struct {
	Attempt      int             // 1
	Epoch        int64           // 1
	ReuseBuffers bool            // of the function: the bytes are overwritten when the handler has returned
	Context      context.Context // that of the test
}

// Deliver is the function Deliver, with another call.
func (c Call) Deliver(t testing.TB, handler trigger.Handler, changes ...trigger.Change) trigger.Verdict {
	t.Helper()
	if len(changes) == 0 {
		t.Fatal("triggertest: a batch is never empty: give Deliver a change")
	}
	b := trigger.NewBatch(changes...)
	b.Function, b.Range = t.Name(), cosmos.Range{ID: "0", Max: "FF"}
	b.Attempt, b.Epoch = max(b.Attempt, c.Attempt), max(b.Epoch, c.Epoch)
	for i := range b.Changes {
		if b.Changes[i].LSN == 0 {
			b.Changes[i].LSN = int64(i) + 1
		}
	}
	ctx := c.Context
	if ctx == nil {
		ctx = t.Context()
	}
	err, misuse := callGuarded(ctx, handler, b, c.ReuseBuffers)
	if misuse != nil {
		t.Error(misuse)
	}
	return b.Judge(err)
}

// callGuarded calls a handler with a copy of a batch. misuse says that the handler
// modified the copy. If the bytes are lent, they are overwritten after the call, so
// that a handler which keeps them keeps nonsense.
func callGuarded(ctx context.Context, handler trigger.Handler, b trigger.Batch, lent bool) (err, misuse error) {
	given := b
	given.Changes = make([]trigger.Change, len(b.Changes))
	for i, c := range b.Changes {
		given.Changes[i] = c.Clone()
	}
	handed := slices.Clone(given.Changes) // the handler may sort its own
	err = callRecovering(ctx, handler, given)
	for i, c := range b.Changes {
		if !bytes.Equal(c.Document, handed[i].Document) || !bytes.Equal(c.Previous, handed[i].Previous) {
			misuse = errors.Join(misuse, fmt.Errorf("handler modified the bytes of change %q, which are read-only: modify a copy, see trigger.Change.Clone", c.ID()))
		}
		if lent {
			overwrite(handed[i].Document)
			overwrite(handed[i].Previous)
		}
	}
	return err, misuse
}

func overwrite(lent []byte) {
	for i := range lent {
		lent[i] = '#'
	}
}

// callRecovering returns a panic as the runtime does.
func callRecovering(ctx context.Context, handler trigger.Handler, b trigger.Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &trigger.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return handler(ctx, b)
}
