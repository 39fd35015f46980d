package trigger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

// snapshotTable is a sink that keeps the newest version of each document, as a table does, and
// counts the changes of snapshots and the others.
type snapshotTable struct {
	mu        sync.Mutex
	rows      map[string]int
	snapshots map[string]int // deliveries of each document by a snapshot
	events    int            // deliveries of all versions
	fail      func(id string) error
	onBatch   func(ctx context.Context, fromSnapshot bool)
}

func newSnapshotTable() *snapshotTable {
	return &snapshotTable{rows: map[string]int{}, snapshots: map[string]int{}}
}

func (s *snapshotTable) handler() Handler {
	return func(ctx context.Context, b Batch) error {
		if s.onBatch != nil {
			s.onBatch(ctx, b.Changes[0].FromSnapshot())
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		var failed []error
		for _, c := range b.Changes {
			if s.fail != nil {
				if err := s.fail(c.ID()); err != nil {
					failed = append(failed, Failed(err, c))
					continue
				}
			}
			if c.FromSnapshot() {
				s.snapshots[c.ID()]++
			} else {
				s.events++
			}
			if c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire {
				delete(s.rows, c.ID())
				continue
			}
			var d document
			if err := c.Decode(&d); err != nil {
				return err
			}
			s.rows[d.ID] = d.Version
		}
		return errors.Join(failed...)
	}
}

// counts returns the number of documents that snapshots have delivered, of their deliveries,
// and of those of all versions.
func (s *snapshotTable) counts() (documents, deliveries, events int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.snapshots {
		deliveries += n
	}
	return len(s.snapshots), deliveries, s.events
}

// checkEqual compares the table with the container.
func (s *snapshotTable) checkEqual(w *world) {
	w.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(s.rows, w.written) {
		for id, version := range w.written {
			if s.rows[id] != version {
				w.t.Errorf("document %s has version %d in the table, want %d", id, s.rows[id], version)
			}
		}
		for id := range s.rows {
			if w.written[id] == 0 {
				w.t.Errorf("document %s is in the table, and was deleted", id)
			}
		}
	}
}

// removeWritten deletes a document that the world has written.
func (w *world) removeWritten(id string) {
	w.t.Helper()
	(&versionHistory{}).remove(w, id)
	delete(w.written, id)
}

// fromSnapshot starts a function with a snapshot, with small pages.
func fromSnapshot(f *Function, _ *Options) {
	f.ChangeFeedMode, f.StartFrom, f.MaxItemsPerInvocation = cosmos.ModeAllVersions, FromSnapshot(), 10
}

// writeVersions writes the next version of documents with their ids as players.
func (w *world) writeVersions(prefix string, n int) {
	w.t.Helper()
	h := &versionHistory{}
	for i := range n {
		h.put(w, fmt.Sprint(prefix, i), 0)
	}
}

// inSnapshotWorld has documents from before, of which some were rewritten and some deleted.
func inSnapshotWorld(t *testing.T, ranges int, test func(t *testing.T, w *world, s *snapshotTable)) {
	inVersionsWorld(t, ranges, nil, func(t *testing.T, w *world) {
		w.writeVersions("doc", 100)
		w.writeVersions("doc", 30)
		for i := range 10 {
			w.removeWritten(fmt.Sprint("doc", 10*i))
		}
		test(t, w, newSnapshotTable())
	})
}

func TestSnapshotIsFollowedByEveryVersion(t *testing.T) {
	inSnapshotWorld(t, 2, func(t *testing.T, w *world, s *snapshotTable) {
		stop := w.startHost(w.host("a", s.handler(), fromSnapshot))
		time.Sleep(30 * time.Second)
		documents, deliveries, events := s.counts()
		if documents != 90 || deliveries != 90 || events != 0 {
			t.Errorf("the snapshot has %d documents in %d deliveries, and %d changes followed; want 90, 90, 0", documents, deliveries, events)
		}
		w.writeVersions("doc", 20)
		w.writeVersions("new", 5)
		w.writeVersions("new", 5)
		w.removeWritten("doc99")
		time.Sleep(30 * time.Second)
		stop()
		s.checkEqual(w)
		if _, again, events := s.counts(); again != 90 || events != 31 {
			t.Errorf("%d deliveries of the snapshot and %d of all versions, want 90 and 31", again, events)
		}
		for token, l := range w.leaseDocuments() {
			if l.properties["halley.snapshot"] != "" {
				t.Errorf("lease %s is still in its snapshot", token)
			}
		}
	})
}

// Writes and deletes while the snapshot is read: each of them is a change after its position.
func TestChangesDuringSnapshotFollowIt(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		batch := 0
		s.onBatch = func(_ context.Context, fromSnapshot bool) {
			if !fromSnapshot {
				return
			}
			batch++
			w.writeVersions(fmt.Sprint("during", batch, "-"), 2)
			w.writeVersions("doc", 2)
			if id := fmt.Sprint("doc", 50+batch); batch < 9 {
				w.removeWritten(id)
			}
		}
		stop := w.startHost(w.host("a", s.handler(), fromSnapshot))
		time.Sleep(time.Minute)
		stop()
		s.checkEqual(w)
		if batch < 5 {
			t.Errorf("only %d batches of the snapshot", batch)
		}
	})
}

// Host A is killed in the middle of the snapshot. Host B continues at its checkpoint, with the
// position that A had saved: it misses no delete that came before it started.
func TestNextOwnerContinuesSnapshot(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		ctx, cancel := context.WithCancel(t.Context())
		s.onBatch = func(call context.Context, _ bool) {
			if documents, _, _ := s.counts(); documents >= 40 {
				cancel()
				<-call.Done()
			}
		}
		a := w.host("a", s.handler(), fromSnapshot, func(_ *Function, o *Options) { o.StopGrace = time.Second })
		must(t, a.Run(ctx))
		before, _, _ := s.counts()
		w.checkSnapshotLag()
		if s.rows["doc31"] == 0 || s.rows["doc29"] != 0 {
			t.Fatalf("the snapshot has not shown doc31, or has shown doc29: %v", s.rows)
		}
		w.removeWritten("doc31")
		w.removeWritten("doc29")
		s.onBatch = nil
		stop := w.startHost(w.host("b", s.handler(), fromSnapshot))
		time.Sleep(2 * time.Minute)
		stop()
		s.checkEqual(w)
		if _, deliveries, _ := s.counts(); before < 20 || deliveries > 90+20 {
			t.Errorf("%d deliveries of 90 documents, %d of them by the first host", deliveries, before)
		}
		if l := w.lagByRange(asFromSnapshot)["0"]; l.Snapshot != nil {
			t.Errorf("the lag after the snapshot is %+v", *l.Snapshot)
		}
	})
}

func asFromSnapshot(f *Function) { fromSnapshot(f, nil) }

// checkSnapshotLag verifies that the lag of the only range tells how far its snapshot is read.
func (w *world) checkSnapshotLag() {
	w.t.Helper()
	l := w.lagByRange(asFromSnapshot)["0"]
	if l.Snapshot == nil {
		w.t.Fatalf("the lag tells of no snapshot: %+v", l)
	}
	g := *l.Snapshot
	if g.Position < 20 || g.Position >= g.Until || fmt.Sprintf(`"%d"`, g.Position) != l.Continuation {
		w.t.Errorf("the snapshot is read up to LSN %d of %d, with the checkpoint %s", g.Position, g.Until, l.Continuation)
	}
	if g.Begun.IsZero() || g.Expires.Sub(g.Begun) != time.Hour {
		w.t.Errorf("the snapshot has begun at %s and expires at %s, with a retention of an hour", g.Begun, g.Expires)
	}
}

func TestDrainReadsSnapshotAndThenVersions(t *testing.T) {
	inSnapshotWorld(t, 2, func(t *testing.T, w *world, s *snapshotTable) {
		h := w.host("a", s.handler(), fromSnapshot)
		during := sync.OnceFunc(func() { w.writeVersions("during", 3) })
		s.onBatch = func(context.Context, bool) { during() }
		summary, err := h.Drain(t.Context())
		must(t, err)
		s.checkEqual(w)
		if summary.Ranges != 2 || summary.Drained+summary.Idle != 2 || summary.Behind != 0 || summary.Changes != 93 {
			t.Errorf("summary %+v", summary)
		}
		w.writeVersions("doc", 3)
		if summary, err = h.Drain(t.Context()); err != nil || summary.Changes != 3 {
			t.Errorf("summary %+v, %v", summary, err)
		}
		s.checkEqual(w)
	})
}

// A range splits in the middle of its snapshot: its children inherit the position and the phase.
func TestSplitInheritsSnapshot(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		var batches atomic.Int32
		s.onBatch = func(context.Context, bool) {
			if batches.Add(1) == 4 {
				_, err := w.account.Split("db", "items", "0")
				must(t, err)
				w.writeVersions("doc", 5)
				w.removeWritten("doc98")
			}
		}
		stop := w.startHost(w.host("a", s.handler(), fromSnapshot))
		time.Sleep(3 * time.Minute)
		stop()
		s.checkEqual(w)
		if _, deliveries, _ := s.counts(); deliveries > 90+20 {
			t.Errorf("%d deliveries of 90 documents by the snapshot", deliveries)
		}
	})
}

// A key that fails ends neither phase before its change is handled: nothing is lost at the end.
func TestFailingKeyHoldsEndOfSnapshot(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		fixed := time.Now().Add(5 * time.Minute)
		s.fail = func(id string) error {
			if id == "doc51" && time.Now().Before(fixed) {
				return fmt.Errorf("not yet")
			}
			return nil
		}
		stop := w.startHost(w.host("a", s.handler(), fromSnapshot, func(f *Function, _ *Options) { f.MaxAttempts = -1 }))
		time.Sleep(2 * time.Minute)
		if documents, _, _ := s.counts(); documents != 89 {
			t.Errorf("%d documents, want 89", documents)
		}
		w.removeWritten("doc51")
		time.Sleep(10 * time.Minute)
		stop()
		s.checkEqual(w)
		if documents, _, _ := s.counts(); documents != 90 {
			t.Errorf("the snapshot has delivered %d documents, want 90", documents)
		}
	})
}

// The retention of one hour ends during the snapshot: it begins again, and no delete is missed.
func TestLateSnapshotBeginsAgain(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		begun := time.Now()
		var quick atomic.Bool
		s.onBatch = func(_ context.Context, fromSnapshot bool) {
			if fromSnapshot && !quick.Load() {
				time.Sleep(10 * time.Minute)
			}
		}
		h := w.host("a", s.handler(), fromSnapshot, func(f *Function, _ *Options) { f.HandlerTimeout = time.Hour })
		stop := w.startHost(h)
		time.Sleep(45 * time.Minute)
		warned := false
		for _, r := range h.Status().Functions[0].Ranges {
			warned = warned || strings.Contains(r.Problem, "the snapshot of the range has taken")
		}
		if !warned {
			t.Errorf("no warning before the retention ends: %+v", h.Status())
		}
		w.removeWritten("doc99")
		time.Sleep(75*time.Minute - time.Since(begun))
		quick.Store(true)
		time.Sleep(3 * time.Hour)
		stop()
		delete(s.rows, "doc99") // its delete had left the retention when the snapshot began again
		s.checkEqual(w)
		if documents, deliveries, _ := s.counts(); deliveries < documents+50 {
			t.Errorf("%d deliveries of %d documents: the snapshot did not begin again", deliveries, documents)
		}
	})
}

func TestSeekBeginsSnapshotAgainOrLeavesIt(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		h := w.host("a", s.handler(), fromSnapshot)
		_, err := h.Drain(t.Context())
		must(t, err)
		control, err := leases.NewControl(w.leases, leases.Source{Name: "test", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: FromSnapshot()}, nil)
		must(t, err)
		plan, err := control.PlanSeek(t.Context(), FromSnapshot())
		w.apply(control, plan, err)
		_, err = h.Drain(t.Context())
		must(t, err)
		if _, deliveries, _ := s.counts(); deliveries != 180 {
			t.Errorf("%d deliveries by two snapshots of 90 documents", deliveries)
		}
		plan, err = control.PlanSeek(t.Context(), FromSnapshot())
		w.apply(control, plan, err)
		ctx, cancel := context.WithCancel(t.Context())
		s.onBatch = func(context.Context, bool) { cancel() } // in the middle of the third snapshot
		must(t, w.host("a", s.handler(), fromSnapshot).Run(ctx))
		s.onBatch = nil
		_, before, _ := s.counts()
		w.writeVersions("doc", 5) // after the snapshot's position and before the seek's
		plan, err = control.PlanSeek(t.Context(), FromNow())
		w.apply(control, plan, err)
		w.writeVersions("doc", 3)
		_, err = h.Drain(t.Context())
		must(t, err)
		if _, deliveries, events := s.counts(); before == 180 || deliveries != before || events != 3 {
			t.Errorf("%d deliveries by snapshots, %d before the seek, and %d by all versions, want more than 180, the same, and 3", deliveries, before, events)
		}
	})
}

func TestExportWithinSnapshotIsNotImported(t *testing.T) {
	inSnapshotWorld(t, 1, func(t *testing.T, w *world, s *snapshotTable) {
		ctx, cancel := context.WithCancel(t.Context())
		s.onBatch = func(context.Context, bool) { cancel() }
		must(t, w.host("a", s.handler(), fromSnapshot).Run(ctx))
		control, err := leases.NewControl(w.leases, leases.Source{Name: "test", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: FromSnapshot()}, nil)
		must(t, err)
		exported, err := control.Export(t.Context())
		must(t, err)
		plan, err := control.PlanImport(t.Context(), exported)
		must(t, err)
		if err := plan.Refused(); err == nil || !strings.Contains(err.Error(), "seek to snapshot") {
			t.Errorf("import: %v", err)
		}
	})
}
