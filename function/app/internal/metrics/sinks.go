package metrics

import (
	victoria "github.com/VictoriaMetrics/metrics"

	"halley/handlers"
)

// The sinks of handlers.
var (
	sinkRequests = counter(sinkRequestsName, "Requests of handlers to their sinks by outcome.", functionLabel, outcomeLabel, sinkLabel)
	sinkRows     = counter(sinkRowsName, "Rows, documents, keys or messages that a sink has taken.", functionLabel, sinkLabel)
	sinkRetries  = counter(sinkRetriesName, "Requests to a sink that a handler repeated within a call.", functionLabel, sinkLabel)
	sinkSeconds  = histogram(sinkSecondsName, "Duration of requests to a sink.", victoria.ExponentialBuckets(0.0005, 4, 9), functionLabel, sinkLabel)
)

// observeSink counts a use of a sink. An empty one, which tells that the handler is opened, starts
// the counters of the sink at zero.
func (r registry) observeSink(function string, u handlers.SinkUse) {
	if u == (handlers.SinkUse{Sink: u.Sink}) {
		for _, outcome := range handlers.SinkOutcomes {
			r.add(sinkRequests, 0, function, string(outcome), u.Sink)
		}
	}
	r.add(sinkRows, float64(u.Rows), function, u.Sink)
	r.add(sinkRetries, float64(u.Retries), function, u.Sink)
	if u.Outcome != "" {
		r.add(sinkRequests, 1, function, string(u.Outcome), u.Sink)
		r.observe(sinkSeconds, u.Duration.Seconds(), function, u.Sink)
	}
}
