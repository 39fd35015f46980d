package trigger

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// Keys whose changes are not finished keep their rows: one has a dead letter, one is postponed, and
// those deleted in the gap whose older changes are dead or postponed.
func TestUnfinishedKeysKeepTheirRows(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		g, store := newGenerationTable(), &memoryStore{}
		w.writeVersions("doc", 20)
		_, err := w.host("a", nil, g.function, withStore(store)).Drain(t.Context())
		must(t, err)
		w.missRetention("doc15", "doc16")
		w.seekToSnapshot()
		fail := func(id string) error {
			switch id {
			case "doc6":
				return errPoison
			case "doc7":
				return errLater
			}
			return nil
		}
		g.fail = fail
		_, err = w.host("a", nil, g.function, withStore(store), withoutLogger, func(f *Function, _ *Options) { f.MaxAttempts = 2 }).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
		last := g.ends[len(g.ends)-1]
		if !slices.Equal(last.KeptKeys, []string{`["doc6"]`, `["doc7"]`}) {
			t.Errorf("kept keys %v", last.KeptKeys)
		}
		for _, d := range store.all() {
			if d.Generation != last.Generation || d.Change().Generation() < last.Generation {
				t.Errorf("record of %s has generation %d, want %d", d.DocumentID, d.Generation, last.Generation)
			}
		}
		g.fail = nil
		_, err = Replay(t.Context(), store, w.source(), g.handle, nil)
		must(t, err)
		time.Sleep(2 * time.Hour)
		w.seekToSnapshot()
		_, err = w.host("a", nil, g.function, withStore(store)).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
		if len(store.all()) != 0 {
			t.Errorf("the store has %d records", len(store.all()))
		}
	})
}

// staleStore shows a record only some seconds after it was put, as a replica may.
type staleStore struct{ memoryStore }

func (s *staleStore) Query(_ context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	return SelectDeadLetters(func(yield func(DeadLetter) bool) {
		for _, d := range s.all() {
			if time.Since(d.Time) > 5*time.Second && !yield(d) {
				return
			}
		}
	}, q)
}

// The last change of a snapshot goes to a store that does not show it at once, and the next owner ends the
// snapshot: the row stays.
func TestRemovalAwaitsTheStore(t *testing.T) {
	for name, diesFirst := range map[string]bool{"same owner": false, "next owner": true} {
		t.Run(name, func(t *testing.T) {
			inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
				g, store := newGenerationTable(), &staleStore{}
				settings := func(f *Function, o *Options) {
					g.function(f, o)
					f.DeadLetters, f.MaxAttempts, o.Logger = store, 1, nil
				}
				w.writeVersions("doc", 10)
				_, err := w.host("a", nil, settings).Drain(t.Context())
				must(t, err)
				w.seekToSnapshot()
				time.Sleep(time.Minute)
				g.fail = func(id string) error {
					if id == "doc9" {
						return errPoison
					}
					return nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				h := w.host("a", nil, settings, func(_ *Function, o *Options) {
					o.Observers = append(o.Observers, func(e Event) {
						if e.Kind == EventDeadLettered && diesFirst {
							cancel() // after the last change, and before the end of the snapshot
						}
					})
				})
				_, err = h.Drain(ctx)
				if !diesFirst {
					must(t, err)
				}
				_, err = w.host("b", nil, settings).Drain(t.Context())
				must(t, err)
				g.checkRows(w)
				if len(g.ends) != 2 || len(g.ends[1].KeptKeys) != 1 {
					t.Errorf("ends %+v", g.ends)
				}
			})
		})
	}
}

// A change of before the gap that is postponed is delivered after its document was deleted. It counts as
// shown, like the changes of the snapshot that wait in the store, and the next snapshot removes its row.
func TestPostponedChangeCountsAsShown(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		g, store := newGenerationTable(), &memoryStore{}
		g.fail = func(id string) error {
			if id == "doc5" || id == "doc6" {
				return errLater
			}
			return nil
		}
		w.writeVersions("doc", 10)
		_, err := w.host("a", nil, g.function, withStore(store), withoutLogger).Drain(t.Context())
		must(t, err)
		w.missRetention("doc5")
		g.fail = nil
		w.seekToSnapshot() // they are due, and delivered in the snapshot
		_, err = w.host("a", nil, g.function, withStore(store)).Drain(t.Context())
		must(t, err)
		g.checkRows(w, "doc5")
		w.seekToSnapshot()
		_, err = w.host("a", nil, g.function, withStore(store)).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
	})
}

// A dead letter is replayed while the snapshot is read that has shown its document: its row stays.
func TestReplayDuringSnapshotIsNotRemoved(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		g, store := newGenerationTable(), &memoryStore{}
		broken := func(id string) error {
			if id == "doc5" {
				return errPoison
			}
			return nil
		}
		w.writeVersions("doc", 10)
		once := func(f *Function, _ *Options) { f.MaxAttempts = 1 }
		g.fail = broken
		_, err := w.host("a", nil, g.function, withStore(store), once, withoutLogger).Drain(t.Context())
		must(t, err)
		w.seekToSnapshot()
		g.onEnd = func(ctx context.Context, s SnapshotEnd) error { // the first call fails, the second one lists the keys again
			if g.fail = nil; len(store.all()) == 0 {
				return nil
			}
			_, err := Replay(ctx, store, w.source(), g.handle, nil)
			return errors.Join(err, errors.New("not yet"))
		}
		_, err = w.host("a", nil, g.function, withStore(store), once, withoutLogger).Drain(t.Context())
		must(t, err)
		g.checkRows(w)
	})
}

// A record that cannot be read may be of any key: nothing is removed until it is gone.
func TestDamagedDeadLetterHoldsTheRemoval(t *testing.T) {
	inGapWorld(t, 1, func(t *testing.T, w *world, g *generationTable) {
		store := &memoryStore{}
		source := w.source()
		must(t, store.Put(t.Context(), DeadLetter{Version: 99, Kind: RecordDead, ID: "x", Function: source.Function, Account: source.Account, Database: source.Database, Container: source.Container}))
		h := w.host("a", nil, g.function, withStore(store), withoutLogger)
		stop := w.startHost(h)
		time.Sleep(2 * time.Minute)
		if problem := h.Status().Functions[0].Ranges[0].Problem; !strings.Contains(problem, "SnapshotRead at the end of the snapshot") || !strings.Contains(problem, "version 99") {
			t.Errorf("problem %q", problem)
		}
		g.checkRows(w, "doc30", "doc31", "doc32", "doc80", "new3")
		must(t, store.Delete(t.Context(), store.all()[0]))
		time.Sleep(2 * time.Minute)
		stop()
		g.checkRows(w)
	})
}
