package trigger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// The sink is down for an hour while 10,000 keys have changes, which are five times as large
// as the memory of the host. No change is given up before the policy says so, the memory
// stays bounded, and when the sink is well, each key is called within RetryMax and 10 s: and
// the pause of the circuit breaker, if changes were given up.
func TestOutageOfAnHourWithManyKeys(t *testing.T) {
	const (
		keys, outage, retryMax = 10_000, time.Hour, 30 * time.Second
		readAhead              = 4 << 20
	)
	for _, test := range []struct {
		name    string
		set     func(*Function) // with a store, unless it is nil
		letters int             // at most
		pause   time.Duration
		more    time.Duration // of the outage, so that it ends at several places of a wait
	}{
		{"no store", nil, 0, 0, 0},
		{"unlimited attempts", func(f *Function) { f.MaxAttempts = -1 }, 0, 0, 25 * time.Second},
		{"an age above the outage", func(f *Function) { f.MaxAttempts, f.RetryMaxAge = -1, outage+time.Hour }, 0, 0, 50 * time.Second},
		// Ten in a row, then one for each pause, until the outage ends.
		{"ten attempts", func(*Function) {}, 10 + int(outage/time.Minute), time.Minute, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.letters == 0 {
				inLongForm(t)
			}
			inWorld(t, 1, func(t *testing.T, w *world) {
				note := strings.Repeat("a line of text. ", 2<<10/16)
				for i := range keys {
					key := fmt.Sprint("key", i)
					_, err := w.items.Create(t.Context(), cosmos.NewPartitionKey(key), map[string]any{"id": key, "player": key, "version": 1, "note": note})
					must(t, err)
					w.written[key] = 1
				}
				store := &memoryStore{}
				change := []func(*Function, *Options){func(_ *Function, o *Options) { o.ReadAhead = readAhead }}
				if test.set != nil {
					change = append(change, withStore(store, test.set))
				}
				var isHealthy atomic.Bool
				record := w.recorder("a")
				h := w.host("a", func(ctx context.Context, b Batch) error {
					if !isHealthy.Load() {
						return errors.New("sink is down")
					}
					return record(ctx, b)
				}, change...)
				stop := w.startHost(h)
				held := int64(0)
				for began := time.Now(); time.Since(began) < outage+test.more; time.Sleep(5 * time.Second) {
					held = max(held, h.Status().ReadAheadBytes)
				}
				letters := len(store.documentIDs())
				isHealthy.Store(true)
				time.Sleep(retryMax + 10*time.Second + test.pause)
				delivered := w.deliveredDocuments()
				stop()

				if letters > test.letters {
					t.Errorf("%d dead letters, at most %d are allowed", letters, test.letters)
				}
				for _, d := range store.all() {
					if d.Attempts < 10 {
						t.Errorf("%s was given up after %d attempts", d.DocumentID, d.Attempts)
					}
				}
				if held == 0 || held > readAhead+1<<20 {
					t.Errorf("%d bytes were held, the budget is %d", held, readAhead)
				}
				if delivered+len(store.documentIDs()) != keys {
					t.Errorf("%d keys were called and %d given up, of %d", delivered, len(store.documentIDs()), keys)
				}
				t.Logf("%d letters, %d bytes held, %d keys called", letters, held, delivered)
			})
		})
	}
}
