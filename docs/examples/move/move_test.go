package main

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

func TestOrdersGetACategory(t *testing.T) {
	for document, want := range map[string]string{
		`{"id":"1","customer":"ada","category":"books","total":1e2}`: `{"category":"books","customer":"ada","id":"1","total":1e2}`,
		`{"id":"1","customer":"ada"}`:                                `{"category":"other","customer":"ada","id":"1"}`,
	} {
		if got, err := byCategory(json.RawMessage(document)); err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v", document, got, err)
		}
	}
	if _, err := byCategory(json.RawMessage(`[]`)); err == nil {
		t.Error("a list is an order")
	}
}

// Whatever happens on the way, the target ends up equal to the source, by the complete
// comparison of the migration.
func TestTargetIsEqualAfterTrouble(t *testing.T) {
	t.Setenv("HALLEY_MIGRATE_TARGET_CONTAINER_NAME", target)
	t.Setenv("HALLEY_MIGRATE_REQUEST_UNITS", "1000000")
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/customer",
		Seeds:        8,
		Document: func(random *rand.Rand, id, customer string) any {
			order := map[string]any{"id": id, "customer": customer, "total": random.IntN(100)}
			if random.IntN(3) > 0 {
				order["category"] = []string{"books", "music"}[random.IntN(2)]
			}
			return order
		},
		Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
			if err := w.Account().CreateContainer(triggertest.Database, target, "/category", 2); err != nil {
				t.Fatal(err)
			}
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					return handlerstest.Start(t, moveApp().Handlers[0], handlerstest.Env(w))
				},
				State: func() any { return copies(t, w.Client().Container(triggertest.Database, target)) },
			}
		},
	})
}

// copies returns the documents of the target by their ids, without what the migration and
// the service add.
func copies(t testing.TB, in *cosmos.Container) map[string]any {
	t.Helper()
	found := map[string]any{}
	for page, err := range in.Query(t.Context(), cosmos.Query{Text: "SELECT c.id, c.customer, c.category, c.total FROM c WHERE NOT IS_DEFINED(c._halley.deleted)"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			var order map[string]any
			if err := json.Unmarshal(item, &order); err != nil {
				t.Fatal(err)
			}
			found[order["id"].(string)+" "+order["customer"].(string)] = order
		}
	}
	return found
}
