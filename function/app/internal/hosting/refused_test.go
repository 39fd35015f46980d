package hosting_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// The key of one account is rotated while the app runs: the error of the run names its
// connection, and not the others.
func TestRunNamesRefusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		served := &apptest.Account{Account: account, Client: apptest.NewClient(t, account)}
		served.Create(t, apptest.Results, "/player", 1)
		served.Create(t, apptest.Leases, "/id", 1)
		s, err := hosttest.Load(t, map[string]string{
			"Games": account.ConnectionString(), "Other": "AccountEndpoint=https://other.example/;AccountKey=" + apptest.SomeKey,
			"HALLEY_FUNCTIONS": "leaderboard", "HALLEY_CONNECTION": "Games", "HALLEY_DATABASE_NAME": apptest.Database, "HALLEY_CONTAINER_NAME": apptest.Results,
			"HALLEY_LEADERBOARD_REDIS_URL": "redis://localhost:1",
		})
		if err != nil {
			t.Fatal(err)
		}
		a, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second, Transport: account}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- a.RunTelling(ctx, hosting.ProgressEvery) }()
		time.Sleep(time.Minute)
		account.Inject(emulator.Fault{Status: http.StatusUnauthorized})
		time.Sleep(20 * time.Second)
		if status, body := get(t, a, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, account.Endpoint()) {
			t.Errorf("readyz answers %d %s", status, body)
		}
		err = <-done
		if err == nil || !cosmos.IsUnauthorized(err) || !strings.Contains(err.Error(), "Games ("+account.Endpoint()+")") || strings.Contains(err.Error(), "Other") {
			t.Errorf("the run ended with %v", err)
		}
	})
}
