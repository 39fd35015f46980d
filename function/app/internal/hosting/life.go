package hosting

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger"
)

// ProgressEvery is the time between two lines about a function's progress.
const ProgressEvery = time.Minute

// lifeLog tells in the log what the functions of a process do: what they read when they
// start, and their progress. mu guards the counts.
type lifeLog struct {
	log *zap.Logger

	mu     sync.Mutex
	counts map[string]trigger.Summary // by function, since the last line
}

func newLifeLog(log *zap.Logger) *lifeLog {
	return &lifeLog{log: log, counts: map[string]trigger.Summary{}}
}

// observe counts the work of all functions.
func (l *lifeLog) observe(e trigger.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts[e.Function]
	switch e.Kind {
	case trigger.EventDelivered:
		c.Batches++
		c.Changes += e.Handled
	case trigger.EventDeliveryFailed:
		c.Retries++
		c.Changes += e.Handled
	case trigger.EventDeadLettered:
		c.DeadLetters++
	case trigger.EventFiltered:
		c.Filtered += e.Changes
	default:
		return
	}
	l.counts[e.Function] = c
}

// take returns the counts of a function and begins again.
func (l *lifeLog) take(function string) trigger.Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts[function]
	delete(l.counts, function)
	return c
}

// tell logs the progress of one function. The lag is that of the ranges on this host,
// as far as their last reads have seen it.
func (l *lifeLog) tell(f trigger.FunctionStatus, every time.Duration) {
	behind, seconds, known, stalled := int64(0), 0.0, f.Problem == "", 0
	for _, r := range f.Ranges {
		behind += r.Behind
		seconds = max(seconds, r.BehindSeconds)
		known = known && r.BehindKnown && !r.Cooldown
		if r.Problem != "" && !r.Limited {
			stalled++
		}
	}
	lag := zap.String("behind", "?")
	if known {
		lag = zap.Int64("behind", behind) // transactions
	}
	c := l.take(f.Name)
	l.log.Info("progress", zap.String("function", f.Name), zap.Duration("last", every), zap.Int("ranges", len(f.Ranges)),
		zap.Int("changes", c.Changes), zap.Int("batches", c.Batches), zap.Int("failed", c.Retries), zap.Int("deadLettered", c.DeadLetters),
		zap.Int("filtered", c.Filtered), lag, zap.Float64("behindSeconds", seconds), zap.Int("withProblem", stalled), zap.String("problem", f.Problem))
}
