package functions

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
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

// timer answers the timer's invocations, each with a drain.
type timer struct {
	hosting.Drainer
	limit      time.Duration                       // functionTimeout: the limit of a tick
	logMetrics func(*zap.Logger, *trigger.Summary) // after each drain; may be nil
}

// tick answers one timer invocation. If a drain is still running, because the host
// started another instance of the timer or a person invoked it, the answer is success
// at once: that drain does the work.
func (d *timer) tick(ctx context.Context, in invocation, log *zap.Logger) ([]string, error) {
	log.Info("timer invocation started", zap.Bool("past_due", timerOf(in).IsPastDue), zap.Duration("limit", d.limit))
	began := time.Now()
	r := d.Run(ctx, d.limit)
	if err := r.Failure(); err != nil {
		return nil, err
	}
	log.Info("timer invocation answered", zap.Duration("took", time.Since(began)), zap.Reflect("summary", r.Summary), zap.String("note", r.Note()))
	if d.logMetrics != nil {
		d.logMetrics(log, &r.Summary)
	}
	answer := []string{hosting.Summarize(r.Summary), hosting.LagText(r.Summary)}
	if note := r.Note(); note != "" {
		answer = append(answer, note)
	}
	return answer, nil
}
