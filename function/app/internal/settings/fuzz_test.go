package settings_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// FuzzSettings wants settings to be refused with the name of a variable, or to
// be such as the runtime takes. Each value goes to a setting of the app
// and to the same of one function.
func FuzzSettings(f *testing.F) {
	f.Add("LEASE_RENEW_INTERVAL", "17s", "20000")
	f.Add("LEASE_EXPIRATION_INTERVAL", "1m", "")
	f.Add("MODE", "continuous", "timer")
	f.Add("START_FROM", "2026-01-31T09:00:00Z", "beginning")
	f.Add("FUNCTIONS", "leaderboard, leaderboard", "")
	f.Add("LEASE_CONTAINER_PREFIX", "a..b", "\xff")
	f.Add("MAX_ITEMS_PER_INVOCATION", "0", "2147483648")
	f.Add("REDIS_URL", "redis://:p@/0", "\x00")
	f.Add("LEASE_CONTAINER", "x", "y")
	f.Add("DEAD_LETTERS", "container:dead", "none")
	f.Add("DEAD_LETTERS", "queue:dead-letters", "directory:a/../b")
	f.Add("MAX_ATTEMPTS", "unlimited", "3")
	f.Add("CHANGE_FEED_MODE", "all-versions", "LatestVersion")
	f.Add("CHECKPOINT_MANUAL", "true", "0")
	f.Add("MAX_LEASES", "0", "4294967296")
	f.Add("RETRY_MIN", "40s", "1ns")
	account, err := emulator.New(nil)
	if err != nil {
		f.Fatal(err)
	}
	defer account.Close()
	client := apptest.NewClient(f, account)
	clean(f)
	f.Add("LEASE_CONTAINER_PREFIX", "0", "#000")
	f.Fuzz(func(t *testing.T, name, app, own string) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(app+own, "\x00") || strings.ToUpper(name) != name {
			return // the system takes no such variable
		}
		env := apptest.Complete("HALLEY_FUNCTIONS", "leaderboard", "HALLEY_"+name, app, "HALLEY_LEADERBOARD_"+name, own)
		for variable, value := range env {
			if err := os.Setenv(variable, value); err != nil {
				t.Fatal(err)
			}
			defer os.Unsetenv(variable)
		}
		s, err := settings.Load(hosttest.Program().Source)
		if err != nil {
			if !strings.Contains(err.Error(), "HALLEY_") {
				t.Fatalf("%s=%q and %q: %v names no setting", name, app, own, err)
			}
			return
		}
		for _, fn := range s.Functions {
			expiration, renew := time.Duration(fn.LeaseExpirationInterval), time.Duration(fn.LeaseRenewInterval)
			if fn.ContainerName == "" || fn.DatabaseName == "" || fn.MaxItemsPerInvocation < 1 || fn.FeedPollDelay <= 0 ||
				renew <= 0 || renew >= expiration/2 || s.App.StopGrace < 0 {
				t.Fatalf("%s=%q and %q are accepted: %+v", name, app, own, fn)
			}
		}
		if err := takes(s, client); err != nil {
			t.Fatalf("%s=%q and %q are accepted here and refused by the runtime: %v", name, app, own, err)
		}
		for _, v := range s.Values {
			if strings.Contains(v.Value, "hunter2") {
				t.Fatalf("%s shows a secret: %s", v.Name, v.Value)
			}
		}
	})
}

// takes returns an error if the runtime refuses the settings.
func takes(s *settings.Settings, client *cosmos.Client) error {
	for _, f := range s.Functions {
		fn := f.TriggerFunction(client.Container(f.DatabaseName, f.ContainerName))
		fn.Handler = func(context.Context, trigger.Batch) error { return nil }
		if f.DeadLetters.String() != "none" {
			fn.DeadLetters = trigger.DropDeadLetters
		}
		options := f.HostOptions(&s.App)
		options.StopGrace = time.Duration(s.App.StopGrace)
		if _, err := trigger.New(client.Container(f.LeaseDatabaseName, f.LeaseContainerName), []trigger.Function{fn}, &options); err != nil {
			return err
		}
	}
	return nil
}

// clean removes the settings of this process's own environment.
func clean(f *testing.F) {
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(strings.ToUpper(name), "HALLEY_") {
			os.Unsetenv(name)
			f.Cleanup(func() { os.Setenv(name, value) })
		}
	}
}
