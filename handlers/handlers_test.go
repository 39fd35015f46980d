package handlers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/trigger"
)

// limits are settings of a handler with each type that this package has.
type limits struct {
	Key     Secret   `desc:"key"`
	MaxWait Interval `split_words:"true" default:"10s" desc:"wait"`
	Most    Count    `default:"3" desc:"most"`
	On      Toggle   `desc:"on"`
}

func limited() Entry {
	return New("limited", "has limits", func(_ context.Context, env Env, s limits) (trigger.Handler, func() error, error) {
		if s.MaxWait < Interval(time.Second) {
			return nil, nil, fmt.Errorf("setting %sMAX_WAIT is %v; it must be at least 1s", env.Prefix, s.MaxWait)
		}
		return func(context.Context, trigger.Batch) error { return nil }, nil, nil
	})
}

func TestLoadReadsSettingsAndDefaults(t *testing.T) {
	t.Setenv("HALLEY_LIMITED_KEY", "hunter2")
	t.Setenv("HALLEY_LIMITED_MAX_WAIT", "1500")
	t.Setenv("HALLEY_LIMITED_MOST", "") // the default
	t.Setenv("HALLEY_LIMITED_ON", "true")
	got, err := limited().Load()
	if err != nil {
		t.Fatal(err)
	}
	if s := *got.(*limits); s != (limits{"hunter2", Interval(1500 * time.Millisecond), 3, true}) {
		t.Errorf("settings %+v", s)
	}
	if text := fmt.Sprintf("%v %+v %#v", got, got, got); strings.Contains(text, "hunter2") {
		t.Errorf("settings print secrets: %s", text)
	}
}

// A sink that repeats a request in its error must not print the password of the settings.
func TestSecretsOfLoadedSettingsAreNotRepeated(t *testing.T) {
	type sinks struct {
		Password Secret `desc:"password"`
		Cache    URL    `desc:"cache"`
		Servers  []URL  `desc:"servers"`
	}
	entry := New("sinks", "has sinks", func(context.Context, Env, sinks) (trigger.Handler, func() error, error) {
		return nil, nil, errors.New("answer: CANARYone, CANARYtwo, CANARYthree")
	})
	t.Setenv("HALLEY_SINKS_PASSWORD", "CANARYone")
	t.Setenv("HALLEY_SINKS_CACHE", "redis://:CANARYtwo@cache.example:6379/0")
	t.Setenv("HALLEY_SINKS_SERVERS", "nats://a.example,nats://CANARYthree@b.example")
	settings, err := entry.Load()
	if err != nil {
		t.Fatal(err)
	}
	if s := settings.(*sinks); s.Password.Reveal() != "CANARYone" || s.Cache.Reveal() != "redis://:CANARYtwo@cache.example:6379/0" || len(s.Servers) != 2 {
		t.Errorf("the settings were not read: %d servers", len(s.Servers))
	}
	if _, _, err = entry.Open(t.Context(), Env{}, settings); err == nil || !strings.HasSuffix(err.Error(), "answer: [redacted], [redacted], [redacted]") {
		t.Error(err)
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"HALLEY_LIMITED_MOST", "ten", `read settings of handler limited: setting HALLEY_LIMITED_MOST is "ten": not a whole number above 0`},
		{"HALLEY_LIMITED_MAX_WAIT", "one", `setting HALLEY_LIMITED_MAX_WAIT is "one": not a duration: write "5s"`},
		{"HALLEY_LIMITED_ON", "yes", `setting HALLEY_LIMITED_ON is "yes": neither true nor false`},
		{"HALLEY_LIMITED_MAX_WAIT", "1", "open handler limited: setting HALLEY_LIMITED_MAX_WAIT is 1ms; it must be at least 1s"},
	} {
		t.Run(test.key+" "+test.value, func(t *testing.T) {
			t.Setenv(test.key, test.value)
			settings, err := limited().Load()
			if err == nil {
				_, _, err = limited().Open(t.Context(), Env{}, settings)
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// A handler gets a logger with its name, and the prefix of its settings.
func TestOpenPreparesEnv(t *testing.T) {
	type Settings struct{ N int }
	errHandled := errors.New("handled")
	e := New("hello", "says hello", func(_ context.Context, env Env, s Settings) (trigger.Handler, func() error, error) {
		env.Log().Info("opened")
		if env.Prefix != "HALLEY_HELLO_" || s.N != 7 {
			return nil, nil, fmt.Errorf("opened with %q, %d", env.Prefix, s.N)
		}
		return func(context.Context, trigger.Batch) error { return errHandled }, nil, nil
	})
	t.Setenv("HALLEY_HELLO_N", "7")
	settings, err := e.Load()
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	handle, closer, err := e.Open(t.Context(), Env{Logger: zap.New(core)}, settings)
	if err != nil {
		t.Fatal(err)
	}
	if err := handle(t.Context(), trigger.Batch{}); !errors.Is(err, errHandled) {
		t.Error(err)
	}
	if err := closer(); err != nil {
		t.Error(err)
	}
	if all := logs.All(); len(all) != 1 || all[0].LoggerName != "hello" {
		t.Errorf("logged %v", all)
	}
	if _, _, err := e.Open(t.Context(), Env{}, new(string)); err == nil || !strings.Contains(err.Error(), "open handler hello: settings are a *string, not a *handlers.Settings") {
		t.Errorf("error is %v", err)
	}
}
