package triggertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halley/trigger"
)

// Scenario describes a handler, its sink and its documents for [Converges].
type Scenario struct {
	// Open returns an empty sink. It is called for each run; w is the run's account,
	// for sinks in another of its containers. What it registers with t.Cleanup is
	// called at the end of the run.
	Open func(t testing.TB, w *World) Sink
	// Document returns a version of a document with this id and partition key, as a
	// value that is marshalled or as JSON text. Its content may depend on random alone.
	Document func(random *rand.Rand, id, key string) any
	// PartitionKey is the path of the documents' partition key, such as "/player": "/key".
	PartitionKey string
	// Function has the function's settings, as it is deployed. Its SoftDeleteProperty
	// and its ChangeFeedMode decide which deletes the history has. If it sets
	// BlockKeys, some changes are dead-lettered, and replayed at the end.
	Function trigger.Function
	// WriteOnce says that documents are neither written again nor deleted.
	WriteOnce bool
	// Want, if it is not nil, returns the state that the sink must have, from the
	// documents that exist at the end, in no order; soft-deleted ones are left out.
	// Without it a handler that is always wrong in the same way is not found.
	Want func(documents []json.RawMessage) any
	// Seeds is the number of seeds: 20. With go test -short at most 8 run, which meet
	// every case of trouble that the function's settings allow.
	Seeds int
}

// Sink is a handler's sink, such as a database, as the processes of one run see it.
type Sink struct {
	// Start returns a handler on the sink, as a process makes it when it starts: a new one
	// for each call, opened again, so that it remembers nothing of another process. stop,
	// if it is not nil, is called after the last call of the handler. If the process
	// is killed, it is called only when State has been read, to free resources.
	Start func() (handler trigger.Handler, stop func() error)
	// State returns the content of the sink, which go-cmp compares. It leaves out what
	// may differ from run to run, such as times.
	State func() any
}

// seedFlag repeats one seed. Flags of the test binary are those of all its packages.
var seedFlag = flag.Uint64("seed", 0, "the only `seed` that triggertest.Converges runs; 0 runs several")

// Converges tests that a handler's sink ends up the same whatever happens on the way.
// It writes a history to a fresh account, and the runtime delivers it: once plainly, in
// one drain at the end; once from several ranges at the same time; and once part by
// part, with trouble that the contract of [trigger.Handler] allows. The states of the
// sinks must be equal, and so must the dead letters that are left.
//
// Each seed is another history with other trouble; the package documentation lists what
// may happen. The seeds are always the same. A failure names its seed, and the flag
// -seed of the test repeats it alone.
func Converges(t testing.TB, s Scenario) {
	t.Helper()
	s = s.complete(t)
	empty := s.emptyState(t)
	for _, seed := range s.seeds() {
		if failure := s.check(t, seed, empty); failure != "" {
			t.Fatalf("seed %d: %s\nrepeat it with -args -seed %d", seed, failure, seed)
		}
		if t.Failed() { // the handler modified a change, or the sink found a mistake
			t.Fatalf("seed %d: repeat it with -args -seed %d", seed, seed)
		}
	}
}

// shortSeeds is the number of seeds with go test -short. They meet every case of trouble.
const shortSeeds = 8

func (s Scenario) complete(t testing.TB) Scenario {
	t.Helper()
	if s.Open == nil || s.Document == nil {
		t.Fatal("triggertest: a Scenario needs Open and Document")
	}
	if s.PartitionKey == "" {
		s.PartitionKey = "/key"
	}
	if s.Seeds == 0 {
		s.Seeds = 20
	}
	if testing.Short() {
		s.Seeds = min(s.Seeds, shortSeeds)
	}
	if s.Function.MaxItemsPerInvocation == 0 {
		s.Function.MaxItemsPerInvocation = 4 // several batches, and several documents in each
	}
	if s.Function.MaxAttempts <= 0 {
		s.Function.MaxAttempts = 10 // the default; without a limit a drain may not end
	}
	return s
}

func (s Scenario) seeds() (seeds []uint64) {
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	for i := range s.Seeds {
		seeds = append(seeds, uint64(i)+1)
	}
	return seeds
}

// emptyState returns the state of a sink without changes.
func (s Scenario) emptyState(t testing.TB) any {
	t.Helper()
	r := s.newRun(t, 1)
	defer r.end()
	return r.sink.State()
}

// check runs one seed and returns why it fails, or "".
func (s Scenario) check(t testing.TB, seed uint64, empty any) (failure string) {
	t.Helper()
	history := s.newHistory(t, seed)
	plain := s.runPlainly(t, history)
	switch {
	case plain.failure != "":
		return "the plain run failed: " + plain.failure
	case difference(empty, plain.State) == "":
		return fmt.Sprintf("the state after the plain run is that of an empty sink: State does not see what the handler writes, or the handler writes nothing%s", plain.refusals())
	}
	if s.Want != nil {
		if diff := difference(s.Want(plain.documents), plain.State); diff != "" {
			return "the state after the plain run is wrong (-want +got):\n" + diff
		}
	}
	for _, p := range []plan{crowded(history), s.newPlan(seed, history)} {
		failure, met := s.compare(t, history, p, plain)
		if failure == "" {
			continue
		}
		for _, simpler := range p.simpler() { // perhaps less trouble suffices
			if simplerFailure, simplerMet := s.compare(t, history, simpler, plain); simplerFailure != "" {
				failure, met = simplerFailure, simplerMet
				break
			}
		}
		return failure + "\ntrouble met:\n  " + strings.Join(met, "\n  ")
	}
	return ""
}

// compare runs a history by a plan and returns how its end differs from that of the
// plain run, or "".
func (s Scenario) compare(t testing.TB, history []step, p plan, plain outcome) (failure string, met []string) {
	t.Helper()
	r := s.newRun(t, p.ranges)
	defer r.end()
	r.play(history, p)
	o := r.finish()
	met = append([]string{p.String()}, r.met...)
	if o.failure != "" {
		return o.failure, met
	}
	if diff := difference(plain.result, o.result); diff != "" {
		return "the end of the plain run and that of a run in trouble differ (-plain +in trouble):\n" + diff + o.refusals(), met
	}
	return "", met
}

// refusals lists the errors of the dead letters that are left.
func (o outcome) refusals() string {
	if len(o.refused) == 0 {
		return ""
	}
	return "\ndead letters:\n  " + strings.Join(o.refused, "\n  ")
}

// difference compares unexported fields as well.
func difference(want, got any) string {
	return cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }))
}
