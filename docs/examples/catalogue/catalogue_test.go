package main

import (
	"path/filepath"
	"slices"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// The story of the app: products are found by their words, under their newest name, and
// not after they were deleted, although a host dies and delivers some again.
func TestProductsAreFound(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "index")
	t.Setenv("HALLEY_SEARCH_DIRECTORY", directory)
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/category", Function: trigger.Function{SoftDeleteProperty: "deleted"}})
	host := func() *triggertest.Host {
		return w.Host(handlerstest.Under(t, catalogueApp().Handlers[0], handlerstest.Env(w)))
	}
	search := func(query string, want ...string) {
		t.Helper()
		got, err := find(t.Context(), directory, query)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q finds %q, %v, want %q", query, got, err, want)
		}
	}
	w.Put(`{"id":"sencha","category":"tea","name":"Green tea from Kyoto","price":9.5}`)
	w.Put(`{"id":"assam","category":"tea","name":"Strong black tea","price":6}`)
	w.Put(`{"id":"kettle","category":"kitchen","name":"Kettle","price":35}`)
	first := host()
	first.Drain()
	search("tea", "assam", "sencha")
	search("+name:tea +price:>7", "sencha")
	search(`"green tea"`, "sencha")

	w.Put(`{"id":"kettle","category":"kitchen","name":"Kettle for tea","price":30}`)
	w.Put(`{"id":"assam","category":"tea","name":"Strong black tea","price":6,"deleted":true}`)
	first.Kill()
	host().Drain()
	search("name:tea", "kettle", "sencha")
	search("strong")
}
