package kafka

import (
	"testing"

	"halley/handlers/handlerstest"
	"halley/handlers/stream/streamtest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// A consumer of the topic ends up with the documents of the container, whatever happens
// on the way.
func TestTopicConverges(t *testing.T) {
	t.Parallel()
	for name, function := range streamtest.Functions() {
		t.Run(name, func(t *testing.T) {
			eachBroker(t, func(t *testing.T, brokers string) {
				scenario := streamtest.Scenario(t, function, func(t testing.TB, w *triggertest.World) triggertest.Sink {
					changes := createTopic(t, brokers, nil)
					entry := handlerstest.Entry("kafka", Open, changes.set)
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) {
							return handlerstest.Start(t, entry, handlerstest.Env(w))
						},
						State: func() any { return changes.replica(t, brokers) },
					}
				})
				scenario.Seeds = 10
				triggertest.Converges(t, scenario)
			})
		})
	}
}
