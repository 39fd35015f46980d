package remote

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler calls functions that keep the state of each document.
func BenchmarkHandler(b *testing.B) {
	const size = 100
	fill := strings.Repeat("x", 900)
	changes := make([]trigger.Change, size)
	for i := range changes {
		changes[i] = triggertest.Upsert(fmt.Sprintf(`{"id":"%d","customer":"c%d","fill":%q}`, i, i%10, fill), fmt.Sprint("c", i%10))
	}
	run := func(b *testing.B) {
		handle := opened(b)
		calls := 0
		for b.Loop() {
			if err := handle(b.Context(), trigger.NewBatch(changes...)); err != nil {
				b.Fatal(err)
			}
			calls++
		}
		b.ReportMetric(float64(calls*size)/b.Elapsed().Seconds(), "changes/s")
	}
	for _, l := range languages {
		b.Run(l.name+" over HTTP", func(b *testing.B) {
			l.serve(b, filepath.Join(b.TempDir(), "state"))
			run(b)
		})
		b.Run(l.name+" as command", func(b *testing.B) {
			l.setCommand(b, filepath.Join(b.TempDir(), "state"))
			run(b)
		})
	}
}
