package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/standin/azurestorage"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/deadletter"
	"halley/trigger/emulator"
)

// testApp has the handlers that Halley comes with, and all stores.
func testApp() Options {
	return Options{Name: "halley", Handlers: apptest.Handlers(), DeadLetterStores: azurestorage.DeadLetterStores()}
}

func TestOptionsAreRefused(t *testing.T) {
	type own struct {
		Lanes int `desc:"a setting of Halley, too"`
	}
	entry := func(name string) handlers.Entry {
		return handlers.New(name, "does nothing", func(context.Context, handlers.Env, struct{}) (trigger.Handler, func() error, error) {
			return nil, nil, nil
		})
	}
	store := deadletter.Kind{Name: "table", Placeholder: "NAME", CheckName: func(string) error { return nil }}
	for name, test := range map[string]struct {
		options Options
		says    string
	}{
		"no handler":      {Options{}, "no handler"},
		"name":            {Options{Handlers: []handlers.Entry{entry("Orders")}}, `handler name "Orders": write lower-case`},
		"empty name":      {Options{Handlers: []handlers.Entry{entry("")}}, "lower-case letters"},
		"two of a name":   {Options{Handlers: []handlers.Entry{entry("orders"), entry("orders")}}, `two handlers are called "orders"`},
		"name of setting": {Options{Handlers: []handlers.Entry{entry("lease")}}, "HALLEY_LEASE_CONTAINER_NAME is also a setting of the app"},
		"field":           {Options{Handlers: []handlers.Entry{handlers.New("orders", "", func(context.Context, handlers.Env, own) (trigger.Handler, func() error, error) { return nil, nil, nil })}}, "HALLEY_ORDERS_LANES is also a setting of Halley"},
		"no struct":       {Options{Handlers: []handlers.Entry{handlers.New("orders", "", func(context.Context, handlers.Env, int) (trigger.Handler, func() error, error) { return nil, nil, nil })}}, "takes a struct"},
		"no Open":         {Options{Handlers: []handlers.Entry{{Name: "orders"}}}, "make its entry with handlers.New"},
		"store twice":     {Options{Handlers: []handlers.Entry{entry("orders")}, DeadLetterStores: []deadletter.Kind{store, store}}, `kind "table"`},
		"built-in store":  {Options{Handlers: []handlers.Entry{entry("orders")}, DeadLetterStores: []deadletter.Kind{{Name: "drop"}}}, `kind "drop"`},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			test.options.Stderr = &stderr
			if code := test.options.Run(t.Context(), []string{"version"}); code != 1 || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
			if _, err := Open(t.Context(), test.options); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("open: %v", err)
			}
		})
	}
}

// The app's name and version are in its output, and its own commands run.
func TestOptionsNameTheApp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	o := testApp()
	o.Name, o.Version, o.Stdout, o.Stderr = "shop", "v7", &stdout, &stderr
	o.Commands = []*cobra.Command{{Use: "stock", RunE: func(cmd *cobra.Command, _ []string) error { return errors.New("none left") }}}
	if code := o.Run(t.Context(), []string{"version"}); code != 0 || !strings.HasPrefix(stdout.String(), "shop v7") {
		t.Errorf("exit code %d: %s", code, stdout.String())
	}
	if code := o.Run(t.Context(), []string{"help"}); code != 0 || !strings.Contains(stdout.String(), "leaderboard keeps the best score") || !strings.Contains(stdout.String(), "\n  stock") {
		t.Errorf("exit code %d: %s", code, stdout.String())
	}
	if code := o.Run(t.Context(), []string{"stock"}); code != 1 || stderr.String() != "shop: none left\n" {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// A program with its own main drains and runs the app.
func TestOpenedAppDrainsAndRuns(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 5)
	apptest.CleanEnv(t, account.Env("HALLEY_OWNER", "here"))
	var logged apptest.Lines
	o := testApp()
	o.Logger = hosting.JSONLogger(&logged, "info")
	a, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := a.Drain(t.Context()); err != nil || s.Changes != 5 || account.OnBoard(t) != 5 {
		t.Errorf("drained %+v, %v", s, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	account.Write(t, 5, 3)
	for account.OnBoard(t) < 8 {
		select {
		case err := <-done:
			t.Fatalf("the run ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	if s := a.Status(); len(s) != 1 || s[0].Owner != "here" || s[0].Functions[0].Name != "leaderboard" {
		t.Errorf("status %+v", s)
	}
	stop()
	if err := errors.Join(<-done, a.Close()); err != nil {
		t.Error(err)
	}
	if !strings.Contains(logged.String(), `"owner":"here"`) {
		t.Errorf("log:\n%s", logged.String())
	}
}

// TestExampleSettingsOpen: the app opens with local.settings.example.json.
func TestExampleSettingsOpen(t *testing.T) {
	data, err := os.ReadFile("../../local.settings.example.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Values map[string]string }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	apptest.CleanEnv(t, file.Values)
	o := testApp()
	o.Stdout = &bytes.Buffer{}
	a, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
