package migrate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// order is a document of the source, partitioned by customer. The target is partitioned
// by category, which changes from version to version.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Category string `json:"category"`
	Total    int    `json:"total"`
	Gone     bool   `json:"gone,omitempty"`
}

// withTax is a transform: it renames a property and leaves out one category.
func withTax(document json.RawMessage) (json.RawMessage, error) {
	var o order
	if err := json.Unmarshal(document, &o); err != nil {
		return nil, err
	}
	if o.Category == "c3" {
		return nil, nil
	}
	return json.Marshal(map[string]any{"id": o.ID, "by": map[string]string{"category": o.Category}, "customer": o.Customer, "gross": o.Total * 12 / 10, "gone": o.Gone})
}

func randomOrder(random *rand.Rand, id, customer string) any {
	return order{ID: id, Customer: customer, Category: fmt.Sprint("c", random.IntN(4)), Total: random.IntN(100) * 10}
}

// The target ends up the same whatever happens on the way, although documents move
// between partition keys and are left out.
func TestTargetConverges(t *testing.T) {
	for name, f := range map[string]trigger.Function{
		"latest version": {},
		"soft delete":    {SoftDeleteProperty: "gone"},
		"all versions":   {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		"two lanes":      {BatchPolicy: trigger.BatchPolicy{Lanes: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			triggertest.Converges(t, triggertest.Scenario{
				Seeds:        handlerstest.Seeds(),
				PartitionKey: "/customer",
				Function:     f,
				Document:     randomOrder,
				Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
					createTarget(t, w, "/by/category")
					t.Setenv("HALLEY_MIGRATE_TARGET_CONTAINER_NAME", "target")
					t.Setenv("HALLEY_MIGRATE_REQUEST_UNITS", "1000000")
					entry := handlers.New("migrate", "", Transform(withTax).Open)
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlerstest.Env(w)) },
						State: func() any { return liveCopies(t, w) },
					}
				},
				Want: func(documents []json.RawMessage) any {
					want := []string{}
					for _, d := range documents {
						transformed, err := withTax(d)
						if err != nil {
							t.Fatal(err)
						}
						if transformed != nil {
							want = append(want, canonicalText(t, transformed))
						}
					}
					slices.Sort(want)
					return want
				},
			})
		})
	}
}

// createTarget creates the target with several ranges and with time to live.
func createTarget(t testing.TB, w *triggertest.World, keyPath string) *cosmos.Container {
	t.Helper()
	ttl := -1
	if err := w.Client().CreateContainer(t.Context(), triggertest.Database, cosmos.ContainerDefinition{
		ID: "target", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{keyPath}}, DefaultTTL: &ttl, Throughput: 30_000,
	}); err != nil {
		t.Fatal(err)
	}
	return w.Client().Container(triggertest.Database, "target")
}

// liveCopies returns the content of the copies in the target, without soft-deleted ones.
// Each has a guard.
func liveCopies(t testing.TB, w *triggertest.World) []string {
	t.Helper()
	found := []string{}
	for _, d := range allDocuments(t, w.Client().Container(triggertest.Database, "target")) {
		g := parseGuard(cosmos.Property(d, "_halley"))
		switch {
		case g == nil:
			t.Errorf("copy without a guard: %s", d)
		case !g.Deleted && string(cosmos.Property(d, "gone")) != "true":
			found = append(found, canonicalText(t, d))
		}
	}
	slices.Sort(found)
	return found
}

func allDocuments(t testing.TB, c *cosmos.Container) (documents []json.RawMessage) {
	t.Helper()
	for page, err := range c.Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, page.Items...)
	}
	return documents
}

func canonicalText(t testing.TB, document json.RawMessage) string {
	t.Helper()
	content, err := New(nil, nil, nil).contentOf(document)
	if err != nil {
		t.Fatal(err)
	}
	delete(content, "ttl")
	text, err := canonical(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
