package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestJudgeBatch(t *testing.T) {
	batch := []int64{1, 2, 3}
	c := func(ordinals ...int64) (changes []Change) {
		for _, o := range ordinals {
			changes = append(changes, Change{callNumber: o})
		}
		return changes
	}
	bad := errors.New("bad")
	tests := []struct {
		name           string
		err            error
		handled, fails int
		giveUp         bool
	}{
		{"nil", nil, 3, 0, false},
		{"plain", bad, 0, 3, false},
		{"skip", Skip(bad), 0, 3, true},
		{"skip of nil", Skip(nil), 3, 0, false},
		{"one failed", Failed(bad, c(2)...), 2, 1, false},
		{"skip one", Skip(Failed(bad, c(2)...)), 2, 1, true},
		{"one failed for good", Failed(Skip(bad), c(2)...), 2, 1, true},
		{"none named", Failed(bad), 0, 3, false},
		{"a change that was not in the batch", Failed(bad, c(2, 9)...), 0, 3, false},
		{"from the second", FailedFrom(bad, c(2)[0]), 1, 2, false},
		{"wrapped", fmt.Errorf("write: %w", Failed(bad, c(3)...)), 2, 1, false},
		{"from after the end", FailedFrom(bad, c(9)[0]), 0, 3, false},
	}
	for _, test := range tests {
		fates, end := judgeBatch(batch, test.err, false)
		final := end == endGivenUp
		failed := countFailed(fates)
		if handled := len(batch) - failed; handled != test.handled || failed != test.fails || final != test.giveUp {
			t.Errorf("%s: %d handled, %d failed, final %v", test.name, handled, failed, final)
		}
		if test.err != nil && !errors.Is(test.err, bad) {
			t.Errorf("%s hides its cause", test.name)
		}
	}
}

// countFailed counts the changes that are not handled.
func countFailed(fates []changeFate) (n int) {
	for _, f := range fates {
		if f.failed {
			n++
		}
	}
	return n
}

func TestJudgeBatchWithPostponedChanges(t *testing.T) {
	batch := []int64{1, 2, 3}
	c := func(seq int64) Change { return Change{callNumber: seq} }
	bad, later := errors.New("bad"), errors.New("later")
	const year = 365 * 24 * time.Hour
	tests := []struct {
		name string
		err  error
		want string // a word for each change
	}{
		{"the batch", RetryAfter(later, time.Second), "1s 1s 1s"},
		{"wrapped", fmt.Errorf("send: %w", RetryAfter(later, time.Second)), "1s 1s 1s"},
		{"of nil", RetryAfter(nil, time.Second), "handled handled handled"},
		{"without a time", RetryAfter(later, 0), "failed failed failed"},
		{"with a time that has passed", RetryAfter(later, -time.Second), "failed failed failed"},
		{"for a year", RetryAfter(later, year), "720h0m0s 720h0m0s 720h0m0s"},
		{"around one that failed", RetryAfter(Failed(later, c(2)), time.Second), "handled 1s handled"},
		{"within one that failed", Failed(RetryAfter(later, time.Second), c(2)), "handled 1s handled"},
		{"from the second", RetryAfter(FailedFrom(later, c(2)), time.Second), "handled 1s 1s"},
		{"one fails and one waits", errors.Join(Failed(bad, c(1)), RetryAfter(Failed(later, c(3)), time.Second)), "failed handled 1s"},
		{"different times", errors.Join(RetryAfter(Failed(later, c(1)), time.Second), RetryAfter(Failed(later, c(3)), time.Minute)), "1s handled 1m0s"},
		{"two times for one", errors.Join(RetryAfter(Failed(later, c(1)), time.Second), RetryAfter(Failed(later, c(1)), time.Minute)), "1m0s handled handled"},
		{"failed and postponed", errors.Join(RetryAfter(Failed(later, c(1)), time.Second), Failed(bad, c(1))), "failed handled handled"},
		{"one waits, and more went wrong", errors.Join(RetryAfter(Failed(later, c(1)), time.Second), bad), "failed failed failed"},
		{"all wait, one longer", errors.Join(RetryAfter(later, time.Second), RetryAfter(Failed(later, c(1)), time.Minute)), "1m0s 1s 1s"},
		{"a change of another batch", RetryAfter(Failed(later, c(9)), time.Second), "failed failed failed"},
		{"around a joined error", RetryAfter(errors.Join(Failed(bad, c(1)), Failed(later, c(2))), time.Second), "1s 1s handled"},
		{"of an error that was final", RetryAfter(Skip(later), time.Second), "1s 1s 1s"},
		{"given up after all", Skip(RetryAfter(later, time.Second)), "failed failed failed"},
		{"a panic", &PanicError{Value: RetryAfter(later, time.Second)}, "failed failed failed"},
	}
	for _, test := range tests {
		fates, end := judgeBatch(batch, test.err, false)
		final := end == endGivenUp
		words := []string{"handled", "handled", "handled"}
		for i, f := range fates {
			if f.after > 0 {
				words[i] = f.after.String()
			} else if f.failed {
				words[i] = "failed"
			}
		}
		if got := strings.Join(words, " "); got != test.want || final != (test.name == "given up after all") {
			t.Errorf("%s: %s, final %v, want %s", test.name, got, final, test.want)
		}
	}
}

func TestJudgeBatchWithJoinedErrors(t *testing.T) {
	batch := []int64{1, 2, 3}
	c := func(seq int64) Change { return Change{callNumber: seq} }
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
		{"a panic with a final error", &PanicError{Value: Skip(bad)}, 0, 3, false},
	}
	for _, test := range tests {
		fates, end := judgeBatch(batch, test.err, false)
		final := end == endGivenUp
		failed := countFailed(fates)
		if handled := len(batch) - failed; handled != test.handled || failed != test.fails || final != test.giveUp {
			t.Errorf("%s: %d handled, %d failed, final %v", test.name, handled, failed, final)
		}
	}
}

func TestBatchMadeByHandIsJudged(t *testing.T) {
	bad := errors.New("bad")
	b := NewBatch(Change{Document: []byte(`{"id":"a"}`)}, Change{Document: []byte(`{"id":"b"}`)}, Change{Document: []byte(`{"id":"c"}`)})
	tests := []struct {
		err  error
		want string
	}{
		{nil, `3 handled`},
		{bad, `0 handled, 3 failed ["a" "b" "c"]: bad`},
		{Failed(bad, b.Changes[1], b.Changes[2], b.Changes[1]), `1 handled, 2 failed ["b" "c"]: 2 changes failed: bad`},
		{Skip(Failed(bad, b.Changes[0])), `2 handled, 1 given up ["a"]: 1 changes failed: bad`},
		{FailedFrom(bad, b.Changes[2]), `2 handled, 1 failed ["c"]: bad`},
		{RetryAfter(Failed(bad, b.Changes[0]), time.Second), `2 handled, 1 postponed "a" by 1s: 1 changes failed: bad`},
	}
	for _, test := range tests {
		if got := b.Judge(test.err).String(); got != test.want {
			t.Errorf("verdict is %s, want %s", got, test.want)
		}
	}
	b.Checkpoint()
	if !b.Judge(nil).Checkpoint || b.Judge(bad).Checkpoint {
		t.Error("the checkpoint of a handled batch counts, and only that")
	}
}

// Changes of a literal cannot be told apart: the whole batch has failed.
func TestFailedOnLiteralChangesFailsWholeBatch(t *testing.T) {
	b := Batch{Changes: []Change{{LSN: 1}, {LSN: 2}, {LSN: 3}}}
	err := Failed(errors.New("bad"), b.Changes[1], b.Changes[2])
	if v := b.Judge(err); len(v.Failed) != 3 || err.Error() != "2 changes failed: bad" {
		t.Errorf("%v: %d failed", err, len(v.Failed))
	}
}

// A handler may sort the changes of its batch: the change that it names is
// redelivered, not the one that had its place.
func TestFailedChangeIsFoundInSortedBatch(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 3)
		var calls []string
		h := func(_ context.Context, b Batch) error {
			slices.Reverse(b.Changes)
			calls = append(calls, fmt.Sprint(b.Attempt, ":", b.Changes[0].ID()))
			return Failed(errIf(b.Attempt == 1), b.Changes[0])
		}
		_, err := w.host("a", h, withoutBisection).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(calls) != "[1:doc2 2:doc2]" {
			t.Errorf("calls %v", calls)
		}
	})
}

func TestPartialFailureRedeliversOnlyFailedChanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		var calls []string
		h := func(_ context.Context, b Batch) error {
			var ids []string
			var odd []Change
			for i, c := range b.Changes {
				ids = append(ids, strings.TrimPrefix(c.ID(), "doc"))
				if b.Attempt == 1 && i%2 == 1 {
					odd = append(odd, c)
				}
			}
			calls = append(calls, fmt.Sprint(b.Attempt, ":", strings.Join(ids, "")))
			return Failed(errIf(len(odd) > 0), odd...)
		}
		summary, err := w.host("a", h, withoutBisection).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(calls) != "[1:0123456789 2:13579]" {
			t.Errorf("calls %v", calls)
		}
		if summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
	})
}

func errIf(failed bool) error {
	if failed {
		return errors.New("failed")
	}
	return nil
}

func TestFailedFromRedeliversTheRest(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 6)
		var calls []string
		h := func(_ context.Context, b Batch) error {
			calls = append(calls, fmt.Sprint(b.Attempt, ":", len(b.Changes), b.Changes[0].ID()))
			if b.Attempt == 1 {
				return FailedFrom(errors.New("stopped"), b.Changes[4])
			}
			return nil
		}
		_, err := w.host("a", h, withoutBisection).Drain(t.Context())
		must(t, err)
		if fmt.Sprint(calls) != "[1:6doc0 2:2doc4]" {
			t.Errorf("calls %v", calls)
		}
	})
}

// The handler joins one error for each change that failed.
func TestJoinedFailuresAreAllRedelivered(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		record := w.recorder("a")
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
		w.checkComplete(0)
	})
}
