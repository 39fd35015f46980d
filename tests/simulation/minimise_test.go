package simulation

import (
	"slices"
	"strings"
	"testing"
	"time"

	"halley/tests/history"
)

// minimise looks for a short list of faults that still breaks a promise: first
// whole classes are left out, then halves and single faults, as delta debugging
// does (Zeller, Hildebrandt: Simplifying and isolating failure-inducing input).
// It returns the last run that failed.
func minimise(t *testing.T, failed *Run, limit time.Duration) *Run {
	deadline := time.Now().Add(limit)
	best := failed
	try := func(faults []string) bool {
		if time.Now().After(deadline) {
			return false
		}
		run := simulate(t, failed.Seed, options{only: set(faults)})
		if !run.breaks(failed.rules()) {
			return false
		}
		best = run
		return true
	}
	for _, c := range classesOf(failed.Faults) {
		try(slices.DeleteFunc(slices.Clone(best.Faults), func(f string) bool { return classOf(f) == c }))
	}
	for size := (len(best.Faults) + 1) / 2; size > 0 && time.Now().Before(deadline); {
		if !dropChunk(best.Faults, size, try) {
			size /= 2
		}
		size = min(size, len(best.Faults))
	}
	return best
}

// dropChunk tries to leave out some faults in a row. It returns true if a run
// without them still failed.
func dropChunk(faults []string, size int, try func([]string) bool) bool {
	for from := 0; from < len(faults); from += size {
		rest := slices.Concat(faults[:from], faults[min(from+size, len(faults)):])
		if try(rest) {
			return true
		}
	}
	return false
}

func set(list []string) map[string]bool {
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

// classOf returns the class of a fault that [fault] has named.
func classOf(name string) class {
	longest := class("")
	for _, m := range menu {
		if strings.HasPrefix(name, string(m.class)+" ") && len(m.class) > len(longest) {
			longest = m.class
		}
	}
	return longest
}

func classesOf(faults []string) (list []class) {
	for _, f := range faults {
		if c := classOf(f); !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list
}

// rules returns the promises that a run broke.
func (r *Run) rules() map[history.Rule]bool {
	broken := map[history.Rule]bool{}
	for _, v := range r.Violations {
		broken[v.Rule] = true
	}
	return broken
}

// breaks reports whether the run broke one of some promises.
func (r *Run) breaks(rules map[history.Rule]bool) bool {
	return slices.ContainsFunc(r.Violations, func(v history.Violation) bool { return rules[v.Rule] })
}
