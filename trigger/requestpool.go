package trigger

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxIdleRequests is the number of goroutines that a requestPool keeps for further
// requests.
const maxIdleRequests = 16

// maxTurns is the number of requests of [requestPool.runInTurn] that have a turn at one time.
// A request waits for its turn, and keeps it, for maxTurn at most.
const (
	maxTurns = 64
	maxTurn  = 250 * time.Millisecond
)

// requestPool runs the requests of ranges on goroutines that it uses again. A request
// needs a stack of 16 KiB or more, which an idle range would otherwise keep from one
// poll or renewal to the next, several MiB for each hundred ranges.
type requestPool struct {
	tasks   chan func()   // taken by an idle goroutine
	turns   chan struct{} // of requests that are under way, see runInTurn
	ended   chan struct{}
	idle    atomic.Int64
	running sync.WaitGroup
}

func newRequestPool() *requestPool {
	return &requestPool{tasks: make(chan func()), turns: make(chan struct{}, maxTurns), ended: make(chan struct{})}
}

// run calls do on a goroutine of the pool, and returns when do has returned. It does
// not wait for other calls.
func (p *requestPool) run(do func()) {
	done := make(chan struct{})
	task := func() {
		defer close(done)
		do()
	}
	select {
	case p.tasks <- task:
	default:
		p.running.Go(func() { p.work(task) })
	}
	<-done
}

// runInTurn is run for requests that may fall due at one moment, such as the checkpoints of
// ranges whose calls end together: they wait for their turns, so that they need few
// connections. Requests that get no answer hold the others up for maxTurn, once. The wait ends
// as soon as urgent is closed.
func (p *requestPool) runInTurn(urgent <-chan struct{}, do func()) {
	if p.takeTurn(urgent) {
		end := sync.OnceFunc(func() { <-p.turns })
		timer := time.AfterFunc(maxTurn, end)
		defer func() { timer.Stop(); end() }()
	}
	p.run(do)
}

// takeTurn reports whether a turn became free in time.
func (p *requestPool) takeTurn(urgent <-chan struct{}) bool {
	select {
	case p.turns <- struct{}{}:
		return true
	default:
	}
	timer := time.NewTimer(maxTurn)
	defer timer.Stop()
	select {
	case p.turns <- struct{}{}:
		return true
	case <-timer.C:
	case <-urgent:
	}
	return false
}

// work runs a task and those that follow, unless enough other goroutines are idle.
func (p *requestPool) work(task func()) {
	for {
		task()
		if p.idle.Add(1) > maxIdleRequests {
			p.idle.Add(-1)
			return
		}
		select {
		case task = <-p.tasks:
			p.idle.Add(-1)
		case <-p.ended:
			return
		}
	}
}

// close waits until all goroutines have ended. No run may be under way or follow.
func (p *requestPool) close() {
	close(p.ended)
	p.running.Wait()
}
