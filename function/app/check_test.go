package app

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// runCheck runs halley check under env, outside of any Functions app.
func runCheck(t *testing.T, env map[string]string) (string, error) {
	t.Helper()
	apptest.CleanEnv(t, env)
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", t.TempDir())
	var out bytes.Buffer
	err := testApp().check(t.Context(), &out)
	if strings.Contains(out.String(), emulator.Key) {
		t.Error("the account key is printed")
	}
	return out.String(), err
}

func TestCheckPasses(t *testing.T) {
	for name, options := range map[string]emulator.ServeOptions{"http": {}, "https": {TLS: true}} {
		t.Run(name, func(t *testing.T) {
			a := serveAccount(t, options)
			out, err := runCheck(t, a.env())
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, says := range []string{
				"HALLEY_LEADERBOARD_CONTAINER_NAME", "environment HALLEY_CONTAINER_NAME", "default",
				"monitored container halley/results (partition key /player)", "2 ranges",
				"lease container halley/leases (partition key /id)", "create, read, query, replace and delete a lease",
				"dead letters to container\n", "HALLEY_LEADERBOARD_MAX_ATTEMPTS",
			} {
				if !strings.Contains(out, says) {
					t.Errorf("output lacks %q:\n%s", says, out)
				}
			}
			for page, err := range a.client.Container(testDatabase, testLeases).Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
				if err != nil || len(page.Items) > 0 {
					t.Errorf("check left %s behind (%v)", page.Items, err)
				}
			}
		})
	}
}

func TestCheckWithPartitionKeyContainer(t *testing.T) {
	a := serveAccount(t, emulator.ServeOptions{})
	a.create(t, "leases2", "/partitionKey", 1)
	if out, err := runCheck(t, a.env("HALLEY_LEASE_CONTAINER_NAME", "leases2")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCheckProbesDeadLetterStores(t *testing.T) {
	a := serveAccount(t, emulator.ServeOptions{})
	a.create(t, "dead", "/function", 1)
	dir := t.TempDir()
	for value, says := range map[string]string{
		"container:dead":   "ok    leaderboard: dead letters to container:dead\n",
		"directory:" + dir: "ok    leaderboard: dead letters to directory:" + dir + "\n",
		"drop":             "ok    leaderboard: dead letters to drop (a change that is given up is lost)",
		"none":             "ok    leaderboard: dead letters to none (a change that fails blocks its range",
	} {
		out, err := runCheck(t, a.env("HALLEY_DEAD_LETTERS", value))
		if err != nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v, want %q in\n%s", value, err, says, out)
		}
	}
	for page, err := range a.client.Container(testDatabase, "dead").Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
		if err != nil || len(page.Items) > 0 {
			t.Errorf("check left %s behind (%v)", page.Items, err)
		}
	}
}

// TestCheckHidesConnectionStrings: one that is set where a name belongs is
// named, and not shown.
func TestCheckHidesConnectionStrings(t *testing.T) {
	a := serveAccount(t, emulator.ServeOptions{})
	for _, setting := range []string{"HALLEY_CONNECTION", "HALLEY_LEASE_CONNECTION", "HALLEY_DEAD_LETTERS_CONNECTION"} {
		out, err := runCheck(t, a.env("HALLEY_DEAD_LETTERS", "blob:dead", setting, "AccountEndpoint=https://x/;AccountKey="+someKey+";"))
		if err == nil || strings.Contains(out, someKey) || !strings.Contains(out, setting+"=[redacted]: a connection is a name") {
			t.Errorf("%s: %v\n%s", setting, err, out)
		}
	}
}

func TestCheckNamesTheSettingToChange(t *testing.T) {
	a := serveAccount(t, emulator.ServeOptions{})
	a.create(t, "foreign", "/kind", 1)
	hour := 3600
	expiring := cosmos.ContainerDefinition{ID: "expiring", DefaultTTL: &hour}
	expiring.PartitionKey.Paths = []string{"/id"}
	if err := createContainer(t.Context(), a.client, testDatabase, expiring); err != nil {
		t.Fatal(err)
	}
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
		"wrong key":               {env: []string{"CosmosDB", "AccountEndpoint=" + endpoint + ";AccountKey=" + someKey}, says: []string{"401", "check the credential"}},
		"no account":              {env: []string{"CosmosDB", dead}, says: []string{"not reachable", "http://127.0.0.1:1"}},
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
			out, err := runCheck(t, a.env(test.env...))
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
