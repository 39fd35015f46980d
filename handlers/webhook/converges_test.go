package webhook

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/webhook/receiver"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// A receiver that drops ids that it knows, and older messages, ends up with the newest
// version of every document.
func TestReceiverConverges(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		Seeds:    handlerstest.Seeds(),
		Function: trigger.Function{SoftDeleteProperty: "deleted"},
		Document: func(random *rand.Rand, id, key string) any {
			return map[string]any{"id": id, "key": key, "n": random.IntN(1000)}
		},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			r := startReceiver(t)
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					return handlerstest.Start(t, entry, handlers.Env{Database: triggertest.Database})
				},
				State: func() any { return documents(t, r) },
			}
		},
	})
}

// In all-versions mode each version of a document has a message of its own, and a
// version has one message, however often it is posted.
func TestEveryVersionHasOneMessage(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		Seeds:    handlerstest.Seeds(),
		Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		Document: func(random *rand.Rand, id, key string) any {
			return map[string]any{"id": id, "key": key, "n": random.IntN(1000)}
		},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			r := startReceiver(t)
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					return handlerstest.Start(t, entry, handlers.Env{Database: triggertest.Database})
				},
				State: func() any {
					types := map[string]int{}
					for _, m := range r.Messages() {
						types[m.Type]++
					}
					return []any{types, documents(t, r)}
				},
			}
		},
	})
}

// documents returns the newest version of each document that was not deleted.
func documents(t testing.TB, r *receiver.Receiver) map[string]any {
	t.Helper()
	found := map[string]any{}
	for name, m := range r.Newest() {
		if m.Type == "document.deleted" || m.Type == "document.expired" {
			continue
		}
		var document map[string]any
		if err := json.Unmarshal(m.Data.Document, &document); err != nil {
			t.Fatal(err)
		}
		found[name] = document
	}
	return found
}
