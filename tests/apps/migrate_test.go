// Package apps tests handlers inside of an app, and their clients side by side: modules of
// handlers require no app and no client of another sink.
package apps

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/migrate"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Category string `json:"category"`
}

// The commands of an app, with the target in another account.
func TestAppMigratesAndVerifies(t *testing.T) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "HALLEY_") {
			t.Setenv(name, "") // restores it afterwards
			os.Unsetenv(name)
		}
	}
	source, target := serveAccount(t), serveAccount(t)
	for name, value := range map[string]string{
		"CosmosDB": source.connection, "OtherAccount": target.connection,
		"HALLEY_DATABASE_NAME": "shop", "HALLEY_CONTAINER_NAME": "orders", "HALLEY_START_FROM": "beginning",
		"HALLEY_MIGRATE_TARGET_CONNECTION": "OtherAccount", "HALLEY_MIGRATE_TARGET_DATABASE_NAME": "other", "HALLEY_MIGRATE_TARGET_CONTAINER_NAME": "bycategory",
		"HALLEY_LOG_LEVEL": "error",
	} {
		t.Setenv(name, value)
	}
	for _, err := range []error{
		source.CreateContainer("shop", "orders", "/customer", 3), source.CreateContainer("shop", "leases", "/id", 1),
		target.CreateContainer("other", "bycategory", "/category", 2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	orders := source.client(t).Container("shop", "orders")
	for i := range 120 {
		o := order{ID: fmt.Sprint(i), Customer: fmt.Sprint("c", i%5), Category: fmt.Sprint("k", i%3)}
		if _, err := orders.Upsert(t.Context(), cosmos.NewPartitionKey(o.Customer), o); err != nil {
			t.Fatal(err)
		}
	}
	options := app.Options{Name: "mover", Handlers: []handlers.Entry{handlers.New("migrate", "moves orders", migrate.Open)}}
	run := func(args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		o := options
		o.Stdout, o.Stderr = &out, &out
		o.Commands = []*cobra.Command{migrate.Command(options.Inspect)}
		code := o.Run(t.Context(), args)
		return code, out.String()
	}
	if code, out := run("migrate", "report", "--settle", "0s"); code != 1 || !strings.Contains(out, "no host has ever run it") || !strings.Contains(out, "not ready") {
		t.Errorf("report before the migration: %d\n%s", code, out)
	}
	if code, out := run("migrate", "verify", "--settle", "0s"); code != 1 || !strings.Contains(out, "no, 120 differences") || !strings.Contains(out, "and 100 more") {
		t.Errorf("verify before the migration: %d\n%s", code, out)
	}
	a, err := app.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if code, out := run("migrate", "verify"); code != 0 || !strings.Contains(out, "equal   yes") {
		t.Errorf("verify: %d\n%s", code, out)
	}
	code, out := run("migrate", "report", "--json")
	var report migrate.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code != 0 || !report.Ready || report.Ranges != 3 || report.Verification.Source != 120 || report.Target != "other/bycategory" {
		t.Errorf("report: %d\n%s", code, out)
	}
	if code, out := run("migrate", "report"); code != 0 || !strings.Contains(out, "Ready. To switch:") {
		t.Errorf("report: %d\n%s", code, out)
	}
	if code, out := run("migrate", "verify", "--function", "other"); code != 1 || !strings.Contains(out, "is not enabled") {
		t.Errorf("another function: %d\n%s", code, out)
	}
}

// served is an account on a loopback port.
type served struct {
	*emulator.Account
	endpoint, connection string
}

func serveAccount(t testing.TB) served {
	t.Helper()
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(account.ServeHTTP))
	t.Cleanup(func() {
		server.Close()
		if err := account.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return served{account, server.URL, "AccountEndpoint=" + server.URL + ";AccountKey=" + emulator.Key}
}

func (s served) client(t testing.TB) *cosmos.Client {
	t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(s.endpoint, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
