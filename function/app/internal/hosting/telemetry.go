package hosting

import (
	"context"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/text"
	"halley/trigger"
)

// Telemetry starts the export of the signals of a process. Package
// halley/function/app/otel has one for OpenTelemetry. metrics returns the text of /metrics.
type Telemetry func(ctx context.Context, metrics func() []byte) (TelemetryHooks, error)

// TelemetryHooks are what an export does during a run. Each may be nil.
type TelemetryHooks struct {
	// Wrap returns a handler that is called in place of the function's own.
	Wrap func(function string, h trigger.Handler) trigger.Handler
	// Flush sends what has not been sent yet. It is called at the end of each drain: the
	// platform may freeze the process until the next one.
	Flush func(context.Context) error
	// Stop flushes and ends the export.
	Stop func(context.Context) error
}

// telemetryTime bounds a flush, and the end of the export.
const telemetryTime = 5 * time.Second

// start starts the export, if the app has one.
func (t Telemetry) start(ctx context.Context, metrics func() []byte) (TelemetryHooks, error) {
	if t == nil {
		return TelemetryHooks{}, nil
	}
	return t(ctx, metrics)
}

// sendTelemetry flushes or stops the export. A collector that does not answer is no
// reason to fail.
func sendTelemetry(ctx context.Context, log *zap.Logger, step string, send func(context.Context) error) {
	if send == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), telemetryTime)
	defer cancel()
	if err := send(ctx); err != nil {
		log.Warn("telemetry not exported", zap.String("step", step), zap.String("error", text.OfError(err)))
	}
}
