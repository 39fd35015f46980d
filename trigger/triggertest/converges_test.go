package triggertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// account is the document of the tests.
type account struct {
	ID      string `json:"id"`
	Key     string `json:"key"`
	Balance int    `json:"balance"`
}

func newAccount(random *rand.Rand, id, key string) any {
	return account{id, key, random.IntN(100)}
}

// table is a sink: rows with their fence.
type table struct {
	mu   sync.Mutex
	rows map[string]row
}

type row struct {
	Balance    int
	deleted    bool
	epoch, lsn int64
}

// state returns the balances of the rows that are not deleted.
func (t *table) state() any {
	t.mu.Lock()
	defer t.mu.Unlock()
	balances := map[string]int{}
	for id, r := range t.rows {
		if !r.deleted {
			balances[id] = r.Balance
		}
	}
	return balances
}

// mirror is a correct handler: it keeps the newest version of each document, and a
// tombstone if it is deleted.
func (t *table) mirror(_ context.Context, b trigger.Batch) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range b.Changes {
		r, err := rowOf(b, c)
		if err != nil {
			return err
		}
		if stored, found := t.rows[c.ID()]; !found || stored.isBefore(r) {
			t.rows[c.ID()] = r
		}
	}
	return nil
}

func rowOf(b trigger.Batch, c trigger.Change) (row, error) {
	r := row{epoch: b.Epoch, lsn: c.LSN, deleted: c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire}
	if r.deleted {
		return r, nil
	}
	var a account
	err := c.Decode(&a)
	r.Balance = a.Balance
	return r, err
}

func (r row) isBefore(o row) bool { return r.epoch < o.epoch || r.epoch == o.epoch && r.lsn <= o.lsn }

// scenario is a scenario with a sink in memory. start makes the handler of a process.
func scenario(start func(*table) (trigger.Handler, func() error)) Scenario {
	return Scenario{
		Document: newAccount,
		Function: trigger.Function{SoftDeleteProperty: "deleted"},
		Open: func(testing.TB, *World) Sink {
			sink := &table{rows: map[string]row{}}
			return Sink{
				Start: func() (trigger.Handler, func() error) { return start(sink) },
				State: sink.state,
			}
		},
	}
}

func startMirror(t *table) (trigger.Handler, func() error) { return t.mirror, nil }

// failures is a test that records its failures.
type failures struct {
	testing.TB
	mu    sync.Mutex
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}
func (f *failures) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.texts) > 0
}
func (f *failures) Error(args ...any) { f.Errorf("%s", fmt.Sprint(args...)) }
func (f *failures) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
func (f *failures) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

// failuresOf returns how test fails.
func failuresOf(t *testing.T, test func(testing.TB)) string {
	f := &failures{TB: t}
	var working sync.WaitGroup
	working.Go(func() { test(f) })
	working.Wait()
	return strings.Join(f.texts, "\n")
}

// balancesOf is the state of a correct sink.
func balancesOf(documents []json.RawMessage) any {
	balances := map[string]int{}
	for _, d := range documents {
		var a account
		if err := json.Unmarshal(d, &a); err != nil {
			panic(err)
		}
		balances[a.ID] = a.Balance
	}
	return balances
}

func TestConvergesPassesCorrectHandler(t *testing.T) {
	functions := map[string]trigger.Function{
		"soft deletes":   {SoftDeleteProperty: "deleted"},
		"no deletes":     {},
		"all versions":   {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		"blocked keys":   {GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}, SoftDeleteProperty: "deleted"},
		"lanes":          {BatchPolicy: trigger.BatchPolicy{Lanes: 3}, SoftDeleteProperty: "deleted"},
		"reused buffers": {ReuseBuffers: true, SoftDeleteProperty: "deleted"},
		"one attempt":    {GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 1}, RetryPolicy: trigger.RetryPolicy{NoBisection: true}},
		"manual":         {Checkpoint: trigger.Checkpoint{Manual: true}},
	}
	for name, f := range functions {
		t.Run(name, func(t *testing.T) {
			s := scenario(startMirror)
			s.Function = f
			s.Want, s.Seeds = balancesOf, 10
			if os.Getenv("HALLEY_TEST_LONG") == "" {
				s.Seeds = 4
			}
			Converges(t, s)
		})
	}
}

func TestConvergesInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scenario(startMirror)
		s.Seeds = 5
		Converges(t, s)
	})
}

// In all-versions mode a handler that drops deletes does so in both runs: Want tells.
func TestWrongPlainRunIsFound(t *testing.T) {
	s := scenario(plantedFaults["deletes dropped"])
	s.Function = trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}
	s.Want = balancesOf
	found := failuresOf(t, func(t testing.TB) { Converges(t, s) })
	if !strings.Contains(found, "seed 1: the state after the plain run is wrong (-want +got):") {
		t.Errorf("failures: %s", found)
	}
}

// The report has the seed, the difference and the trouble that suffices.
func TestReportNamesSeedAndTrouble(t *testing.T) {
	found := failuresOf(t, func(t testing.TB) { Converges(t, scenario(plantedFaults["acknowledged before written"])) })
	for _, part := range []string{"(-plain +in trouble)", "State: map[string]int{", "\n  drain ", " is killed ", "\nrepeat it with -args -seed "} {
		if !strings.Contains(found, part) {
			t.Errorf("report lacks %q: %s", part, found)
		}
	}
	if n := strings.Count(found, "\n  drain "); n != 1 {
		t.Errorf("%d troubles are reported, one suffices: %s", n, found)
	}
}

// Bytes that are kept differ from those of the plain run, and bytes that are modified
// fail the test.
func TestConvergesGuardsBytes(t *testing.T) {
	documents := func(mu *sync.Mutex, use func(c trigger.Change) []byte) Scenario {
		s := scenario(startMirror)
		s.Function = trigger.Function{ReuseBuffers: true}
		s.Open = func(testing.TB, *World) Sink {
			kept := map[string][]byte{}
			return Sink{
				Start: func() (trigger.Handler, func() error) {
					return func(_ context.Context, b trigger.Batch) error {
						mu.Lock()
						defer mu.Unlock()
						for _, c := range b.Changes {
							kept[c.ID()] = cosmos.Property(use(c), "balance")
						}
						return nil
					}, nil
				},
				State: func() any { return kept },
			}
		}
		s.WriteOnce = true
		return s
	}
	var mu sync.Mutex
	keeps := documents(&mu, func(c trigger.Change) []byte { return c.Document })
	if found := failuresOf(t, func(t testing.TB) { Converges(t, keeps) }); !strings.Contains(found, `"##`) {
		t.Errorf("failures of a handler that keeps bytes: %s", found)
	}
	modifies := documents(&mu, func(c trigger.Change) []byte { c.Document[0] = ' '; return c.Clone().Document })
	if found := failuresOf(t, func(t testing.TB) { Converges(t, modifies) }); !strings.Contains(found, "which are read-only") {
		t.Errorf("failures of a handler that modifies bytes: %s", found)
	}
	clones := documents(&mu, func(c trigger.Change) []byte { return c.Clone().Document })
	Converges(t, clones)
}

func TestUnusableScenariosAreRefused(t *testing.T) {
	silent := scenario(func(*table) (trigger.Handler, func() error) {
		return func(context.Context, trigger.Batch) error { return nil }, nil
	})
	stubborn := scenario(func(*table) (trigger.Handler, func() error) {
		return func(context.Context, trigger.Batch) error { return errors.New("no sink") }, nil
	})
	otherKey := scenario(startMirror)
	otherKey.PartitionKey = "/city"
	otherID := scenario(startMirror)
	otherID.Document = func(_ *rand.Rand, _, key string) any { return account{"x", key, 1} }
	noStart := scenario(startMirror)
	noStart.Open = func(testing.TB, *World) Sink { return Sink{State: func() any { return nil }} }
	for want, s := range map[string]Scenario{
		"needs Open and Document":                    {},
		"needs Start and State":                      noStart,
		"set both in the document, the key at /city": otherKey,
		`for id "d`:             otherID,
		"that of an empty sink": silent,
		"dead letters:\n  d":    stubborn,
	} {
		if found := failuresOf(t, func(t testing.TB) { Converges(t, s) }); !strings.Contains(found, want) {
			t.Errorf("failures %q, want %q", found, want)
		}
	}
}

// A run calls stop when a process ends in good order, and after State if it was killed.
func TestProcessesAreStopped(t *testing.T) {
	s := scenario(startMirror)
	s.Seeds = 5
	started, stopped, cleaned := 0, 0, 0
	open := s.Open
	s.Open = func(t testing.TB, w *World) Sink {
		t.Cleanup(func() {
			if cleaned++; started != stopped {
				t.Errorf("%d processes started, %d stopped", started, stopped)
			}
		})
		sink := open(t, w)
		start := sink.Start
		sink.Start = func() (trigger.Handler, func() error) {
			started++
			handler, _ := start()
			return handler, func() error { stopped++; return nil }
		}
		return sink
	}
	Converges(t, s)
	if started <= 3*5 || cleaned != 1+3*5 {
		t.Errorf("%d processes, %d runs", started, cleaned)
	}
}
