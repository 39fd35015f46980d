package model

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"halley/tests/long"
)

var (
	update = flag.Bool("update", false, "rewrite the traces in testdata")
	larger = flag.Bool("long", os.Getenv("MODEL_LONG") != "", "explore larger worlds (minutes, several GB)")
)

// Ranges with their splits and merges; a cell is a bit.
var (
	one        = [][]Range{{{"0", 1}}}
	split      = [][]Range{{{"0", 3}}, {{"1", 1}, {"2", 2}}}
	nested     = [][]Range{{{"0", 7}}, {{"1", 3}, {"2", 4}}, {{"3", 1}, {"4", 2}, {"2", 4}}}
	merge      = [][]Range{{{"1", 1}, {"2", 2}}, {{"3", 3}}}
	splitMerge = [][]Range{{{"0", 3}}, {{"1", 1}, {"2", 2}}, {{"3", 3}}}
	elsewhere  = [][]Range{{{"1", 3}, {"2", 4}}, {{"3", 7}}, {{"4", 1}, {"5", 6}}}
)

// worlds are explored to the end, longWorlds only on demand. In the short form, and under
// the race detector, which costs a factor of ten, a few worlds suffice.
var worlds = []World{
	{Name: "two hosts", Hosts: 2, Ranges: one, Changes: []uint8{0, 0}, Written: 1, Epochs: 3, Crashes: 1, Losses: 1, Delays: 1},
	{Name: "two hosts, slow", Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Delays: 1, Losses: 1, Slow: true},
	{Name: "three hosts", Hosts: 3, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1, Losses: 1},
	{Name: "twins", Hosts: 2, Twins: true, Ranges: one, Changes: []uint8{0, 0}, Written: 2, Epochs: 2, Crashes: 1, Losses: 1, Delays: 1, Stops: 1},
	{Name: "twins and a third", Hosts: 3, Twins: true, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Losses: 1, Steals: 1},
	{Name: "handover", Hosts: 2, Ranges: one, Changes: []uint8{0, 0}, Written: 1, Epochs: 3, Losses: 1, Requests: 1, Steals: 1},
	{Name: "handover, crash", Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1, Requests: 1, Delays: 1, Stops: 1},
	{Name: "drain", Hosts: 2, Ranges: one, Changes: []uint8{0, 0}, Written: 1, Epochs: 3, Drain: true, Delays: 1},
	{Name: "split", Hosts: 2, Ranges: split, Changes: []uint8{0, 1}, Written: 1, Epochs: 2, Crashes: 1, Losses: 1},
	{Name: "split, delay", Hosts: 2, Ranges: split, Changes: []uint8{0}, Written: 1, Epochs: 3, Delays: 1},
	{Name: "split, steal", Hosts: 2, Ranges: split, Changes: []uint8{0}, Written: 1, Epochs: 2, Steals: 1, Requests: 1},
	{Name: "nested split", Hosts: 2, Ranges: nested, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1},
	{Name: "merge", Hosts: 2, Ranges: merge, Changes: []uint8{0}, Written: 1, Epochs: 2, Crashes: 1},
	{Name: "split and merge", Hosts: 2, Ranges: splitMerge, Changes: []uint8{0}, Written: 1, Epochs: 2, Crashes: 1},
	{Name: "split and merge, delay", Hosts: 2, Ranges: splitMerge, Changes: []uint8{1}, Written: 1, Epochs: 2, Delays: 1},
	{Name: "merged and split elsewhere", Hosts: 2, Prompt: true, Ranges: elsewhere, Changes: []uint8{1}, Written: 1, Epochs: 2},
	{Name: "nested split, steal", Hosts: 2, Ranges: nested, Changes: []uint8{0}, Written: 1, Epochs: 3, Steals: 1},
	{Name: "span split and merged", Hosts: 2, Spans: true, Prompt: true, Ranges: splitMerge, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1},
	{Name: "bootstrap", Hosts: 2, Boot: true, Drain: true, Ranges: split, Changes: []uint8{1}, Written: 1, Epochs: 2},
	{Name: "bootstrap from now", Hosts: 2, Boot: true, Now: true, Ranges: split, Changes: []uint8{0}, Epochs: 1},
	{Name: "bootstrap, crash", Hosts: 2, Boot: true, Now: true, Ranges: one, Changes: []uint8{0}, Epochs: 2, Crashes: 1, Delays: 1},
	{Name: "audit", Hosts: 2, Audits: true, Ranges: one, Changes: []uint8{0, 0}, Epochs: 3, Deletions: 1, Losses: 1},
	{Name: "audit from now", Hosts: 2, Audits: true, Now: true, Ranges: one, Changes: []uint8{0, 0}, Epochs: 3, Deletions: 1},
	{Name: "audit during a split", Hosts: 2, Audits: true, Ranges: split, Changes: []uint8{1}, Written: 1, Epochs: 2, Deletions: 1},
}

var longWorlds = []World{
	{Name: "nested split, late requests", Hosts: 2, Ranges: nested, Changes: []uint8{0}, Written: 1, Epochs: 3, Delays: 1},
	{Name: "nested split, drain", Hosts: 2, Ranges: nested, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1, Drain: true},
	{Name: "merge, late requests", Hosts: 2, Ranges: merge, Changes: []uint8{1}, Written: 1, Epochs: 2, Crashes: 1, Delays: 1},
	{Name: "merged and split elsewhere, crash", Hosts: 2, Prompt: true, Ranges: elsewhere, Changes: []uint8{0}, Written: 1, Epochs: 2, Crashes: 1, Losses: 1},
	{Name: "audit during a merge", Hosts: 2, Audits: true, Ranges: merge, Changes: []uint8{1}, Written: 1, Epochs: 2, Deletions: 1},
	{Name: "bootstrap from now, drain", Hosts: 2, Boot: true, Now: true, Drain: true, Ranges: split, Changes: []uint8{0}, Epochs: 2},
	{Name: "two hosts, more faults", Hosts: 2, Ranges: one, Changes: []uint8{0, 0, 0}, Written: 1, Epochs: 4, Crashes: 1, Losses: 1, Delays: 2},
	{Name: "twins, more faults", Hosts: 2, Twins: true, Ranges: one, Changes: []uint8{0, 0}, Written: 2, Epochs: 4, Crashes: 1, Losses: 1, Delays: 2, Stops: 1},
	{Name: "split, two cells", Hosts: 2, Ranges: split, Changes: []uint8{0, 1}, Written: 1, Epochs: 3, Crashes: 1, Losses: 1},
	{Name: "split, late requests", Hosts: 2, Ranges: split, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1, Delays: 1},
	{Name: "nested split, lost answers", Hosts: 2, Ranges: nested, Changes: []uint8{0}, Written: 1, Epochs: 3, Crashes: 1, Losses: 1},
	{Name: "bootstrap from now, crash", Hosts: 2, Boot: true, Now: true, Drain: true, Ranges: split, Changes: []uint8{1}, Epochs: 2, Crashes: 1},
}

// shortWorlds are the worlds of the short form: one of each kind, with few states.
var shortWorlds = []string{"two hosts, slow", "three hosts", "drain", "split, steal", "split and merge", "bootstrap, crash", "audit from now"}

func TestProtocolKeepsItsPromises(t *testing.T) {
	states, began := 0, time.Now()
	all := slices.Clone(worlds)
	switch {
	case *larger:
		all = append(all, longWorlds...)
	case underRace:
		all = all[1:3]
	case !long.Wanted():
		all = slices.DeleteFunc(all, func(w World) bool { return !slices.Contains(shortWorlds, w.Name) })
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
	least := 1_000_000
	if underRace || !long.Wanted() {
		least = 100_000
	}
	if states < least {
		t.Errorf("%d states are less than %d", states, least)
	}
}
