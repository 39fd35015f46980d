package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"halley/tests/bench/report"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// running is a host that runs one function, until stop.
type running struct {
	cancel context.CancelFunc
	ended  chan error
}

func (s settings) start(ctx context.Context, f trigger.Function, leases *cosmos.Container) (*running, error) {
	return s.startAs(ctx, "", f, leases)
}

// startAs is start with the host's name in the leases, "" for one of its own.
func (s settings) startAs(ctx context.Context, owner string, f trigger.Function, leases *cosmos.Container) (*running, error) {
	host, err := trigger.New(leases, []trigger.Function{f}, &trigger.Options{Owner: owner})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &running{cancel, make(chan error, 1)}
	go func() { r.ended <- host.Run(ctx) }()
	return r, nil
}

// stop ends the host and waits for it.
func (r *running) stop() error {
	r.cancel()
	return <-r.ended
}

// rangeCount counts different ranges. When as many as wanted were seen, complete is
// closed.
type rangeCount struct {
	mu       sync.Mutex
	seen     map[string]bool
	wanted   int
	complete chan struct{}
}

func countRanges(wanted int) *rangeCount {
	return &rangeCount{seen: map[string]bool{}, wanted: wanted, complete: make(chan struct{})}
}

func (c *rangeCount) add(r cosmos.Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[r.ID] {
		return
	}
	c.seen[r.ID] = true
	if len(c.seen) == c.wanted {
		close(c.complete)
	}
}

// wait returns how many ranges were seen when all were, or after the limit.
func (c *rangeCount) wait(limit time.Duration) int {
	select {
	case <-c.complete:
	case <-time.After(limit):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// acquireRanges measures how long a host takes from its start to a first handler call
// for each range.
func acquireRanges(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	seen := countRanges(s.Ranges)
	began := time.Now()
	host, err := s.start(ctx, s.function(items, func(_ context.Context, b trigger.Batch) error {
		seen.add(b.Range)
		return nil
	}), leases)
	if err != nil {
		return nil, err
	}
	acquired := seen.wait(s.Limit)
	took := time.Since(began)
	return figures{"seconds": took.Seconds(), "ranges": float64(acquired)}, host.stop()
}

// idleRanges measures a host whose ranges have no changes.
func idleRanges(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	seen := countRanges(s.Ranges)
	f := s.function(items, func(context.Context, trigger.Batch) error { return nil })
	f.StartFrom = trigger.FromNow()
	f.Opened = func(_ context.Context, r trigger.RangeInfo) { seen.add(r.Range) }
	host, err := s.start(ctx, f, leases)
	if err != nil {
		return nil, err
	}
	acquired := seen.wait(s.Limit)
	time.Sleep(s.Poll) // the first poll of each range has its own costs
	var shares report.Samples
	for range s.Windows {
		m := startMeter()
		time.Sleep(s.Window)
		found := m.stop(0)
		shares = append(shares, 100*found["cpuSeconds"]/found["seconds"])
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	found := figures{"cpuPercent": shares.Median(), "rssMiB": residentMiB("VmRSS"), "goroutines": float64(runtime.NumGoroutine()), "ranges": float64(acquired),
		"stackMiB": float64(memory.StackSys) / (1 << 20), "liveMiB": liveBytes() / (1 << 20)}
	return found, host.stop()
}

// timerTicks measures drains that find nothing.
func timerTicks(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	f := s.function(items, func(context.Context, trigger.Batch) error { return nil })
	var used, took report.Samples
	for tick := range s.Windows + 1 {
		host, err := trigger.New(leases, []trigger.Function{f}, nil)
		if err != nil {
			return nil, err
		}
		m := startMeter()
		summary, err := host.Drain(ctx)
		if err != nil {
			return nil, err
		}
		if summary.Idle != s.Ranges {
			return nil, fmt.Errorf("%d of %d ranges were idle: %+v", summary.Idle, s.Ranges, summary)
		}
		if tick > 0 { // the first one creates the leases
			found := m.stop(0)
			used, took = append(used, found["cpuSeconds"]), append(took, found["seconds"])
		}
	}
	return figures{"cpuSeconds": used.Median(), "seconds": took.Median()}, nil
}

// liveBytes is what the last collection of garbage found in use.
func liveBytes() float64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return float64(sample[0].Value.Uint64())
}

// slowHandlers measures the memory of a host whose handlers are slower than its reads.
func slowHandlers(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	seen := countRanges(s.Ranges)
	host, err := s.start(ctx, s.function(items, func(ctx context.Context, b trigger.Batch) error {
		seen.add(b.Range)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.Handler):
			return nil
		}
	}), leases)
	if err != nil {
		return nil, err
	}
	sampling, sampled := make(chan struct{}), make(chan float64)
	go func() {
		most := 0.0
		for {
			select {
			case <-sampling:
				sampled <- most
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, liveBytes())
			}
		}
	}()
	acquired := seen.wait(s.Limit)
	time.Sleep(s.Window)
	close(sampling)
	found := figures{"liveMiB": <-sampled / (1 << 20), "peakMiB": residentMiB("VmHWM"), "ranges": float64(acquired), "sockets": openSockets()}
	return found, host.stop()
}

// busyRange measures the time from a write to the handler call with the change, while
// writeItems writes.
func busyRange(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	delays, problems := make(chan float64, 1<<16), make(chan error, 1)
	f := s.function(items, func(_ context.Context, b trigger.Batch) error {
		now := time.Now()
		for _, c := range b.Changes {
			var item struct{ Sent int64 }
			if err := json.Unmarshal(c.Document, &item); err != nil {
				problems <- err
				return err
			}
			delays <- now.Sub(time.Unix(0, item.Sent)).Seconds() * 1000
		}
		return nil
	})
	f.StartFrom = trigger.FromNow()
	host, err := s.start(ctx, f, leases)
	if err != nil {
		return nil, err
	}
	select {
	case <-delays:
	case err := <-problems:
		return nil, errors.Join(err, host.stop())
	case <-time.After(s.Limit):
		return nil, errors.Join(errors.New("no change has arrived"), host.stop())
	}
	time.Sleep(time.Second) // the changes of the start are late
	for len(delays) > 0 {
		<-delays
	}
	var middle, late report.Samples
	for range s.Windows {
		time.Sleep(s.Window)
		window := make([]float64, 0, len(delays))
		for len(delays) > 0 {
			window = append(window, <-delays)
		}
		if len(window) > 0 {
			middle, late = append(middle, quantile(window, 0.5)), append(late, quantile(window, 0.99))
		}
	}
	if len(middle) == 0 {
		return nil, errors.Join(errors.New("no further change has arrived"), host.stop())
	}
	return figures{"p50Millis": middle.Median(), "p99Millis": late.Median()}, host.stop()
}

// writeItems writes documents with the time of the write, at a rate, or as fast as it
// can if the rate is 0. It ends after Changes, or never if that is 0.
func writeItems(ctx context.Context, s settings) (figures, error) {
	items, _, err := s.containers()
	if err != nil {
		return nil, err
	}
	text := make([]byte, 800)
	for i := range text {
		text[i] = 'a' + byte(i%26)
	}
	began := time.Now()
	for i := 0; s.Changes == 0 || i < s.Changes; i++ {
		if s.Rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(s.Rate))))
		}
		id := fmt.Sprint("item-", i)
		item := map[string]any{"id": id, "pk": id, "n": i, "sent": time.Now().UnixNano(), "text": string(text)}
		if _, err := items.Upsert(ctx, cosmos.NewPartitionKey(id), item); err != nil {
			return nil, err
		}
	}
	return figures{"changes": float64(s.Changes), "seconds": time.Since(began).Seconds()}, nil
}
