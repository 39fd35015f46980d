// Package apptest has what tests of several rooms need: environments and handlers.
package apptest

import (
	"maps"
	"os"
	"strings"
	"testing"

	"halley/function/app/internal/standin/leaderboard"
	"halley/function/app/internal/standin/push"
	"halley/handlers"
)

// CleanEnv removes every setting that the test's own environment may hold, and
// sets env.
func CleanEnv(t testing.TB, env map[string]string) {
	t.Helper()
	for _, name := range settingsOfProcess() {
		t.Setenv(name, "") // restores it afterwards
		os.Unsetenv(name)
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
}

// CleanProcess removes every setting of the environment for good. With it in TestMain, tests
// that set none run in parallel.
func CleanProcess() {
	for _, name := range settingsOfProcess() {
		os.Unsetenv(name)
	}
}

// settingsOfProcess are the names of the variables that may be settings.
func settingsOfProcess() (names []string) {
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		upper := strings.ToUpper(name)
		if strings.HasPrefix(upper, "HALLEY_") || strings.HasPrefix(upper, "COSMOSDB") {
			names = append(names, name)
		}
	}
	return names
}

// Complete is the least environment that works, and pairs of names and values.
func Complete(pairs ...string) map[string]string {
	env := map[string]string{
		"HALLEY_DATABASE_NAME":          "games",
		"HALLEY_CONTAINER_NAME":         "results",
		"HALLEY_LEADERBOARD_REDIS_URL":  "redis://user:hunter2@127.0.0.1:6379/0",
		"HALLEY_PUSH_VAPID_PRIVATE_KEY": "very-secret",
	}
	maps.Copy(env, Pairs(pairs...))
	return env
}

// Pairs are settings by name, of names and values in turn.
func Pairs(pairs ...string) map[string]string {
	found := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		found[pairs[i]] = pairs[i+1]
	}
	return found
}

// Handlers are the handlers that Halley comes with, of which documents speak.
func Handlers() []handlers.Entry {
	return []handlers.Entry{
		handlers.New("leaderboard", "keeps the best score per player and game in a Redis sorted set", leaderboard.Open),
		handlers.New("push", "sends a Web Push notification to a player who is overtaken", push.Open),
	}
}
