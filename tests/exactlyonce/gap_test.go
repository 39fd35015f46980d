package exactlyonce

import (
	"context"
	"slices"
	"testing"
	"time"

	"halley/trigger/stall"
)

// retention is that of all versions.
const retention = 24 * time.Hour

// gap is a time in which no host has run, and of which the feed of all versions has the end alone.
// It names documents that clients have deleted in it, and a sink has kept: those of which the feed
// has lost the delete, and those of which it has not.
type gap struct{ early, late []string }

// missRetention kills all hosts, and starts them again when the account's clock has moved on for
// longer than the retention. Clients write before and after that. It returns when the positions of
// the ranges are refused.
func (r *snapshotRun) missRetention(ctx context.Context) gap {
	r.t.Helper()
	for _, h := range r.fleet.hosts {
		h.kill()
		r.fleet.kills++
	}
	former := r.life.living()
	r.life.write(ctx, *changes/8, 0)
	early := r.life.living()
	r.account.Advance(retention + time.Hour)
	r.life.write(ctx, *changes/8, 0)
	for _, h := range r.fleet.hosts {
		h.start()
	}
	r.stalled = r.awaitStalls(ctx)
	var g gap
	living := r.life.living()
	for id := range r.sink.documents() {
		_, existed := former[id]
		_, existedEarly := early[id]
		_, exists := living[id]
		switch {
		case !existed || exists:
		case existedEarly:
			g.late = append(g.late, id)
		default:
			g.early = append(g.early, id)
		}
	}
	return g
}

// awaitStalls waits until each range is stalled since its position has left the retention, or has
// caught up. It returns the number of those that are stalled.
func (r *snapshotRun) awaitStalls(ctx context.Context) (stalled int) {
	for ctx.Err() == nil {
		lags, err := r.lags(ctx)
		waiting := err != nil || len(lags) == 0
		stalled = 0
		for _, lag := range lags {
			if slices.ContainsFunc(lag.Stalls, func(s stall.Stall) bool { return s.Kind == stall.RetentionMissed }) {
				stalled++
			} else if !lag.Known || lag.Changes > 0 {
				waiting = true
			}
		}
		if !waiting {
			return stalled
		}
		waitUntil(ctx, time.Now().Add(50*time.Millisecond))
	}
	return stalled
}

// beginSnapshot takes the way back that the documentation names. An operator repeats the command
// if it fails because of a host that is killed meanwhile.
func (r *snapshotRun) beginSnapshot(ctx context.Context) {
	r.t.Helper()
	for {
		seek := r.fleet.hosts[0].command(ctx, "leases", "seek", "--function", r.source.Name, "--to", "snapshot", "--yes")
		out, err := seek.CombinedOutput()
		r.seeks++
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("begin a snapshot: %v\n%s", err, out)
		}
	}
}

// requireWork fails the test unless a sink had documents to remove that clients have deleted in
// the gap, and have not created again since.
func (g gap) requireWork(t *testing.T, documents map[string]document) {
	t.Helper()
	exists := func(id string) bool {
		_, ok := documents[id]
		return ok
	}
	early, late := len(slices.DeleteFunc(g.early, exists)), len(slices.DeleteFunc(g.late, exists))
	t.Logf("a gap longer than the retention: the sink had %d documents that were deleted in it before the retention begins, and %d of later", early, late)
	if early == 0 || late == 0 {
		t.Error("no document was deleted in the gap that the sink had")
	}
}
