package triggertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// plantedFaults are handlers with one mistake each. Each starts a process.
var plantedFaults = map[string]func(*table) (trigger.Handler, func() error){
	"sum": func(t *table) (trigger.Handler, func() error) {
		return t.each(func(_ trigger.Change, r row) {
			total := t.rows["total"]
			total.Balance += r.Balance
			t.rows["total"] = total
		}), nil
	},
	"last delivery wins": func(t *table) (trigger.Handler, func() error) {
		return t.each(func(c trigger.Change, r row) { t.rows[c.ID()] = r }), nil
	},
	"acknowledged before written": func(t *table) (trigger.Handler, func() error) {
		var waiting []trigger.Batch // written by the next call
		write := func() error {
			for _, b := range waiting {
				if err := t.mirror(context.Background(), b); err != nil {
					return err
				}
			}
			waiting = nil
			return nil
		}
		var mu sync.Mutex
		return func(_ context.Context, b trigger.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if err := write(); err != nil {
				return err
			}
			waiting = append(waiting, b)
			return nil
		}, write
	},
	"deletes dropped": func(t *table) (trigger.Handler, func() error) {
		return t.each(func(c trigger.Change, r row) {
			if stored, found := t.rows[c.ID()]; !r.deleted && (!found || stored.isBefore(r)) {
				t.rows[c.ID()] = r
			}
		}), nil
	},
	"not fenced": func(t *table) (trigger.Handler, func() error) {
		newest := map[string]row{} // known to this process alone
		return t.each(func(c trigger.Change, r row) {
			if stored, found := newest[c.ID()]; !found || stored.isBefore(r) {
				newest[c.ID()], t.rows[c.ID()] = r, r
			}
		}), nil
	},
	"order across keys assumed": func(t *table) (trigger.Handler, func() error) {
		return t.each(func(c trigger.Change, r row) {
			if position := t.rows["position"]; r.lsn < position.lsn {
				return // handled before, it seems
			}
			t.rows["position"] = row{lsn: r.lsn}
			t.rows[c.ID()] = r
		}), nil
	},
	"fails on what it has": func(t *table) (trigger.Handler, func() error) {
		return func(ctx context.Context, b trigger.Batch) error {
			t.mu.Lock()
			for _, c := range b.Changes {
				if r := t.rows[c.ID()]; r.lsn == c.LSN {
					t.mu.Unlock()
					return fmt.Errorf("duplicate key %s", c.ID())
				}
			}
			t.mu.Unlock()
			return t.mirror(ctx, b)
		}, nil
	},
}

// each returns a handler that applies the changes one by one.
func (t *table) each(apply func(trigger.Change, row)) trigger.Handler {
	return func(_ context.Context, b trigger.Batch) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, c := range b.Changes {
			r, err := rowOf(b, c)
			if err != nil {
				return err
			}
			apply(c, r)
		}
		return nil
	}
}

// The seeds of go test -short find each fault, and its seed alone finds it again, in the
// same words.
func TestPlantedFaultsAreFound(t *testing.T) {
	defer func() { *seedFlag = 0 }()
	for name, start := range plantedFaults {
		t.Run(name, func(t *testing.T) {
			s := scenario(start)
			s.Seeds, *seedFlag = shortSeeds, 0
			s.WriteOnce = name == "sum" // which skipped versions would change, too
			found := failuresOf(t, func(t testing.TB) { Converges(t, s) })
			if !strings.Contains(found, "trouble met:") {
				t.Fatalf("not found: %q", found)
			}
			if _, err := fmt.Sscanf(found, "seed %d: ", seedFlag); err != nil {
				t.Fatal(err)
			}
			if repeated := failuresOf(t, func(t testing.TB) { Converges(t, s) }); repeated != found {
				t.Errorf("repeated: %s, want %s", repeated, found)
			}
		})
	}
}

func TestSeedFlagSelectsSeed(t *testing.T) {
	defer func() { *seedFlag = 0 }()
	*seedFlag = 1_000_000
	found := failuresOf(t, func(t testing.TB) { Converges(t, scenario(plantedFaults["sum"])) })
	if !strings.HasPrefix(found, "seed 1000000: ") {
		t.Errorf("failures: %s", found)
	}
}

// The seeds of go test -short meet every kind of trouble that the settings allow.
func TestShortSeedsMeetEveryTrouble(t *testing.T) {
	distinct := func(kinds []troubleKind) []troubleKind { return slices.Compact(slices.Sorted(slices.Values(kinds))) }
	for name, test := range map[string]struct {
		function  trigger.Function
		writeOnce bool
		never     []troubleKind
	}{
		"blocked keys":               {trigger.Function{GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}}, false, nil},
		"blocked keys, written once": {trigger.Function{GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}}, true, nil},
		"latest version":             {trigger.Function{}, false, []troubleKind{failsForever}},
		"written once":               {trigger.Function{}, true, []troubleKind{failsForever}},
		"all versions":               {trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}, false, []troubleKind{failsForever, mergesRanges}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario(startMirror)
			s.Function, s.WriteOnce, s.Seeds = test.function, test.writeOnce, shortSeeds
			s = s.complete(t)
			var met []troubleKind
			for _, seed := range s.seeds() {
				for _, e := range s.newPlan(seed, s.newHistory(t, seed)).episodes {
					met = append(met, e.kind)
				}
			}
			want := slices.DeleteFunc(distinct(kinds), func(k troubleKind) bool { return slices.Contains(test.never, k) })
			if got := distinct(met); !slices.Equal(got, want) {
				t.Errorf("kinds %v are met, want %v", got, want)
			}
		})
	}
}
