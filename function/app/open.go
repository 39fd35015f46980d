package app

import (
	"context"
	"time"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/trigger"
)

// App holds the enabled functions and their hosts. Functions share a host if
// they keep their leases in the same container and want the same options.
type App struct{ hosted *hosting.App }

// Open opens the app in a program that has a main function already: it reads the
// settings and opens the handlers, without a request to an account. Errors name the
// setting to change. The caller calls Run or Drain, which may be repeated, and then
// Close.
func Open(ctx context.Context, o Options) (*App, error) {
	p := o.program()
	if err := p.Source.Validate(); err != nil {
		return nil, err
	}
	s, err := settings.Load(p.Source)
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = hosting.LoggerTo(p.Stdout, s.App)
	}
	hosted, err := hosting.Open(ctx, s, hosting.Options{Grace: time.Duration(s.App.StopGrace), Telemetry: p.Telemetry}, log)
	if err != nil {
		return nil, err
	}
	return &App{hosted}, nil
}

// Run runs all hosts until ctx ends and they have stopped. A host whose functions all
// fail is tried again while another host runs; Run returns an error when all fail.
func (a *App) Run(ctx context.Context) error { return a.hosted.Run(ctx) }

// Drain drains all hosts. If one fails, the summary still counts the others.
func (a *App) Drain(ctx context.Context) (trigger.Summary, error) { return a.hosted.Drain(ctx) }

// Dispatch returns the ranges of all functions that a message is to be sent for, see
// [trigger.Host.Dispatch].
func (a *App) Dispatch(ctx context.Context) ([]trigger.RangeTask, trigger.Summary, error) {
	return a.hosted.Dispatch(ctx)
}

// DrainRange drains one range, see [trigger.Host.DrainRange]. It may be called by many
// goroutines at once. [trigger.ErrNoFunction] means that the function is not enabled here.
func (a *App) DrainRange(ctx context.Context, task trigger.RangeTask) (trigger.Summary, error) {
	return a.hosted.DrainRange(ctx, task)
}

// Status describes the hosts of the app: one for all functions that have their leases
// in the same container and the same intervals.
func (a *App) Status() []trigger.Status { return a.hosted.Status() }

// Close closes the resources of the handlers. Call it when the hosts have stopped.
func (a *App) Close() error { return a.hosted.Close() }

// Telemetry starts the export of the signals of a process. Package
// halley/function/app/otel has one for OpenTelemetry. metrics returns the text of /metrics.
type Telemetry = hosting.Telemetry

// TelemetryHooks are what an export does during a run. Each may be nil.
type TelemetryHooks = hosting.TelemetryHooks
