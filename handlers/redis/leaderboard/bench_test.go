package leaderboard

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// BenchmarkHandler delivers batches of 100 results of 1 KB, of ten games, to the real
// Redis, or to the embedded one if there is none.
func BenchmarkHandler(b *testing.B) {
	url := os.Getenv("HALLEY_TEST_REDIS_URL")
	if url == "" {
		url = "redis://" + miniredis.RunT(b).Addr()
	}
	b.Setenv("HALLEY_LEADERBOARD_REDIS_URL", url)
	b.Setenv("HALLEY_LEADERBOARD_KEY_PREFIX", boards(b, handlers.URL(url)).prefix)
	handle := handlerstest.Under(b, handlers.New("leaderboard", "", Open), handlers.Env{})
	padding := strings.Repeat("x", 900)
	handlerstest.Bench(b, handle, 100, func(n int) trigger.Change {
		player := fmt.Sprint("player", n%10_000)
		return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","game":"game%d","player":%q,"score":%d,"padding":%q}`, n, n%10, player, n, padding), player)
	})
}
