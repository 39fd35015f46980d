package hosting_test

import (
	"context"
	"io"
	"slices"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/emulator"
)

// An export wraps each handler, is flushed at the end of a drain, and stops with the app.
func TestTelemetryFollowsTheApp(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 4)
	apptest.CleanEnv(t, account.Env())
	var steps []string
	export := func(_ context.Context, metrics func() []byte) (hosting.TelemetryHooks, error) {
		if len(metrics()) == 0 {
			t.Error("no metrics")
		}
		return hosting.TelemetryHooks{
			Wrap: func(function string, h trigger.Handler) trigger.Handler {
				steps = append(steps, "wrap "+function)
				return h
			},
			Flush: func(context.Context) error { steps = append(steps, "flush"); return io.ErrUnexpectedEOF },
			Stop:  func(context.Context) error { steps = append(steps, "stop"); return nil },
		}, nil
	}
	s, err := settings.Load(hosttest.Program().Source)
	if err != nil {
		t.Fatal(err)
	}
	a, err := hosting.Open(t.Context(), s, hosting.Options{Telemetry: export}, hosting.JSONLogger(io.Discard, "error"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Drain(t.Context()); err != nil {
		t.Errorf("a collector that does not answer fails the drain: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"wrap leaderboard", "flush", "stop"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
}
