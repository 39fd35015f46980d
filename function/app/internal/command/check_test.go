package command

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/dev"
	"halley/function/app/internal/hosttest"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// runCheck runs halley check under env, outside of any Functions app.
func runCheck(t *testing.T, env map[string]string) (string, error) {
	t.Helper()
	apptest.CleanEnv(t, env)
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", t.TempDir())
	var out bytes.Buffer
	err := check(t.Context(), hosttest.Program().Source, &out)
	if strings.Contains(out.String(), emulator.Key) {
		t.Error("the account key is printed")
	}
	return out.String(), err
}

func TestCheckPasses(t *testing.T) {
	for name, options := range map[string]emulator.ServeOptions{"http": {}, "https": {TLS: true}} {
		t.Run(name, func(t *testing.T) {
			a := apptest.ServeAccount(t, options)
			out, err := runCheck(t, a.Env())
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, says := range []string{
				"HALLEY_LEADERBOARD_CONTAINER_NAME", "environment HALLEY_CONTAINER_NAME", "default",
				"monitored container halley/results (partition key /player)", "2 ranges",
				"lease container halley/leases (partition key /id)", "create, read, query, replace and delete a lease",
				"dead letters to container\n", "HALLEY_LEADERBOARD_MAX_ATTEMPTS", "leaderboard: costs in a month, idle, with one host that runs all the time: ",
			} {
				if !strings.Contains(out, says) {
					t.Errorf("output lacks %q:\n%s", says, out)
				}
			}
			for page, err := range a.Client.Container(apptest.Database, apptest.Leases).Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
				if err != nil || len(page.Items) > 0 {
					t.Errorf("check left %s behind (%v)", page.Items, err)
				}
			}
		})
	}
}

func TestCheckWithPartitionKeyContainer(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	a.Create(t, "leases2", "/partitionKey", 1)
	if out, err := runCheck(t, a.Env("HALLEY_LEASE_CONTAINER_NAME", "leases2")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// With leases in another account, both are named, each as what it is for.
func TestCheckNamesBothAccounts(t *testing.T) {
	a, leases := apptest.ServeAccount(t, emulator.ServeOptions{}), apptest.ServeAccount(t, emulator.ServeOptions{})
	out, err := runCheck(t, a.Env("HALLEY_LEASE_CONNECTION", "Leases", "Leases", leases.ConnectionString()))
	want := fmt.Sprintf("connection CosmosDB (%s, connection string in CosmosDB; leases: %s, connection string in Leases)", a.Endpoint(), leases.Endpoint())
	if err != nil || !strings.Contains(out, want) {
		t.Errorf("%v, want %q in\n%s", err, want, out)
	}
}

func TestCheckProbesDeadLetterStores(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	a.Create(t, "dead", "/function", 1)
	dir := t.TempDir()
	for value, says := range map[string]string{
		"container:dead":   "ok    leaderboard: dead letters to container:dead\n",
		"directory:" + dir: "ok    leaderboard: dead letters to directory:" + dir + "\n",
		"drop":             "ok    leaderboard: dead letters to drop (a change that is given up is lost)",
		"none":             "ok    leaderboard: dead letters to none (a change that fails blocks its range",
	} {
		out, err := runCheck(t, a.Env("HALLEY_DEAD_LETTERS", value))
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v, want %q in\n%s", value, err, says, out)
		}
	}
	for page, err := range a.Client.Container(apptest.Database, "dead").Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
		if err != nil || len(page.Items) > 0 {
			t.Errorf("check left %s behind (%v)", page.Items, err)
		}
	}
}

// TestCheckHidesConnectionStrings: one that is set where a name belongs is
// named, and not shown.
func TestCheckHidesConnectionStrings(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	for _, setting := range []string{"HALLEY_CONNECTION", "HALLEY_LEASE_CONNECTION", "HALLEY_DEAD_LETTERS_CONNECTION"} {
		out, err := runCheck(t, a.Env("HALLEY_DEAD_LETTERS", "blob:dead", setting, "AccountEndpoint=https://x/;AccountKey="+apptest.SomeKey+";"))
		if err == nil || strings.Contains(out, apptest.SomeKey) || !strings.Contains(out, setting+"=[redacted]: a connection is a name") {
			t.Errorf("%s: %v\n%s", setting, err, out)
		}
	}
}

func TestCheckNamesTheSettingToChange(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	a.Create(t, "foreign", "/kind", 1)
	hour := 3600
	expiring := cosmos.ContainerDefinition{ID: "expiring", DefaultTTL: &hour}
	expiring.PartitionKey.Paths = []string{"/id"}
	apptest.CreateContainer(t, a.Client, apptest.Database, expiring)
	endpoint := strings.TrimSuffix(a.Endpoint(), "/")
	dead := "AccountEndpoint=http://127.0.0.1:1/;AccountKey=" + emulator.Key
	denied := func(method string) emulator.Fault {
		return emulator.Fault{Method: method, Resource: "docs", Path: "colls/leases", Status: 403,
			Message: "Request blocked by Auth: principal lacks RBAC permissions to perform action [Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete] on resource"}
	}
	for name, test := range map[string]struct {
		env   []string
		fault emulator.Fault
		says  []string
	}{
		"connection not set":      {env: []string{"HALLEY_CONNECTION", "Nowhere"}, says: []string{"HALLEY_CONNECTION=Nowhere", "Nowhere__accountEndpoint"}},
		"lease connection":        {env: []string{"HALLEY_LEASE_CONNECTION", "Nowhere"}, says: []string{"HALLEY_LEASE_CONNECTION=Nowhere"}},
		"wrong key":               {env: []string{"CosmosDB", "AccountEndpoint=" + endpoint + ";AccountKey=" + apptest.SomeKey}, says: []string{"401", "check the credential"}},
		"no account":              {env: []string{"CosmosDB", dead}, says: []string{"not reachable", "http://127.0.0.1:1"}},
		"unknown region":          {env: []string{"HALLEY_PREFERRED_LOCATIONS", "southcentralus, Mars"}, says: []string{`PREFERRED_LOCATIONS names ["Mars"]`, "South Central US (writes)", "correct it"}},
		"no database":             {env: []string{"HALLEY_DATABASE_NAME", "nothing"}, says: []string{"HALLEY_DATABASE_NAME", "create it"}},
		"no container":            {env: []string{"HALLEY_CONTAINER_NAME", "nothing"}, says: []string{"HALLEY_CONTAINER_NAME", "create it"}},
		"no container, own name":  {env: []string{"HALLEY_LEADERBOARD_CONTAINER_NAME", "nothing"}, says: []string{"HALLEY_LEADERBOARD_CONTAINER_NAME"}},
		"no lease container":      {env: []string{"HALLEY_LEASE_CONTAINER_NAME", "nothing"}, says: []string{"HALLEY_LEASE_CONTAINER_NAME", "create it"}},
		"foreign lease container": {env: []string{"HALLEY_LEASE_CONTAINER_NAME", "foreign"}, says: []string{"/kind", "partition key /id", "HALLEY_LEASE_CONTAINER_NAME"}},
		"leases expire":           {env: []string{"HALLEY_LEASE_CONTAINER_NAME", "expiring"}, says: []string{"3600 s", "defaultTtl to -1"}},
		"may not create":          {fault: denied(http.MethodPost), says: []string{"create:", "403", "data action"}},
		"may not replace":         {fault: denied(http.MethodPut), says: []string{"replace:", "403", "data action"}},
		"may not delete":          {fault: denied(http.MethodDelete), says: []string{"delete:", "403", "left behind"}},
		"feed":                    {fault: emulator.Fault{Resource: "pkranges", Status: 403}, says: []string{"change feed", "403"}},
		"handler":                 {env: []string{"HALLEY_LEADERBOARD_REDIS_URL", ""}, says: []string{"HALLEY_LEADERBOARD_REDIS_URL", "HALLEY_FUNCTIONS"}},
		"no letter container":     {env: []string{"HALLEY_DEAD_LETTERS", "container:dead"}, says: []string{"HALLEY_DEAD_LETTERS", "create"}},
		"no storage connection":   {env: []string{"HALLEY_DEAD_LETTERS", "blob:dead", "HALLEY_DEAD_LETTERS_CONNECTION", "Nowhere"}, says: []string{"HALLEY_DEAD_LETTERS_CONNECTION=Nowhere", "Nowhere__accountName"}},
		"settings":                {env: []string{"HALLEY_MODE", "x"}, says: []string{"HALLEY_MODE"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.fault.Status != 0 {
				defer a.Inject(test.fault)()
			}
			out, err := runCheck(t, a.Env(test.env...))
			if err == nil {
				t.Fatalf("passes:\n%s", out)
			}
			failed := ""
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "FAIL") {
					failed += line
				}
			}
			for _, says := range test.says {
				if !strings.Contains(failed, says) {
					t.Errorf("no failing line says %q:\n%s", says, out)
				}
			}
		})
	}
}

// TestPresetsHaveLowestPrecedence: check --dev shows what dev presets, and the
// environment overrides it.
func TestPresetsHaveLowestPrecedence(t *testing.T) {
	apptest.CleanEnv(t, map[string]string{"HALLEY_LEASE_RENEW_INTERVAL": "3s", "HALLEY_ORDERS_RETRY_MAX": "7s"})
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	p := testApp()
	p.Source.Handlers = []handlers.Entry{handlers.New("orders", "takes orders", func(context.Context, handlers.Env, struct{}) (trigger.Handler, func() error, error) {
		return func(context.Context, trigger.Batch) error { return nil }, nil, nil
	})}
	p.Containers = []dev.Container{{Name: "orders", PartitionKey: []string{"/customer"}, Ranges: 2}}
	p.Stdout, p.Stderr = &out, &out
	if err := p.Root([]string{"check", "--dev"}).ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for name, want := range map[string]string{
		"HALLEY_ORDERS_FEED_POLL_DELAY":        "200ms preset of dev",
		"HALLEY_ORDERS_LEASE_ACQUIRE_INTERVAL": "1s preset of dev",
		"HALLEY_ORDERS_CONTAINER_NAME":         "orders preset of dev",
		"HALLEY_ORDERS_LEASE_RENEW_INTERVAL":   "3s environment HALLEY_LEASE_RENEW_INTERVAL",
		"HALLEY_ORDERS_RETRY_MAX":              "7s environment HALLEY_ORDERS_RETRY_MAX",
		"HALLEY_ORDERS_LANES":                  "1 default",
	} {
		line := regexp.MustCompile("(?m)^" + name + " +(.*)$").FindStringSubmatch(out.String())
		if line == nil || strings.Join(strings.Fields(line[1]), " ") != want {
			t.Errorf("%s is %q, want %s", name, line, want)
		}
	}
	if strings.Contains(out.String(), "FAIL") || !strings.Contains(out.String(), "ok    orders: create, read, query, replace and delete a lease") {
		t.Errorf("check --dev:\n%s", out.String())
	}
}
