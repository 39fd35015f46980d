package metrics

import (
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// The counters of a sink start at zero when its handler is opened, and add up what it tells.
func TestSinksAreCounted(t *testing.T) {
	m := New(func() []trigger.Status { return nil })
	env := handlers.Env{Measure: func(u handlers.SinkUse) { m.ObserveSink("orders", u) }}
	meter := env.Meter("redis")
	require := func(want string) {
		t.Helper()
		sinks := registry{}
		for _, f := range []*family{sinkRequests, sinkRetries, sinkRows} {
			sinks[f] = m.counts[f]
		}
		if got := string(sinks.text()); got != want {
			t.Errorf("metrics\n%s", got)
		}
	}
	zero := `# HELP halley_sink_requests_total Requests of handlers to their sinks by outcome.
# TYPE halley_sink_requests_total counter
halley_sink_requests_total{function="orders",outcome="conflict",sink="redis"} 0
halley_sink_requests_total{function="orders",outcome="error",sink="redis"} 0
halley_sink_requests_total{function="orders",outcome="ok",sink="redis"} 0
halley_sink_requests_total{function="orders",outcome="throttled",sink="redis"} 0
halley_sink_requests_total{function="orders",outcome="timeout",sink="redis"} 0
# HELP halley_sink_retries_total Requests to a sink that a handler repeated within a call.
# TYPE halley_sink_retries_total counter
halley_sink_retries_total{function="orders",sink="redis"} 0
# HELP halley_sink_rows_total Rows, documents, keys or messages that a sink has taken.
# TYPE halley_sink_rows_total counter
halley_sink_rows_total{function="orders",sink="redis"} 0
`
	require(zero)
	meter.Ended(time.Now(), nil)
	meter.Wrote(7)
	meter.Retried()
	require(strings.NewReplacer(`"ok",sink="redis"} 0`, `"ok",sink="redis"} 1`, `retries_total{function="orders",sink="redis"} 0`, `retries_total{function="orders",sink="redis"} 1`,
		`rows_total{function="orders",sink="redis"} 0`, `rows_total{function="orders",sink="redis"} 7`).Replace(zero))
	if names := m.counts[sinkSeconds].ListMetricNames(); len(names) != 1 {
		t.Errorf("histograms %q", names)
	}
}
