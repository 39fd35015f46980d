package triggertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// run is one run of a scenario: a world, a sink, and the processes that work on it. The
// goroutine of the test owns it; mu guards the fields below it, which handler calls
// use as well.
type run struct {
	scenario Scenario
	t        *scope
	w        *World
	sink     Sink
	parallel bool           // ranges are drained at the same time
	host     *Host          // the process that drains next, nil if the last one has died
	stopHost func() error   // ends it in good order
	killed   []func() error // of processes that were killed, to free resources
	drains   int

	mu       sync.Mutex
	met      []string        // the trouble that was met
	poisoned map[string]bool // documents whose calls fail until the end
}

// outcome is the end of a run.
type outcome struct {
	result
	documents []json.RawMessage
	refused   []string // errors of the dead letters that are left
	failure   string   // why the run did not come to its end
}

// result is the part of an outcome that must not depend on trouble.
type result struct {
	State       any
	DeadLetters []string // ids of the documents that are left in the store
}

// newRun opens a sink and a container with a number of ranges.
func (s Scenario) newRun(t testing.TB, ranges int) *run {
	t.Helper()
	r := &run{scenario: s, t: newScope(t), poisoned: map[string]bool{}}
	r.w = NewWorld(r.t, &Options{PartitionKey: s.PartitionKey, Ranges: ranges, Function: s.Function})
	r.sink = s.Open(r.t, r.w)
	if r.sink.Start == nil || r.sink.State == nil {
		t.Fatal("triggertest: a Sink needs Start and State")
	}
	return r
}

// end frees what the run holds. The state of the sink is not read any more.
func (r *run) end() {
	r.t.Helper()
	r.stopAll(r.killed)
	r.t.end()
}

func (r *run) stopAll(stops []func() error) {
	r.t.Helper()
	for _, stop := range stops {
		if stop == nil {
			continue
		}
		if err := stop(); err != nil {
			r.t.Errorf("stop of a handler: %v", err)
		}
	}
}

// runPlainly writes the whole history and drains it once. Bytes that the handler keeps
// stay as they are: if it must not keep them, the runs differ.
func (s Scenario) runPlainly(t testing.TB, history []step) outcome {
	t.Helper()
	s.Function.ReuseBuffers = false
	r := s.newRun(t, 1)
	defer r.end()
	r.prepare()
	r.write(history)
	return r.finish()
}

// prepare creates the leases if the function sees only what is written after that.
func (r *run) prepare() {
	r.t.Helper()
	if r.scenario.Function.ChangeFeedMode == cosmos.ModeAllVersions {
		r.drain(episode{})
	}
}

func (r *run) write(steps []step) {
	r.t.Helper()
	for _, s := range steps {
		if s.document == nil {
			r.w.Delete(s.id, s.key)
			continue
		}
		r.w.Put(s.document)
		if s.expires {
			r.w.Advance((timeToLive + 1) * time.Second)
		}
	}
}

// play writes the history part by part, and drains after each.
func (r *run) play(history []step, p plan) {
	r.t.Helper()
	r.parallel = p.parallel
	r.prepare()
	for i := 0; i < len(p.episodes); i++ {
		e := p.episodes[i]
		if e.restart && r.host != nil {
			r.mu.Lock()
			r.tell(r.drains, r.host, "is stopped in good order when it has caught up")
			r.mu.Unlock()
			r.stopProcess()
		}
		r.write(history[e.from:e.to])
		if e.kind != deliversLate || i+1 == len(p.episodes) {
			r.drain(e)
			continue
		}
		i++
		r.drainLate(e, history[p.episodes[i].from:p.episodes[i].to])
	}
}

// beginDrain counts a drain. A host drains its ranges in the order of their last lease
// writes, in seconds; with a second between drains, that order repeats.
func (r *run) beginDrain() *Host {
	r.drains++
	r.w.Advance(time.Second)
	return r.process()
}

// drain drains with the current process, or with a new one if that has died.
func (r *run) drain(e episode) trigger.Summary {
	r.t.Helper()
	h := r.beginDrain()
	h.trouble = r.meet(h, e, r.strike(h, e))
	summary := h.Drain()
	if e.kind == diesIdle {
		h.Kill()
		r.mu.Lock()
		r.tell(r.drains, h, "is killed when it has caught up")
		r.mu.Unlock()
	}
	if h.alive.Err() != nil {
		r.killed = append(r.killed, r.stopHost)
		r.host = nil
	}
	return summary
}

func (r *run) process() *Host {
	if r.host == nil {
		handler, stop := r.sink.Start()
		r.host, r.stopHost = r.w.Host(handler), stop
		r.host.parallel = r.parallel
	}
	return r.host
}

// stopProcess ends the current process in good order.
func (r *run) stopProcess() {
	r.t.Helper()
	if r.host != nil {
		r.stopAll([]func() error{r.stopHost})
		r.host = nil
	}
}

// finish delivers everything that is left, in peace, and reads the outcome.
func (r *run) finish() (o outcome) {
	r.t.Helper()
	const enough = 5 // a drain leaves nothing but what an expired lease or a split left to the next
	summary := r.drain(episode{})
	for n := 1; summary.Behind+summary.Skipped > 0 && n < enough; n++ {
		summary = r.drain(episode{})
	}
	if summary.Behind+summary.Skipped > 0 {
		o.failure = fmt.Sprintf("the handler did not catch up: %+v", summary)
	}
	if r.heal() {
		r.process().Replay()
	}
	r.stopProcess()
	o.State, o.documents = r.sink.State(), r.livingDocuments()
	for _, d := range r.w.DeadLetters() {
		o.DeadLetters = append(o.DeadLetters, d.DocumentID)
		o.refused = append(o.refused, fmt.Sprintf("%s: %s", d.DocumentID, d.Error))
	}
	slices.Sort(o.DeadLetters)
	slices.Sort(o.refused)
	return o
}

// heal ends the failures that last until the end, and reports whether there were any.
func (r *run) heal() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := len(r.poisoned) > 0
	clear(r.poisoned)
	return failed
}

// livingDocuments are the documents that exist and are not soft-deleted.
func (r *run) livingDocuments() []json.RawMessage {
	r.t.Helper()
	return slices.DeleteFunc(r.w.Documents(), func(document json.RawMessage) bool {
		name := r.scenario.Function.SoftDeleteProperty
		return name != "" && string(cosmos.Property(document, name)) == "true"
	})
}
