package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"halley/tests/bench/report"
	"halley/trigger"
)

// deliveries notes when each written item reaches a handler for the first time, over all hosts.
type deliveries struct {
	mu         sync.Mutex
	seen       map[int]bool         // numbers of items
	last       map[string]time.Time // delivery by range
	isMeasured bool
	delays     []float64 // milliseconds from the write, while isMeasured
	gap        float64   // longest time between two deliveries of a range then, in milliseconds
	repeated   int       // items that were delivered again then
}

// handle is the handler of all hosts.
func (d *deliveries) handle(_ context.Context, b trigger.Batch) error {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range b.Changes {
		var item struct {
			N    int
			Sent int64
		}
		if err := json.Unmarshal(c.Document, &item); err != nil {
			return err
		}
		switch {
		case d.seen[item.N] && d.isMeasured:
			d.repeated++
		case !d.seen[item.N] && d.isMeasured:
			d.delays = append(d.delays, milliseconds(now.Sub(time.Unix(0, item.Sent))))
		}
		d.seen[item.N] = true
	}
	if last := d.last[b.Range.ID]; d.isMeasured && !last.IsZero() {
		d.gap = max(d.gap, milliseconds(now.Sub(last)))
	}
	d.last[b.Range.ID] = now
	return nil
}

// measure begins to measure, or ends it.
func (d *deliveries) measure(isMeasured bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isMeasured = isMeasured
	clear(d.last)
}

// ranges is the number of ranges with a delivery since measure was called.
func (d *deliveries) ranges() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.last)
}

func milliseconds(t time.Duration) float64 { return t.Seconds() * 1000 }

// startTime is how long a host is away in a restart.
const startTime = time.Second

// rollingRestart measures the time from a write to the handler while hosts that share the ranges
// are restarted, one after the other. Each host has a client of its own.
func rollingRestart(ctx context.Context, s settings) (figures, error) {
	d := &deliveries{seen: map[int]bool{}, last: map[string]time.Time{}}
	hosts := make([]*running, s.Hosts)
	start := func(i int) (err error) {
		items, leases, err := s.containers()
		if err != nil {
			return err
		}
		f := s.function(items, d.handle)
		f.StartFrom = trigger.FromNow()
		hosts[i], err = s.startAs(ctx, fmt.Sprint("host-", i), f, leases)
		return err
	}
	stop := func() (err error) {
		for _, host := range hosts {
			if host != nil {
				err = errors.Join(err, host.stop())
			}
		}
		return err
	}
	for i := range hosts {
		if err := start(i); err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	time.Sleep(s.Limit) // until the hosts have equal shares
	if n := d.ranges(); n != s.Ranges {
		return nil, errors.Join(fmt.Errorf("%d of %d ranges have deliveries", n, s.Ranges), stop())
	}
	d.measure(true)
	var stopping report.Samples
	for i := range s.Windows {
		restarted := i % len(hosts)
		began := time.Now()
		if err := hosts[restarted].stop(); err != nil {
			return nil, err
		}
		stopping = append(stopping, milliseconds(time.Since(began)))
		time.Sleep(startTime)
		if err := start(restarted); err != nil {
			return nil, errors.Join(err, stop())
		}
		time.Sleep(s.Window - time.Since(began))
	}
	d.measure(false)
	if err := stop(); err != nil {
		return nil, err
	}
	if len(d.delays) == 0 {
		return nil, errors.New("no change has arrived")
	}
	return figures{
		"p50Millis": quantile(d.delays, 0.5), "p999Millis": quantile(d.delays, 0.999), "mostMillis": quantile(d.delays, 1),
		"gapMillis": d.gap, "stopMillis": stopping.Median(), "changes": float64(len(d.delays)), "repeated": float64(d.repeated),
	}, nil
}
