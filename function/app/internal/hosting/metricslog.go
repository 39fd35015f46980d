package hosting

import (
	"fmt"

	"go.uber.org/zap"

	"halley/trigger"
)

// Nothing scrapes a function app. So each timer invocation logs the metrics in one line
// of JSON, which Application Insights stores as a trace: a query reads the values with
// parse_json(message).metrics, under the names of /metrics.

// LogMetrics logs the metrics of the process. summary is that of a drain, or nil.
func (a *App) LogMetrics(log *zap.Logger, summary *trigger.Summary) {
	values := a.metrics.Values()
	if summary != nil { // its ranges are not on this host any more
		values["halley_lag_transactions"] = float64(summary.Lag)
		values["halley_lag_seconds"] = summary.LagSeconds
		values["halley_lag_unknown_ranges"] = float64(summary.LagUnknown)
	}
	log.Info("metrics", zap.Any("metrics", values))
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
