package remote

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// scenario is one in which the function ends up with the documents of the container.
// open starts the function, and returns its URL when the run is over.
func scenario(function trigger.Function, open func(t testing.TB) (reached setting, url func() string)) triggertest.Scenario {
	return triggertest.Scenario{
		PartitionKey: "/customer",
		Function:     function,
		Document: func(random *rand.Rand, id, customer string) any {
			return map[string]any{"id": id, "customer": customer, "total": random.IntN(1000)}
		},
		Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
			reached, url := open(t)
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					return handlerstest.Start(t, entryWith(reached), handlerstest.Env(w))
				},
				State: func() any { return lines(stateAt(t, url())) },
			}
		},
		Want: func(documents []json.RawMessage) any {
			decoded := make([]map[string]any, len(documents))
			for i, d := range documents {
				_ = json.Unmarshal(d, &decoded[i]) // from the account
			}
			return lines(decoded)
		},
		Seeds: handlerstest.ShortOrLong(1, 6),
	}
}

// lines are documents without the properties that the service sets, in order.
func lines(documents []map[string]any) []string {
	all := []string{}
	for _, d := range documents {
		var properties []string
		for name, value := range d {
			if !strings.HasPrefix(name, "_") {
				properties = append(properties, fmt.Sprint(name, "=", value))
			}
		}
		slices.Sort(properties)
		all = append(all, strings.Join(properties, " "))
	}
	slices.Sort(all)
	return all
}

func TestFunctionConverges(t *testing.T) {
	t.Parallel()
	softDeletes := trigger.Function{SoftDeleteProperty: "deleted"}
	allVersions := trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}}
	serve := func(l language) func(t testing.TB) (setting, func() string) {
		return func(t testing.TB) (setting, func() string) {
			url := l.serve(t, filepath.Join(t.TempDir(), "state"))
			return urlSetting(url), func() string { return url }
		}
	}
	command := func(t testing.TB) (setting, func() string) {
		state := filepath.Join(t.TempDir(), "state")
		return python.commandSetting(t, state), func() string { return python.serve(t, state) } // reads the same file
	}
	scenarios := map[string]triggertest.Scenario{
		"Node.js over HTTP": scenario(softDeletes, serve(node)),
		"Python as command": scenario(allVersions, command),
	}
	if handlerstest.IsLong() {
		scenarios["Python over HTTP"] = scenario(allVersions, serve(python))
	}
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			triggertest.Converges(t, s)
		})
	}
}
