package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halley/tests/long"
)

// mistakes are protocols that are wrong in one point, each with a small world
// that shows it and the promise that breaks first.
var mistakes = []struct {
	name    string
	rules   Rules
	world   World
	promise string
}{
	{"owner by name only", Rules{OwnerByName: true},
		World{Hosts: 2, Twins: true, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I5"},
	{"incarnation not compared", Rules{NoIncarnation: true},
		World{Hosts: 2, Twins: true, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I5"},
	{"epoch not raised", Rules{EpochNotRaised: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I5"},
	{"blind adoption of the etag", Rules{BlindAdoption: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I5"},
	{"replace without If-Match after a lost answer", Rules{ForceAfterLoss: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Losses: 1}, "I5"},
	{"acquire without If-Match", Rules{ForceAcquire: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I5"},
	{"handover requested without If-Match", Rules{ForceRequest: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Requests: 1}, "I3"},
	{"release without owner check", Rules{ReleaseUnchecked: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Stops: 1}, "I5"},
	{"release saves the position read", Rules{ReleaseAtRead: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Stops: 1}, "I1"},
	{"no self-fence", Rules{NoFence: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I5"},
	{"a read counts as a renewal", Rules{TrustByReading: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0, 0}, Written: 2, Epochs: 3, Losses: 1}, "I5"},
	{"late acquire is trusted", Rules{TrustLateAcquire: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3, Delays: 1, Slow: true}, "I5"},
	{"checkpoint before handling", Rules{CheckpointFirst: true},
		World{Hosts: 2, Ranges: one, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I1"},
	{"split at the position read", Rules{SplitAtRead: true},
		World{Hosts: 2, Ranges: split, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I1"},
	{"parent deleted first", Rules{DeleteParentFirst: true},
		World{Hosts: 2, Ranges: split, Changes: []uint8{0}, Written: 1, Epochs: 3}, "I6"},
	{"parent deleted without If-Match", Rules{ForceDelete: true},
		World{Hosts: 2, Ranges: split, Changes: []uint8{0}, Epochs: 3}, "I5"},
	{"children overwrite existing leases", Rules{CreateOverwrites: true},
		World{Hosts: 2, Ranges: split, Changes: []uint8{0}, Epochs: 4}, "I5"},
	{"children created over existing descendants", Rules{NoCoverageCheck: true},
		World{Hosts: 2, Ranges: nested, Changes: []uint8{0}, Epochs: 4}, "I6"},
	{"children covered by their ancestors", Rules{AncestorsCover: true},
		World{Hosts: 2, Ranges: nested, Changes: []uint8{0}, Epochs: 4}, "I6"},
	{"children of a lease that was stolen", Rules{SplitUnconfirmed: true},
		World{Hosts: 2, Ranges: split, Changes: []uint8{0}, Epochs: 3, Steals: 1}, "I6"},
	{"unanswered creation counted as created", Rules{LostCreateIsDone: true},
		World{Hosts: 2, Ranges: split, Changes: []uint8{0}, Epochs: 3, Delays: 1}, "I6"},
	{"waiting for a split after the range merged again", Rules{WaitForSplit: true},
		World{Hosts: 2, Spans: true, Prompt: true, Ranges: splitMerge, Changes: []uint8{0}, Epochs: 3}, "I8"},
	{"parent continues next to its children", Rules{ResumeParent: true},
		World{Hosts: 2, Spans: true, Prompt: true, Ranges: splitMerge, Changes: []uint8{0}, Epochs: 3}, "I6"},
	{"marker first", Rules{MarkerFirst: true},
		World{Hosts: 2, Boot: true, Ranges: one, Changes: []uint8{0}, Epochs: 2}, "I6"},
	{"now not resolved at creation", Rules{NowNotConcrete: true},
		World{Hosts: 2, Boot: true, Now: true, Ranges: one, Changes: []uint8{0}, Epochs: 2}, "I1"},
	{"bootstrap continues after its lock expired", Rules{LockNotFenced: true},
		World{Hosts: 2, Boot: true, Now: true, Ranges: split, Changes: []uint8{0}, Epochs: 2}, "I1"},
	{"audit begins at now", Rules{AuditFromNow: true},
		World{Hosts: 2, Audits: true, Now: true, Ranges: one, Changes: []uint8{0}, Epochs: 3, Deletions: 1}, "I1"},
	{"audit resets the epoch", Rules{AuditEpochReset: true},
		World{Hosts: 2, Audits: true, Ranges: one, Changes: []uint8{0}, Epochs: 3, Deletions: 1}, "I5"},
}

// TestMistakesAreCaught explores each mistake until a promise breaks, and
// compares the trace with the one in testdata.
func TestMistakesAreCaught(t *testing.T) {
	all := mistakes
	if underRace {
		all = all[:12]
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			w := c.world
			w.Name, w.Rules = c.name, c.rules
			progress := c.promise == "I8"
			r := w.Explore(1, progress)
			if !strings.HasPrefix(r.Broken, c.promise) {
				t.Fatalf("%d states, complete %v: %q, want %s\n%s", r.States, r.Complete, r.Broken, c.promise, w.Tell(r))
			}
			t.Logf("%d states, %d steps to: %s", r.States, len(r.Trace), r.Broken)
			golden(t, c.name, w.Tell(r))

			w.Name, w.Rules = "without the mistake", Rules{}
			soundly(t, fmt.Sprintf("%+v %v", w, progress), func() string {
				if r := w.Explore(1, progress); r.Broken != "" {
					return w.Tell(r)
				}
				return ""
			})
		})
	}
}

// verdicts has the result of each world that a test has explored without a mistake,
// because several mistakes share one world.
var verdicts = map[string]string{}

// soundly fails the test if a world breaks without a mistake. explore returns the trace, or
// "" if the world keeps its promises. It costs more than the search for the mistake, so that
// the short form trusts the worlds as they are.
func soundly(t *testing.T, world string, explore func() string) {
	t.Helper()
	if !long.Wanted() {
		return
	}
	trace, known := verdicts[world]
	if !known {
		trace = explore()
		verdicts[world] = trace
	}
	if trace != "" {
		t.Errorf("breaks without the mistake too:\n%s", trace)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", strings.ReplaceAll(name, " ", "-")+".trace")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the trace has changed; if this is intended, run with -update\ngot:\n%s\nwant:\n%s", got, want)
	}
}
