package hosting

import (
	"fmt"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"

	"halley/trigger"
)

// Nothing scrapes a function app. So each timer invocation logs the metrics in one line
// of JSON, which Application Insights stores as a trace: a query reads the values with
// parse_json(message).metrics, under the names of /metrics.

// LogMetrics logs the metrics of the process. summary is that of a drain, or nil.
func (a *App) LogMetrics(log *zap.Logger, summary *trigger.Summary) {
	families, err := a.metrics.Gatherer().Gather()
	if err != nil {
		log.Warn("metrics not gathered", zap.Error(err))
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			addValues(values, family.GetName(), m)
		}
	}
	if summary != nil { // its ranges are not on this host any more
		values["halley_lag_transactions"] = float64(summary.Lag)
		values["halley_lag_seconds"] = summary.LagSeconds
		values["halley_lag_unknown_ranges"] = float64(summary.LagUnknown)
	}
	log.Info("metrics", zap.Any("metrics", values))
}

// addValues adds the values of one metric: of a histogram its count and its sum.
func addValues(values map[string]float64, name string, m *dto.Metric) {
	labels := labelText(m)
	switch {
	case m.Histogram != nil:
		values[name+"_count"+labels] = float64(m.Histogram.GetSampleCount())
		values[name+"_sum"+labels] = m.Histogram.GetSampleSum()
	case m.Counter != nil:
		values[name+labels] = m.Counter.GetValue()
	case m.Gauge != nil:
		values[name+labels] = m.Gauge.GetValue()
	}
}

// labelText shows labels as Prometheus does.
func labelText(m *dto.Metric) string {
	var pairs []string
	for _, l := range m.GetLabel() {
		pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	if pairs == nil {
		return ""
	}
	sort.Strings(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

// LagText is the lag of a drain in words.
func LagText(s trigger.Summary) string {
	switch {
	case s.LagUnknown == 0:
		return fmt.Sprintf("lag: %d transactions, %.0f s", s.Lag, s.LagSeconds)
	case s.Lag == 0:
		return fmt.Sprintf("lag: not known of %d ranges", s.LagUnknown)
	}
	return fmt.Sprintf("lag: at least %d transactions, %.0f s; not known of %d ranges", s.Lag, s.LagSeconds, s.LagUnknown)
}
