package model

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"halley/tests/long"
)

// markWorlds are explored to the end, longMarkWorlds only on demand.
var markWorlds = []MarkWorld{
	{Name: "marks, lagging replicas", Versions: 3, Lagging: true, Deletes: true, Acquires: 2},
	{Name: "marks, shared LSN", Versions: 3, Lagging: true, Bulks: 1, Acquires: 3},
	{Name: "marks, all versions", Versions: 3, AllVersions: true, Bulks: 1, Acquires: 3},
	{Name: "marks, seek and other owners", Versions: 3, Seeks: 1, Moves: 2, Acquires: 2},
	{Name: "marks, split", Versions: 3, Bulks: 1, Raises: 1, Acquires: 2},
	{Name: "marks, buffering sink", Versions: 3, Buffers: true, Bulks: 1, Acquires: 3},
}

var longMarkWorlds = []MarkWorld{
	{Name: "marks, three acquisitions", Versions: 3, Lagging: true, Deletes: true, Bulks: 1, Acquires: 3},
	{Name: "marks, four versions", Versions: 4, Bulks: 1, Acquires: 2},
	{Name: "marks, four of all versions", Versions: 4, AllVersions: true, Bulks: 1, Acquires: 2},
	{Name: "marks, seek and other owners, three acquisitions", Versions: 3, Seeks: 1, Moves: 2, Bulks: 1, Acquires: 3},
	{Name: "marks, split, three acquisitions", Versions: 3, Lagging: true, Bulks: 1, Raises: 1, Acquires: 3},
	{Name: "marks, buffering sink, seek", Versions: 3, Buffers: true, Lagging: true, Bulks: 1, Seeks: 1, Acquires: 3},
}

// markMistakes are key marks that are wrong in one point, each with a small world that
// shows it and the promise that breaks first.
var markMistakes = []struct {
	name    string
	rules   MarkRules
	world   MarkWorld
	promise string
}{
	{"Q saved before its changes are admitted", MarkRules{ThroughUnread: true}, MarkWorld{Versions: 3, Acquires: 2}, "I2"},
	{"waiting changes have no mark", MarkRules{WaitingUnmarked: true}, MarkWorld{Versions: 3, Acquires: 2}, "I2"},
	{"Q newer than its marks", MarkRules{TornWrite: true}, MarkWorld{Versions: 3, Acquires: 2}, "I2"},
	{"unread part of an inherited value dropped", MarkRules{UnreadDropped: true}, MarkWorld{Versions: 3, Acquires: 3}, "I2"},
	{"value outlives a seek to the same position", MarkRules{SeekKeepsHere: true}, MarkWorld{Versions: 3, Acquires: 2, Seeks: 1}, "I2"},
	{"value outlives a seek", MarkRules{SeekKeepsValue: true}, MarkWorld{Versions: 3, Acquires: 2, Seeks: 1, Moves: 1}, "I2"},
	{"void value kept while other owners move the position away and back", MarkRules{VoidKept: true}, MarkWorld{Versions: 3, Acquires: 3, Moves: 2}, "I2"},
	{"value without its position", MarkRules{Unbound: true}, MarkWorld{Versions: 3, Acquires: 2, Moves: 1}, "I2"},
	{"request covers changes by number", MarkRules{CoveredByNumber: true}, MarkWorld{Versions: 3, Buffers: true, Acquires: 2}, "I1"},
	{"LSNs instead of marks with a shared LSN", MarkRules{ListsLSNs: true}, MarkWorld{Versions: 3, Bulks: 1, Acquires: 2}, "I4"},
	{"LSNs instead of marks with a split", MarkRules{ListsLSNs: true}, MarkWorld{Versions: 3, Raises: 1, Acquires: 2}, "I2"},
}

func TestMarksKeepTheirPromises(t *testing.T) {
	states, began := 0, time.Now()
	all := markWorlds
	switch {
	case *larger:
		all = append(all[:len(all):len(all)], longMarkWorlds...)
	case underRace, !long.Wanted():
		all = all[:1]
	}
	for _, w := range all {
		t.Run(w.Name, func(t *testing.T) {
			began := time.Now()
			r := w.Explore(2, true)
			t.Logf("%d states, %d steps, depth %d, %v", r.States, r.Steps, r.Depth, time.Since(began).Round(time.Millisecond))
			states += r.States
			if r.Broken != "" {
				t.Errorf("broken:\n%s", w.Tell(r))
			} else if !r.Complete {
				t.Errorf("not explored to the end")
			}
		})
	}
	t.Logf("%d states in %v", states, time.Since(began).Round(time.Millisecond))
}

// TestMarkMistakesAreCaught explores each mistake until a promise breaks, and compares
// the trace with the one in testdata.
func TestMarkMistakesAreCaught(t *testing.T) {
	all := markMistakes
	if underRace {
		all = all[:4]
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			w := c.world
			w.Name, w.Rules = c.name, c.rules
			r := w.Explore(1, false)
			if !strings.HasPrefix(r.Broken, c.promise) {
				t.Fatalf("%d states, complete %v: %q, want %s\n%s", r.States, r.Complete, r.Broken, c.promise, w.Tell(r))
			}
			t.Logf("%d states, %d steps to: %s", r.States, len(r.Trace), r.Broken)
			golden(t, c.name, w.Tell(r))

			w.Name, w.Rules = "without the mistake", MarkRules{}
			soundly(t, fmt.Sprintf("%+v", w), func() string {
				if r := w.Explore(1, false); r.Broken != "" {
					return w.Tell(r)
				}
				return ""
			})
		})
	}
}
