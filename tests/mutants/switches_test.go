package main

import (
	"go/format"
	"slices"
	"strings"
	"testing"
)

// Nearly all mutants change functions only, so they can be built into one program.
func TestMutantsHaveSwitches(t *testing.T) {
	var s switchboard
	planted, err := s.plant(root, all)
	if err != nil {
		t.Fatal(err)
	}
	if alone := len(all) - len(s.names); alone > len(all)/10 {
		t.Errorf("%d of %d mutants have no switch", alone, len(all))
	}
	for name, text := range planted {
		if _, err := format.Source([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSwitchCallsTheCopyOfItsMutant(t *testing.T) {
	const before = "package p\n\n// Add adds.\nfunc (t *T) Add(_ int, more ...int) (n int, err error) { return len(more), nil }\n\nfunc Map[K any](K) {}\n\nconst limit = 5\n"
	f, err := newSwitchedFile(before)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		old, new string
		want     string // key of the changed function, "" if there is no switch
	}{
		{"len(more), nil", "0, nil", "*T.Add"},
		{"func Map[K any](K) {}", "func Map[K any](K) { return }", "Map"},
		{"limit = 5", "limit = 6", ""},
		{"func Map[K any](K) {}", "func Map[K any](K) {}\n\nfunc other() {}", ""},
	} {
		changed, ok := f.changedFunctions(strings.Replace(before, test.old, test.new, 1))
		if ok != (test.want != "") || ok && (len(changed) != 1 || changed[test.want].declaration == nil) {
			t.Errorf("%s: %v, %v", test.new, changed, ok)
		}
		for key, function := range changed {
			f.copies[key] = append(f.copies[key], switchedCopy{"a-lost", function})
		}
	}
	const want = `package p

// Add adds.
func (t *T) AddSound(_ int, more ...int) (n int, err error) { return len(more), nil }

func (t *T) AddMutant0(_ int, more ...int) (n int, err error) { return 0, nil }

func (receiver *T) Add(parameter0 int, parameter1 ...int) (int, error) {
	switch switchedMutant {
	case "a-lost":
		return receiver.AddMutant0(parameter0, parameter1...)
	default:
		return receiver.AddSound(parameter0, parameter1...)
	}
}

func MapSound[K any](K) {}

func MapMutant0[K any](K) { return }

func Map[K any](parameter0 K) {
	switch switchedMutant {
	case "a-lost":
		MapMutant0[K](parameter0)
	default:
		MapSound[K](parameter0)
	}
}

const limit = 5
`
	got, err := format.Source([]byte(f.text()))
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestProofsNameMutants(t *testing.T) {
	chosen := mutantsOf([]proof{{"owner-by-name", "./trigger", "TestA"}, {"owner-by-name", "./trigger", "TestB"}, {"no-such-mutant", "./trigger", "TestC"}})
	if !slices.EqualFunc(chosen, []string{"owner-by-name"}, func(m mutant, name string) bool { return m.name == name }) {
		t.Errorf("mutants %v", chosen)
	}
}
