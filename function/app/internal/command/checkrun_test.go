package command

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/trigger/emulator"
)

// If halley run could not work, halley check fails and says what to change.
func TestCheckFailsWheneverRunWould(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	for _, test := range []struct{ setting, Value, says string }{
		{"HALLEY_LEADERBOARD_REDIS_URL", "redis://127.0.0.1:1", "correct HALLEY_LEADERBOARD_REDIS_URL"},
		{"HALLEY_CHANGE_FEED_MODE", "all-versions", "HALLEY_CHANGE_FEED_MODE=all-versions needs"},
		{"HALLEY_DEAD_LETTERS", "container:missing", "HALLEY_DEAD_LETTERS"},
		{"HALLEY_DEAD_LETTER_RETENTION", "720h", "set its defaultTtl to -1"},
		{"CosmosDB__accountEndpoint", "https://games.documents.azure.com", "connection CosmosDB is set twice"},
	} {
		env := a.Env(test.setting, test.Value)
		if test.setting == "HALLEY_CHANGE_FEED_MODE" {
			env["HALLEY_START_FROM"] = "now"
		}
		out, err := runCheck(t, env)
		if err == nil || !strings.Contains(out, test.says) {
			t.Errorf("%s=%s: %v, want %q in\n%s", test.setting, test.Value, err, test.says, out)
		}
	}
}

// The check tells of a handler that removes nothing at the end of a snapshot, and what to do then.
func TestCheckTellsWhatNoSnapshotRemoves(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	for start, tells := range map[string]bool{"snapshot": true, "now": false} {
		out, _ := runCheck(t, a.Env("HALLEY_CHANGE_FEED_MODE", "all-versions", "HALLEY_START_FROM", start))
		if strings.Contains(out, "ok    leaderboard: handler (after a gap longer than the retention") != tells {
			t.Errorf("start from %s:\n%s", start, out)
		}
	}
}

// listenInSilence returns the address of a server that takes connections and does not answer.
func listenInSilence(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing was accepted
	return l.Addr().String()
}

// testSilentAccount: an account that takes connections and does not answer is named, and the
// command ends.
func testSilentAccount(t *testing.T, silent string) {
	var runs sync.WaitGroup
	for _, command := range [][]string{{"status"}, {"check"}, {"deadletters", "list"}} {
		runs.Go(func() {
			began := time.Now()
			out, err := runCommandLine(t, command...)
			if took := time.Since(began); err == nil || took > apptest.Patience {
				t.Errorf("%s: %v after %v", command[0], err, took)
			}
			if text := fmt.Sprint(out, err); !strings.Contains(text, silent) || !strings.Contains(text, "not reachable") {
				t.Errorf("%s: %v does not name the account:\n%s", command[0], err, out)
			}
		})
	}
	runs.Wait()
}
