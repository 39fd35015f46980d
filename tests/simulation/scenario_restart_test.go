package simulation

import (
	"fmt"
	"testing"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// TestKillsBetweenCallsCostNothing kills hosts while none of their handlers runs.
// The next host then handles 100 changes of each range as fast as without the kills.
func TestKillsBetweenCallsCostNothing(t *testing.T) {
	const ranges, documents = 32, 3200
	handled := func(kills int) (took time.Duration, done int) {
		inRig(t, ranges, 2*time.Millisecond, func(r *rig) {
			function := trigger.Function{FeedSource: trigger.FeedSource{Name: counted}, Handler: taking(time.Second)}
			for i := range kills {
				dying := r.start(fmt.Sprint("killed", i), function)
				time.Sleep(2 * time.Minute) // it acquires all leases
				dying.kill()
			}
			last := r.start("last", function)
			time.Sleep(3 * time.Minute)
			r.write("d", documents)
			took = r.untilHandled(documents, 2*time.Hour)
			done = r.countHandled()
			last.stop()
		})
		return took, done
	}
	alone, _ := handled(0)
	for kills := 1; kills <= 2; kills++ {
		took, done := handled(kills)
		keeps(t, history.QuickRestart, done == documents && took <= alone*12/10,
			"%d of %d changes handled %s after %d kills, %s without", done, documents, took, kills, alone)
	}
}

// TestHangingFunctionDelaysNoOther kills two hosts while a call of one function
// hangs. On the next host, the other function is as fast as alone.
func TestHangingFunctionDelaysNoOther(t *testing.T) {
	const documents = 40
	handled := func(hanging bool) (took time.Duration, done int) {
		inRig(t, 4, 2*time.Millisecond, func(r *rig) {
			var function []trigger.Function
			function = append(function, trigger.Function{FeedSource: trigger.FeedSource{Name: counted}, Handler: taking(time.Second)})
			if hanging {
				function = append(function, trigger.Function{FeedSource: trigger.FeedSource{Name: "hanging"}, Handler: taking(time.Hour)}) // until its context ends
			}
			r.write("before", 8)
			for i := range 2 {
				dying := r.start(fmt.Sprint("killed", i), append([]trigger.Function(nil), function...)...)
				time.Sleep(2 * time.Minute)
				dying.kill()
			}
			last := r.start("last", function...)
			time.Sleep(3 * time.Minute)
			before := r.countHandled()
			r.write("after", documents)
			took = r.untilHandled(before+documents, time.Hour)
			done = r.countHandled() - before
			last.stop()
		})
		return took, done
	}
	alone, _ := handled(false)
	took, done := handled(true)
	keeps(t, history.SuspectsApart, done == documents && took <= alone*11/10,
		"%d of %d changes handled %s next to a function that hangs, %s alone", done, documents, took, alone)
}

// TestStopRedeliversNoMoreThanTheWindow stops a host while one key of a range with
// several lanes waits. The next owner redelivers a limited number of changes.
func TestStopRedeliversNoMoreThanTheWindow(t *testing.T) {
	const documents, page, window = 3000, 100, 1000
	inRig(t, 1, 2*time.Millisecond, func(r *rig) {
		function := func() trigger.Function {
			return trigger.Function{FeedSource: trigger.FeedSource{Name: counted}, Handler: failingOn("poison"), BatchPolicy: trigger.BatchPolicy{Lanes: 8}, RetryPolicy: trigger.RetryPolicy{RetryMax: 5 * time.Second}}
		}
		r.writeOne("poison", "poison")
		r.write("d", documents)
		first := r.start("first", function())
		time.Sleep(5 * time.Minute)
		handled := r.countHandled()
		first.stop()
		time.Sleep(time.Minute)
		second := r.start("second", function())
		time.Sleep(5 * time.Minute)
		second.stop()
		again := 0
		for _, times := range r.handled {
			if len(times) > 1 {
				again++
			}
		}
		keeps(t, history.Window, again <= window+page, "%d of %d handled changes redelivered after a stop", again, handled)
	})
}
