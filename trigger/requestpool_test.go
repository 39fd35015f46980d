package trigger

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 10 * maxIdleRequests
		p := newRequestPool()
		began := time.Now()
		var ended atomic.Int64
		for round := range 2 { // the second finds goroutines that are idle
			var running sync.WaitGroup
			for range requests {
				running.Go(func() {
					p.run(func() {
						time.Sleep(time.Second)
						ended.Add(1)
					})
				})
			}
			running.Wait()
			synctest.Wait()
			if took := time.Since(began); took != time.Duration(round+1)*time.Second || ended.Load() != int64(round+1)*requests {
				t.Errorf("%d requests ended after %v", ended.Load(), took)
			}
			if idle := p.idle.Load(); idle != maxIdleRequests {
				t.Errorf("%d idle goroutines are kept, want %d", idle, maxIdleRequests)
			}
		}
		p.close() // a goroutine that stayed would fail the test
	})
}

func TestRequestsInTurnWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRequestPool()
		defer p.close()
		began := time.Now()
		var underWay, most atomic.Int64
		var running sync.WaitGroup
		for range 3 * maxTogether {
			running.Go(func() {
				p.runInTurn(func() {
					most.Store(max(most.Load(), underWay.Add(1)))
					time.Sleep(maxTurn / 4)
					underWay.Add(-1)
				})
			})
		}
		running.Wait()
		if took := time.Since(began); most.Load() != maxTogether || took != 3*maxTurn/4 {
			t.Errorf("%d requests at a time, all within %v", most.Load(), took)
		}
	})
}

func TestRequestDoesNotWaitForThoseWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRequestPool()
		defer p.close()
		answers := make(chan struct{})
		var running sync.WaitGroup
		for range maxTogether {
			running.Go(func() { p.runInTurn(func() { <-answers }) })
		}
		synctest.Wait()
		began := time.Now()
		p.runInTurn(func() {})
		if took := time.Since(began); took != maxTurn {
			t.Errorf("the request waits for %v, want %v", took, maxTurn)
		}
		close(answers)
		running.Wait()
	})
}
