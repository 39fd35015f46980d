package streamtest

import (
	"fmt"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// Bench measures a handler with batches of 100 changes of about 1 KB, of 100 partition
// keys and of one.
func Bench(b *testing.B, handle trigger.Handler) {
	const size = 100
	for _, keys := range []int{size, 1} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			fill := strings.Repeat("x", 900)
			batches := 0
			for b.Loop() {
				changes := make([]trigger.Change, size)
				for i := range changes {
					key := fmt.Sprint("customer", i%keys)
					changes[i] = triggertest.Upsert(fmt.Sprintf(`{"id":"%d","customer":%q,"fill":%q,"_etag":"%d-%d-%d"}`, i, key, fill, keys, batches, i), key)
				}
				if err := handle(b.Context(), trigger.NewBatch(changes...)); err != nil {
					b.Fatal(err)
				}
				batches++
			}
			b.ReportMetric(float64(batches*size)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}
