package handlerstest

import (
	"testing"

	"halley/trigger"
)

// Bench measures the calls of a handler, one after the other, with batches of a size, and
// reports the changes of a second that it handled. The change returns the changes, which
// are numbered from 0; the time for that is not counted.
func Bench(b *testing.B, handler trigger.Handler, size int, change func(number int) trigger.Change) {
	b.Helper()
	changes := make([]trigger.Change, size)
	for number := 0; b.Loop(); {
		b.StopTimer()
		for i := range changes {
			changes[i] = change(number)
			number++
		}
		batch := trigger.NewBatch(changes...)
		b.StartTimer()
		if err := handler(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "changes/s")
}
