package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/trigger"
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
		client, err := embeddedClient(account)
		if err != nil {
			t.Fatal(err)
		}
		(&testAccount{Account: account, client: client}).create(t, testResults, "/player", 1)
		(&testAccount{Account: account, client: client}).create(t, testLeases, "/id", 1)
		s, err := loadTestApp(t, map[string]string{
			"Games": account.ConnectionString(), "Other": "AccountEndpoint=https://other.example/;AccountKey=" + someKey,
			"HALLEY_FUNCTIONS": "leaderboard", "HALLEY_CONNECTION": "Games", "HALLEY_DATABASE_NAME": testDatabase, "HALLEY_CONTAINER_NAME": testResults,
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

// A restart in the same process would have the same credential.
func TestContinuousReplacesProcessIfRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs, asked := 0, 0
		c := &continuous{
			run: func(context.Context) error {
				runs++
				return errors.Join(errors.New("function"), &trigger.RefusedError{Err: errors.New("401")})
			},
			replace: func() { asked++ },
		}
		stop := keep(t, c)
		time.Sleep(5 * time.Minute)
		if synctest.Wait(); runs != 1 || asked != 1 {
			t.Errorf("%d runs, asked %d times, want once", runs, asked)
		}
		stop()
	})
}
