package main

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

// timerInfo is what a timer trigger's binding holds, as far as it matters.
type timerInfo struct {
	IsPastDue bool
}

// timerOf finds the timer among the bindings, whatever it is called. A call by
// hand (POST /admin/functions/<name>) brings none.
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

	mu     sync.Mutex
	since  time.Time // start of the running drain; zero: none
	drains sync.WaitGroup
}

// tick answers one timer invocation. A drain that is still running, because
// the host started another instance of the timer or a person invoked it, makes
// the tick answer success at once: that drain does this one's work.
func (d *drainer) tick(ctx context.Context, in invocation, log *zap.Logger) ([]string, error) {
	log.Info("tick", zap.Bool("past_due", timerOf(in).IsPastDue), zap.Duration("limit", d.limit))
	began := time.Now()
	r := d.run(ctx, d.limit)
	if err := r.failure(); err != nil {
		return nil, err
	}
	log.Info("tick answered", zap.Duration("took", time.Since(began)), zap.Any("summary", r.summary), zap.String("note", r.note()))
	if note := r.note(); note != "" {
		return []string{summarize(r.summary), note}, nil
	}
	return []string{summarize(r.summary)}, nil
}

// run drains unless a drain is running. It returns before limit in any case:
// when a drain does not stop in time it goes on alone, and run reports that.
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
		return drained{err: fmt.Errorf("not stopped %v before the time limit of %v: a handler does not obey its context", reserve, limit)}
	}
}

// wait returns when no drain is running. Call it when no tick can come.
func (d *drainer) wait() { d.drains.Wait() }

// begin claims the drainer, or returns since when another drain is running.
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
	running time.Time // since when another drain is running, instead of this one
	ended   error     // of its context, if that ended it
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

// failure is why the drain counts as failed, or nil. Time that is up is no
// failure: what was handled is checkpointed.
func (r drained) failure() error {
	switch s := r.summary; {
	case r.err != nil:
		return fmt.Errorf("drain: %w", r.err)
	case s.Changes == 0 && s.Retries > 0:
		return fmt.Errorf("drain: the handlers refused every batch (%s)", summarize(s))
	case s.Behind > 0 && r.ended == nil:
		return fmt.Errorf("drain: some ranges failed (%s)", summarize(s))
	}
	return nil
}

// note says what a reader of the summary must know besides.
func (r drained) note() string {
	switch {
	case !r.running.IsZero():
		return "another drain is running since " + r.running.UTC().Format(time.RFC3339)
	case errors.Is(r.ended, context.DeadlineExceeded):
		return "the time for this drain is up; the next one goes on"
	case r.ended != nil:
		return "this drain was stopped; the next one goes on"
	}
	return ""
}

func summarize(s trigger.Summary) string {
	return fmt.Sprintf("%d ranges: %d idle, %d drained, %d held elsewhere, %d behind; %d changes in %d batches, %d retries, %d dead-lettered",
		s.Ranges, s.Idle, s.Drained, s.Skipped, s.Behind, s.Changes, s.Batches, s.Retries, s.DeadLetters)
}
