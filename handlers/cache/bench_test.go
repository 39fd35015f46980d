package cache

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler delivers batches of 100 products of 1 KB, each
// document for the first time; then batches that have taken effect before.
func BenchmarkHandler(b *testing.B) {
	const items = 100
	configure(b)
	b.Setenv("HALLEY_CACHE_PROPERTIES", "")
	handler := handlerstest.Under(b, entry(), handlers.Env{})
	padding, number := strings.Repeat("x", 850), 0
	next := func() trigger.Batch {
		var changes []trigger.Change
		for range items {
			number++
			text := fmt.Sprintf(`{"id":"%d","key":"c%d","name":"name%d","price":%d,"text":%q,"_etag":"\"%d\""}`, number, number%1000, number%20, number%100, padding, number)
			c := triggertest.Upsert(text, fmt.Sprint("c", number%1000))
			c.LSN = int64(number)
			changes = append(changes, c)
		}
		return trigger.NewBatch(changes...)
	}
	repeated := next()
	for name, batch := range map[string]func() trigger.Batch{"new": next, "repeated": func() trigger.Batch { return repeated }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				delivered := batch()
				b.StartTimer()
				if err := handler(context.Background(), delivered); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(items*b.N)/b.Elapsed().Seconds(), "changes/s")
		})
	}
}
