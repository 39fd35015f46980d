package triggertest

import (
	"context"
	"fmt"
	"maps"
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
	"total written after the transaction": func(t *table) (trigger.Handler, func() error) {
		return func(ctx context.Context, b trigger.Batch) error {
			difference, err := t.transact(ctx, b)
			if err != nil {
				return err
			}
			return t.addTotal(ctx, difference)
		}, nil
	},
	"total written before the transaction": func(t *table) (trigger.Handler, func() error) {
		return func(ctx context.Context, b trigger.Batch) error {
			before := t.copy()
			difference, _ := before.transact(context.Background(), b)
			if err := t.addTotal(ctx, difference); err != nil {
				return err
			}
			_, err := t.transact(ctx, b)
			return err
		}, nil
	},
	"positions remembered in the process": func(t *table) (trigger.Handler, func() error) {
		newest := map[string]row{}
		return t.each(func(c trigger.Change, r row) {
			if stored, found := newest[c.ID()]; found && !stored.isBefore(r) {
				return
			}
			total := t.rows["total"]
			total.Balance += r.Balance - newest[c.ID()].Balance
			newest[c.ID()], t.rows[c.ID()], t.rows["total"] = r, r, total
		}), nil
	},
	"position forgotten on delete": func(t *table) (trigger.Handler, func() error) {
		return t.each(func(c trigger.Change, r row) {
			switch stored, found := t.rows[c.ID()]; {
			case found && !stored.isBefore(r):
			case r.deleted:
				delete(t.rows, c.ID())
			default:
				t.rows[c.ID()] = r
			}
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

// transact writes the rows that are newer than the stored ones, all or nothing, and returns
// the difference that they make to the total.
func (t *table) transact(ctx context.Context, b trigger.Batch) (difference int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	return difference, t.each(func(c trigger.Change, r row) {
		if stored, found := t.rows[c.ID()]; !found || stored.isBefore(r) {
			difference += r.Balance - stored.Balance
			t.rows[c.ID()] = r
		}
	})(ctx, b)
}

func (t *table) addTotal(ctx context.Context, difference int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows["total"] = row{Balance: t.rows["total"].Balance + difference}
	return nil
}

func (t *table) copy() *table {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &table{rows: maps.Clone(t.rows)}
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

// The seeds of go test -short meet every case of trouble that the settings allow. Without
// deletes no target is removed.
func TestShortSeedsMeetEveryTrouble(t *testing.T) {
	allVersions := trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}
	for name, test := range map[string]struct {
		function  trigger.Function
		writeOnce bool
		never     []troubleKind
	}{
		"blocked keys":               {trigger.Function{GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}}, false, nil},
		"blocked keys, written once": {trigger.Function{GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}}, true, nil},
		"soft deletes":               {trigger.Function{SoftDeleteProperty: "deleted"}, false, []troubleKind{failsForever}},
		"latest version":             {trigger.Function{}, false, []troubleKind{failsForever}},
		"written once":               {trigger.Function{}, true, []troubleKind{failsForever}},
		"all versions":               {trigger.Function{FeedSource: allVersions}, false, []troubleKind{failsForever, mergesRanges}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario(startMirror)
			s.Function, s.WriteOnce, s.Seeds = test.function, test.writeOnce, shortSeeds
			s = s.complete(t)
			met := map[troubleCase]bool{}
			for _, seed := range s.seeds() {
				history := s.newHistory(t, seed)
				for _, e := range s.newPlan(seed, history).episodes {
					met[e.troubleCase] = true
					if (e.fate == rewritten || e.fate == removed) && (history[e.to].id != e.target || s.removes(history[e.to]) != (e.fate == removed)) {
						t.Errorf("seed %d: the target %s of %+v does not meet its fate", seed, e.target, e.troubleCase)
					}
				}
			}
			for _, want := range cases {
				if !s.mayFollow(want.fate) {
					want.fate = anyFate
				}
				if !met[want] && !slices.Contains(test.never, want.kind) {
					t.Errorf("%+v is not met", want)
				}
			}
		})
	}
}
