// Package handlerstest opens handlers in tests as an app opens them: from settings, with
// the defaults and the checks of these. Only tests import this package.
//
// Settings are environment variables: a test sets them with t.Setenv. The handler goes
// to the functions of package triggertest:
//
//	t.Setenv("HALLEY_GREET_GREETING", "hello")
//	handler := handlerstest.Under(t, handlers.New("greet", "greets new people", greet.Open), handlers.Env{})
//	verdict := triggertest.Deliver(t, handler, triggertest.Upsert(`{"id":"1","name":"Ada"}`))
package handlerstest

import (
	"context"
	"testing"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Under opens a handler under the settings of the environment, and closes it at the end
// of the test. If env has no Container, a handler that asks for one fails the test. The
// test also fails if the settings cannot be read or the handler does not open.
func Under(t testing.TB, entry handlers.Entry, env handlers.Env) trigger.Handler {
	t.Helper()
	handler, stop := Start(t, entry, env)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("close handler %s: %v", entry.Name, err)
		}
	})
	return handler
}

// Start is [Under] for a [triggertest.Sink]: the caller closes the handler with stop.
func Start(t testing.TB, entry handlers.Entry, env handlers.Env) (handler trigger.Handler, stop func() error) {
	t.Helper()
	settings, err := entry.Load()
	if err != nil {
		t.Fatal(err)
	}
	if env.Container == nil {
		env.Container = func(database, container string) *cosmos.Container {
			t.Errorf("handler %s asks for container %s/%s: set Env.Container, for example with handlerstest.Env", entry.Name, database, container)
			return nil
		}
	}
	handler, stop, err = entry.Open(t.Context(), env, settings)
	if err != nil {
		t.Fatal(err)
	}
	return handler, stop
}

// Entry makes the entry of a handler whose settings change when they have been read. Tests
// with settings of their own run in parallel: t.Setenv does not permit that.
func Entry[S any](name string, open func(context.Context, handlers.Env, S) (trigger.Handler, func() error, error), changes ...func(*S)) handlers.Entry {
	return handlers.New(name, "is tested", func(ctx context.Context, env handlers.Env, s S) (trigger.Handler, func() error, error) {
		for _, change := range changes {
			change(&s)
		}
		return open(ctx, env, s)
	})
}

// Env returns the environment of a handler on the account of a world. The containers
// that the handler uses besides the monitored one have to be created there:
//
//	err := w.Account().CreateContainer(triggertest.Database, "subscriptions", "/player", 1)
func Env(w *triggertest.World) handlers.Env {
	return handlers.Env{Container: w.Client().Container, Database: triggertest.Database, ContainerName: triggertest.Container}
}
