package push

import (
	"fmt"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler delivers batches of 100 results of 1 KB, of which each second one
// overtakes a player with one device.
func BenchmarkHandler(b *testing.B) {
	w := newWorld(b, nil)
	w.takeNotifications()
	w.subscribe("ada")
	handle := w.handler
	padding := strings.Repeat("x", 900)
	changes := func(batch int) (results []trigger.Change) {
		for i := range 50 {
			for score, player := range []string{"ada", "bob"} {
				results = append(results, triggertest.Upsert(fmt.Sprintf(`{"id":"%d","game":"g%d-%d","player":%q,"score":%d,"text":%q}`, i, batch, i, player, score, padding), player))
			}
		}
		return results
	}
	n := 0
	for b.Loop() {
		if err := handle(b.Context(), trigger.NewBatch(changes(n)...)); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(100*b.N)/b.Elapsed().Seconds(), "changes/s")
}
