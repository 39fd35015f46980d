package push

import (
	"math/rand/v2"
	"sync"
	"testing"

	"go.uber.org/zap"

	"halley/handlers/game"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// The boards do not depend on redelivery, crashes, late deliveries and failures, and no
// notification stays due. Which notifications are sent depends on the order of the
// players' results, which is not the same in all runs. In all-versions mode results are
// replaced, deleted and expire as well.
func TestBoardsConvergeAndNothingStaysDue(t *testing.T) {
	t.Run("latest versions", func(t *testing.T) { boardsConverge(t, cosmos.ModeLatestVersion) })
	t.Run("all versions", func(t *testing.T) { boardsConverge(t, cosmos.ModeAllVersions) })
}

func boardsConverge(t *testing.T, mode cosmos.Mode) {
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/player",
		Function:     trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: mode}},
		WriteOnce:    mode == cosmos.ModeLatestVersion, // otherwise versions are skipped that are a best score
		Document: func(random *rand.Rand, id, player string) any {
			return game.Result{ID: id, Game: "chess", Player: player, Score: float64(random.IntN(1000))}
		},
		Seeds: handlerstest.Seeds(),
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			w := newWorld(t, nil)
			w.subscribe("k0", "k1", "k1", "k2")
			w.takeNotifications()
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					handler, stop, err := Open(t.Context(), w.env(zap.NewNop()), w.settings)
					w.check(err)
					return handler, stop
				},
				State: func() any {
					best, err := w.client.ZRangeWithScores(t.Context(), w.settings.KeyPrefix+"{chess}:best", 0, -1).Result()
					w.check(err)
					return map[string]any{"best": best, "due": w.due()}
				},
			}
		},
	})
}

// takeNotifications reads what devices receive until the test ends.
func (w *world) takeNotifications() {
	var reading sync.WaitGroup
	w.t.Cleanup(reading.Wait)
	reading.Go(func() {
		for {
			select {
			case <-w.service.Notifications():
			case <-w.t.Context().Done():
				return
			}
		}
	})
}
