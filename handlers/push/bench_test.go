package push

import (
	"fmt"
	"strings"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler delivers batches of 100 results of 1 KB, of which each second one
// overtakes a player with one device.
func BenchmarkHandler(b *testing.B) {
	w := newWorld(b, nil)
	w.takeNotifications()
	w.subscribe("ada")
	padding := strings.Repeat("x", 900)
	handlerstest.Bench(b, w.handler, 100, func(n int) trigger.Change {
		player := []string{"ada", "bob"}[n%2]
		return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","game":"g%d","player":%q,"score":%d,"text":%q}`, n, n/2, player, n%2, padding), player)
	})
}
