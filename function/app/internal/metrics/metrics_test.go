package metrics

import (
	"fmt"
	"testing"

	"halley/trigger"
)

// A call that fails on some of its changes has handled the others.
func TestPartlyFailedCallsCountBothOutcomes(t *testing.T) {
	m := New(func() []trigger.Status { return nil })
	m.AddFunction("orders")
	for _, e := range []trigger.Event{
		{Kind: trigger.EventDelivered, Changes: 3, Handled: 3},
		{Kind: trigger.EventDeliveryFailed, Changes: 9, Handled: 4},
		{Kind: trigger.EventDeliveryFailed, Changes: 5},
	} {
		e.Function = "orders"
		m.Observe(e)
	}
	values := m.Values()
	for outcome, want := range map[string]float64{outcomeDelivered: 7, outcomeFailed: 10, outcomeFiltered: 0} {
		if got, ok := values[fmt.Sprintf("halley_changes_total{function=\"orders\",outcome=%q}", outcome)]; got != want || !ok {
			t.Errorf("%v changes %s, want %v", got, outcome, want)
		}
	}
}
