package tests

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// TestDeadLettersInAzureStorage puts a dead letter into each store of Azure Storage, and lists,
// shows, replays and discards it.
func TestDeadLettersInAzureStorage(t *testing.T) {
	connection := os.Getenv("HALLEY_TEST_AZURITE")
	if connection == "" {
		t.Skip("HALLEY_TEST_AZURITE is not set: no storage account to test with")
	}
	for _, kind := range []string{"blob", "queue"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			a, b := startAccount(t, 1), newBoard(t)
			settings := b.settings(a)
			settings["AzureWebJobsStorage"] = connection
			settings["HALLEY_DEAD_LETTERS"] = fmt.Sprint(kind, ":letters-", time.Now().UnixNano())
			settings["HALLEY_MAX_ATTEMPTS"] = "1"
			_, err := a.client.Container(database, results).Upsert(t.Context(), cosmos.NewPartitionKey("ada"),
				map[string]any{"id": "bad", "player": "ada", "game": 42, "score": 7})
			a.must(t, err)
			host := start(t, "host", binaries.halley, settings, "run")
			eventually(t, "the change is dead-lettered", func() bool { return strings.Contains(host.output.String(), "change dead-lettered") })
			if code := host.terminate(t); code != 0 {
				t.Errorf("exit code %d after SIGTERM", code)
			}
			deadLetters := func(code int, want string, args ...string) {
				t.Helper()
				out, errs, got := command(t, settings, append([]string{"deadletters"}, args...)...)
				if got != code || !strings.Contains(out+errs, want) {
					t.Errorf("deadletters %s: exit code %d, %q without %q", strings.Join(args, " "), got, out+errs, want)
				}
			}
			deadLetters(0, "bad", "list")
			deadLetters(1, "1 failed again", "replay", "--yes")
			deadLetters(0, "1 dead letters deleted", "discard", "--all", "--yes")
			if out, _, _ := command(t, settings, "deadletters", "list"); strings.Contains(out, "bad") {
				t.Errorf("the store still has %s", out)
			}
		})
	}
}
