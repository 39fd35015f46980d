package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An app takes over from a Cosmos DB trigger of Azure Functions: with the settings that
// import makes of its function.json, the app continues at the trigger's leases. No
// change is handled again, none is left out, and no lease is added.
func TestImportedTriggerContinuesAtItsLeases(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for leases to expire")
	}
	tests := []struct{ name, fixture, prefix, function, host string }{
		{"version 4 without a prefix", "v0", "", `{"bindings": [{
			"type": "cosmosDBTrigger", "name": "documents", "direction": "in", "connection": "OldAccount",
			"databaseName": "games", "containerName": "results", "leaseContainerName": "locks", "startFromBeginning": true,
			"leaseAcquireInterval": 500, "leaseRenewInterval": 700, "leaseExpirationInterval": 2500, "feedPollDelay": 100}]}`, `{"version": "2.0"}`},
		{"version 3 with the prefix of its host", "v2", "scores", `{"bindings": [{
			"type": "cosmosDBTrigger", "name": "documents", "direction": "in", "connectionStringSetting": "OldAccount",
			"databaseName": "%DATABASE%", "collectionName": "results", "leaseCollectionName": "locks", "createLeaseCollectionIfNotExists": true,
			"leaseAcquireInterval": 500, "leaseRenewInterval": 700, "leaseExpirationInterval": 2500, "feedPollDelay": 100}]}`,
			`{"version": "2.0", "extensions": {"cosmosDB": {"leaseOptions": {"leasePrefix": "scores"}}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := startAccount(t, 2)
			const container = "locks"
			a.create(t, container, "/id", 400)
			handled, fresh := newRecord(t), newRecord(t)
			a.distinct(handled).some(t, 1, 5)
			before := a.plant(t, container, test.fixture, test.prefix, a.ranges(t))
			a.distinct(fresh).some(t, 6, 10)

			b := newBoard(t)
			settings := map[string]string{
				"OldAccount": a.connectionString(), "DATABASE": database, "HALLEY_FUNCTIONS": "leaderboard",
				"HALLEY_LEADERBOARD_REDIS_URL": b.url, "HALLEY_LEADERBOARD_KEY_PREFIX": b.prefix,
			}
			out, errs, code := command(t, settings, "import", "--function", "leaderboard", writeTrigger(t, test.function, test.host))
			if code != 0 {
				t.Fatalf("import: exit code %d\n%s%s", code, out, errs)
			}
			for line := range strings.Lines(out) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
				settings[name] = value
			}
			p := start(t, "run", binaries.halley, settings, "run")
			b.complete(t, fresh)
			if code := p.terminate(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if again := len(handled.events(t)) - b.missing(t, handled); again != 0 {
				t.Errorf("%d changes were handled again", again)
			}
			if after := a.documents(t, container); len(after) != len(before) {
				t.Errorf("%d documents among the leases, %d before", len(after), len(before))
			}
		})
	}
}

// writeTrigger writes the files of a Functions app and returns the path of its
// function.json.
func writeTrigger(t *testing.T, function, host string) string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, "OnScore", "function.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{path: function, filepath.Join(root, "host.json"): host} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}
