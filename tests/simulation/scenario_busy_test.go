package simulation

import (
	"testing"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// TestBusyRangeIsServedPromptly writes a change every 10 ms to one range, then none.
// Handlers get each change after about a round trip, and the idle range is polled no
// more often than its setting.
func TestBusyRangeIsServedPromptly(t *testing.T) {
	const (
		roundTrip = 5 * time.Millisecond
		documents = 3000
		poll      = 5 * time.Second // default
	)
	inRig(t, 1, roundTrip, func(r *rig) {
		host := r.start("host", trigger.Function{FeedSource: trigger.FeedSource{Name: counted}, Handler: taking(time.Millisecond)})
		time.Sleep(time.Minute)
		busy := time.Now()
		for i := range documents {
			time.Sleep(8*time.Millisecond + time.Duration(i*7919%4001)*time.Microsecond)
			r.write("d"+time.Duration(i).String()+"-", 1)
		}
		time.Sleep(time.Minute)
		from := time.Now()
		time.Sleep(5 * time.Minute)
		to := time.Now()
		host.stop()

		r.mu.Lock() // a request that the host has left behind may still be noted
		defer r.mu.Unlock()
		var delays []time.Duration
		for id, at := range r.written {
			// Until the first poll the range is idle.
			if begun, found := r.begun[id]; found && at.Sub(busy) > 2*poll {
				delays = append(delays, begun.Sub(at))
			}
		}
		if len(r.begun) != documents {
			t.Fatalf("%d of %d changes delivered", len(r.begun), documents)
		}
		p50, p99 := percentile(delays, 0.5), percentile(delays, 0.99)
		keeps(t, history.BusyRangePrompt, p50 <= roundTrip+10*time.Millisecond && p99 <= 100*time.Millisecond,
			"p50 %s, p99 %s from the write to the handler with a round trip of %s", p50, p99, roundTrip)
		reads := 0
		for _, at := range r.reads {
			if at.After(from) && at.Before(to) {
				reads++
			}
		}
		keeps(t, history.IdleRangePolls, reads <= int(to.Sub(from)/poll)+1, "%d reads of an idle range in %s", reads, to.Sub(from))
	})
}
