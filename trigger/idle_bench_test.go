//go:build unix

package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"halley/trigger/cosmos"
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
				FeedSource: FeedSource{Name: "idle", Container: a.items}, Handler: func(context.Context, Batch) error { return nil },
			}}, &Options{Logger: slog.New(slog.DiscardHandler)})
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
				began := processorTime()
				a.pollBare(b, bare, ranges, 32)
				middle := processorTime()
				tick()
				floor += middle - began
				cost += processorTime() - middle
			}
			b.ReportMetric(cost.Seconds()/float64(b.N), "cpu-s/tick")
			b.ReportMetric(float64(cost)/float64(floor), "x-floor")
		})
	}
}

// BenchmarkIdleHost measures a continuous host whose ranges have nothing new: its
// share of one core, also as a multiple of the floor, the resident memory that it adds
// to that of the process, and the goroutines of each range. The floor polls the same
// ranges as often with bare requests of net/http, over 64 connections, in the same run.
func BenchmarkIdleHost(b *testing.B) {
	const n, period = 1000, 2 * time.Second
	a := startAccount(b, n)
	ranges, err := a.items.Ranges(b.Context())
	if err != nil || len(ranges) != n {
		b.Fatalf("%d ranges: %v", len(ranges), err)
	}
	floor := a.measureBarePolls(b, ranges, period, b.N)
	memory, goroutines := residentMiB(b), runtime.NumGoroutine()

	caughtUp := make(chan struct{}, n)
	h, err := New(a.leases, []Function{{
		FeedSource: FeedSource{Name: "idle", Container: a.items}, Handler: func(context.Context, Batch) error { return nil },
	}}, &Options{Logger: slog.New(slog.DiscardHandler), FeedPollDelay: period, Observers: []func(Event){func(e Event) {
		if e.Kind == EventCaughtUp {
			caughtUp <- struct{}{}
		}
	}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	for range n {
		<-caughtUp
	}
	await(4 * period) // until polls have their longest wait
	began := processorTime()
	await(time.Duration(4*b.N) * period)
	used := processorTime() - began
	b.ReportMetric(100*used.Seconds()/(time.Duration(4*b.N)*period).Seconds(), "%-core")
	b.ReportMetric(float64(used)/float64(floor), "x-floor")
	b.ReportMetric(residentMiB(b)-memory, "MiB-more")
	b.ReportMetric(residentMiB(b), "MiB")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/n, "goroutines/range")
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// measureBarePolls polls all ranges in each period, and returns the processor time.
func (a *remoteAccount) measureBarePolls(b *testing.B, ranges []cosmos.Range, period time.Duration, times int) time.Duration {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	next := make(chan cosmos.Range)
	done := make(chan error, 64)
	for range 64 {
		go func() {
			var failed error
			for r := range next {
				failed = errors.Join(failed, a.pollOne(client, r))
			}
			done <- failed
		}()
	}
	slots := time.NewTicker(period / 64)
	defer slots.Stop()
	poll := func(times int) {
		for range times {
			for slot := range slices.Chunk(ranges, (len(ranges)+63)/64) {
				<-slots.C
				for _, r := range slot {
					next <- r
				}
			}
		}
	}
	poll(1)
	began := processorTime()
	poll(4 * times)
	used := processorTime() - began
	close(next)
	for range 64 {
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	return used
}

// await waits for a time of a measurement.
func await(d time.Duration) { <-time.After(d) }
