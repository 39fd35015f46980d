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
	w := triggertest.NewWorld(b, nil)
	createTarget(b, w, "/category")
	b.Setenv("HALLEY_MIGRATE_TARGET_CONTAINER_NAME", "target")
	b.Setenv("HALLEY_MIGRATE_REQUEST_UNITS", "2000000000")
	handle := handlerstest.Under(b, handlers.New("migrate", "", Open), handlerstest.Env(w))
	text := strings.Repeat("x", 900)
	handlerstest.Bench(b, handle, 100, func(n int) trigger.Change {
		return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","customer":"c%d","category":"k%d","text":%q}`, n, n%7, n%5, text), fmt.Sprint("c", n%7))
	})
}
