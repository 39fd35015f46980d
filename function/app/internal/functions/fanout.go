package functions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
)

// In the mode fanout a timer invocation drains nothing: it answers with one queue message
// for each range that has work, and the platform scales on the length of the queue. An
// invocation of drainFunction processes one message.
const (
	drainFunction = "drain"  // directory of function.json with the queue trigger
	rangesOutput  = "ranges" // name of the timer function's queue output
)

// fanout spreads ranges over instances through a queue.
type fanout struct {
	limit    time.Duration // functionTimeout: the limit of an invocation
	dispatch func(context.Context) ([]trigger.RangeTask, trigger.Summary, error)
	drain    func(context.Context, trigger.RangeTask) (trigger.Summary, error)

	logMetrics func(*zap.Logger, *trigger.Summary) // after each invocation; may be nil

	running sync.WaitGroup // work that was left behind when its time was up
}

// tick answers a timer invocation with the messages of the ranges that have work. The
// Functions host sends none if the invocation fails, so it succeeds if there is one.
func (f *fanout) tick(ctx context.Context, _ invocation, log *zap.Logger) (invocationResult, error) {
	var tasks []trigger.RangeTask
	r := f.run(ctx, func(ctx context.Context) (s trigger.Summary, err error) {
		tasks, s, err = f.dispatch(ctx)
		if err != nil && len(tasks) > 0 {
			log.Error("not all functions were looked at", zap.Error(err))
			err = nil
		}
		return s, err
	})
	if r.Err != nil {
		return invocationResult{}, fmt.Errorf("look for ranges with work: %w", r.Err)
	}
	s := r.Summary
	log.Info("timer invocation answered", zap.Int("messages", len(tasks)), zap.Reflect("summary", s), zap.String("note", r.Note()))
	if f.logMetrics != nil {
		f.logMetrics(log, &s)
	}
	text := fmt.Sprintf("%d ranges: %d idle, %d held elsewhere, %d with work; %d messages", s.Ranges, s.Idle, s.Skipped, s.Behind, len(tasks))
	answer := invocationResult{Outputs: map[string]any{}, Logs: []string{text, hosting.LagText(s)}}
	if len(tasks) > 0 {
		answer.Outputs[rangesOutput] = tasks // objects: the host would decode strings that are valid Base64
	}
	return answer, nil
}

// process answers the invocation of one message. It fails only if the same message may
// succeed later: the queue then delivers it again. After an acquisition it succeeds also
// if the range is still behind, since the next timer invocation sends another message.
func (f *fanout) process(ctx context.Context, in invocation, log *zap.Logger) (invocationResult, error) {
	task, err := readTask(in)
	if err != nil {
		return droppedMessage(log, err), nil
	}
	log = log.With(zap.String("function", task.Function), zap.String("range", task.Range))
	r := f.run(ctx, func(ctx context.Context) (trigger.Summary, error) { return f.drain(ctx, task) })
	if errors.Is(r.Err, trigger.ErrNoFunction) {
		return droppedMessage(log, r.Err), nil
	}
	if r.Err != nil {
		return invocationResult{}, fmt.Errorf("drain range %q of function %q: %w", task.Range, task.Function, r.Err)
	}
	note := r.Note()
	switch s := r.Summary; {
	case s.Ranges == 0:
		note = "no lease has this token: the range has split or merged since"
	case s.Skipped > 0:
		note = "nothing to do: the range is held, paused or cooling down after a failure"
	}
	fields := []zap.Field{zap.Reflect("summary", r.Summary), zap.String("note", note)}
	if err := r.Failure(); err != nil {
		log.Warn("message processed, and the range is still behind", append(fields, zap.Error(err))...)
	} else {
		log.Info("message processed", fields...)
	}
	if f.logMetrics != nil {
		f.logMetrics(log, nil) // the lag of one range is not that of the app
	}
	answer := invocationResult{Logs: []string{hosting.Summarize(r.Summary)}}
	if note != "" {
		answer.Logs = append(answer.Logs, note)
	}
	return answer, nil
}

// run does the work of one invocation within the time limit.
func (f *fanout) run(ctx context.Context, work func(context.Context) (trigger.Summary, error)) hosting.Drained {
	d := &hosting.Drainer{Drain: work}
	r := d.Run(ctx, f.limit)
	f.running.Go(d.Wait)
	return r
}

// droppedMessage answers a message that no retry can help.
func droppedMessage(log *zap.Logger, err error) invocationResult {
	log.Error("message dropped: delivering it again cannot help", zap.Error(err))
	return invocationResult{Logs: []string{"message dropped: " + text.OfError(err)}}
}

// leftoverMessage answers a message in another mode, in which all ranges are processed
// without messages.
func leftoverMessage(_ context.Context, _ invocation, log *zap.Logger) ([]string, error) {
	log.Warn("message dropped: HALLEY_MODE is not fanout")
	return []string{"message dropped: HALLEY_MODE is not fanout"}, nil
}

// maxShownMessage is the number of bytes of an invalid message that an error shows.
const maxShownMessage = 200

// readTask reads the message of a queue trigger, whose binding may have any name.
func readTask(in invocation) (task trigger.RangeTask, err error) {
	for name, binding := range in.Data {
		message := unwrap(binding)
		if err := json.Unmarshal(message, &task); err != nil || task.Function == "" || task.Range == "" {
			return task, fmt.Errorf("binding %s: message %q is not an object with function and range", name, message[:min(len(message), maxShownMessage)])
		}
		return task, nil
	}
	return task, errors.New("the invocation has no message")
}

// packagedForFanout refuses the mode fanout in a package whose functions do not know it:
// leases would be marked, and no message sent. It accepts a directory without host.json.
func packagedForFanout(s *settings.Settings, dir string) error {
	if s.App.Mode != settings.ModeFanout || !exists(filepath.Join(dir, "host.json")) || exists(filepath.Join(dir, drainFunction, "function.json")) {
		return nil
	}
	return errNotPackaged
}

var errNotPackaged = errors.New("HALLEY_MODE=fanout needs " + drainFunction + "/function.json, which this package does not have: deploy the file that package --fanout writes")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
