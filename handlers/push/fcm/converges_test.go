package fcm

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"halley/handlers/game"
	"halley/handlers/handlerstest"
	"halley/handlers/push/fcm/fcmservice"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Whatever happens, each device that FCM does not know is removed, the others stay, and
// the champion, whom no player overtakes, is never notified.
func TestDevicesConverge(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/player",
		WriteOnce:    true,
		Seeds:        handlerstest.Seeds(),
		Document: func(random *rand.Rand, id, player string) any {
			return game.Result{ID: id, Game: "chess", Player: player, Score: float64(random.IntN(1000))}
		},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			s := newStage(t, nil)
			s.played("old 0", "champion 1000000")
			champion := s.subscribe("champion")
			s.service.Unregister(s.subscribe("old"))
			for i := range 3 {
				s.subscribe("k" + strconv.Itoa(i))
			}
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, s.env) },
				State: func() any {
					if slices.ContainsFunc(s.service.Received(), func(n fcmservice.Notification) bool { return n.Token == champion }) {
						t.Error("the champion was notified")
					}
					var players []string
					for page, err := range s.container().Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
						if err != nil {
							t.Fatal(err)
						}
						for _, item := range page.Items {
							players = append(players, string(cosmos.Property(item, "player")))
						}
					}
					slices.Sort(players)
					return players
				},
			}
		},
	})
}
