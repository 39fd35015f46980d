package leaderboard

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/handlerstest"
	"halley/handlers/redis/redisurl"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Boards and latest results do not depend on redelivery, crashes, late deliveries and
// failures. In all-versions mode results are replaced, deleted and expire as well.
func TestBoardsConverge(t *testing.T) {
	t.Run("latest versions", func(t *testing.T) { boardsConverge(t, cosmos.ModeLatestVersion) })
	t.Run("all versions", func(t *testing.T) { boardsConverge(t, cosmos.ModeAllVersions) })
}

func boardsConverge(t *testing.T, mode cosmos.Mode) {
	triggertest.Converges(t, triggertest.Scenario{
		Seeds:        handlerstest.Seeds(),
		PartitionKey: "/player",
		Function:     trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: mode}},
		WriteOnce:    mode == cosmos.ModeLatestVersion, // otherwise versions are skipped that are a best score
		Document: func(random *rand.Rand, id, player string) any {
			return game.Result{ID: id, Game: fmt.Sprint("game", random.IntN(2)), Player: player, Score: float64(random.IntN(100))}
		},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			url := "redis://" + miniredis.RunT(t).Addr()
			t.Setenv("HALLEY_LEADERBOARD_REDIS_URL", url)
			entry := handlers.New("leaderboard", "", Open)
			client, err := redisurl.Client(handlers.URL(url))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			})
			b := New(client, "leaderboard:")
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlers.Env{}) },
				State: func() any { return standings(t, b) },
			}
		},
	})
}

// standings returns the boards of both games, and the latest result of each player.
func standings(t testing.TB, b *Boards) (lines []string) {
	t.Helper()
	for _, name := range []string{"game0", "game1"} {
		all, err := b.Top(t.Context(), name, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			latest, found, err := b.Latest(t.Context(), name, s.Player)
			if err != nil || !found {
				t.Fatalf("latest result of %s in %s: found %v, %v", s.Player, name, found, err)
			}
			lines = append(lines, fmt.Sprintf("%s: %s %v, latest %v", name, s.Player, s.Score, latest))
		}
	}
	return lines
}
