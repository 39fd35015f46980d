package main

import (
	"slices"
	"testing"

	"halley/handlers/archive"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// The story of the app: orders are written, changed and deleted, a host dies before its
// checkpoint, and the archive restores the orders that are left, also twice.
func TestArchiveRestoresOrders(t *testing.T) {
	directory := t.TempDir()
	t.Setenv("HALLEY_ARCHIVE_DIRECTORY", directory)
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Function: trigger.Function{SoftDeleteProperty: "deleted"}})
	if err := w.Account().CreateContainer(triggertest.Database, "restored", "/customer", 1); err != nil {
		t.Fatal(err)
	}
	host := func() *triggertest.Host {
		return w.Host(handlerstest.Under(t, archiveApp().Handlers[0], handlerstest.Env(w)))
	}
	w.Put(`{"id":"1","customer":"ada","total":1}`)
	w.Put(`{"id":"2","customer":"ada","total":2}`)
	w.Put(`{"id":"3","customer":"bob","total":3}`)
	first := host()
	first.Drain()
	w.Put(`{"id":"1","customer":"ada","total":10}`)
	w.Put(`{"id":"2","customer":"ada","total":2,"deleted":true}`)
	first.Kill()
	host().Drain()
	restored := w.Client().Container(triggertest.Database, "restored")
	for range 2 {
		changes, written, err := reload(t.Context(), archive.Directory(directory), "archive/", restored)
		if err != nil || changes != 5 || written != 2 {
			t.Errorf("%d changes, %d orders, %v", changes, written, err)
		}
	}
	var found []string
	for page, err := range restored.Query(t.Context(), cosmos.Query{Text: "SELECT c.id, c.total FROM c"}) {
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			found = append(found, string(item))
		}
	}
	slices.Sort(found)
	if want := []string{`{"id":"1","total":10}`, `{"id":"3","total":3}`}; !slices.Equal(found, want) {
		t.Errorf("restored %q", found)
	}
}
