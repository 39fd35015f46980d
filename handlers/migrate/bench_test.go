package migrate

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler copies new documents of 1 KB to a container of the embedded account,
// 100 in a call.
func BenchmarkHandler(b *testing.B) {
	const batch = 100
	w := triggertest.NewWorld(b, nil)
	createTarget(b, w, "/category")
	b.Setenv("HALLEY_MIGRATE_TARGET_CONTAINER_NAME", "target")
	b.Setenv("HALLEY_MIGRATE_REQUEST_UNITS", "2000000000")
	handle := handlerstest.Under(b, handlers.New("migrate", "", Open), handlerstest.Env(w))
	text := strings.Repeat("x", 900)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		changes := make([]trigger.Change, batch)
		for i := range changes {
			changes[i] = triggertest.Upsert(fmt.Sprintf(`{"id":"%d-%d","customer":"c%d","category":"k%d","text":%q}`, n, i, i%7, i%5, text), fmt.Sprint("c", i%7))
		}
		b.StartTimer()
		if err := handle(b.Context(), trigger.NewBatch(changes...)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "changes/s")
}
