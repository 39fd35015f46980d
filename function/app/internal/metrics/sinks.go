package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"halley/handlers"
)

// sinkMetrics are those of the handlers' sinks.
type sinkMetrics struct {
	requests, rows, retries *prometheus.CounterVec
	seconds                 *prometheus.HistogramVec
}

func newSinkMetrics() sinkMetrics {
	return sinkMetrics{
		requests: counter(sinkRequestsName, "Requests of handlers to their sinks by outcome.", functionLabel, sinkLabel, outcomeLabel),
		rows:     counter(sinkRowsName, "Rows, documents, keys or messages that a sink has taken.", functionLabel, sinkLabel),
		retries:  counter(sinkRetriesName, "Requests to a sink that a handler repeated within a call.", functionLabel, sinkLabel),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: sinkSecondsName, Help: "Duration of requests to a sink.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 9),
		}, []string{functionLabel, sinkLabel}),
	}
}

// observe counts a use of a sink. An empty one, which tells that the handler is opened, starts
// the counters of the sink at zero.
func (m sinkMetrics) observe(function string, u handlers.SinkUse) {
	if u == (handlers.SinkUse{Sink: u.Sink}) {
		for _, outcome := range handlers.SinkOutcomes {
			m.requests.WithLabelValues(function, u.Sink, string(outcome))
		}
	}
	m.rows.WithLabelValues(function, u.Sink).Add(float64(u.Rows))
	m.retries.WithLabelValues(function, u.Sink).Add(float64(u.Retries))
	if u.Outcome != "" {
		m.requests.WithLabelValues(function, u.Sink, string(u.Outcome)).Inc()
		m.seconds.WithLabelValues(function, u.Sink).Observe(u.Duration.Seconds())
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
