package trigger

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestJudgeErrorsOfSeveralParts(t *testing.T) {
	batch := []Change{{seq: 1}, {seq: 2}, {seq: 3}}
	c := func(seq int64) Change { return Change{seq: seq} }
	bad, worse := errors.New("bad"), errors.New("worse")
	tests := []struct {
		name           string
		err            error
		handled, fails int
		giveUp         bool
	}{
		{"two failed", errors.Join(Failed(bad, c(1)), Failed(worse, c(3))), 1, 2, false},
		{"one failed twice", errors.Join(Failed(bad, c(1)), Failed(worse, c(1))), 2, 1, false},
		{"one failed, and more went wrong", errors.Join(Failed(bad, c(1)), worse), 0, 3, false},
		{"one failed, one was in another batch", errors.Join(Failed(bad, c(1)), Failed(worse, c(9))), 0, 3, false},
		{"one, and from the last on", errors.Join(Failed(bad, c(1)), FailedFrom(worse, c(3))), 1, 2, false},
		{"all given up", errors.Join(Skip(Failed(bad, c(1))), Failed(Skip(worse), c(2))), 1, 2, true},
		{"one given up, one to be tried again", errors.Join(Skip(Failed(bad, c(1))), Failed(worse, c(2))), 1, 2, false},
		{"given up, and something else", errors.Join(Skip(bad), worse), 0, 3, false},
		{"a panic with one failed", &PanicError{Value: Failed(bad, c(1))}, 0, 3, false},
		{"a panic with what was given up", &PanicError{Value: Skip(bad)}, 0, 3, false},
	}
	for _, test := range tests {
		failed, final := judgeBatch(batch, test.err)
		if handled := len(batch) - len(failed); handled != test.handled || len(failed) != test.fails || final != test.giveUp {
			t.Errorf("%s: %d handled, %d failed, final %v", test.name, handled, len(failed), final)
		}
	}
}

// A handler that collects an error for each change that failed.
func TestJoinedFailuresAllComeAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 10)
		record := w.record("a")
		_, err := w.host("a", func(ctx context.Context, b Batch) error {
			var failures []error
			good := b
			good.Changes = nil
			for i, c := range b.Changes {
				if b.Attempt == 1 && i%3 == 0 {
					failures = append(failures, Failed(fmt.Errorf("change %d", i), c))
				} else {
					good.Changes = append(good.Changes, c)
				}
			}
			return errors.Join(record(ctx, good), errors.Join(failures...))
		}).Drain(t.Context())
		must(t, err)
		w.complete(0)
	})
}
