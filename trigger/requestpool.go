package trigger

import (
	"sync"
	"sync/atomic"
	"time"
)

// maxIdleRequests is the number of goroutines that a requestPool keeps for further
// requests.
const maxIdleRequests = 16

// maxTogether and maxTurn bound the requests that run at a time and the wait for them, see
// [requestPool.runInTurn].
const (
	maxTogether = 64
	maxTurn     = time.Second
)

// requestPool runs the requests of ranges on goroutines that it uses again. A request
// needs a stack of 16 KiB or more, which an idle range would otherwise keep from one
// poll or renewal to the next, several MiB for each hundred ranges.
type requestPool struct {
	tasks   chan func()   // taken by an idle goroutine
	turns   chan struct{} // holds one for each request that is under way, see runInTurn
	ended   chan struct{}
	idle    atomic.Int64
	running sync.WaitGroup
}

func newRequestPool() *requestPool {
	return &requestPool{tasks: make(chan func()), turns: make(chan struct{}, maxTogether), ended: make(chan struct{})}
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
// ranges whose calls end together: at most maxTogether of them are under way, so that they
// need few connections. The others wait, for maxTurn at most: no request waits for those that
// get no answer.
func (p *requestPool) runInTurn(do func()) {
	if p.takeTurn() {
		defer func() { <-p.turns }()
	}
	p.run(do)
}

// takeTurn reports whether one of the turns became free in time.
func (p *requestPool) takeTurn() bool {
	select {
	case p.turns <- struct{}{}:
		return true
	default:
	}
	late := time.NewTimer(maxTurn)
	defer late.Stop()
	select {
	case p.turns <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
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
