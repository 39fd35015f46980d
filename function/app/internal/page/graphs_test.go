package page

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
)

// The graphs have the last hour of each function in minutes, and forget what is older.
func TestGraphsHaveTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isGone atomic.Bool
		p := newPage(t, func(o *Options) {
			o.Source.Behind = func() map[string]int64 {
				if isGone.Load() {
					return map[string]int64{"search": 0}
				}
				return map[string]int64{"orders": 7, "search": 0}
			}
		})
		r := p.options.Recorder
		for range 90 { // minutes
			r.Observe("", trigger.Event{Kind: trigger.EventDelivered, Function: "orders", Range: "0", Handled: 10})
			r.Observe("", trigger.Event{Kind: trigger.EventDeliveryFailed, Function: "orders", Range: "1", Handled: 2})
			r.Observe("", trigger.Event{Kind: trigger.EventDeadLettered, Function: "orders", Range: "1"})
			time.Sleep(time.Minute)
		}
		isGone.Store(true)
		time.Sleep(10*time.Minute + 20*time.Second) // a sample has come in the newest minute
		graphs := decode[items[Graph]](t, ask(t, p, "GET", "/api/v1/graphs", "", nil), 200).Items
		sum := func(numbers []int64) (total int64) {
			for _, n := range numbers {
				total += n
			}
			return total
		}
		if len(graphs) != 2 || graphs[0].Function != "orders" || len(graphs[0].Handled) != 60 {
			t.Fatalf("graphs %+v", graphs)
		}
		g := graphs[0]
		if got := fmt.Sprint(sum(g.Handled), sum(g.Failed), sum(g.Letters)); got != "600 50 50" && got != "588 49 49" {
			t.Errorf("handled, failed, letters of the last hour: %s", got)
		}
		if g.Behind[10] != 7 || g.Behind[59] != -1 || g.Handled[59] != 0 || g.Handled[10] != 12 || graphs[1].Behind[59] != 0 {
			t.Errorf("the minutes %+v", graphs)
		}
		body, err := io.ReadAll(ask(t, p, "GET", "/plain", "", nil).Body)
		if err != nil || !strings.Contains(string(body), " failed calls, ") || !strings.Contains(string(body), "at most 7 behind") {
			t.Errorf("%v, the plain page:\n%s", err, body)
		}
		p.Close()
	})
}
