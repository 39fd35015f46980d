package mqtt

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler delivers batches of 100 results of 1 KB, of which each second one
// overtakes a player with one device.
func BenchmarkHandler(b *testing.B) {
	_, at, _ := startBroker(b, "127.0.0.1:0")
	configure(b, at)
	handle := handlerstest.Under(b, entry, handlers.Env{})
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
