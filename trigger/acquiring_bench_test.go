//go:build unix

package trigger

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// BenchmarkAcquisition measures the time from the start of a host until it has
// acquired all ranges of a function, and until it has delivered a change of each. The
// ranges are busy: each has changes from the start, and reads and deliveries compete
// with the acquisition. The leases exist, and the account is another process.
func BenchmarkAcquisition(b *testing.B) {
	for _, n := range []int{64, 256, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := startAccount(b, n)
			a.fill(b, 20*n)
			var acquired, delivered time.Duration
			for i := range b.N {
				name := fmt.Sprint("busy", i)
				a.createLeases(b, name)
				first, all := a.acquireAll(b, name, n)
				acquired, delivered = acquired+first, delivered+all
			}
			b.ReportMetric(acquired.Seconds()/float64(b.N), "s-acquired")
			b.ReportMetric(delivered.Seconds()/float64(b.N), "s-delivered")
		})
	}
}

// fill writes documents of about 1 KB.
func (a *remoteAccount) fill(b *testing.B, documents int) {
	b.Helper()
	padding := strings.Repeat("x", 900)
	var writing sync.WaitGroup
	for worker := range 16 {
		writing.Go(func() {
			for i := worker; i < documents; i += 16 {
				id := fmt.Sprint("document", i)
				if _, err := a.items.Upsert(b.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id, "player": id, "text": padding}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	writing.Wait()
}

// createLeases has a drain that is over before it reads create the leases.
func (a *remoteAccount) createLeases(b *testing.B, name string) {
	b.Helper()
	f := Function{FeedSource: FeedSource{Name: name, Container: a.items, StartFrom: FromBeginning()}, Handler: func(context.Context, Batch) error { return nil }}
	h, err := New(a.leases, []Function{f}, &Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = h.DrainRange(b.Context(), name, "none")
	}
	if err != nil {
		b.Fatal(err)
	}
}

// acquireAll runs a host until it has delivered a change of each range.
func (a *remoteAccount) acquireAll(b *testing.B, name string, ranges int) (acquired, delivered time.Duration) {
	b.Helper()
	var mu sync.Mutex
	owned, seen := 0, map[string]bool{}
	all := make(chan struct{})
	began := time.Now()
	f := Function{FeedSource: FeedSource{Name: name, Container: a.items, StartFrom: FromBeginning()}, Handler: func(_ context.Context, batch Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[batch.Range.ID] = true; len(seen) == ranges && delivered == 0 {
			delivered = time.Since(began)
			close(all)
		}
		return nil
	}}
	h, err := New(a.leases, []Function{f}, &Options{Logger: slog.New(slog.DiscardHandler), Observers: []func(Event){func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == EventAcquired {
			if owned++; owned == ranges {
				acquired = time.Since(began)
			}
		}
	}}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	<-all
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
	return acquired, delivered
}
