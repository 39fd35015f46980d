package migrate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/triggertest"
)

func (s *stage) source() *cosmos.Container {
	return s.Client().Container(triggertest.Database, triggertest.Container)
}

func (s *stage) verify(t testing.TB, opts VerifyOptions) *Verification {
	t.Helper()
	opts.Settle = -1
	v, err := s.Verify(t.Context(), s.source(), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestVerifyFindsEachDifference(t *testing.T) {
	s := newStage(t, trigger.Function{}, func(document json.RawMessage) (json.RawMessage, error) {
		if textOf(cosmos.Property(document, "category")) == "none" {
			return nil, nil
		}
		return document, nil
	})
	for i := range 250 {
		s.Put(order{ID: fmt.Sprint("d", i), Customer: fmt.Sprint("c", i%7), Category: fmt.Sprint("k", i%5), Total: i})
	}
	s.Put(order{ID: "omitted", Customer: "c1", Category: "none"})
	s.Host(s.Handle).Drain()
	v := s.verify(t, VerifyOptions{})
	if !v.Equal() || v.Source != 251 || v.LeftOut != 1 || v.Target != 250 || v.Tombstones != 1 || time.Since(v.LastWrite) > time.Hour {
		t.Fatalf("after the copy: %+v", v)
	}

	must := func(_ cosmos.Response, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key := cosmos.NewPartitionKey
	s.Delete("d1", "c1")                                                               // latest-version mode does not show it
	s.Put(order{ID: "d2", Customer: "c2", Category: "k2", Total: -1})                  // not copied yet
	s.Put(order{ID: "new", Customer: "c2", Category: "k2"})                            // neither
	must(s.target.Delete(t.Context(), "d3", key("k3"), ""))                            // lost
	must(s.target.Create(t.Context(), key("k1"), order{ID: "theirs", Category: "k1"})) // of another writer
	must(s.target.Create(t.Context(), key("k0"), json.RawMessage(`{"id":"d4","category":"k0","customer":"c4",
		"_halley":{"ts":1,"lsn":1,"epoch":1,"key":"[\"c4\"]"}}`))) // late, at an old key
	v = s.verify(t, VerifyOptions{})
	var texts []string
	for _, d := range v.Differences {
		texts = append(texts, d.String())
	}
	want := []string{
		`document "d1", key ["c1"] in the source, key ["k1"] in the target: exists in the target only; latest-version mode shows no deletes`,
		`document "d2", key ["c2"] in the source, key ["k2"] in the target: property "total" differs`,
		`document "d3", key ["c3"] in the source, key ["k3"] in the target: is missing in the target`,
		`document "d4", key ["c4"] in the source, key ["k0"] in the target: a copy that should not exist: the document has moved, or is left out`,
		`document "new", key ["c2"] in the source, key ["k2"] in the target: is missing in the target`,
		`document "theirs", key ["k1"] in the target: was not written by the migration`,
	}
	if !slices.Equal(texts, want) {
		t.Errorf("differences:\n%s\nwant:\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
	if v := s.verify(t, VerifyOptions{MaxDifferences: 3}); v.Equal() || !v.More || len(v.Differences) == 0 {
		t.Errorf("more differences than wanted: %+v", v)
	}
}

// While a client writes and ranges split, several hosts copy and die. In the end the
// report says ready, and both containers are equal.
func TestMigrationWhileClientsWrite(t *testing.T) {
	s := newStage(t, trigger.Function{}, withTaxAtTop)
	random := rand.New(rand.NewPCG(1, 1))
	put := func(n int) {
		for range n {
			id := random.IntN(300)
			s.Put(order{ID: fmt.Sprint("d", id), Customer: fmt.Sprint("c", id%9), Category: fmt.Sprint("c", random.IntN(4)), Total: random.IntN(1000) * 10})
		}
	}
	put(400)
	var verifying sync.WaitGroup
	verifying.Go(func() { // a comparison at any time does not disturb
		if _, err := s.Verify(t.Context(), s.source(), &VerifyOptions{Settle: -1}); err != nil {
			t.Error(err)
		}
	})
	for range 4 {
		var calls atomic.Int64 // of several ranges
		var host *triggertest.Host
		host = s.Host(func(ctx context.Context, b trigger.Batch) error {
			if calls.Add(1) == 2 {
				put(20)
				s.Split(s.Ranges()[0])
				err := s.Handle(ctx, b)
				host.Kill()
				return err
			}
			return s.Handle(ctx, b)
		})
		host.Drain()
		put(50)
	}
	verifying.Wait()
	s.Host(s.Handle).Drain()
	s.Host(s.Handle).Drain()
	s.RequireDelivered()
	v := s.verify(t, VerifyOptions{})
	if !v.Equal() || v.Source < 200 || v.Source-v.LeftOut != v.Target {
		t.Errorf("verification %+v", v)
	}
	requireSame(t, s)
}

// requireSame compares both containers without the code of the migration.
func requireSame(t testing.TB, s *stage) {
	t.Helper()
	want, got := map[string]float64{}, map[string]float64{}
	for _, d := range s.Documents() {
		var o order
		if err := json.Unmarshal(d, &o); err != nil {
			t.Fatal(err)
		}
		if o.Category != "c3" {
			want[o.ID+"/"+o.Customer+"/"+o.Category] = float64(o.Total * 12 / 10)
		}
	}
	for _, d := range allDocuments(t, s.target) {
		var c struct {
			ID, Customer, Category string
			Gross                  float64
			Guard                  struct{ Deleted bool } `json:"_halley"`
		}
		if err := json.Unmarshal(d, &c); err != nil {
			t.Fatal(err)
		}
		if !c.Guard.Deleted {
			got[c.ID+"/"+c.Customer+"/"+c.Category] = c.Gross
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(got) || len(want) == 0 {
		t.Errorf("target has %v, want %v", got, want)
	}
}

// withTaxAtTop is withTax with the category at the top.
func withTaxAtTop(document json.RawMessage) (json.RawMessage, error) {
	changed, err := withTax(document)
	if changed == nil || err != nil {
		return nil, err
	}
	var content map[string]any
	if err := json.Unmarshal(changed, &content); err != nil {
		return nil, err
	}
	content["category"] = content["by"].(map[string]any)["category"]
	return json.Marshal(content)
}

// The commands of an app, with the target in another account.
func TestCommandsOfAnApp(t *testing.T) {
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
	options := app.Options{Name: "mover", Handlers: []handlers.Entry{handlers.New("migrate", "moves orders", Open)}}
	run := func(args ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		o := options
		o.Stdout, o.Stderr = &out, &out
		o.Commands = []*cobra.Command{Command(options.Inspect)}
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
	var report Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if code != 0 || !report.Ready || report.Ranges != 3 || report.Verification.Source != 120 || report.Target != "other/bycategory" {
		t.Errorf("report: %d\n%s", code, out)
	}
	if code, out := run("migrate", "report"); code != 0 || !strings.Contains(out, "Ready. To switch:") {
		t.Errorf("report: %d\n%s", code, out)
	}
	if code, out := run("migrate", "verify", "--function", "other"); code != 1 || !strings.Contains(out, "not an enabled function") {
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
