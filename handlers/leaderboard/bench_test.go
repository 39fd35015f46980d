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
	const items = 100
	url := os.Getenv("HALLEY_TEST_REDIS_URL")
	if url == "" {
		url = "redis://" + miniredis.RunT(b).Addr()
	}
	b.Setenv("HALLEY_LEADERBOARD_REDIS_URL", url)
	b.Setenv("HALLEY_LEADERBOARD_KEY_PREFIX", boards(b, handlers.URL(url)).prefix)
	handle := handlerstest.Under(b, handlers.New("leaderboard", "", Open), handlers.Env{})
	padding, number := strings.Repeat("x", 900), 0
	for b.Loop() {
		b.StopTimer()
		var changes []trigger.Change
		for range items {
			number++
			player := fmt.Sprint("player", number%10_000)
			changes = append(changes, triggertest.Upsert(fmt.Sprintf(`{"id":"%d","game":"game%d","player":%q,"score":%d,"padding":%q}`, number, number%10, player, number, padding), player))
		}
		b.StartTimer()
		if err := handle(b.Context(), trigger.NewBatch(changes...)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(items*b.N)/b.Elapsed().Seconds(), "changes/s")
}
