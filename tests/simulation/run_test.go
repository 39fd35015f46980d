package simulation

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/tests/history"
)

// Run is the outcome of one seed.
type Run struct {
	Seed       uint64
	Swarm      string
	Figures    Figures
	Report     history.Report
	Violations []history.Violation
	Faults     []string // that occurred, sorted
	Digest     uint64   // of the decision log
	Steps      int
	LogEnd     []string
}

// options of a run beyond its seed.
type options struct {
	swarm  *swarm          // instead of the seed's own
	script func(*world)    // called with the world before it begins
	after  func(*world)    // called with the world when the run has ended
	only   map[string]bool // faults

	log    io.Writer    // of decisions
	logger *slog.Logger // of the hosts
}

// simulate runs one seed in a bubble of its own.
func simulate(t *testing.T, seed uint64, o options) *Run {
	var run *Run
	synctest.Test(t, func(t *testing.T) { run = inBubble(t, seed, o) })
	return run
}

func inBubble(t *testing.T, seed uint64, o options) *Run {
	s := o.swarm
	if s == nil {
		s = newSwarm(seed)
	}
	s.only = o.only
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	w := newWorld(t, s, o.logger)
	w.log.whole = o.log
	if o.script != nil {
		o.script(w)
	}
	w.injectFaults()
	w.recover()
	w.finishWork()
	w.replay()
	w.close()
	w.judgeCompanion()

	run := &Run{Seed: seed, Swarm: s.String(), Figures: w.figures, Digest: w.log.digest ^ w.log.unordered, Steps: w.log.count, LogEnd: w.log.end()}
	run.Report = s.limits().Check(w.history)
	run.Violations = slices.Concat(w.violations, w.found, run.Report.Violations)
	run.Faults = slices.Sorted(maps.Keys(s.applied))
	if o.after != nil {
		o.after(w)
	}
	if o.log != nil {
		_ = history.Append(o.log, w.history...)
	}
	return run
}

// injectFaults runs the part of the run with faults.
func (w *world) injectFaults() {
	for i := range w.swarm.hosts {
		owner := "h" + strconv.Itoa(i)
		d := w.swarm.dice("start/" + owner)
		w.later(d.duration("at", time.Millisecond, 30*time.Second), "start/"+owner, func() { w.start(owner) })
	}
	w.later(time.Second, "write/0", func() { w.writeNext(0) })
	w.plan()
	for end := w.began.Add(w.swarm.hours); time.Now().Before(end); {
		w.advance(time.Now().Add(10 * time.Minute))
		w.measure(10 * time.Minute)
	}
}

// measure counts the lease-hours of the last while.
func (w *world) measure(d time.Duration) {
	w.figures.Virtual += d
	w.figures.LeaseHours += float64(len(w.leases)) * d.Hours()
}

// recover ends all faults: everything is reachable, corrupted leases are
// repaired, and at least two hosts run.
func (w *world) recover() {
	w.log.add(time.Since(w.began), "recovers", "")
	w.repair()
	w.mu.Lock()
	w.calm = true
	w.sinkOut, w.slowDown, w.slowWrites, w.feedSlow = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	for _, p := range w.alive {
		p.shift = 0
		clear(p.unheard)
	}
	w.mu.Unlock()
	w.recovering = true
	w.flushAll()
	for i := len(w.living()); i < 2; i++ {
		w.start("rescue" + strconv.Itoa(i))
	}
}

// flushAll has the sinks of all hosts flush what they buffer, as sinks do that have had no
// call for a while.
func (w *world) flushAll() {
	for _, name := range slices.Sorted(maps.Keys(w.alive)) {
		if w.swarm.buffers {
			w.record(history.Event{Kind: history.Flush, Host: name})
		}
	}
}

// deliveryLimit is the time after the last fault within which all changes must be
// delivered: the longest pause, then an expiration, then two audits.
const deliveryLimit = 40 * time.Minute

// graceful is a promise about the end of a run, which a history does not show: when
// hosts are told to stop, they end and release their leases.
const graceful history.Rule = "graceful stop"

// intact is a promise about dead letters: each has its change, none is there
// twice, and when all are replayed, the store is empty.
const intact history.Rule = "dead letters"

// unchanged is a promise about the changes that a handler gets: they stay as they are until
// it returns, and for ever unless the function reuses buffers.
const unchanged history.Rule = "bytes of changes"

// finishWork runs the hosts until all changes are delivered, checks that no lease
// changes its owner afterwards, and stops the hosts gracefully.
func (w *world) finishWork() {
	deadline := time.Now().Add(deliveryLimit)
	for (w.undelivered() > 0 || len(w.unaccompanied()) > 0 || len(w.living()) < 2 || w.commands > 0 || w.anyPaused() || len(w.postponedKeys()) > 0) && time.Now().Before(deadline) {
		if w.anyPaused() {
			w.operate(resuming, w.swarm.dice("resume all"))
		}
		w.advance(time.Now().Add(time.Minute))
		w.measure(time.Minute)
		w.writeForRequests()
	}
	for _, c := range w.kept {
		c.checkBytes()
	}
	w.ending = true
	began := time.Now()
	thaw := began
	for _, p := range w.alive {
		if p.frozen.After(thaw) {
			thaw = p.frozen // then it requests its share
		}
	}
	w.advance(thaw.Add(max(8*time.Minute, 5*w.swarm.limits().Expiration))) // late requests arrive, shares are balanced
	w.measure(time.Since(began))
	w.record(history.Event{Kind: history.Calm})
	w.advance(time.Now().Add(3 * time.Minute))
	w.silent = true
	w.advance(time.Now().Add(2 * time.Minute)) // the last writes are polled
	w.measure(5 * time.Minute)
	w.finishBacklog()
	for _, p := range w.living() {
		w.stop(p)
	}
	w.advance(time.Now().Add(2 * time.Minute))
	for _, p := range slices.Sorted(maps.Keys(w.alive)) {
		w.violations = append(w.violations, history.Violation{Rule: graceful, Text: "host " + p + " does not stop"})
	}
	for _, id := range slices.Sorted(maps.Keys(w.leases)) {
		if l := w.leases[id]; l.owner != "" && !l.tombstone && !w.ignored(l) && w.swarm.tick == 0 { // in timer mode, an idle lease of a dead host stays as it is
			w.violations = append(w.violations, history.Violation{Rule: graceful, Text: fmt.Sprintf("lease %s is still owned by %s after all hosts stopped", l.token, l.owner)})
		}
	}
}

// finishBacklog waits until ranges with a backlog have delivered it. A batch waits for its
// window although reading pauses at MaxAhead or ReadAhead, so that a range with a long window
// and a small limit may handle fewer changes than are written.
func (w *world) finishBacklog() {
	s := w.swarm
	if s.function.BatchWindow <= time.Second || s.function.MaxAhead == 0 && s.options.ReadAhead == 0 {
		return
	}
	for end := time.Now().Add(s.hours + deliveryLimit); w.undelivered() > 0 && time.Now().Before(end); {
		w.used("minutes of backlog", 1)
		w.advance(time.Now().Add(time.Minute))
		w.measure(time.Minute)
	}
}

// ignored reports whether a lease is the duplicate of another one. Hosts do not use
// it, so its owner may still be that of the copy.
func (w *world) ignored(l leaseDocument) bool {
	for _, o := range w.leases {
		if o.id == l.id && o.key() != l.key() && o.owner == "" {
			return true
		}
	}
	return false
}

// undelivered returns the number of changes that are not delivered.
func (w *world) undelivered() int { return history.Check(w.history).Lost }

func (r *Run) String() string { return r.Swarm + "\n" + r.violations() }

// violations returns the first violations, one per line.
func (r *Run) violations() string {
	var b strings.Builder
	for i, v := range r.Violations {
		if i == 12 {
			fmt.Fprintf(&b, "  … %d in all\n", len(r.Violations))
			break
		}
		fmt.Fprintf(&b, "  VIOLATION %s\n", v)
	}
	return b.String()
}
