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

// concurrency counts what is under way at one time.
type concurrency struct {
	mu             sync.Mutex
	underWay, most int
}

func (c *concurrency) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay += n
	c.most = max(c.most, c.underWay)
}

func (c *concurrency) peak() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

func TestRequestsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRequestPool()
		defer p.close()
		began := time.Now()
		var requests concurrency
		var running sync.WaitGroup
		for range 3 * maxTurns {
			running.Go(func() {
				p.runInTurn(nil, func() {
					requests.add(1)
					time.Sleep(maxTurn / 4)
					requests.add(-1)
				})
			})
		}
		running.Wait()
		if took := time.Since(began); requests.peak() != maxTurns || took != 3*maxTurn/4 {
			t.Errorf("%d requests at a time, all within %v", requests.peak(), took)
		}
	})
}

// Requests without an answer hold up others for the length of a turn, and later ones not at all.
func TestTurnsEndWithoutAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newRequestPool()
		defer p.close()
		answers := make(chan struct{})
		var running sync.WaitGroup
		for range maxTurns {
			running.Go(func() { p.runInTurn(nil, func() { <-answers }) })
		}
		synctest.Wait()
		closed := make(chan struct{})
		close(closed)
		for _, test := range []struct {
			name   string
			urgent chan struct{}
			want   time.Duration
		}{{"urgent", closed, 0}, {"first", nil, maxTurn}, {"later", nil, 0}} {
			began := time.Now()
			p.runInTurn(test.urgent, func() {})
			if took := time.Since(began); took != test.want {
				t.Errorf("the %s request waits for %v, want %v", test.name, took, test.want)
			}
		}
		close(answers)
		running.Wait()
	})
}
