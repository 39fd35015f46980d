package simulation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"halley/trigger"
	"halley/trigger/leases"
)

// operatorPatience bounds a command: the wait for owners.
const operatorPatience = 5*time.Minute + 1301

// ofOperator returns the kind of a write by an operator: it acquires no lease for itself.
func (k kind) ofOperator() kind {
	switch k {
	case acquire:
		return takeWrite
	case release:
		return seekWrite
	}
	return k
}

// operate starts an operator's command in a process of its own. It is for one lease, or
// for all.
func (w *world) operate(c class, d dice) string {
	w.lives["operator"]++
	w.commands++
	p := &process{
		w: w, owner: "operator", name: "operator." + strconv.Itoa(w.lives["operator"]), tool: true, command: c,
		cut: make(chan struct{}), sequences: map[string]int{}, unheard: map[string]time.Time{}, unread: map[string]leaseSpan{},
	}
	client := w.client(p)
	source := leases.Source(w.swarm.function.FeedSource)
	source.Container = client.Container(database, "items")
	control, err := leases.NewControl(client.Container(database, "leases"), source, &leases.ControlOptions{
		Operator: p.name, Force: d.chance("force", 0.25),
	})
	w.must(err)
	to := one(d, "to", trigger.FromBeginning(), trigger.FromNow(), trigger.FromTime(time.Now().Add(-d.duration("ago", time.Minute, time.Hour))))
	var ranges []string
	if keys := slices.Sorted(maps.Keys(w.leases)); len(keys) > 0 && !w.recovering && d.chance("one", 0.7) {
		lease := w.leases[one(d, "lease", keys...)]
		ranges = []string{lease.token}
		if lease.continuation != "" && d.chance("same place", 0.3) {
			to = trigger.FromContinuation(lease.continuation)
		}
	}
	var ctx context.Context
	ctx, p.end = context.WithTimeout(context.Background(), operatorPatience)
	w.processes.Go(func() {
		defer p.end()
		plan, err := planOf(ctx, c, control, to, ranges)
		if err == nil {
			err = control.Apply(ctx, plan)
		}
		w.later(0, "operated/"+p.name, func() {
			w.commands--
			w.log.add(time.Since(w.began), "operated", fmt.Sprint(c, ranges, err != nil))
		})
	})
	return p.name
}

func planOf(ctx context.Context, c class, control *leases.Control, to leases.Start, ranges []string) (leases.Plan, error) {
	switch c {
	case seeking:
		return control.PlanSeek(ctx, to, ranges...)
	case pausing:
		return control.PlanPause(ctx, "simulated", ranges...)
	case resuming:
		return control.PlanResume(ctx, ranges...)
	}
	return control.PlanRelease(ctx, ranges...)
}

// anyPaused reports whether a lease is paused.
func (w *world) anyPaused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leases {
		if l.paused != "" && !l.tombstone {
			return true
		}
	}
	return false
}
