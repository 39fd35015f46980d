// Package handlers has the types that a handler and an application share: the [Env]
// that a handler is opened with, its [Entry] in the app's list, and types of settings.
//
// A handler is one package and one line in the list of an app. The package exports a
// Settings struct and
//
//	func Open(ctx context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error)
//
// Open checks the settings and prepares connections without waiting for them.
// If the returned function is not nil, it is called after the last call of the
// handler and closes the connections. A handler that keeps changes in memory offers a Flush
// with [Env.FollowRanges]. The line in the list is
//
//	handlers.New("greet", "greets new people", greet.Open)
//
// Settings are environment variables, read with envconfig: a field RedisURL
// tagged `split_words:"true"` of a handler named leaderboard is
// HALLEY_LEADERBOARD_REDIS_URL. The tags `desc`, `default` and `required` are
// envconfig's; every field has a desc. When a field of type [Secret] is printed, it
// is redacted. Fields of type [Interval], [Count] and [Toggle] are parsed like all
// settings of Halley; if the variable is empty, they keep their default.
//
// The package links no client of any sink; [halley/handlers/redis/redisurl] has the setting
// of handlers that write to Redis.
package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kelseyhightower/envconfig"

	"halley/trigger"
	"halley/trigger/redact"
)

// Entry is one handler of the list.
type Entry struct {
	Name    string // the function's name: lower-case letters and digits; prefixes its leases and settings
	Summary string // one line for the help text

	newSettings func() any
	open        func(ctx context.Context, env Env, settings any) (trigger.Handler, func() error, error)
}

// New makes the entry of one handler. S is the handler's Settings struct; open is its
// package's Open, see the package documentation. An app refuses a name or a struct of
// settings that does not keep the rules when it starts.
func New[S any](name, summary string, open func(context.Context, Env, S) (trigger.Handler, func() error, error)) Entry {
	return Entry{
		Name:        name,
		Summary:     summary,
		newSettings: func() any { return new(S) },
		open: func(ctx context.Context, env Env, settings any) (trigger.Handler, func() error, error) {
			s, ok := settings.(*S)
			if !ok {
				return nil, nil, fmt.Errorf("settings are a %T, not a %T", settings, s)
			}
			return open(ctx, env, *s)
		},
	}
}

// Prefix begins the names of the handler's settings, such as
// HALLEY_LEADERBOARD_.
func (e Entry) Prefix() string { return "HALLEY_" + strings.ToUpper(e.Name) + "_" }

// Settings returns a pointer to a new zero Settings struct of the handler, for
// listing its fields. It is nil if the entry was not made by New.
func (e Entry) Settings() any {
	if e.newSettings == nil {
		return nil
	}
	return e.newSettings()
}

// FunctionDefaults returns what the handler's function has instead of Halley's defaults, by
// names of settings without a prefix, such as BATCH_WINDOW. The environment overrides each.
// It is the method of this name of the Settings struct; a handler without it has none.
func (e Entry) FunctionDefaults() map[string]string {
	if s, ok := e.Settings().(interface{ FunctionDefaults() map[string]string }); ok {
		return s.FunctionDefaults()
	}
	return nil
}

// Load reads the handler's settings from the environment and returns a pointer
// to its Settings struct. A caller may change fields before it passes the
// struct to Open.
func (e Entry) Load() (any, error) {
	s := e.newSettings()
	err := setDefaults(s)
	if err == nil {
		err = envconfig.Process(strings.TrimSuffix(e.Prefix(), "_"), s)
	}
	if err != nil {
		return nil, redact.Error(fmt.Errorf("read settings of handler %s: %w", e.Name, describe(err)))
	}
	return s, nil
}

// setDefaults sets the defaults of fields with a Decode method. If a variable is
// set to an empty value, the methods of this package leave the field as it is.
func setDefaults(settings any) error {
	for field, v := range reflect.ValueOf(settings).Elem().Fields() {
		value, ok := field.Tag.Lookup("default")
		if !ok || !v.CanSet() {
			continue
		}
		if decoder, ok := v.Addr().Interface().(envconfig.Decoder); ok {
			if err := decoder.Decode(value); err != nil {
				return fmt.Errorf("default of field %s: %w", field.Name, err)
			}
		}
	}
	return nil
}

func describe(err error) error {
	var wrong *envconfig.ParseError
	if errors.As(err, &wrong) {
		return fmt.Errorf("setting %s is %q: %w", wrong.KeyName, wrong.Value, wrong.Err)
	}
	return err
}

// Open constructs the handler from the settings that Load returned. If err is
// nil, closer is not nil; the caller calls it once, after the handler's last
// call. Errors name the setting to change.
func (e Entry) Open(ctx context.Context, env Env, settings any) (handle trigger.Handler, closer func() error, err error) {
	env.Prefix = e.Prefix()
	env.Logger = env.Log().Named(e.Name)
	if handle, closer, err = e.open(ctx, env, settings); err != nil {
		return nil, nil, redact.Error(fmt.Errorf("open handler %s: %w", e.Name, err))
	}
	if closer == nil {
		closer = func() error { return nil }
	}
	return handle, closer, nil
}
