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
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != changesName {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == outcomeLabel {
					got[label.GetValue()] = metric.GetCounter().GetValue()
				}
			}
		}
	}
	if text := fmt.Sprint(got); text != "map[delivered:7 failed:10 filtered:0]" {
		t.Errorf("changes %s", text)
	}
}
