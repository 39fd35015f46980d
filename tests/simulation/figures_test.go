package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"halley/tests/history"
)

// Figures count the events of runs.
type Figures struct {
	Seeds       int
	LeaseHours  float64
	Virtual     time.Duration
	Requests    int
	Writes      int
	Delivered   int
	Redelivered int
	DeadLetters int
	Accompanied int // changes that second functions have handled
	Postponed   int
	Splits      int
	Merges      int
	Kills       int
	Exits       int // hosts that ended by themselves
	Violations  int
	Tallies     history.Tallies
	Faults      map[string]int
	Uses        map[string]int // of the parts of trigger that only some runs use

	Wall, Processor time.Duration // of a campaign
}

func (f *Figures) add(run *Run) {
	o := run.Figures
	f.Seeds++
	f.LeaseHours += o.LeaseHours
	f.Virtual += o.Virtual
	f.Requests += o.Requests
	f.Writes += o.Writes
	f.Delivered += run.Report.Delivered
	f.Redelivered += run.Report.Redelivered
	f.DeadLetters += o.DeadLetters
	f.Accompanied += o.Accompanied
	f.Postponed += o.Postponed
	f.Splits += o.Splits
	f.Merges += o.Merges
	f.Kills += o.Kills
	f.Exits += o.Exits
	f.Violations += len(run.Violations)
	f.Tallies.Add(run.Report.Tallies)
	for c, n := range o.Faults {
		f.Faults[c] += n
	}
	for name, n := range o.Uses {
		f.Uses[name] += n
	}
}

func (f Figures) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %.0f lease-hours in %s of virtual time\n", f.Seeds, f.LeaseHours, f.Virtual.Round(time.Minute))
	fmt.Fprintf(&b, "%d requests, %d writes, %d changes delivered, %d more than once, %d dead letters, %d postponed, %d violations\n",
		f.Requests, f.Writes, f.Delivered, f.Redelivered, f.DeadLetters, f.Postponed, f.Violations)
	if f.Accompanied > 0 {
		fmt.Fprintf(&b, "%d changes handled by second functions\n", f.Accompanied)
	}
	fmt.Fprintf(&b, "%d kills, %d hosts gave up, %d splits, %d merges\n", f.Kills, f.Exits, f.Splits, f.Merges)
	for _, rule := range f.Tallies.Rules() {
		n := f.Tallies[rule]
		fmt.Fprintf(&b, "  %-18s %5d judged, %4d broken\n", rule, n.Judged, n.Broken)
	}
	for _, c := range slices.Sorted(maps.Keys(f.Faults)) {
		fmt.Fprintf(&b, "  %-18s %d\n", c, f.Faults[c])
	}
	for _, name := range slices.Sorted(maps.Keys(f.Uses)) {
		fmt.Fprintf(&b, "  %-18s %d\n", name, f.Uses[name])
	}
	if f.Processor > 0 {
		fmt.Fprintf(&b, "%s of wall clock, %s of processor time: %.0f × real time and %.1f lease-hours per second of a processor",
			f.Wall.Round(time.Second), f.Processor.Round(time.Second), f.Virtual.Seconds()/f.Processor.Seconds(), f.LeaseHours/f.Processor.Seconds())
	}
	return b.String()
}

func newFigures() Figures {
	return Figures{Faults: map[string]int{}, Uses: map[string]int{}, Tallies: history.Tallies{}}
}

// used counts the use of a part of trigger. Any goroutine of the bubble may call it.
func (w *world) used(name string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.figures.Uses[name] += n
}

// uses are the parts of trigger that a campaign of 1,500 lease-hours uses, whatever its seeds.
var uses = []string{"Drain", "DrainRange", "Dispatch", "Replay", "filtered", "flushes", "Flush", "soft deletes", "Opened", "shared LSNs", "deletes", "many waiting keys", "foreign deliveries", "large pages", "notices", "letters as documents"}

// unused returns the parts, and the commands of operators, that a campaign has not used.
func (f Figures) unused() (names []string) {
	for _, name := range uses {
		if f.Uses[name] == 0 {
			names = append(names, name)
		}
	}
	for _, c := range []class{answering, seeking, pausing, resuming, releasing} {
		if f.Faults[string(c)] == 0 {
			names = append(names, string(c))
		}
	}
	if f.Accompanied == 0 {
		names = append(names, "shared reads")
	}
	return names
}

// processorTime returns the processor time of this process so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
