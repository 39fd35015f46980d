package hosting

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"halley/trigger"
)

// Dispatch returns the ranges of all functions that a message is to be sent for, see
// [trigger.Host.Dispatch].
func (a *App) Dispatch(ctx context.Context) ([]trigger.RangeTask, trigger.Summary, error) {
	var mu sync.Mutex
	var tasks []trigger.RangeTask
	var total trigger.Summary
	err := a.each(func(h *trigger.Host) error {
		found, s, err := h.Dispatch(ctx)
		mu.Lock()
		defer mu.Unlock()
		tasks = append(tasks, found...)
		total.Add(s)
		return err
	})
	sendTelemetry(ctx, a.Log, "flush", a.telemetry.Flush)
	return tasks, total, err
}

// DrainRange drains one range, see [trigger.Host.DrainRange]. It may be called by many
// goroutines at once. [trigger.ErrNoFunction] means that the function is not enabled here.
func (a *App) DrainRange(ctx context.Context, task trigger.RangeTask) (trigger.Summary, error) {
	i := slices.IndexFunc(a.groups, func(g group) bool {
		return slices.ContainsFunc(g.functions, func(f trigger.Function) bool { return f.Name == task.Function })
	})
	if i < 0 {
		return trigger.Summary{}, fmt.Errorf("%w named %q is enabled in this app (HALLEY_FUNCTIONS), or the queue is that of another app", trigger.ErrNoFunction, task.Function)
	}
	s, err := a.Hosts[i].DrainRange(ctx, task.Function, task.Range)
	sendTelemetry(ctx, a.Log, "flush", a.telemetry.Flush)
	return s, err
}
