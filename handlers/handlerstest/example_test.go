package handlerstest_test

import (
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger/triggertest"
)

// The handler is opened from settings, as it is deployed.
func ExampleUnder() {
	var t *testing.T // of the test function
	t.Setenv("HALLEY_COPY_CONTAINER_NAME", "copies")
	w := triggertest.NewWorld(t, nil)
	if err := w.Account().CreateContainer(triggertest.Database, "copies", "/id", 1); err != nil {
		t.Fatal(err)
	}
	handler := handlerstest.Under(t, handlers.New("copy", "copies documents to another container", open), handlerstest.Env(w))
	if v := triggertest.Deliver(t, handler, triggertest.Upsert(`{"id": "1"}`, "1")); len(v.Failed) > 0 {
		t.Error(v)
	}
}
