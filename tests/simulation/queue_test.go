package simulation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"testing/synctest"
	"time"

	"halley/tests/history"
)

// item is something that waits to happen. Its id is its identity: it is the
// same in every run of the seed.
type item struct {
	id  string
	at  time.Time
	run func()
}

// note is something that happened in a goroutine of a host. What several of
// them did at one instant is put in the order of their ids.
type note struct {
	at     time.Time
	id     string
	events []history.Event
}

// queue is the step scheduler. Goroutines of hosts hand in; everything else is
// the scheduler's alone.
type queue struct {
	seed  uint64
	wake  chan struct{} // capacity 1: something was handed in
	items []item
	steps uint64
	timer *time.Timer
	log   decisions
}

func newQueue(seed uint64) queue {
	return queue{seed: seed, wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), log: newDecisions()}
}

// later hands in what is to happen after d. Any goroutine of the bubble may.
func (w *world) later(d time.Duration, id string, run func()) {
	w.mu.Lock()
	w.arrivals = append(w.arrivals, item{id, time.Now().Add(d), run})
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// noted hands in what happened. The caller holds w.mu.
func (w *world) noted(id string, events ...history.Event) {
	now := time.Now()
	for i := range events {
		events[i].Time = now
	}
	w.notes = append(w.notes, note{now, id, events})
}

// advance runs the world to a point in time.
func (w *world) advance(to time.Time) {
	for {
		synctest.Wait()
		w.collect()
		if due, ok := w.draw(); ok {
			due.run()
			continue
		}
		next := to
		for _, i := range w.items {
			if i.at.Before(next) {
				next = i.at
			}
		}
		if !time.Now().Before(to) {
			return
		}
		w.timer.Reset(time.Until(next))
		select {
		case <-w.wake:
		case <-w.timer.C:
		}
	}
}

// collect takes what was handed in since the last step, in the order of
// identities. The bubble is quiescent: nobody hands in now.
func (w *world) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.notes, func(a, b note) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id))
	})
	// Whoever makes a shared request first may spare the others theirs.
	w.notes = slices.CompactFunc(w.notes, func(a, b note) bool { return a.at.Equal(b.at) && a.id == b.id })
	for _, n := range w.notes {
		w.log.add(n.at.Sub(w.began), "noted", n.id)
		w.history = append(w.history, n.events...)
	}
	clear(w.notes)
	w.notes = w.notes[:0]
	w.items = append(w.items, w.arrivals...)
	clear(w.arrivals)
	w.arrivals = w.arrivals[:0]
}

// draw lets the seed choose among what is due.
func (w *world) draw() (item, bool) {
	now := time.Now()
	var due []int
	for i := range w.items {
		if !w.items[i].at.After(now) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return item{}, false
	}
	slices.SortStableFunc(due, func(a, b int) int { return cmp.Compare(w.items[a].id, w.items[b].id) })
	w.steps++
	chosen := due[0]
	if len(due) > 1 {
		chosen = due[dice{w.seed, "step"}.pick(strconv.FormatUint(w.steps, 36), len(due))]
	}
	drawn := w.items[chosen]
	w.items = slices.Delete(w.items, chosen, chosen+1)
	w.log.add(now.Sub(w.began), "drawn", drawn.id)
	return drawn, true
}

// decisions is the log of a run: its end in words, all of it as a digest.
type decisions struct {
	digest    uint64
	unordered uint64 // sum over what was answered at once, guarded by the world's lock
	count     int
	tail      []string // a ring of the newest
	whole     io.Writer
}

func newDecisions() decisions { return decisions{tail: make([]string, 0, 60)} }

func (l *decisions) add(at time.Duration, verb, what string) {
	line := strconv.FormatInt(int64(at), 10) + " " + verb + " " + what
	h := fnv.New64a()
	io.WriteString(h, line)
	l.digest = l.digest*1099511628211 + h.Sum64()
	if l.whole != nil {
		fmt.Fprintln(l.whole, line)
	}
	if len(l.tail) < cap(l.tail) {
		l.tail = append(l.tail, line)
	} else {
		l.tail[l.count%cap(l.tail)] = line
	}
	l.count++
}

// sum adds what was answered at once, and so in no order.
func (l *decisions) sum(id string) { l.unordered += dice{id: id}.roll("sum") }

// end is the newest part of the log, in order.
func (l *decisions) end() []string {
	if l.count <= len(l.tail) {
		return l.tail
	}
	at := l.count % cap(l.tail)
	return slices.Concat(l.tail[at:], l.tail[:at])
}
