package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
)

// timerInfo holds the fields of a timer trigger's binding that Halley reads.
type timerInfo struct {
	IsPastDue bool
}

// timerOf finds the timer among the bindings, under any name. If a person invokes
// the function (POST /admin/functions/<name>), there is none.
func timerOf(in invocation) timerInfo {
	var t timerInfo
	for _, binding := range in.Data {
		if json.Unmarshal(unwrap(binding), &t) == nil && t.IsPastDue {
			break
		}
	}
	return t
}

// drainer drains one at a time, within a time limit.
type drainer struct {
	drain func(context.Context) (trigger.Summary, error) // stops in good order when its context ends
	limit time.Duration                                  // functionTimeout: the limit of a tick

	logMetrics func(*zap.Logger, *trigger.Summary) // after each drain; may be nil

	mu     sync.Mutex
	since  time.Time // start of the running drain; zero: none
	drains sync.WaitGroup
}

// tick answers one timer invocation. If a drain is still running, because the host
// started another instance of the timer or a person invoked it, the answer is success
// at once: that drain does the work.
func (d *drainer) tick(ctx context.Context, in invocation, log *zap.Logger) ([]string, error) {
	log.Info("timer invocation started", zap.Bool("past_due", timerOf(in).IsPastDue), zap.Duration("limit", d.limit))
	began := time.Now()
	r := d.run(ctx, d.limit)
	if err := r.failure(); err != nil {
		return nil, err
	}
	log.Info("timer invocation answered", zap.Duration("took", time.Since(began)), zap.Reflect("summary", r.summary), zap.String("note", r.note()))
	if d.logMetrics != nil {
		d.logMetrics(log, &r.summary)
	}
	answer := []string{summarize(r.summary), lagText(r.summary)}
	if note := r.note(); note != "" {
		answer = append(answer, note)
	}
	return answer, nil
}

// run drains unless a drain is running. It always returns before limit: if a drain
// does not stop in time, run leaves it behind and returns an error.
func (d *drainer) run(ctx context.Context, limit time.Duration) drained {
	if running := d.begin(); !running.IsZero() {
		return drained{running: running}
	}
	done := make(chan drained, 1)
	go func() {
		defer d.end()
		done <- d.once(ctx, limit-margin(limit))
	}()
	reserve := margin(limit) / 4
	last := time.NewTimer(limit - reserve)
	defer last.Stop()
	select {
	case r := <-done:
		return r
	case <-last.C:
		return drained{err: fmt.Errorf("not stopped %v before the time limit of %v: a handler ignores the end of its context", reserve, limit)}
	}
}

// wait returns when no drain is running. Call it when no tick can start.
func (d *drainer) wait() { d.drains.Wait() }

// begin claims the drainer. If another drain is running it returns its start.
func (d *drainer) begin() (running time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		d.since = time.Now()
		d.drains.Add(1)
		return time.Time{}
	}
	return d.since
}

func (d *drainer) end() {
	d.mu.Lock()
	d.since = time.Time{}
	d.mu.Unlock()
	d.drains.Done()
}

// drained is the outcome of one drain.
type drained struct {
	summary trigger.Summary
	running time.Time // start of another drain that is running, if there is one
	ended   error     // error of the context, if it ended the drain
	err     error
}

func (d *drainer) once(ctx context.Context, limit time.Duration) (r drained) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			r = drained{err: fmt.Errorf("panic: %v\n%s", v, debug.Stack())}
		}
	}()
	r.summary, r.err = d.drain(ctx)
	r.ended = ctx.Err()
	return r
}

// failure returns an error if the drain counts as failed. If only its time was up it
// does not: its progress is checkpointed.
func (r drained) failure() error {
	switch s := r.summary; {
	case r.err != nil:
		return fmt.Errorf("drain: %w", r.err)
	case s.Changes == 0 && s.Retries > 0:
		return fmt.Errorf("drain: the handlers failed on every batch (%s)", summarize(s))
	case s.Behind > 0 && r.ended == nil:
		return fmt.Errorf("drain: some ranges failed (%s)", summarize(s))
	}
	return nil
}

// note explains the summary if the drain did not run to its end.
func (r drained) note() string {
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

func summarize(s trigger.Summary) string {
	return fmt.Sprintf("%d ranges: %d idle, %d drained, %d held elsewhere, %d behind; %d changes in %d batches, %d retries, %d dead-lettered, %d filtered",
		s.Ranges, s.Idle, s.Drained, s.Skipped, s.Behind, s.Changes, s.Batches, s.Retries, s.DeadLetters, s.Filtered)
}
