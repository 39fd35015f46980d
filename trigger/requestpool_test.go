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
