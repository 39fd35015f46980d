// Package schedule runs many tasks that mostly wait, such as the polls of idle ranges and the
// renewals of their leases. A task consists of steps: calls of one function. Between two steps it
// has neither a goroutine nor a timer.
//
// Steps that send requests take turns: those that fall due at one moment run on few goroutines, so
// that they need few connections and stacks, and find the processor's caches warm.
package schedule

import (
	"math"
	"sync"
	"time"
)

// maxIdle is the number of goroutines that are kept for further steps. One of them has a stack of
// 16 KiB or more.
const maxIdle = 16

// Never is the wait of a task whose next step begins only on request.
const Never = time.Duration(math.MaxInt64)

// Scheduler runs the steps of tasks. Its methods and those of its tasks may be called from any
// goroutine.
type Scheduler struct {
	changed chan struct{} // capacity 1: something is due before wakeAt
	ended   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex // guards the fields below, and all plans and lines; no other lock is taken under it
	started int        // tasks that have not ended
	waiting entries
	entered int64 // entries so far
	lines   []*line
	idle    []chan<- *plan // of goroutines that wait for a step; the last one was active most recently
	wakeAt  time.Time      // when run looks again; zero if it waits for changed
}

// New returns a scheduler. Its caller closes it.
func New() *Scheduler {
	s := &Scheduler{changed: make(chan struct{}, 1), ended: make(chan struct{})}
	s.running.Go(s.run)
	return s
}

// Close waits until all goroutines have ended. All tasks must have ended, and no other begins.
func (s *Scheduler) Close() {
	close(s.ended)
	s.running.Wait()
}

// Task is a function that a scheduler calls again and again, never twice at a time.
type Task struct {
	scheduler *Scheduler
	plan
}

// NewTask returns a task that has not begun, and whose steps begin when they are due.
func (s *Scheduler) NewTask(step func() (wait time.Duration, continues bool)) *Task {
	return &Task{s, plan{step: step}}
}

// Start begins the task. Its first step is due at once, and each other one when the wait that the
// step before has returned is over. The task ends with the step that returns false.
func (t *Task) Start() {
	s := t.scheduler
	t.ended.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	if t.isHurried {
		t.isHurried = false
		s.begin(&t.plan)
	} else {
		s.enqueue(&t.plan)
	}
}

// Wait returns when the task has ended.
func (t *Task) Wait() { t.ended.Wait() }

// DueBy makes the next step due at a time, unless it is due earlier.
func (t *Task) DueBy(due time.Time) {
	s := t.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	isEarlier := t.nextAt.IsZero() || due.Before(t.nextAt)
	switch {
	case t.phase == taskWaits && isEarlier:
		s.setDue(&t.plan, due)
	case t.phase == taskRuns && isEarlier:
		t.nextAt = due
	case t.phase == taskIsDue && t.isPatient() && time.Until(due) < patience:
		t.line.remove(&t.plan)
		s.enqueue(&t.plan)
	}
}

// Hurry begins the next step now, or as soon as the one that is running has ended, out of turn. If the
// task has not begun, its first step begins with Start.
func (t *Task) Hurry() {
	s := t.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t.phase {
	case taskIsDue:
		t.line.remove(&t.plan)
		t.line = nil
		s.begin(&t.plan)
	case taskWaits:
		s.begin(&t.plan)
	case taskIsNew, taskRuns:
		t.isHurried = true
	}
}

// run starts the steps that fall due, until Close.
func (s *Scheduler) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if wait := s.startDue(); wait == Never {
			timer.Stop()
		} else {
			timer.Reset(wait)
		}
		select {
		case <-timer.C:
		case <-s.changed:
		case <-s.ended:
			return
		}
	}
}

// startDue starts the steps that are due, as far as there are turns, and returns the time until
// something is to be done again.
func (s *Scheduler) startDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for len(s.waiting) > 0 && !s.waiting[0].due.After(now) {
		switch e := s.waiting.pop(); {
		case !e.isValid():
		case e.plan.prompt == nil:
			s.begin(e.plan)
		case e.isPatient:
			e.plan.patient.add(e.plan)
		default:
			e.plan.prompt.add(e.plan)
		}
	}
	s.wakeAt = time.Time{}
	if len(s.waiting) > 0 {
		s.wakeAt = s.waiting[0].due
	}
	for _, l := range s.lines {
		l.passOn(now)
		if end := s.startTurns(l); !end.IsZero() && (s.wakeAt.IsZero() || end.Before(s.wakeAt)) {
			s.wakeAt = end
		}
	}
	if s.wakeAt.IsZero() {
		return Never
	}
	return s.wakeAt.Sub(now)
}

// setDue makes the next step of a task due at a time. mu is held.
func (s *Scheduler) setDue(p *plan, due time.Time) {
	wait := time.Until(due)
	if wait <= 0 {
		s.enqueue(p)
		return
	}
	if len(s.waiting) > 4*s.started+64 { // most of them are not valid any more
		s.waiting.removeStale()
	}
	s.entered++
	p.phase, p.nextAt, p.entry = taskWaits, due, s.entered
	s.waiting.push(entry{due, s.entered, p, wait >= patience})
	s.lookBy(due)
}

// enqueue makes the next step of a task due now. mu is held.
func (s *Scheduler) enqueue(p *plan) {
	if p.prompt == nil {
		s.begin(p)
		return
	}
	p.prompt.add(p)
	if end := s.startTurns(p.prompt); !end.IsZero() {
		s.lookBy(end)
	}
}

// lookBy has run look at a time, unless it does so before. mu is held.
func (s *Scheduler) lookBy(due time.Time) {
	if !s.wakeAt.IsZero() && !due.Before(s.wakeAt) {
		return
	}
	s.wakeAt = due
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// startTurns begins steps that are due while there are turns. If some stay due, it returns when one
// of the turns is passed on. mu is held.
func (s *Scheduler) startTurns(l *line) (next time.Time) {
	for p := l.take(); p != nil; p = l.take() {
		s.begin(p)
	}
	return l.passesOnAt()
}

// begin runs a step on a goroutine. mu is held.
func (s *Scheduler) begin(p *plan) {
	p.noteRuns()
	if last := len(s.idle) - 1; last >= 0 {
		s.idle[last] <- p
		s.idle = s.idle[:last]
		return
	}
	s.running.Go(func() { s.work(p) })
}

// work runs a step and those that follow, unless enough other goroutines are idle.
func (s *Scheduler) work(p *plan) {
	given := make(chan *plan, 1)
	for {
		wait, continues := p.step()
		next, isIdle := s.endStep(p, wait, continues, given)
		if p = next; p != nil {
			continue
		}
		if !isIdle {
			return
		}
		select {
		case p = <-given:
		case <-s.ended:
			return
		}
	}
}

// endStep ends a step of a task. It returns the plan whose step the goroutine runs next, or nil:
// then the goroutine waits for one on its channel, if it is to be kept.
func (s *Scheduler) endStep(p *plan, wait time.Duration, continues bool, given chan<- *plan) (next *plan, isIdle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := p.line
	if p.line = nil; l != nil {
		l.end(p)
	}
	switch {
	case !continues:
		p.phase = taskHasEnded
		s.started--
		p.ended.Done()
	case p.isHurried:
		p.isHurried, p.nextAt = false, time.Time{}
		return p, false
	default:
		s.awaitNext(p, wait)
	}
	if l != nil {
		if next := l.take(); next != nil {
			next.noteRuns()
			return next, false
		}
	}
	if len(s.idle) == maxIdle {
		return nil, false
	}
	s.idle = append(s.idle, given)
	return nil, true
}

// awaitNext makes the next step of a task due after a wait, or when DueBy has asked for it. mu is
// held.
func (s *Scheduler) awaitNext(p *plan, wait time.Duration) {
	due := p.nextAt
	if wait != Never {
		if end := time.Now().Add(wait); due.IsZero() || end.Before(due) {
			due = end
		}
	}
	if due.IsZero() {
		p.phase = taskWaits
		return
	}
	s.setDue(p, due)
}
