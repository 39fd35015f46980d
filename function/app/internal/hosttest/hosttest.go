// Package hosttest opens apps in tests of the rooms that stand on hosting.
package hosttest

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/standin/azurestorage"
)

// Program has the handlers that Halley comes with, of which documents speak, and all
// stores.
func Program() *hosting.Program {
	p := &hosting.Program{Name: "halley", Source: settings.Source{Handlers: apptest.Handlers(), Stores: azurestorage.DeadLetterStores()}}
	p.SetDefaults()
	return p
}

// Load reads the settings of Program from an environment.
func Load(t *testing.T, env map[string]string) (*settings.Settings, error) {
	t.Helper()
	apptest.CleanEnv(t, env)
	return settings.Load(Program().Source)
}

// Open opens the app that env sets up, until the test ends.
func Open(t *testing.T, env map[string]string) *hosting.App {
	t.Helper()
	return OpenWith(t, env, hosting.Options{Grace: time.Second})
}

// OpenWith opens the app with other options.
func OpenWith(t *testing.T, env map[string]string, options hosting.Options) *hosting.App {
	t.Helper()
	s, err := Load(t, env)
	if err != nil {
		t.Fatal(err)
	}
	a, err := hosting.Open(t.Context(), s, options, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}
