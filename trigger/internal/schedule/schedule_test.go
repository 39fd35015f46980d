package schedule

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// withScheduler runs a test on time of its own. All tasks have to end with it.
func withScheduler(t *testing.T, test func(t *testing.T, s *Scheduler, u *Turns)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New()
		test(t, s, NewTurns(s))
		s.Close() // a goroutine that stayed would fail the test
	})
}

// every returns a task whose steps begin so far apart, until it is stopped.
func every(u *Turns, wait time.Duration, step func()) (task *Task, stop func()) {
	var isStopped atomic.Bool
	task = u.NewTask(func() (time.Duration, bool) {
		if isStopped.Load() {
			return 0, false
		}
		step()
		return wait, true
	})
	task.Start()
	return task, func() {
		isStopped.Store(true)
		task.Hurry()
		task.Wait()
	}
}

func TestStepsAreTakenInTime(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		began := time.Now()
		var mu sync.Mutex
		steps := map[time.Duration][]time.Duration{} // by wait
		var stops []func()
		for _, wait := range []time.Duration{time.Second, 3 * time.Second, Never} {
			_, stop := every(u, wait, func() {
				mu.Lock()
				defer mu.Unlock()
				steps[wait] = append(steps[wait], time.Since(began))
			})
			stops = append(stops, stop)
		}
		time.Sleep(10*time.Second + 1)
		for _, stop := range stops {
			stop()
		}
		for wait, times := range steps {
			want := 1
			if wait != Never {
				want = 1 + int(10*time.Second/wait)
			}
			if len(times) != want {
				t.Errorf("%d steps with a wait of %v, want %d", len(times), wait, want)
			}
			for i, at := range times {
				if at != time.Duration(i)*wait {
					t.Errorf("step %d after %v, with a wait of %v", i, at, wait)
				}
			}
		}
	})
}

// A step is due when DueBy asks for it, while the task waits, has no time set or runs, and not
// later than it would be otherwise.
func TestStepsAreDueByTheTimeAskedFor(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		for _, wait := range []time.Duration{10 * time.Second, Never} {
			began := time.Now()
			var times []time.Duration
			task, stop := every(u, wait, func() {
				times = append(times, time.Since(began))
				time.Sleep(2 * time.Second)
			})
			time.Sleep(time.Second)
			task.DueBy(began.Add(6 * time.Second)) // while it runs
			task.DueBy(began.Add(4 * time.Second))
			task.DueBy(began.Add(5 * time.Second)) // later than asked for
			time.Sleep(5*time.Second + 1)
			task.DueBy(began.Add(9 * time.Second)) // while it waits
			task.DueBy(began.Add(8 * time.Second))
			time.Sleep(4 * time.Second)
			task.DueBy(began) // in the past
			time.Sleep(3 * time.Second)
			stop()
			want := []time.Duration{0, 4 * time.Second, 8 * time.Second, 10*time.Second + 1}
			if len(times) != len(want) {
				t.Fatalf("steps at %v, want %v", times, want)
			}
			for i := range want {
				if times[i] != want[i] {
					t.Errorf("steps at %v, want %v", times, want)
				}
			}
		}
	})
}

// A step that DueBy or Hurry has begun early makes the time that was set before void.
func TestEarlyStepReplacesTheNextOne(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		for _, early := range []func(*Task){func(task *Task) { task.DueBy(time.Now()) }, (*Task).Hurry} {
			var steps atomic.Int64
			task := u.NewTask(func() (time.Duration, bool) {
				if n := steps.Add(1); n > 1 {
					return Never, n < 3
				}
				return time.Minute, true
			})
			task.Start()
			time.Sleep(time.Second)
			early(task)
			time.Sleep(time.Hour)
			if n := steps.Load(); n != 2 {
				t.Errorf("%d steps, want 2", n)
			}
			early(task)
			task.Wait()
		}
	})
}

// concurrency counts steps that run at one time.
type concurrency struct {
	mu         sync.Mutex
	runs, most int
}

func (c *concurrency) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs += n
	c.most = max(c.most, c.runs)
}

// peak returns the most steps that ran at one time since the last call.
func (c *concurrency) peak() (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most, c.most = c.most, 0
	return most
}

func TestStepsTakeTurns(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		began := time.Now()
		var c concurrency
		var tasks []*Task
		for range 3 * MaxTurns {
			task := u.NewTask(func() (time.Duration, bool) {
				c.add(1)
				time.Sleep(MaxTurn / 4)
				c.add(-1)
				return 0, false
			})
			task.Start()
			tasks = append(tasks, task)
		}
		for _, task := range tasks {
			task.Wait()
		}
		took, most := time.Since(began), c.peak()
		if most != MaxTurns || took != 3*MaxTurn/4 {
			t.Errorf("%d steps at a time, all within %v", most, took)
		}
	})
}

// The steps of a task that takes no turns begin when they are due, however many others are due.
func TestTaskWithoutTurnsDoesNotWait(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		var stops []func()
		for range 2 * MaxTurns {
			_, stop := every(u, time.Second, func() { time.Sleep(MaxTurn) })
			stops = append(stops, stop)
		}
		began := time.Now()
		var steps []time.Duration
		task := s.NewTask(func() (time.Duration, bool) {
			steps = append(steps, time.Since(began))
			return time.Second, len(steps) < 4
		})
		task.Start()
		time.Sleep(1500 * time.Millisecond)
		task.DueBy(time.Now())
		task.Wait()
		if want := []time.Duration{0, time.Second, 1500 * time.Millisecond, 2500 * time.Millisecond}; !slices.Equal(steps, want) {
			t.Errorf("steps after %v, want %v", steps, want)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// Steps that do not end hold up others for the length of a turn, and a hurried one not at all.
func TestTurnsEndBeforeTheirSteps(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		answers := make(chan struct{})
		var tasks []*Task
		start := func(step func()) *Task {
			task := u.NewTask(func() (time.Duration, bool) {
				step()
				return 0, false
			})
			task.Start()
			tasks = append(tasks, task)
			return task
		}
		for range MaxTurns {
			start(func() { <-answers })
		}
		waits := map[string]time.Duration{}
		measure := func(name string, hurry bool) {
			began := time.Now()
			var took time.Duration
			task := start(func() { took = time.Since(began) })
			if hurry {
				task.Hurry()
			}
			task.Wait()
			waits[name] = took
		}
		measure("hurried", true)
		measure("first", false)
		measure("later", false)
		if waits["hurried"] != 0 || waits["first"] != MaxTurn || waits["later"] != 0 {
			t.Errorf("waits for a turn: %v", waits)
		}
		close(answers)
		for _, task := range tasks {
			task.Wait()
		}
	})
}

// Patient steps without an answer pass their turns on one by one.
func TestPatientStepsDoNotBeginAllAtOnce(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		var c concurrency
		var stops []func()
		for range 100 {
			_, stop := every(u, time.Minute, func() {
				c.add(1)
				time.Sleep(10 * MaxTurn)
				c.add(-1)
			})
			stops = append(stops, stop)
		}
		time.Sleep(50 * time.Second)
		c.peak()
		time.Sleep(30 * time.Second)
		if most := c.peak(); most < maxPatientTurns || most > maxPatientTurns+10 {
			t.Errorf("%d patient steps at a time", most)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// Many steps that have waited long fall due at one moment. Others do not wait for them.
func TestPatientStepsLeaveTurnsToOthers(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		const duration = MaxTurn / 2
		var stops []func()
		var taken atomic.Int64
		var tasks []*Task
		for range 1000 {
			task, stop := every(u, Never, func() {
				taken.Add(1)
				time.Sleep(duration)
			})
			tasks, stops = append(tasks, task), append(stops, stop)
		}
		began := make(chan time.Time, 1)
		task, stop := every(u, Never, func() { began <- time.Now() })
		<-began
		time.Sleep(time.Minute)
		at := time.Now().Add(time.Minute)
		for _, task := range tasks {
			task.DueBy(at)
		}
		time.Sleep(time.Until(at) + time.Millisecond)
		for range 20 {
			due := time.Now().Add(time.Millisecond)
			task.DueBy(due)
			if wait := (<-began).Sub(due); wait > 0 {
				t.Errorf("a step that is due soon begins %v late", wait)
			}
		}
		stop()
		oldCount := taken.Load()
		tasks[999].DueBy(time.Now()) // it would be the last one
		synctest.Wait()
		if n := taken.Load(); n != oldCount+1 {
			t.Errorf("%d steps begin as one of the patient tasks is due at once", n-oldCount)
		}
		time.Sleep(time.Minute)
		if n := taken.Load(); n != 2*1000 {
			t.Errorf("%d of 2000 steps are taken", n)
		}
		for _, stop := range stops {
			stop()
		}
	})
}

// A task that is hurried while its step runs takes another one at once.
func TestHurriedStepFollowsTheRunningOne(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		began := time.Now()
		task, stop := every(u, Never, func() { time.Sleep(time.Second) })
		time.Sleep(time.Millisecond)
		task.Hurry()
		time.Sleep(time.Second)
		stop() // ends with the second step
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// A task that is hurried before it starts takes no turn for its first step, and only one step.
func TestHurriedTaskStartsAtOnce(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		for range 2 * MaxTurns {
			_, stop := every(u, Never, func() { time.Sleep(MaxTurn / 2) })
			defer stop()
		}
		var steps atomic.Int64
		task := u.NewTask(func() (time.Duration, bool) { return Never, steps.Add(1) == 1 })
		task.Hurry()
		task.Start()
		synctest.Wait()
		if n := steps.Load(); n != 1 {
			t.Errorf("%d steps at once, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := steps.Load(); n != 1 {
			t.Errorf("%d steps, want 1", n)
		}
		task.Hurry()
		task.Wait()
	})
}

// Tasks that wait have no goroutine, and leave few entries behind.
func TestWaitingTasksHaveNoGoroutines(t *testing.T) {
	withScheduler(t, func(t *testing.T, s *Scheduler, u *Turns) {
		before := runtime.NumGoroutine()
		var stops []func()
		for range 1000 {
			task, stop := every(u, time.Hour, func() {})
			for i := range 100 {
				task.DueBy(time.Now().Add(time.Minute - time.Duration(i)*time.Millisecond))
			}
			stops = append(stops, stop)
		}
		for range 100 {
			time.Sleep(time.Minute + 1)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 2*maxIdle {
			t.Errorf("%d goroutines for 1000 tasks that wait", n)
		}
		s.mu.Lock()
		n := len(s.waiting)
		s.mu.Unlock()
		if n > 4*1000+65 {
			t.Errorf("%d entries for 1000 tasks", n)
		}
		for _, stop := range stops {
			stop()
		}
	})
}
