//go:build unix

package trigger

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"
)

// BenchmarkIdleTick measures the processor time of one timer invocation that finds
// nothing new on many ranges, also as a multiple of the floor: one bare poll of each
// range in the same run. The account is another process.
func BenchmarkIdleTick(b *testing.B) {
	for _, n := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := startAccount(b, n)
			ranges, err := a.items.Ranges(b.Context())
			if err != nil || len(ranges) != n {
				b.Fatalf("%d ranges: %v", len(ranges), err)
			}
			h, err := New(a.leases, []Function{{
				Name: "idle", Container: a.items, Handler: func(context.Context, Batch) error { return nil },
			}}, &Options{Logger: zap.NewNop()})
			if err != nil {
				b.Fatal(err)
			}
			bare := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
			defer bare.CloseIdleConnections()
			tick := func() {
				if s, err := h.Drain(b.Context()); err != nil || s.Idle != n {
					b.Fatalf("%+v: %v", s, err)
				}
			}
			tick() // creates the leases
			a.pollBare(b, bare, ranges, 32)
			var floor, cost time.Duration
			for b.Loop() {
				began := processorTime(b)
				a.pollBare(b, bare, ranges, 32)
				middle := processorTime(b)
				tick()
				floor += middle - began
				cost += processorTime(b) - middle
			}
			b.ReportMetric(cost.Seconds()/float64(b.N), "cpu-s/tick")
			b.ReportMetric(float64(cost)/float64(floor), "x-floor")
		})
	}
}
