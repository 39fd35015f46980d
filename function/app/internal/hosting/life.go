package hosting

import (
	"context"
	"io"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/cosmos"
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

// started tells what each function reads, and where it keeps its leases.
func (a *App) started() {
	for _, f := range a.Settings.Functions {
		account := ""
		if endpoint, err := url.Parse(a.Opened[f.Name].Container.Client().Endpoint()); err == nil {
			account = endpoint.Host
		}
		a.Log.Info("function started", zap.String("function", f.Name), zap.String("account", account),
			zap.String("container", f.DatabaseName+"/"+f.ContainerName), zap.Stringer("mode", f.ChangeFeedMode),
			zap.String("leases", f.LeaseDatabaseName+"/"+f.LeaseContainerName), zap.String("prefix", f.LeaseContainerPrefix),
			zap.Stringer("start", f.StartFrom), zap.Stringer("deadLetters", f.DeadLetters), zap.Stringer("filter", f.Filter))
	}
}

// tellUnreachable logs which accounts the functions wait for: the runtime tries for a
// while before it tells of a failure. It returns when each account has answered once, or
// is known not to.
func (a *App) tellUnreachable(ctx context.Context) {
	var asking sync.WaitGroup
	asked := map[*cosmos.Client]bool{}
	for _, f := range a.Settings.Functions {
		at, err := a.accounts.Open(f)
		if err != nil {
			return // it was opened before
		}
		for client, name := range map[*cosmos.Client]settings.ConnectionName{at.Leases.Client(): f.LeaseConnection, at.Monitored.Client(): f.Connection} {
			if asked[client] {
				continue
			}
			asked[client] = true
			asking.Go(func() {
				notice := time.AfterFunc(account.ReachNotice, func() {
					a.Log.Warn("waiting for an account", zap.Stringer("connection", name), zap.String("endpoint", client.Endpoint()))
				})
				defer notice.Stop()
				if _, err := account.Reach(ctx, client, name, io.Discard); err != nil && ctx.Err() == nil {
					a.Log.Error("account does not answer; trying again", zap.Error(err))
				}
			})
		}
	}
	asking.Wait()
}

// tellProgress logs a line for each function in each interval, until ctx ends.
func (a *App) tellProgress(ctx context.Context, every time.Duration) {
	for Pause(ctx, every) {
		for _, h := range a.Hosts {
			for _, f := range h.Status().Functions {
				a.life.tell(f, every)
			}
		}
	}
}

// tell logs the progress of one function. The lag is that of the ranges on this host,
// as far as their last reads have seen it.
func (l *lifeLog) tell(f trigger.FunctionStatus, every time.Duration) {
	behind, seconds, known, stalled := int64(0), 0.0, true, 0
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
