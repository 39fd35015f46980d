package app

import (
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/standin/azurestorage"
)

// testApp has the handlers that Halley comes with, of which documents speak, and all
// stores.
func testApp() Options {
	return Options{Name: "halley", Handlers: apptest.Handlers(), DeadLetterStores: azurestorage.DeadLetterStores()}.withDefaults()
}

// loadTestApp reads the settings of testApp from an environment.
func loadTestApp(t *testing.T, env map[string]string) (*settings.Settings, error) {
	t.Helper()
	apptest.CleanEnv(t, env)
	return settings.Load(testApp().source())
}
