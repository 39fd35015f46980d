package hosting

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"halley/trigger"
)

// Drainer drains one at a time, within a time limit.
type Drainer struct {
	Drain func(context.Context) (trigger.Summary, error) // stops in good order when its context ends

	mu     sync.Mutex
	since  time.Time // start of the running drain; zero: none
	drains sync.WaitGroup
}

// Run drains unless a drain is running. It always returns before limit: if a drain
// does not stop in time, run leaves it behind and returns an error.
func (d *Drainer) Run(ctx context.Context, limit time.Duration) Drained {
	if running := d.begin(); !running.IsZero() {
		return Drained{running: running}
	}
	done := make(chan Drained, 1)
	go func() {
		defer d.end()
		done <- d.once(ctx, limit-Margin(limit))
	}()
	reserve := Margin(limit) / 4
	last := time.NewTimer(limit - reserve)
	defer last.Stop()
	select {
	case r := <-done:
		return r
	case <-last.C:
		return Drained{Err: fmt.Errorf("not stopped %v before the time limit of %v: a handler ignores the end of its context", reserve, limit)}
	}
}

// Wait returns when no drain is running. Call it when no tick can start.
func (d *Drainer) Wait() { d.drains.Wait() }

// begin claims the drainer. If another drain is running it returns its start.
func (d *Drainer) begin() (running time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		d.since = time.Now()
		d.drains.Add(1)
		return time.Time{}
	}
	return d.since
}

func (d *Drainer) end() {
	d.mu.Lock()
	d.since = time.Time{}
	d.mu.Unlock()
	d.drains.Done()
}

// Drained is the outcome of one drain.
type Drained struct {
	Summary trigger.Summary
	running time.Time // start of another drain that is running, if there is one
	ended   error     // error of the context, if it ended the drain
	Err     error
}

func (d *Drainer) once(ctx context.Context, limit time.Duration) (r Drained) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			r = Drained{Err: fmt.Errorf("panic: %v\n%s", v, debug.Stack())}
		}
	}()
	r.Summary, r.Err = d.Drain(ctx)
	r.ended = ctx.Err()
	return r
}

// Failure returns an error if the drain counts as failed. If only its time was up it
// does not: its progress is checkpointed.
func (r Drained) Failure() error {
	switch s := r.Summary; {
	case r.Err != nil:
		return fmt.Errorf("drain: %w", r.Err)
	case s.Changes == 0 && s.Retries > 0:
		return fmt.Errorf("drain: the handlers failed on every batch (%s)", Summarize(s))
	case s.Behind > 0 && r.ended == nil:
		return fmt.Errorf("drain: some ranges failed (%s)", Summarize(s))
	}
	return nil
}

// Note explains the summary if the drain did not run to its end.
func (r Drained) Note() string {
	switch {
	case !r.running.IsZero():
		return "another drain is running since " + r.running.UTC().Format(time.RFC3339)
	case errors.Is(r.ended, context.DeadlineExceeded):
		return "the time for this drain is up; the next one continues"
	case r.ended != nil:
		return "this drain was stopped; the next one continues"
	}
	return ""
}

// Summarize is the summary of a drain in words.
func Summarize(s trigger.Summary) string {
	return fmt.Sprintf("%d ranges: %d idle, %d drained, %d held elsewhere, %d behind; %d changes in %d batches, %d retries, %d dead-lettered, %d filtered",
		s.Ranges, s.Idle, s.Drained, s.Skipped, s.Behind, s.Changes, s.Batches, s.Retries, s.DeadLetters, s.Filtered)
}

// AssumedTimeout is the time limit of an invocation if no other is known: functionTimeout of
// the Consumption plan of Azure Functions, the shortest default of any plan.
const AssumedTimeout = 5 * time.Minute

// Margin is the part of a time limit that is reserved for stopping: a fifth, at most
// 30 s. A drain ends this long before the limit. A running handler then gets a third
// of the margin to finish, and the release of the leases another third. When
// functionTimeout passes, the Functions host kills the process with all its
// invocations.
func Margin(limit time.Duration) time.Duration { return min(limit/5, 30*time.Second) }
