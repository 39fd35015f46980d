package main

import (
	"go/token"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// TestEachNameHasAProof: a new name of package trigger needs a test and a planted bug that
// this test catches.
func TestEachNameHasAProof(t *testing.T) {
	names, err := loadSurface(repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 150 {
		t.Errorf("the code has %d names", len(names))
	}
	tests, err := testsOf(repository, allRows())
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range checkTable(names, allRows(), exemptions, tests, listMutants(t)) {
		t.Error(fault)
	}
}

// listMutants returns the names of all mutants.
func listMutants(t *testing.T) (names []string) {
	t.Helper()
	list := exec.Command("go", "run", "./tests/mutants", "--list")
	list.Dir = repository
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the mutants: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

func TestTablesAreSorted(t *testing.T) {
	for _, rows := range [][]row{callRows, verdictRows, constantRows, fieldRows, topicRows} {
		if !slices.IsSortedFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) }) {
			t.Errorf("the table with %s is not sorted", rows[0].name)
		}
	}
}

// The names that are in and out: what a caller calls, fills or gets as a verdict is in,
// and fields that only report are out.
func TestSurfaceHasEachKindOfName(t *testing.T) {
	names, err := loadSurface(repository)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]nameKind{}
	for _, n := range names {
		if kinds[n.name] != "" {
			t.Errorf("%s is in twice", n.name)
		}
		kinds[n.name] = n.kind
		if isCall := n.kind == kindFunction || n.kind == kindMethod; isCall != (n.body.file != "") {
			t.Errorf("%s %s has the body %+v", n.kind, n.name, n.body)
		}
	}
	for name, want := range map[string]nameKind{
		"Replay": kindFunction, "DocumentsWith": kindFunction, "Host.DrainRange": kindMethod, "Host.Dispatch": kindMethod, "leases.Control.Apply": kindMethod,
		"Filter.Compile": kindMethod, "DeadLetters.Put": kindPort, "Function.MaxAhead": kindField, "Checkpoint.Manual": kindField,
		"Options.Owner": kindField, "ReplayOptions.Limit": kindField, "leases.ControlOptions.Force": kindField, "EventSplit": kindConstant, "stall.RangeWaits": kindConstant,
		"DropDeadLetters": kindVariable, "verdict RetryAfter": kindVerdict, "verdict panic": kindVerdict,
		"topic Several functions on one container": kindTopic,
		"Status.Owner": "", "Event.Kind": "", "Verdict.Handled": "", "Summary.Ranges": "", "Change.LSN": "", "verdict New": "",
	} {
		if kinds[name] != want {
			t.Errorf("%s is of kind %q, want %q", name, kinds[name], want)
		}
	}
}

func TestFaultsOfATableAreFound(t *testing.T) {
	names := []surfaceName{{name: "A", kind: kindFunction}, {name: "B", kind: kindField}}
	tests, mutants := map[string]bool{"./trigger TestA": true}, []string{"a-lost"}
	good := row{"A", "TestA/sub", "a-lost"}
	for _, test := range []struct {
		want   string
		rows   []row
		exempt []exemption
	}{
		{"", []row{good, {"B", "./trigger TestA", "a-lost"}}, nil},
		{"", []row{good}, []exemption{{"B", "the compiler proves it"}}},
		{"field B has no proof", []row{good}, nil},
		{"B is on the list", []row{good}, []exemption{{"B", ""}}},
		{"A is on the list", []row{good, {"B", "TestA", "a-lost"}}, []exemption{{"A", "reason"}}},
		{"C is on the list", []row{good, {"B", "TestA", "a-lost"}}, []exemption{{"C", "reason"}}},
		{"C has a row", []row{good, {"B", "TestA", "a-lost"}, {"C", "TestA", "a-lost"}}, nil},
		{"B is proved by TestB", []row{good, {"B", "TestB", "a-lost"}}, nil},
		{"not a test of ./function", []row{good, {"B", "./function TestA", "a-lost"}}, nil},
		{"B has the mutant b-lost", []row{good, {"B", "TestA", "b-lost"}}, nil},
		{"A has two rows", []row{good, good, {"B", "TestA", "a-lost"}}, nil},
	} {
		faults := checkTable(names, test.rows, test.exempt, tests, mutants)
		if (test.want == "") != (len(faults) == 0) || test.want != "" && !strings.Contains(strings.Join(faults, "\n"), test.want) {
			t.Errorf("faults %q, want %q", faults, test.want)
		}
	}
	var many []exemption
	for range mostExemptions + 1 {
		many = append(many, exemption{"B", "reason"})
	}
	if faults := checkTable(names, []row{good}, many, tests, mutants); !strings.Contains(strings.Join(faults, "\n"), "11 names are") {
		t.Errorf("faults %q", faults)
	}
}

func TestExecutedBodiesAreFound(t *testing.T) {
	body := bodyRange{"halley/trigger/a.go", token.Position{Line: 10, Column: 20}, token.Position{Line: 12, Column: 2}}
	for profile, want := range map[string]bool{
		"mode: set\nhalley/trigger/a.go:10.20,12.2 1 1\n": true,
		"halley/trigger/a.go:11.3,11.9 1 4\n":             true,
		"halley/trigger/a.go:10.20,12.2 1 0\n":            false,
		"halley/trigger/b.go:10.20,12.2 1 1\n":            false,
		"halley/trigger/a.go:10.1,12.2 1 1\n":             false,
		"halley/trigger/a.go:11.3,13.1 1 1\n":             false,
		"":                                                false,
	} {
		if body.isExecuted(profile) != want {
			t.Errorf("%q: executed is %v", profile, !want)
		}
	}
}
