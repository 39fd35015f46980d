// Package metrics counts what the functions of a process do, for Prometheus. It knows
// no server: [Metrics.Gatherer] is served by the app, and read by other exporters.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/stall"
)

// Metrics are the metrics of one process. It is safe for concurrent use.
type Metrics struct {
	registry       *prometheus.Registry
	handlerSeconds *prometheus.HistogramVec
	batchChanges   *prometheus.HistogramVec
	changes        *prometheus.CounterVec
	deadLetters    *prometheus.CounterVec
	postponed      *prometheus.CounterVec
	leaseEvents    *prometheus.CounterVec
	flushes        *prometheus.CounterVec
	requests       requestCounter
	sinks          sinkMetrics
}

// New returns the metrics of a process. status is called at each read of the metrics,
// and returns the state of all hosts.
func New(status func() []trigger.Status) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		handlerSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: handlerSecondsName, Help: "Duration of handler calls.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
		}, []string{functionLabel, outcomeLabel}),
		batchChanges: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: batchName, Help: "Changes of a handler call.", Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		}, []string{functionLabel}),
		changes:     counter(changesName, "Changes by outcome: delivered, failed (and redelivered) or filtered.", functionLabel, outcomeLabel),
		deadLetters: counter(deadLettersName, "Changes that were given up and are in the dead letter store.", functionLabel),
		postponed:   counter(postponedName, "Changes that were put into the dead letter store until they are due.", functionLabel),
		leaseEvents: counter(leaseEventsName, "Events in the life of leases; a release has its reason.", functionLabel, eventLabel),
		flushes:     counter(flushesName, "Calls of Flush by outcome: flushed, or failed, so that changes are delivered again.", functionLabel, outcomeLabel),
		requests: requestCounter{
			attempts: counter(requestsName, "Requests to Cosmos DB, each attempt, by outcome.", operationLabel, outcomeLabel),
			units:    counter(requestUnitsName, "Request units that Cosmos DB has charged.", operationLabel),
			polls:    counter(pollsName, "Reads of the feed by outcome: changes, idle, throttled or failed.", outcomeLabel),
		},
		sinks: newSinkMetrics(),
	}
	m.registry.MustRegister(m.sinks.requests, m.sinks.rows, m.sinks.retries, m.sinks.seconds)
	m.registry.MustRegister(m.handlerSeconds, m.batchChanges, m.changes, m.deadLetters, m.postponed, m.leaseEvents, m.flushes, m.requests.attempts, m.requests.units, m.requests.polls,
		&statusCollector{status})
	return m
}

// Gatherer returns the metrics for an exporter.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// AddFunction has the counters of a function start at zero, so that the first dead letter
// is an increase that an alert sees.
func (m *Metrics) AddFunction(name string) {
	m.deadLetters.WithLabelValues(name)
	m.postponed.WithLabelValues(name)
	for _, outcome := range []string{outcomeDelivered, outcomeFailed, outcomeFiltered} {
		m.changes.WithLabelValues(name, outcome)
	}
}

// Outcomes of changes and of flushes.
const (
	outcomeDelivered = "delivered"
	outcomeFailed    = "failed"
	outcomeFiltered  = "filtered"
	outcomeFlushed   = "flushed"
)

// Observe counts an event. It is an observer of hosts.
func (m *Metrics) Observe(e trigger.Event) {
	switch e.Kind {
	case trigger.EventDelivered:
		m.countCall(e, outcomeDelivered)
	case trigger.EventDeliveryFailed:
		m.countCall(e, outcomeFailed)
	case trigger.EventFiltered:
		m.changes.WithLabelValues(e.Function, outcomeFiltered).Add(float64(e.Changes))
	case trigger.EventDeadLettered:
		m.deadLetters.WithLabelValues(e.Function).Inc()
	case trigger.EventPostponed:
		m.postponed.WithLabelValues(e.Function).Inc()
	case trigger.EventFlushed:
		outcome := outcomeFlushed
		if e.Err != nil {
			outcome = outcomeFailed
		}
		m.flushes.WithLabelValues(e.Function, outcome).Inc()
	case trigger.EventReleased:
		m.leaseEvents.WithLabelValues(e.Function, "released: "+string(e.Reason)).Inc()
	case trigger.EventAcquired, trigger.EventSplit, trigger.EventStalled, trigger.EventRecovered, trigger.EventCheckpointed:
		m.leaseEvents.WithLabelValues(e.Function, string(e.Kind)).Inc()
	}
}

// ObserveSink counts a use of a sink by the handler of a function.
func (m *Metrics) ObserveSink(function string, u handlers.SinkUse) { m.sinks.observe(function, u) }

func (m *Metrics) countCall(e trigger.Event, outcome string) {
	m.handlerSeconds.WithLabelValues(e.Function, outcome).Observe(e.Duration.Seconds())
	m.batchChanges.WithLabelValues(e.Function).Observe(float64(e.Changes))
	m.changes.WithLabelValues(e.Function, outcomeDelivered).Add(float64(e.Handled))
	if outcome == outcomeFailed {
		m.changes.WithLabelValues(e.Function, outcomeFailed).Add(float64(e.Changes - e.Handled))
	}
}

// statusCollector turns the state of hosts into metrics when they are read.
type statusCollector struct{ status func() []trigger.Status }

var (
	lagDesc           = desc(lagName, "Transactions that a range on this host is behind, if known.", functionLabel, rangeLabel)
	pendingDesc       = desc(pendingName, "Changes of a range on this host that are read and not finished.", functionLabel, rangeLabel)
	lagSecondsDesc    = desc(lagSecondsName, "Age of the oldest change of a range that is read and not finished.", functionLabel, rangeLabel)
	checkpointAgeDesc = desc(checkpointAgeName, "Time since the position of a range on this host last moved.", functionLabel, rangeLabel)
	stalledDesc       = desc(stalledName, "Time for which a range has made no progress, by cause.", functionLabel, rangeLabel, causeLabel)
	expiringDesc      = desc(expiringName, "1 if a range is so late that changes may be lost soon.", functionLabel, rangeLabel)
	waitingKeysDesc   = desc(waitingKeysName, "Keys of a range with a change that is being retried.", functionLabel, rangeLabel)
	blockedKeysDesc   = desc(blockedKeysName, "Keys of a range with a dead letter that blocks them.", functionLabel, rangeLabel)
	postponedKeysDesc = desc(postponedKeysName, "Keys of a range with a postponed change, which is delivered when it is due.", functionLabel, rangeLabel)
	leasesDesc        = desc(leasesName, "Leases of all hosts by state, as this host last listed them.", functionLabel, stateLabel)
	problemDesc       = desc(problemName, "1 if a function as a whole makes no progress on this host.", functionLabel)
	readAheadDesc     = desc(readAheadName, "Bytes of feed pages in memory.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements [prometheus.Collector].
func (c *statusCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lagDesc, pendingDesc, lagSecondsDesc, checkpointAgeDesc, stalledDesc, expiringDesc, waitingKeysDesc, blockedKeysDesc, postponedKeysDesc, leasesDesc, problemDesc, readAheadDesc} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *statusCollector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	var readAhead int64
	for _, host := range c.status() {
		readAhead += host.ReadAheadBytes
		for _, f := range host.Functions {
			gauge(problemDesc, one(f.Problem != ""), f.Name)
			gauge(leasesDesc, float64(f.Leases.Held), f.Name, "held")
			gauge(leasesDesc, float64(f.Leases.Free), f.Name, "free")
			gauge(leasesDesc, float64(f.Leases.Paused), f.Name, "paused")
			for _, r := range f.Ranges {
				collectRange(gauge, f.Name, r)
			}
		}
	}
	gauge(readAheadDesc, float64(readAhead))
}

// one is 1 for true.
func one(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

func collectRange(gauge func(*prometheus.Desc, float64, ...string), function string, r trigger.RangeStatus) {
	now := time.Now()
	longest := map[stall.Kind]float64{} // several lanes may have one cause
	for _, s := range r.Stalls {
		longest[s.Kind] = max(longest[s.Kind], now.Sub(s.Since).Seconds(), 0)
	}
	for cause, seconds := range longest {
		gauge(stalledDesc, seconds, function, r.Range, string(cause))
	}
	_, isUnreadable := longest[stall.Unreadable]
	_, isNewer := longest[stall.NewerForm]
	if isUnreadable || isNewer || r.Cooldown || r.Paused {
		return // no host, or another one, works on it
	}
	if r.BehindKnown {
		gauge(lagDesc, float64(r.Behind), function, r.Range)
		gauge(pendingDesc, float64(r.Pending), function, r.Range)
	}
	gauge(lagSecondsDesc, r.BehindSeconds, function, r.Range)
	if !r.Checkpointed.IsZero() {
		gauge(checkpointAgeDesc, max(now.Sub(r.Checkpointed).Seconds(), 0), function, r.Range)
	}
	gauge(expiringDesc, one(r.Expiring), function, r.Range)
	gauge(waitingKeysDesc, float64(r.WaitingKeys), function, r.Range)
	gauge(blockedKeysDesc, float64(r.BlockedKeys), function, r.Range)
	gauge(postponedKeysDesc, float64(r.PostponedKeys), function, r.Range)
}

// CountRequest counts an attempt of a request to Cosmos DB, for the clients of the app: see
// [cosmos.ClientOptions].
func (m *Metrics) CountRequest(req *http.Request, resp *http.Response, err error) {
	m.requests.count(req, resp, err)
}
