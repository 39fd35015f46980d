package hosting_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/trigger"
	"halley/trigger/emulator"
)

func TestFunctionsShareAHost(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	both := account.Env(
		"HALLEY_FUNCTIONS", "",
		"HALLEY_PUSH_REDIS_URL", "redis://"+account.Redis.Addr(),
		"HALLEY_PUSH_VAPID_PUBLIC_KEY", "public",
		"HALLEY_PUSH_VAPID_PRIVATE_KEY", "private",
		"HALLEY_PUSH_VAPID_SUBJECT", "mailto:dev@example.com",
	)
	for name, test := range map[string]struct {
		setting, Value string
		hosts          int
	}{
		"alike":           {"HALLEY_LOG_LEVEL", "info", 1},
		"other start":     {"HALLEY_PUSH_START_FROM", "now", 1},
		"other intervals": {"HALLEY_PUSH_LEASE_ACQUIRE_INTERVAL", "1s", 2},
		"other leases":    {"HALLEY_PUSH_LEASE_CONTAINER_NAME", "leases2", 2},
	} {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{test.setting: test.Value}
			for k, v := range both {
				env[k] = v
			}
			if a := hosttest.Open(t, env); len(a.Hosts) != test.hosts {
				t.Errorf("%d hosts, want %d", len(a.Hosts), test.hosts)
			}
		})
	}
}

func TestAppRunsUntilItsContextEnds(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 8)
	a := hosttest.Open(t, account.Env("HALLEY_OWNER", "here"))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	deadline := time.After(apptest.Patience)
	for account.OnBoard(t) < 8 {
		select {
		case <-deadline:
			t.Fatal("the changes did not arrive")
		case <-time.After(10 * time.Millisecond):
		}
	}
	lines, err := a.Health()
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0], "leaderboard: 2 ranges") {
		t.Errorf("health %q, %v", lines, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := a.Hosts[0].Owner(); got != "here" {
		t.Errorf("owner %q", got)
	}
}

func TestAppRefusesWhatCannotOpen(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	for name, test := range map[string]struct{ setting, Value, says string }{
		"connection":       {"HALLEY_CONNECTION", "Nowhere", "HALLEY_CONNECTION"},
		"lease connection": {"HALLEY_LEASE_CONNECTION", "Nowhere", "HALLEY_LEASE_CONNECTION"},
		"handler":          {"HALLEY_LEADERBOARD_REDIS_URL", "", "HALLEY_LEADERBOARD_REDIS_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := hosttest.Load(t, account.Env(test.setting, test.Value))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second}, zap.NewNop()); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want one that names %s", err, test.says)
			}
		})
	}
}

// Functions of one host that cannot continue do not end those of another.
func TestFailingHostDoesNotEndTheOthers(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	a := hosttest.Open(t, account.Env())
	results := account.Client.Container(apptest.Database, apptest.Results)
	broken, err := trigger.New(account.Client.Container(apptest.Database, "missing"), []trigger.Function{{
		FeedSource: trigger.FeedSource{Name: "broken", Container: results}, Handler: func(context.Context, trigger.Batch) error { return nil },
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	good := a.Hosts
	a.Hosts = append([]*trigger.Host{broken}, good...)
	ctx, cancel := context.WithTimeout(t.Context(), apptest.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	account.Write(t, 0, 3)
	for account.OnBoard(t) < 3 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("the run ended: %v", err)
	default:
	}
	cancel()
	if err := <-done; err != nil { // the broken function was to be tried again
		t.Errorf("the run was stopped and ended with %v", err)
	}
}
