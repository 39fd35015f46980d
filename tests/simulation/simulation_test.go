package simulation

import (
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/tests/history"
	"halley/tests/long"
)

var (
	seedFlag     = flag.Uint64("seed", 0, "simulate this one seed, with the whole decision log; 0: fresh seeds, from the clock")
	firstFlag    = flag.Uint64("first", 4_000_300, "first of the seeds, by default such as have been run before; 0: fresh ones, from the clock")
	hoursFlag    = flag.Float64("hours", 0, "lease-hours to simulate; 0: 2, in the long form 5,000, with the race detector 60")
	patienceFlag = flag.Duration("minimise", time.Minute, "time to spend on a shorter list of faults for a seed that failed")
	keepFlag     = flag.Bool("keep", false, "go on after a seed that failed")
	hostsFlag    = flag.Bool("hosts", false, "with -seed: show what the hosts log, too")
	logFlag      = flag.String("log", "", "with -seed: file for the decision log and the history")
)

// Many short requests make much garbage: more memory saves collections.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(800)
	if !long.Wanted() {
		runtime.GOMAXPROCS(1) // in virtual time goroutines wait for each other: another processor costs more than it gives
	}
	os.Exit(m.Run())
}

// TestSimulation runs fresh seeds until enough lease-hours are simulated.
func TestSimulation(t *testing.T) {
	if *seedFlag != 0 {
		t.Skip("one seed is asked for: see TestSeed")
	}
	hours := *hoursFlag
	switch {
	case hours != 0:
	case !long.Wanted():
		hours = 2
	case raceEnabled || testing.Short():
		hours = 60
	default:
		hours = 5000
	}
	first := *firstFlag
	if first == 0 {
		first = uint64(time.Now().UnixNano()) % 1e12
	}
	t.Logf("seeds from %d", first)
	total := campaign(t, first, hours)
	t.Log("\n" + total.String())
	if names := total.unused(); len(names) > 0 && total.LeaseHours >= 1500 {
		t.Errorf("%.0f lease-hours have not used %q", total.LeaseHours, names)
	}
}

// campaign runs seed after seed, as many at a time as there are processors.
func campaign(t *testing.T, first uint64, hours float64) Figures {
	var mu sync.Mutex
	total := newFigures()
	var next atomic.Uint64
	next.Store(first)
	began, used := time.Now(), processorTime()
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					enough := total.LeaseHours >= hours
					mu.Unlock()
					if enough || t.Failed() && !*keepFlag {
						return
					}
					run := simulate(t, next.Add(1)-1, options{})
					judge(t, run)
					mu.Lock()
					total.add(run)
					mu.Unlock()
				}
			})
		}
	})
	total.Wall, total.Processor = time.Since(began), processorTime()-used
	return total
}

// judge fails the test for a run that broke a promise.
func judge(t *testing.T, run *Run) {
	if len(run.Violations) == 0 {
		return
	}
	small := minimise(t, run, *patienceFlag)
	faults := small.Faults
	if len(faults) > 100 {
		faults = append(faults[:100:100], fmt.Sprintf("and %d more", len(small.Faults)-100))
	}
	t.Errorf("%s\nof %d faults these are enough:\n  %s\nthen the violations are\n%s\nand the decision log ends:\n  %s\nto see it again: go test ./tests/simulation -run TestSeed -v -seed %d -log FILE",
		run, len(run.Faults), strings.Join(faults, "\n  "), small.violations(), strings.Join(small.LogEnd, "\n  "), run.Seed)
}

// TestSeed runs one seed again and prints its figures, log and history.
func TestSeed(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -seed is given")
	}
	o := options{}
	if *hostsFlag {
		o.logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if *logFlag != "" {
		f, err := os.Create(*logFlag)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o.log = f
	}
	run := simulate(t, *seedFlag, o)
	total := newFigures()
	total.add(run)
	t.Logf("%s%s\ndigest %x of %d decisions", run, total, run.Digest, run.Steps)
	judge(t, run)
}

// sameSeeds are the seeds that TestSameSeedSameRun runs and judges: two that cost little, or in
// the short form one that costs a second.
func sameSeeds() []uint64 {
	if !long.Wanted() {
		return []uint64{7}
	}
	return []uint64{3, 4}
}

// TestSameSeedSameRun: if a seed always gives the same run, every failure can be
// repeated. The runs are judged, too, so that continuous integration need not simulate these
// seeds once more.
func TestSameSeedSameRun(t *testing.T) {
	for _, seed := range sameSeeds() {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			one, firstHistory := simulateTold(t, seed)
			two, secondHistory := simulateTold(t, seed)
			if one.Digest != two.Digest || one.Steps != two.Steps {
				t.Errorf("%s: %d decisions with digest %x, then %d with %x", one.Swarm, one.Steps, one.Digest, two.Steps, two.Digest)
			}
			if firstHistory != secondHistory {
				t.Errorf("%s: a history with digest %x, then one with %x", one.Swarm, firstHistory, secondHistory)
			}
			t.Logf("%.1f lease-hours", one.Figures.LeaseHours)
			judge(t, one)
		})
	}
}

// simulateTold runs one seed and returns a digest of its history, too.
func simulateTold(t *testing.T, seed uint64) (*Run, uint64) {
	told := fnv.New64a()
	run := simulate(t, seed, options{after: func(w *world) {
		if err := history.Append(told, w.history...); err != nil {
			t.Error(err)
		}
	}})
	return run, told.Sum64()
}

// shortFailures are the past failures of the short form: each costs a second.
var shortFailures = []uint64{900525}

// slowFailures are the past failures that take most of the time of all: scripts/simulate
// --past runs them.
var slowFailures = []uint64{6, 20004, 20060, 30054, 60133, 3000058, 7100080, 346533095361, 467061408468}

// TestPastFailures runs the seeds that have found bugs, except for those that
// TestSameSeedSameRun judges. A file has the seed as its first word and a description of
// the bug.
func TestPastFailures(t *testing.T) {
	files, err := filepath.Glob("testdata/seeds/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var seed uint64
		if _, err := fmt.Sscan(string(text), &seed); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if slices.Contains(sameSeeds(), seed) || !long.Wanted() && !slices.Contains(shortFailures, seed) ||
			!long.All() && slices.Contains(slowFailures, seed) {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			judge(t, simulate(t, seed, options{}))
		})
	}
}
