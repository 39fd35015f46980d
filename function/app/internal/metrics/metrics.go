// Package metrics counts what the functions of a process do, for Prometheus. It knows
// no server: [Metrics.Text] is served by the app, and read by other exporters.
package metrics

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	victoria "github.com/VictoriaMetrics/metrics"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/stall"
)

// Metrics are the metrics of one process. It is safe for concurrent use.
type Metrics struct {
	status func() []trigger.Status
	counts registry
}

var (
	handlerSeconds = histogram(handlerSecondsName, "Duration of handler calls.", victoria.ExponentialBuckets(0.001, 4, 10), functionLabel, outcomeLabel)
	batchChanges   = histogram(batchName, "Changes of a handler call.", victoria.ExponentialBuckets(1, 4, 7), functionLabel)
	changes        = counter(changesName, "Changes by outcome: delivered, failed (and redelivered) or filtered.", functionLabel, outcomeLabel)
	deadLetters    = counter(deadLettersName, "Changes that were given up and are in the dead letter store.", functionLabel)
	postponed      = counter(postponedName, "Changes that were put into the dead letter store until they are due.", functionLabel)
	leaseEvents    = counter(leaseEventsName, "Events in the life of leases; a release has its reason.", eventLabel, functionLabel)
	flushes        = counter(flushesName, "Calls of Flush by outcome: flushed, or failed, so that changes are delivered again.", functionLabel, outcomeLabel)
)

// New returns the metrics of a process. status is called at each read of the metrics,
// and returns the state of all hosts.
func New(status func() []trigger.Status) *Metrics {
	return &Metrics{status, newRegistry(handlerSeconds, batchChanges, changes, deadLetters, postponed, leaseEvents, flushes,
		requests, requestUnits, polls, sinkRequests, sinkRows, sinkRetries, sinkSeconds)}
}

// Text returns all metrics that have values, in Prometheus' text format.
func (m *Metrics) Text() []byte {
	all := readStatus(m.status())
	maps.Copy(all, m.counts)
	return all.text()
}

// Values returns the values by series, as the text names them: of a histogram its count and sum.
func (m *Metrics) Values() map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(string(m.Text())) {
		end := strings.LastIndexByte(line, ' ')
		name, _, _ := strings.Cut(line[:end], "{")
		if strings.HasPrefix(name, "#") || strings.HasSuffix(name, "_bucket") {
			continue
		}
		values[line[:end]], _ = strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
	}
	return values
}

// AddFunction has the counters of a function start at zero, so that the first dead letter
// is an increase that an alert sees.
func (m *Metrics) AddFunction(name string) {
	m.counts.add(deadLetters, 0, name)
	m.counts.add(postponed, 0, name)
	for _, outcome := range []string{outcomeDelivered, outcomeFailed, outcomeFiltered} {
		m.counts.add(changes, 0, name, outcome)
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
		m.counts.add(changes, float64(e.Changes), e.Function, outcomeFiltered)
	case trigger.EventDeadLettered:
		m.counts.add(deadLetters, 1, e.Function)
	case trigger.EventPostponed:
		m.counts.add(postponed, 1, e.Function)
	case trigger.EventFlushed:
		outcome := outcomeFlushed
		if e.Err != nil {
			outcome = outcomeFailed
		}
		m.counts.add(flushes, 1, e.Function, outcome)
	case trigger.EventReleased:
		m.counts.add(leaseEvents, 1, "released: "+string(e.Reason), e.Function)
	case trigger.EventAcquired, trigger.EventSplit, trigger.EventStalled, trigger.EventRecovered, trigger.EventCheckpointed:
		m.counts.add(leaseEvents, 1, string(e.Kind), e.Function)
	}
}

// ObserveSink counts a use of a sink by the handler of a function.
func (m *Metrics) ObserveSink(function string, u handlers.SinkUse) { m.counts.observeSink(function, u) }

func (m *Metrics) countCall(e trigger.Event, outcome string) {
	m.counts.observe(handlerSeconds, e.Duration.Seconds(), e.Function, outcome)
	m.counts.observe(batchChanges, float64(e.Changes), e.Function)
	m.counts.add(changes, float64(e.Handled), e.Function, outcomeDelivered)
	if outcome == outcomeFailed {
		m.counts.add(changes, float64(e.Changes-e.Handled), e.Function, outcomeFailed)
	}
}

// The state of hosts.
var (
	lagGauge           = gauge(lagName, "Transactions that a range on this host is behind, if known.", functionLabel, rangeLabel)
	pendingGauge       = gauge(pendingName, "Changes of a range on this host that are read and not finished.", functionLabel, rangeLabel)
	lagSecondsGauge    = gauge(lagSecondsName, "Age of the oldest change of a range that is read and not finished.", functionLabel, rangeLabel)
	checkpointAgeGauge = gauge(checkpointAgeName, "Time since the position of a range on this host last moved.", functionLabel, rangeLabel)
	stalledGauge       = gauge(stalledName, "Time for which a range has made no progress, by cause.", causeLabel, functionLabel, rangeLabel)
	expiringGauge      = gauge(expiringName, "1 if a range is so late that changes may be lost soon.", functionLabel, rangeLabel)
	waitingKeysGauge   = gauge(waitingKeysName, "Keys of a range with a change that is being retried.", functionLabel, rangeLabel)
	blockedKeysGauge   = gauge(blockedKeysName, "Keys of a range with a dead letter that blocks them.", functionLabel, rangeLabel)
	postponedKeysGauge = gauge(postponedKeysName, "Keys of a range with a postponed change, which is delivered when it is due.", functionLabel, rangeLabel)
	leasesGauge        = gauge(leasesName, "Leases of all hosts by state, as this host last listed them.", functionLabel, stateLabel)
	problemGauge       = gauge(problemName, "1 if a function as a whole makes no progress on this host.", functionLabel)
	readAheadGauge     = gauge(readAheadName, "Bytes of feed pages in memory.")
)

// readStatus returns the state of hosts as gauges. Each read has new ones, so that a range that
// has left the host leaves the metrics, too.
func readStatus(hosts []trigger.Status) registry {
	gauges := newRegistry(lagGauge, pendingGauge, lagSecondsGauge, checkpointAgeGauge, stalledGauge, expiringGauge,
		waitingKeysGauge, blockedKeysGauge, postponedKeysGauge, leasesGauge, problemGauge, readAheadGauge)
	var readAhead int64
	for _, host := range hosts {
		readAhead += host.ReadAheadBytes
		for _, f := range host.Functions {
			gauges.set(problemGauge, one(f.Problem != ""), f.Name)
			gauges.set(leasesGauge, float64(f.Leases.Held), f.Name, "held")
			gauges.set(leasesGauge, float64(f.Leases.Free), f.Name, "free")
			gauges.set(leasesGauge, float64(f.Leases.Paused), f.Name, "paused")
			for _, r := range f.Ranges {
				setRange(gauges, f.Name, r)
			}
		}
	}
	gauges.set(readAheadGauge, float64(readAhead))
	return gauges
}

// one is 1 for true.
func one(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

func setRange(gauges registry, function string, r trigger.RangeStatus) {
	now := time.Now()
	longest := map[stall.Kind]float64{} // several lanes may have one cause
	for _, s := range r.Stalls {
		longest[s.Kind] = max(longest[s.Kind], now.Sub(s.Since).Seconds(), 0)
	}
	for cause, seconds := range longest {
		gauges.set(stalledGauge, seconds, string(cause), function, r.Range)
	}
	_, isUnreadable := longest[stall.Unreadable]
	_, isNewer := longest[stall.NewerForm]
	if isUnreadable || isNewer || r.Cooldown || r.Paused {
		return // no host, or another one, works on it
	}
	if r.BehindKnown {
		gauges.set(lagGauge, float64(r.Behind), function, r.Range)
		gauges.set(pendingGauge, float64(r.Pending), function, r.Range)
	}
	gauges.set(lagSecondsGauge, r.BehindSeconds, function, r.Range)
	if !r.Checkpointed.IsZero() {
		gauges.set(checkpointAgeGauge, max(now.Sub(r.Checkpointed).Seconds(), 0), function, r.Range)
	}
	gauges.set(expiringGauge, one(r.Expiring), function, r.Range)
	gauges.set(waitingKeysGauge, float64(r.WaitingKeys), function, r.Range)
	gauges.set(blockedKeysGauge, float64(r.BlockedKeys), function, r.Range)
	gauges.set(postponedKeysGauge, float64(r.PostponedKeys), function, r.Range)
}

// CountRequest counts an attempt of a request to Cosmos DB, for the clients of the app: see
// [cosmos.ClientOptions].
func (m *Metrics) CountRequest(req *http.Request, resp *http.Response, err error) {
	m.counts.countRequest(req, resp, err)
}
