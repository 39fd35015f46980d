package app

import (
	"context"
	"time"

	"halley/function/app/internal/settings"
	"halley/trigger"
)

// Open opens the app in a program that has a main function already: it reads the
// settings and opens the handlers, without a request to an account. Errors name the
// setting to change. The caller calls Run or Drain, which may be repeated, and then
// Close.
func Open(ctx context.Context, o Options) (*App, error) {
	o = o.withDefaults()
	if err := o.source().Validate(); err != nil {
		return nil, err
	}
	s, err := settings.Load(o.source())
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = logger(o.Stdout, s.App)
	}
	return openApp(ctx, s, appOptions{grace: time.Duration(s.App.StopGrace), telemetry: o.Telemetry}, log)
}

// Status describes the hosts of the app: one for all functions that have their leases
// in the same container and the same intervals.
func (a *App) Status() []trigger.Status {
	all := make([]trigger.Status, len(a.hosts))
	for i, h := range a.hosts {
		all[i] = h.Status()
	}
	return all
}
