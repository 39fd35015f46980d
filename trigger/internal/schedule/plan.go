package schedule

import (
	"slices"
	"sort"
	"sync"
	"time"
)

const (
	// MaxTurns is the number of steps of one kind that have a turn at one time, and maxPatientTurns
	// that of patient ones, which have turns of their own. A step keeps its turn until it has ended. If
	// it waits for an answer for MaxTurn, it passes the turn on.
	MaxTurns        = 64
	maxPatientTurns = 16
	MaxTurn         = 20 * time.Millisecond
)

// patience is the wait after which a step is patient: it is in no hurry. Many ranges poll at one
// moment, and need few connections for it.
const patience = time.Second

// plan is what a scheduler knows of a task.
type plan struct {
	step            func() (wait time.Duration, continues bool)
	prompt, patient *line // of the turns that it takes; nil if it takes none
	ended           sync.WaitGroup

	phase     taskPhase
	line      *line     // in which the step that is due waits, or has its turn; nil if in none
	nextAt    time.Time // when the next step is due, if it is not due yet; zero if no time is set
	isHurried bool      // the next step begins as soon as the one that is running has ended
	entry     int64     // number of its valid entry; 0 if there is none
	turnBegan time.Time // when the step got its turn
}

type taskPhase int

const (
	taskIsNew taskPhase = iota
	taskWaits
	taskIsDue
	taskRuns
	taskHasEnded
)

// noteRuns makes the time of the next step and the entry for it void.
func (p *plan) noteRuns() { p.phase, p.nextAt, p.entry = taskRuns, time.Time{}, 0 }

// isPatient reports whether the step waits among patient ones.
func (p *plan) isPatient() bool { return p.line != nil && p.line == p.patient }

// line has the steps that wait for one of so many turns, in the order in which they fell due.
type line struct {
	limit   int
	waiting []*plan
	running []*plan // that have a turn, the oldest first

	// Turns are passed on one by one, MaxTurn apart: a slow service is asked with more and more
	// requests at a time, and not with all at once.
	isPassedSlowly bool
	passedAt       time.Time
}

// add has a task whose step is due wait for its turn.
func (l *line) add(p *plan) {
	p.phase, p.nextAt, p.line = taskIsDue, time.Time{}, l
	l.waiting = append(l.waiting, p)
}

// remove removes a task that waits for its turn.
func (l *line) remove(p *plan) { l.waiting = without(l.waiting, p) }

// end ends the turn of a task, if it still has it.
func (l *line) end(p *plan) { l.running = without(l.running, p) }

func without(plans []*plan, p *plan) []*plan {
	if i := slices.Index(plans, p); i >= 0 {
		return slices.Delete(plans, i, i+1)
	}
	return plans
}

// take gives a turn to the task that has waited longest. It returns nil if none waits, or no turn is
// free.
func (l *line) take() *plan {
	if len(l.waiting) == 0 || len(l.running) == l.limit {
		return nil
	}
	p := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	l.running = append(l.running, p)
	p.turnBegan = time.Now()
	return p
}

// passesOnAt returns when the oldest turn is passed on, the zero time if no step waits for it.
func (l *line) passesOnAt() time.Time {
	if len(l.waiting) == 0 {
		return time.Time{}
	}
	since := l.running[0].turnBegan
	if l.isPassedSlowly && l.passedAt.After(since) {
		since = l.passedAt
	}
	return since.Add(MaxTurn)
}

// passOn frees the turns that are passed on by now, as far as steps wait for them.
func (l *line) passOn(now time.Time) {
	for wanted := len(l.waiting); wanted > 0 && len(l.running) > 0 && !l.passesOnAt().After(now); wanted-- {
		l.running, l.passedAt = slices.Delete(l.running, 0, 1), now
	}
}

// entry is a task whose next step is due at a time, unless the task has a later entry or its step
// has begun.
type entry struct {
	due       time.Time
	number    int64
	plan      *plan
	isPatient bool
}

func (e entry) isValid() bool { return e.plan.entry == e.number && e.plan.phase == taskWaits }

// entries is a binary heap: the earliest entry is the first, and of several at one time the oldest.
// Package heap would allocate memory for each entry.
type entries []entry

func (h entries) isBefore(i, j int) bool {
	return h[i].due.Before(h[j].due) || h[i].due.Equal(h[j].due) && h[i].number < h[j].number
}

func (h *entries) push(e entry) {
	*h = append(*h, e)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.isBefore(i, parent) {
			return
		}
		(*h)[i], (*h)[parent] = (*h)[parent], (*h)[i]
		i = parent
	}
}

// pop removes the first entry. There must be one.
func (h *entries) pop() entry {
	all := *h
	first, last := all[0], len(all)-1
	all[0], all[last] = all[last], entry{}
	all = all[:last]
	*h = all
	for i := 0; ; {
		next := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if all.isBefore(child, next) {
				next = child
			}
		}
		if next == i {
			return first
		}
		all[i], all[next] = all[next], all[i]
		i = next
	}
}

// removeStale removes the entries that are not valid any more.
func (h *entries) removeStale() {
	valid := slices.DeleteFunc(*h, func(e entry) bool { return !e.isValid() })
	sort.Slice(valid, valid.isBefore)
	*h = valid
}
