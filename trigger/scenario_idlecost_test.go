package trigger

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestIdleCostAgainstLatency holds the table in docs/settings.md: the reads of an idle range in an
// hour, and how long a single change waits, for poll delays of 1 s to 60 s. Its attributes are what
// scripts/bench publishes.
func TestIdleCostAgainstLatency(t *testing.T) {
	for _, test := range []struct {
		delay, mean time.Duration
		reads       int // in an hour
	}{
		{time.Second, 500 * time.Millisecond, 3600},
		{2 * time.Second, time.Second, 1800},
		{5 * time.Second, 2500 * time.Millisecond, 720},
		{10 * time.Second, 5 * time.Second, 360},
		{20 * time.Second, 10 * time.Second, 180},
		{time.Minute, 30 * time.Second, 60},
	} {
		t.Run(test.delay.String(), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				var written time.Time
				var waits []time.Duration
				stop := w.startHost(w.host("a", func(context.Context, Batch) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					waits = append(waits, time.Since(written))
					return nil
				}, func(f *Function, _ *Options) { f.FeedPollDelay = test.delay }))
				time.Sleep(5 * time.Minute) // the first polls come sooner
				oldReads := w.countRequests().feed
				time.Sleep(time.Hour)
				reads := w.countRequests().feed - oldReads
				if reads < test.reads*95/100 || reads > test.reads*105/100 {
					t.Errorf("%d reads in an hour, the table says %d", reads, test.reads)
				}
				const writes = 20
				for i := range writes {
					time.Sleep(4*test.delay + test.delay*time.Duration(i)/writes)
					w.mu.Lock()
					written = time.Now()
					w.mu.Unlock()
					w.write("k", fmt.Sprint("doc", i))
				}
				time.Sleep(2 * test.delay)
				stop()
				var sum, longest time.Duration
				for _, wait := range waits {
					sum, longest = sum+wait, max(longest, wait)
				}
				mean := sum / writes
				if len(waits) != writes || longest > test.delay || mean < test.mean*3/4 || mean > test.mean*5/4 {
					t.Errorf("%d changes wait %v on average and %v at most, the table says %v", len(waits), mean, longest, test.mean)
				}
				t.Attr("reads", fmt.Sprint(reads))
				t.Attr("meanSeconds", fmt.Sprint(mean.Seconds()))
				t.Attr("mostSeconds", fmt.Sprint(longest.Seconds()))
			})
		})
	}
}
