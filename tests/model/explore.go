package model

import (
	"hash/maphash"
	"slices"
	"sync"
)

// Step is one transition: the next state, and the text of the step.
type Step[S comparable] struct {
	To    S
	Text  string // "{h}", "{l}" and "{n}" stand for the three numbers
	Host  uint8
	Lease uint8
	N     uint8
	Fault bool // progress must not depend on it: a crash, a lost answer, a delay
}

// Search is a breadth-first exploration of all states that can be reached from
// Start. S holds no pointers, so that equal states are equal values.
type Search[S comparable] struct {
	Start S
	// Next appends the steps out of s. It is called from several goroutines.
	Next func(s *S, steps []Step[S]) []Step[S]
	// Canon replaces a state by the representative of its symmetry class; nil
	// for none.
	Canon func(s *S)
	// Bad returns the promise that a state breaks, "" for none. The search ends
	// at the first such state; no other one is nearer to Start.
	Bad func(s *S) string
	// Goal, if set, must stay reachable from every state without faults.
	Goal func(s *S) bool
	// MaxStates bounds the search; 0 is 30 million.
	MaxStates int
	// Workers is the number of goroutines that expand states; 0 is one. The
	// result does not depend on it.
	Workers int
}

// Result is the outcome of a search.
type Result[S comparable] struct {
	States   int
	Steps    int
	Depth    int
	Complete bool      // every reachable state was seen
	Broken   string    // the promise that was broken, "" for none
	Trace    []Step[S] // from Start to the state that breaks it
}

// neverDone is Broken if a state has no way to Goal.
const neverDone = "I8 progress: from this state, even without further faults, the work is never done"

// explorer is a Search that runs. Seen states are in one slice, in the order of
// discovery; the table finds them by hash. The goroutine of Run owns it; workers
// only read it while they expand blocks.
type explorer[S comparable] struct {
	*Search[S]
	seed    maphash.Seed
	states  []S
	parents []uint32
	table   []uint64 // upper half of the hash, index in states + 1
	edges   [][2]uint32
	steps   int
}

// found is a successor that no earlier block has seen.
type found[S comparable] struct {
	state S
	hash  uint64
	from  uint32
	fault bool
}

// block is the part of a level that one worker expands at a time.
const block = 1 << 12

// Run explores.
func (q *Search[S]) Run() Result[S] {
	x := &explorer[S]{Search: q, seed: maphash.MakeSeed(), table: make([]uint64, 1<<16)}
	if x.MaxStates == 0 {
		x.MaxStates = 30_000_000
	}
	start := q.Start
	x.canon(&start)
	x.add(start, maphash.Comparable(x.seed, start), 0)
	result := Result[S]{Broken: q.Bad(&start)}
	for level := 0; level < len(x.states) && result.Broken == ""; result.Depth++ {
		end := len(x.states)
		bad := x.level(level, end)
		if bad >= 0 {
			result.Broken = q.Bad(&x.states[bad])
			result.Trace = x.trace(bad)
		}
		if len(x.states) >= x.MaxStates {
			break
		}
		level = end
		result.Complete = bad < 0 && end == len(x.states)
	}
	if result.Complete && q.Goal != nil {
		if stuck := x.stuck(); stuck >= 0 {
			result.Broken, result.Trace = neverDone, x.trace(stuck)
		}
	}
	result.States, result.Steps = len(x.states), x.steps
	return result
}

func (x *explorer[S]) canon(s *S) {
	if x.Canon != nil {
		x.Canon(s)
	}
}

// level expands states[from:to] and returns the first bad one found, or -1.
// Workers expand blocks concurrently while the table does not change. The blocks
// are merged in order, so that every run gives the states the same numbers.
func (x *explorer[S]) level(from, to int) int {
	workers := max(x.Workers, 1)
	blocks := make([]expansion[S], workers)
	for from < to && len(x.states) < x.MaxStates {
		var working sync.WaitGroup
		for i := range blocks {
			lo, hi := min(from, to), min(from+block, to)
			from = hi
			working.Go(func() { blocks[i].expand(x, lo, hi) })
		}
		working.Wait()
		for i := range blocks {
			if bad := x.merge(&blocks[i]); bad >= 0 {
				return bad
			}
		}
	}
	return -1
}

// expansion is the result of one worker for one block.
type expansion[S comparable] struct {
	fresh []found[S]
	edges [][2]uint32
	buf   []Step[S]
	steps int
}

func (b *expansion[S]) expand(x *explorer[S], lo, hi int) {
	b.fresh, b.edges, b.steps = b.fresh[:0], b.edges[:0], 0
	for i := lo; i < hi; i++ {
		b.buf = x.Next(&x.states[i], b.buf[:0])
		b.steps += len(b.buf)
		for j := range b.buf {
			s := &b.buf[j]
			x.canon(&s.To)
			h := maphash.Comparable(x.seed, s.To)
			at, seen := x.find(&s.To, h)
			switch {
			case !seen:
				b.fresh = append(b.fresh, found[S]{s.To, h, uint32(i), s.Fault})
			case x.Goal != nil && !s.Fault:
				b.edges = append(b.edges, [2]uint32{uint32(i), at})
			}
		}
	}
}

func (x *explorer[S]) merge(b *expansion[S]) int {
	x.steps += b.steps
	x.edges = append(x.edges, b.edges...)
	for i := range b.fresh {
		f := &b.fresh[i]
		at, seen := x.find(&f.state, f.hash)
		if !seen {
			at = x.add(f.state, f.hash, f.from)
			if x.Bad(&f.state) != "" {
				return int(at)
			}
		}
		if x.Goal != nil && !f.fault {
			x.edges = append(x.edges, [2]uint32{f.from, at})
		}
	}
	return -1
}

// find returns the index of a state if it was seen.
func (x *explorer[S]) find(s *S, hash uint64) (uint32, bool) {
	mask := uint64(len(x.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		entry := x.table[i]
		if entry == 0 {
			return 0, false
		}
		if at := uint32(entry) - 1; entry>>32 == hash>>32 && x.states[at] == *s {
			return at, true
		}
	}
}

func (x *explorer[S]) add(s S, hash uint64, parent uint32) uint32 {
	if 2*len(x.states) > len(x.table) {
		x.grow()
	}
	x.states = append(x.states, s)
	x.parents = append(x.parents, parent)
	x.enter(hash, uint32(len(x.states)))
	return uint32(len(x.states) - 1)
}

func (x *explorer[S]) enter(hash uint64, number uint32) {
	mask := uint64(len(x.table) - 1)
	i := hash & mask
	for x.table[i] != 0 {
		i = (i + 1) & mask
	}
	x.table[i] = hash>>32<<32 | uint64(number)
}

func (x *explorer[S]) grow() {
	x.table = make([]uint64, 2*len(x.table))
	for i := range x.states {
		x.enter(maphash.Comparable(x.seed, x.states[i]), uint32(i+1))
	}
}

// trace returns the steps from Start to a state. Only parents are stored, so it
// takes the steps again. It does so without the symmetry reduction, so that a
// host keeps its name from the first line to the last.
func (x *explorer[S]) trace(to int) []Step[S] {
	var way []int
	for i := to; i != 0; i = int(x.parents[i]) {
		way = append(way, i)
	}
	var steps []Step[S]
	at := x.Start
	for i := len(way) - 1; i >= 0; i-- {
		next := x.Next(&at, nil)
		found := slices.IndexFunc(next, func(s Step[S]) bool {
			x.canon(&s.To)
			return s.To == x.states[way[i]]
		})
		if found < 0 {
			panic("states that Canon maps to one state have different successors")
		}
		steps, at = append(steps, next[found]), next[found].To
	}
	return steps
}

// stuck returns the first state without a way to the goal, or -1.
func (x *explorer[S]) stuck() int {
	first := make([]uint32, len(x.states)+1)
	for _, e := range x.edges {
		first[e[1]+1]++
	}
	for i := range x.states {
		first[i+1] += first[i]
	}
	into := make([]uint32, len(x.edges))
	next := append([]uint32(nil), first...)
	for _, e := range x.edges {
		into[next[e[1]]] = e[0]
		next[e[1]]++
	}
	var queue []uint32
	good := make([]bool, len(x.states))
	for i := range x.states {
		if x.Goal(&x.states[i]) {
			good[i] = true
			queue = append(queue, uint32(i))
		}
	}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, from := range into[first[at]:first[at+1]] {
			if !good[from] {
				good[from] = true
				queue = append(queue, from)
			}
		}
	}
	for i := range good {
		if !good[i] {
			return i
		}
	}
	return -1
}
