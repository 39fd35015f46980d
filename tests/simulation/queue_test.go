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

// item is a waiting event. Its id is its identity: it is the same in every run of
// the seed.
type item struct {
	id  string
	at  time.Time
	run func()
}

// note is an event of a goroutine of a host. If several have the same instant, they
// are sorted by their ids.
type note struct {
	at     time.Time
	id     string
	events []history.Event
	isEnd  bool // of a call that began at an earlier instant
}

// order is 0 for the end of a call that has lasted some time: another call of its key may
// begin at the same instant.
func (n note) order() int {
	if n.isEnd {
		return 0
	}
	return 1
}

// queue is the step scheduler. Goroutines of hosts hand in items and notes under
// the lock; only the scheduler uses the other fields.
type queue struct {
	seed  uint64
	wake  chan struct{} // capacity 1: an item or note was handed in
	items []item
	steps uint64
	timer *time.Timer
	log   decisions
}

func newQueue(seed uint64) queue {
	return queue{seed: seed, wake: make(chan struct{}, 1), timer: time.NewTimer(time.Hour), log: newDecisions()}
}

// later hands in an event that happens after d. Any goroutine of the bubble may
// call it.
func (w *world) later(d time.Duration, id string, run func()) {
	w.mu.Lock()
	w.arrivals = append(w.arrivals, item{id, time.Now().Add(d), run})
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// noted hands in events that have happened. The caller holds w.mu.
func (w *world) noted(id string, events ...history.Event) {
	now := time.Now()
	for i := range events {
		events[i].Time = now
	}
	w.notes = append(w.notes, note{at: now, id: id, events: events})
}

// advance runs the world to a point in time.
func (w *world) advance(to time.Time) {
	for {
		synctest.Wait()
		w.collect()
		if due := w.draw(); len(due) > 0 {
			for _, i := range due {
				i.run()
			}
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

// collect takes the items and notes since the last step, in the order of their
// identities. The bubble is quiescent, so none is handed in meanwhile.
func (w *world) collect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.notes, func(a, b note) int {
		return cmp.Or(a.at.Compare(b.at), a.order()-b.order(), cmp.Compare(a.id, b.id))
	})
	// When one goroutine makes a shared request, the others may not need theirs.
	w.notes = slices.CompactFunc(w.notes, func(a, b note) bool { return a.at.Equal(b.at) && a.id == b.id })
	w.log.writeAnswered()
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

// draw selects one of the due events by the seed. Events of one identity happen together:
// they are answers to requests that the functions of a host have sent at one instant, and
// their order tells nothing.
func (w *world) draw() []item {
	now := time.Now()
	var due []item
	for _, i := range w.items {
		if !i.at.After(now) {
			due = append(due, i)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortStableFunc(due, func(a, b item) int { return cmp.Compare(a.id, b.id) })
	w.steps++
	chosen := due[0].id
	if len(due) > 1 {
		chosen = due[dice{w.seed, "step"}.pick(strconv.FormatUint(w.steps, 36), len(due))].id
	}
	isChosen := func(i item) bool { return i.id == chosen && !i.at.After(now) }
	w.items = slices.DeleteFunc(w.items, isChosen)
	w.log.add(now.Sub(w.began), "drawn", chosen)
	return slices.DeleteFunc(due, func(i item) bool { return !isChosen(i) })
}

// decisions is the log of a run: its last lines as text, all of it as a digest.
type decisions struct {
	began     time.Time
	digest    uint64
	unordered uint64          // sum over requests that were answered at once, guarded by the world's lock
	summed    map[string]bool // of these, the ones of an instant, likewise guarded
	summedAt  time.Time
	answered  []string // the requests that were summed since the last step, likewise guarded; only for a whole log
	count     int
	tail      []string // a ring of the newest
	whole     io.Writer
}

func newDecisions() decisions {
	return decisions{began: time.Now(), tail: make([]string, 0, 60), summed: map[string]bool{}}
}

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

// sum adds a request that was answered at once. Such requests have no order. Those of one
// identity count once: one goroutine may make them for others.
func (l *decisions) sum(id string) {
	if now := time.Now(); !now.Equal(l.summedAt) {
		l.summedAt = now
		clear(l.summed)
	}
	if !l.summed[id] {
		l.summed[id] = true
		l.unordered += dice{id: id}.roll("sum")
		if l.whole != nil {
			l.answered = append(l.answered, fmt.Sprintf("%d answered at once %s", time.Since(l.began), id))
		}
	}
}

// writeAnswered writes the summed requests since the last step to the whole log.
func (l *decisions) writeAnswered() {
	slices.Sort(l.answered)
	for _, line := range l.answered {
		fmt.Fprintln(l.whole, line)
	}
	l.answered = l.answered[:0]
}

// end returns the last lines of the log, in order.
func (l *decisions) end() []string {
	if l.count <= len(l.tail) {
		return l.tail
	}
	at := l.count % cap(l.tail)
	return slices.Concat(l.tail[at:], l.tail[:at])
}
