package model

import (
	"fmt"
	"testing"
)

// jugs is a puzzle: measure 4 with two jugs that hold 3 and 5.
type jugs struct{ small, large uint8 }

func pour(s *jugs, steps []Step[jugs]) []Step[jugs] {
	moved := min(s.small, 5-s.large)
	back := min(s.large, 3-s.small)
	return append(steps,
		Step[jugs]{To: jugs{3, s.large}, Text: "fill the small jug"},
		Step[jugs]{To: jugs{s.small, 5}, Text: "fill the large jug"},
		Step[jugs]{To: jugs{0, s.large}, Text: "empty the small jug"},
		Step[jugs]{To: jugs{s.small, 0}, Text: "empty the large jug"},
		Step[jugs]{To: jugs{s.small - moved, s.large + moved}, Text: "pour the small jug into the large"},
		Step[jugs]{To: jugs{s.small + back, s.large - back}, Text: "pour the large jug into the small"},
	)
}

func never[S comparable](*S) string { return "" }

func TestSearchFindsShortestTrace(t *testing.T) {
	q := Search[jugs]{Next: pour, Bad: func(s *jugs) string {
		if s.large == 4 {
			return "four"
		}
		return ""
	}}
	r := q.Run()
	if r.Broken != "four" || len(r.Trace) != 6 || r.Depth != 6 || r.Complete {
		t.Errorf("%q after %d steps, depth %d, complete %v; want four after 6", r.Broken, len(r.Trace), r.Depth, r.Complete)
	}
	for i, s := range r.Trace {
		t.Log(i+1, s.Text)
	}
}

func TestSearchVisitsEachStateOnce(t *testing.T) {
	for workers := range 4 {
		q := Search[jugs]{Next: pour, Bad: never[jugs], Workers: workers}
		r := q.Run()
		if r.States != 16 || r.Steps != 16*6 || !r.Complete { // all with a jug that is full or empty
			t.Errorf("%d workers: %d states, %d steps, complete %v", workers, r.States, r.Steps, r.Complete)
		}
	}
}

func TestSearchStopsAtItsLimit(t *testing.T) {
	q := Search[uint32]{MaxStates: 1000, Bad: never[uint32], Next: func(s *uint32, steps []Step[uint32]) []Step[uint32] {
		return append(steps, Step[uint32]{To: *s*2 + 1}, Step[uint32]{To: *s*2 + 2})
	}}
	if r := q.Run(); r.Complete || r.States < 1000 || r.States > 3000 {
		t.Errorf("%d states, complete %v", r.States, r.Complete)
	}
}

// TestSearchDoesNotDependOnWorkers needs more states than a block holds.
func TestSearchDoesNotDependOnWorkers(t *testing.T) {
	search := func(workers int) Result[[3]uint8] {
		q := Search[[3]uint8]{Workers: workers,
			Next: func(s *[3]uint8, steps []Step[[3]uint8]) []Step[[3]uint8] {
				for i := range s {
					if s[i] < 60 {
						next := *s
						next[i]++
						steps = append(steps, Step[[3]uint8]{To: next, N: uint8(i)})
					}
				}
				return steps
			},
			Bad: func(s *[3]uint8) string {
				if s[0] > 20 && s[1] > 30 && s[2] > 40 {
					return "far"
				}
				return ""
			}}
		return q.Run()
	}
	one := search(1)
	if one.Broken != "far" || len(one.Trace) != 21+31+41 {
		t.Fatalf("%q after %d steps", one.Broken, len(one.Trace))
	}
	if many := search(3); fmt.Sprint(many) != fmt.Sprint(one) {
		t.Errorf("3 workers: %d states, 1 worker: %d", many.States, one.States)
	}
}

func TestSearchFindsDeadEnds(t *testing.T) {
	// From 3 a fault leads back to 2; without it there is no way to 9.
	ways := map[uint8][]Step[uint8]{
		0: {{To: 1}},
		1: {{To: 2}, {To: 3}},
		2: {{To: 9}},
		3: {{To: 3}, {To: 2, Fault: true}},
	}
	q := Search[uint8]{Bad: never[uint8], Goal: func(s *uint8) bool { return *s == 9 },
		Next: func(s *uint8, steps []Step[uint8]) []Step[uint8] { return append(steps, ways[*s]...) }}
	r := q.Run()
	if r.Broken != neverDone || len(r.Trace) != 2 || r.Trace[1].To != 3 {
		t.Errorf("%q, trace %v", r.Broken, r.Trace)
	}
	ways[3] = append(ways[3], Step[uint8]{To: 9})
	if r := q.Run(); r.Broken != "" {
		t.Errorf("%q, trace %v", r.Broken, r.Trace)
	}
}

func TestSearchMergesSymmetricStates(t *testing.T) {
	q := Search[[2]uint8]{Bad: never[[2]uint8],
		Canon: func(s *[2]uint8) {
			if s[0] > s[1] {
				s[0], s[1] = s[1], s[0]
			}
		},
		Next: func(s *[2]uint8, steps []Step[[2]uint8]) []Step[[2]uint8] {
			for i := range s {
				if s[i] < 9 {
					next := *s
					next[i]++
					steps = append(steps, Step[[2]uint8]{To: next})
				}
			}
			return steps
		}}
	if r := q.Run(); r.States != 55 {
		t.Errorf("%d states, want the 55 sorted pairs of ten", r.States)
	}
}

// TestSymmetryKeepsVerdicts compares explorations with and without it.
func TestSymmetryKeepsVerdicts(t *testing.T) {
	for _, c := range mistakes[:12] {
		for _, rules := range []Rules{{}, c.rules} {
			w := c.world
			w.Rules = rules
			m := w.model()
			folded := w.Explore(1, false)
			plain := (&Search[state]{Start: m.start(), Next: m.next, Bad: m.bad}).Run()
			if (folded.Broken == "") != (plain.Broken == "") || len(folded.Trace) != len(plain.Trace) {
				t.Errorf("%s: %q after %d steps with symmetry, %q after %d without",
					c.name, folded.Broken, len(folded.Trace), plain.Broken, len(plain.Trace))
			}
		}
	}
}
