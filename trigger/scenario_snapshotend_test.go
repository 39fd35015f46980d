package trigger

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/leases"
	"halley/trigger/stall"
)

// generationTable is a sink as [Function.SnapshotRead] describes it.
type generationTable struct {
	mu      sync.Mutex
	rows    map[string]generationRow
	ends    []SnapshotEnd
	removed []string
	fail    func(id string) error
	onBatch func(fromSnapshot bool)
	onEnd   func(ctx context.Context, s SnapshotEnd) error
}

type generationRow struct {
	generation       int64
	place, partition string
}

func newGenerationTable() *generationTable { return &generationTable{rows: map[string]generationRow{}} }

func (g *generationTable) handle(_ context.Context, b Batch) error {
	if g.onBatch != nil {
		g.onBatch(b.Changes[0].FromSnapshot())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var failed []error
	for _, c := range b.Changes {
		if g.fail != nil {
			if err := g.fail(c.ID()); err != nil {
				failed = append(failed, withChange(err, c))
				continue
			}
		}
		if c.Operation == cosmos.OperationDelete {
			delete(g.rows, c.ID())
			continue
		}
		g.rows[c.ID()] = generationRow{max(c.Generation(), g.rows[c.ID()].generation), c.EffectiveKey(), string(c.PartitionKey())}
	}
	return errors.Join(failed...)
}

// withChange names the change that failed, and keeps a wish for a later retry.
func withChange(err error, c Change) error {
	if errors.Is(err, errLater) {
		return RetryAfter(Failed(err, c), time.Hour)
	}
	return Failed(err, c)
}

func (g *generationTable) remove(ctx context.Context, s SnapshotEnd) error {
	if g.onEnd != nil {
		if err := g.onEnd(ctx, s); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ends = append(g.ends, s)
	for id, r := range g.rows {
		if r.place >= s.Range.Min && r.place < s.Range.Max && r.generation < s.Generation && !slices.Contains(s.KeptKeys, r.partition) {
			delete(g.rows, id)
			g.removed = append(g.removed, id)
		}
	}
	return nil
}

// function starts a function with a snapshot into the table.
func (g *generationTable) function(f *Function, o *Options) {
	fromSnapshot(f, o)
	f.Handler, f.SnapshotRead = g.handle, g.remove
}

// ids returns the ids of rows that begin with a text, in order.
func (g *generationTable) ids(prefix string) (ids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.rows {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// checkRows compares the ids of the rows with the documents of the container, and further ones.
func (g *generationTable) checkRows(w *world, further ...string) {
	w.t.Helper()
	want := slices.Clone(further)
	for id := range w.written {
		want = append(want, id)
	}
	slices.Sort(want)
	if got := g.ids(""); !slices.Equal(got, slices.Compact(want)) {
		w.t.Errorf("the table has %d rows, want %d: %v", len(got), len(want), got)
	}
}

// missRetention deletes documents that the table has while no host runs, writes others again, and
// lets both leave the retention of all versions.
func (w *world) missRetention(deleted ...string) {
	w.t.Helper()
	w.writeVersions("doc", 5)
	for _, id := range deleted {
		w.removeWritten(id)
	}
	w.writeVersions("gap", 3)
	time.Sleep(3 * time.Hour)
}

// seekToSnapshot moves all ranges to a new snapshot, as the command leases seek does.
func (w *world) seekToSnapshot() {
	w.t.Helper()
	control, err := leases.NewControl(w.leases, leases.Source{Name: "test", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: FromSnapshot()}, nil)
	must(w.t, err)
	plan, err := control.PlanSeek(w.t.Context(), FromSnapshot())
	w.apply(control, plan, err)
}

// inGapWorld has a table with the documents of a container, of which some were deleted in a gap that
// was longer than the retention. The ranges are about to begin a new snapshot.
func inGapWorld(t *testing.T, ranges int, test func(t *testing.T, w *world, g *generationTable)) {
	inVersionsWorld(t, ranges, nil, func(t *testing.T, w *world) {
		g := newGenerationTable()
		w.writeVersions("doc", 100)
		_, err := w.host("a", nil, g.function).Drain(t.Context())
		must(t, err)
		w.writeVersions("new", 20) // events, whose rows have the generation of the snapshot before
		_, err = w.host("a", nil, g.function).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
		w.missRetention("doc30", "doc31", "doc32", "doc80", "new3")
		w.seekToSnapshot()
		g.ends = nil
		test(t, w, g)
	})
}

// The range cannot be read after the gap, and says which way leads back. The snapshot then removes
// what was deleted meanwhile, also rows that events have written.
func TestSnapshotRemovesDocumentsDeletedInTheGap(t *testing.T) {
	inVersionsWorld(t, 2, nil, func(t *testing.T, w *world) {
		g := newGenerationTable()
		w.writeVersions("doc", 40)
		stop := w.startHost(w.host("a", nil, g.function))
		time.Sleep(time.Minute)
		w.writeVersions("new", 20)
		time.Sleep(time.Minute)
		stop()
		w.missRetention("doc30", "doc31", "new3")
		h := w.host("a", nil, g.function, withoutLogger)
		stop = w.startHost(h)
		time.Sleep(2 * time.Minute)
		stop()
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: FromSnapshot()})
		must(t, err)
		if s := lags[0].Stalls; len(s) != 1 || s[0].Kind != stall.RetentionMissed || !strings.Contains(s[0].Advice(), "new snapshot") {
			t.Errorf("the lease tells of %+v", s)
		}
		w.seekToSnapshot()
		stop = w.startHost(w.host("a", nil, g.function))
		time.Sleep(time.Minute)
		g.checkRows(w)
		w.writeVersions("doc", 3)
		w.removeWritten("doc10")
		time.Sleep(time.Minute)
		stop()
		g.checkRows(w)
		if slices.Sort(g.removed); !slices.Equal(g.removed, []string{"doc30", "doc31", "new3"}) {
			t.Errorf("removed %v", g.removed)
		}
		if len(g.ends) != 4 || g.ends[2].Generation <= g.ends[0].Generation || g.ends[0].Function != "test" || g.ends[0].Range.ID == g.ends[1].Range.ID {
			t.Errorf("ends of snapshots: %+v", g.ends)
		}
	})
}

// The range splits in the middle of its snapshot: each child removes what is its own.
func TestChildrenOfSplitRemoveTheirOwn(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		var batches atomic.Int32
		g.onBatch = func(fromSnapshot bool) {
			if batches.Add(1) == 4 && fromSnapshot {
				_, err := w.account.Split("db", "items", "0")
				must(t, err)
			}
		}
		stop := w.startHost(w.host("a", nil, g.function, func(f *Function, _ *Options) { f.PageItems = 10 }))
		time.Sleep(3 * time.Minute)
		stop()
		g.checkRows(w)
		if len(g.ends) != 2 || g.ends[0].Generation != g.ends[1].Generation || g.ends[0].Range.ID == g.ends[1].Range.ID {
			t.Errorf("ends of snapshots: %+v", g.ends)
		}
	})
}

// Host A dies when the call has removed what it must, before the lease says so. Host B makes the call
// again, and what changes after the snapshot have written stays, also after a late call of host A.
func TestSnapshotReadIsRepeatedAfterCrash(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		ctx, kill := context.WithCancel(t.Context())
		var isDead atomic.Bool
		dying := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			return nil, errors.New("the process has died"), isDead.Load()
		}}
		var late SnapshotEnd
		remove := func(call context.Context, s SnapshotEnd) error {
			err := g.remove(call, s)
			late = s
			isDead.Store(true)
			kill()
			return err
		}
		must(t, w.hostOn(dying, "a", nil, g.function, withoutLogger, func(f *Function, _ *Options) { f.SnapshotRead = remove }).Run(ctx))
		if w.leaseDocuments()["0"].properties["halley.snapshot"] == "" || len(g.ends) != 1 {
			t.Errorf("the phase has ended with the host, after %d calls", len(g.ends))
		}
		w.writeVersions("after", 5)
		stop := w.startHost(w.host("b", nil, g.function))
		time.Sleep(3 * time.Minute)
		w.writeVersions("doc", 50)
		time.Sleep(time.Minute)
		g.checkRows(w)
		must(t, g.remove(t.Context(), late))
		stop()
		g.checkRows(w)
		if len(g.ends) != 3 || g.ends[0].Generation != g.ends[1].Generation {
			t.Errorf("ends of snapshots: %+v", g.ends)
		}
	})
}

// A call that fails is repeated with a wait; until it succeeds, no later change is delivered, and the
// status, an event and the lease say why.
func TestFailingSnapshotReadHoldsTheRange(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		var calls atomic.Int32
		var works atomic.Bool
		g.onEnd = func(context.Context, SnapshotEnd) error {
			if calls.Add(1); calls.Load() == 2 {
				panic("the sink is confused")
			}
			if !works.Load() {
				return errors.New("the sink refuses")
			}
			return nil
		}
		h := w.host("a", nil, g.function, withoutLogger)
		stop := w.startHost(h)
		time.Sleep(30 * time.Second)
		w.writeVersions("after", 3)
		time.Sleep(5 * time.Minute)
		r := h.Status().Functions[0].Ranges[0]
		if len(r.Stalls) != 1 || r.Stalls[0].Kind != stall.Removing || !strings.Contains(r.Problem, "call SnapshotRead: the sink refuses") || !strings.Contains(r.Stalls[0].Advice(), "SnapshotRead") {
			t.Errorf("status %+v", r)
		}
		if n := calls.Load(); n < 5 || n > 40 || len(g.ids("after")) != 0 {
			t.Errorf("%d calls, rows of later changes: %v", n, g.ids("after"))
		}
		if w.eventCount(EventStalled) != 1 || len(w.lagByRange(asFromSnapshot)["0"].Stalls) != 1 {
			t.Errorf("%d events of a stall, lag %+v", w.eventCount(EventStalled), w.lagByRange(asFromSnapshot)["0"])
		}
		stop() // the next owner continues
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		summary, err := w.host("c", nil, g.function, withoutLogger).Drain(ctx)
		if must(t, err); !strings.Contains(summary.Problem, "snapshot does not end: call SnapshotRead: the sink refuses") {
			t.Errorf("summary %+v", summary)
		}
		works.Store(true)
		stop = w.startHost(w.host("b", nil, g.function))
		time.Sleep(2 * time.Minute)
		stop()
		g.checkRows(w)
		if w.eventCount(EventRecovered) != 1 {
			t.Errorf("%d events of a recovery", w.eventCount(EventRecovered))
		}
	})
}

// A snapshot that takes longer than the retention begins again with a higher generation. Its rows are
// those that it shows itself: documents that only the first one had shown are removed, and what exists
// stays.
func TestRestartedSnapshotRemovesItsOwnRemains(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		var slow atomic.Bool
		slow.Store(true)
		g.onBatch = func(fromSnapshot bool) {
			if fromSnapshot && slow.Load() {
				time.Sleep(10 * time.Minute)
			}
		}
		stop := w.startHost(w.host("a", nil, g.function, func(f *Function, _ *Options) { f.HandlerTimeout = time.Hour }))
		time.Sleep(45 * time.Minute)
		w.removeWritten("doc5") // shown by now; its delete leaves the retention
		time.Sleep(90 * time.Minute)
		slow.Store(false)
		time.Sleep(3 * time.Hour)
		stop()
		g.checkRows(w)
		if len(g.ends) != 1 || !slices.Contains(g.removed, "doc5") {
			t.Errorf("ends %+v, removed %v", g.ends, g.removed)
		}
	})
}

// A call that outlasts the retention begins the snapshot again, too.
func TestLateRemovalBeginsSnapshotAgain(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		begun := time.Now()
		var first int64
		g.onEnd = func(_ context.Context, s SnapshotEnd) error {
			if first == 0 {
				first = s.Generation
			}
			if time.Since(begun) < 90*time.Minute {
				return errors.New("the sink is down")
			}
			return nil
		}
		stop := w.startHost(w.host("a", nil, g.function, withoutLogger))
		time.Sleep(3 * time.Hour)
		stop()
		g.checkRows(w)
		if len(g.ends) != 1 || g.ends[0].Generation <= first {
			t.Errorf("ends %+v, the first snapshot had generation %d", g.ends, first)
		}
	})
}

// A call that ignores the end of its context is left behind like a handler call, and the lease stays in
// the snapshot.
func TestHungSnapshotReadLosesTheRange(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		release := make(chan struct{})
		g.onEnd = func(context.Context, SnapshotEnd) error { <-release; return nil }
		closed := false
		stop := w.startHost(w.host("a", nil, g.function, withoutLogger, func(f *Function, _ *Options) {
			f.HandlerTimeout, f.Closed = time.Minute, func(RangeInfo, CloseReason, error) { closed = true }
		}))
		time.Sleep(85 * time.Second)
		if w.leaseDocuments()["0"].properties["halley.snapshot"] == "" || closed {
			t.Errorf("closed %v, lease %+v", closed, w.leaseDocuments()["0"])
		}
		close(release)
		stop()
	})
}

// A snapshot that an older version of Halley has begun removes nothing: rows that it has written have
// no generation.
func TestSnapshotOfOlderVersionRemovesNothing(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		ctx, cancel := context.WithCancel(t.Context())
		g.onBatch = func(bool) { cancel() }
		must(t, w.host("a", nil, g.function).Run(ctx))
		l := w.leaseDocuments()["0"].clone()
		l.properties["halley.snapshot"] = strings.Replace(l.properties["halley.snapshot"], `"v":2`, `"v":1`, 1)
		w.replaceLease(l)
		g.onBatch = nil
		logger, log := recordLog(slog.LevelWarn)
		_, err := w.host("a", nil, g.function, func(_ *Function, o *Options) { o.Logger = logger }).Drain(t.Context())
		must(t, err)
		g.checkRows(w, "doc30", "doc31", "doc32", "doc80", "new3")
		if len(g.ends) != 0 || log.FilterMessageSnippet("older version of Halley began this snapshot").Len() != 1 {
			t.Errorf("ends %+v", g.ends)
		}
		w.seekToSnapshot()
		_, err = w.host("a", nil, g.function).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
	})
}

// Two functions on one container end their snapshots on their own.
func TestFunctionsRemoveOnTheirOwn(t *testing.T) {
	inGapWorld(t, 2, func(t *testing.T, w *world, g *generationTable) {
		other := newGenerationTable()
		_, err := w.host("b", nil, other.function, func(f *Function, _ *Options) { f.Name = "other" }).Drain(t.Context())
		must(t, err)
		other.checkRows(w)
		if len(g.ids("doc30")) != 1 || len(g.ends) != 0 {
			t.Errorf("the other function has removed %v", g.removed)
		}
		_, err = w.host("a", nil, g.function).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
		if len(other.ends) != 2 || len(other.removed) != 0 || len(g.ends) != 2 {
			t.Errorf("%d and %d ends", len(other.ends), len(g.ends))
		}
	})
}

// Each change has the effective key of its document, as the ranges of the container hold it.
func TestEffectiveKeyOfChange(t *testing.T) {
	inVersionsWorld(t, 2, nil, func(t *testing.T, w *world) {
		w.writeVersions("doc", 50)
		_, err := w.host("a", func(_ context.Context, b Batch) error {
			for _, c := range b.Changes {
				key := c.EffectiveKey()
				if cosmos.CompareKeys(b.Range.Min, key) > 0 || cosmos.CompareKeys(key, b.Range.Max) >= 0 {
					t.Errorf("%s has the place %q, its range goes from %q to %q", c.ID(), key, b.Range.Min, b.Range.Max)
				}
			}
			return nil
		}, fromSnapshot).Drain(t.Context())
		must(t, err)
		if key := (DeadLetter{Key: `["x"]`}).Change().EffectiveKey(); key != "" {
			t.Errorf("a dead letter has the place %q", key)
		}
	})
	s := SnapshotEnd{partitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}, Version: 2}}
	if key, err := s.EffectiveKey(`["x"]`); err != nil || len(key) < 30 {
		t.Errorf("place %q, %v", key, err)
	}
	if _, err := s.EffectiveKey(`["x","y"]`); err == nil {
		t.Error("a key of two values has a place in a container with one path")
	}
}
