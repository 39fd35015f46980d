package handlerstest

import (
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

// BeginSnapshot has ranges of a function begin another snapshot, all if none is named, as the
// command leases seek --to snapshot does. An error ends the test.
func BeginSnapshot(t testing.TB, container *cosmos.Container, source trigger.FeedSource, ranges ...string) {
	t.Helper()
	control, err := leases.NewControl(container, leases.Source(source), nil)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := control.PlanSeek(t.Context(), trigger.FromSnapshot(), ranges...)
	if err != nil {
		t.Fatal(err)
	}
	if err := control.Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
}
