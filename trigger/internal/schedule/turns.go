package schedule

import "time"

// Turns are those of the steps of one kind, such as reads of the feed.
type Turns struct {
	scheduler       *Scheduler
	prompt, patient *line
}

// NewTurns returns the turns of another kind of steps.
func NewTurns(s *Scheduler) *Turns {
	u := &Turns{s, &line{limit: MaxTurns}, &line{limit: maxPatientTurns, isPassedSlowly: true}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, u.prompt, u.patient)
	return u
}

// NewTask returns a task that has not begun, and whose steps take turns with others.
func (u *Turns) NewTask(step func() (wait time.Duration, continues bool)) *Task {
	t := u.scheduler.NewTask(step)
	t.prompt, t.patient = u.prompt, u.patient
	return t
}
