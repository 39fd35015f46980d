package command

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
	"halley/trigger/emulator"
)

// Why says that all is well, and of each range that makes no progress the cause, the evidence
// and the next step, in words that status has, too.
func TestWhyExplainsRangesWithoutProgress(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 8)
	if _, err := hosttest.Open(t, account.Env()).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	out, err := runCommandLine(t, "why")
	if err != nil || !strings.HasSuffix(out, ": every range makes progress (2 ranges of 1 function, changes behind: 0)\n") {
		t.Errorf("%v:\n%s", err, out)
	}
	deleteOne(t, account.Client.Container(apptest.Database, apptest.Leases), `SELECT * FROM c WHERE IS_DEFINED(c.LeaseToken)`)
	if _, err := runCommandLine(t, "leases", "pause", "--reason", "a look", "--yes", "--backup", filepath.Join(t.TempDir(), "backup.json")); err != nil {
		t.Fatal(err)
	}
	out, err = runCommandLine(t, "why", "leaderboard")
	if err == nil {
		t.Error("the exit code is 0 although no range makes progress")
	}
	status, _ := runCommandLine(t, "status")
	first, second := strings.Index(out, "no lease covers the keys"), strings.Index(out, "paused by an operator for ")
	if first < 0 || second < first || !strings.Contains(status, "no lease covers the keys") {
		t.Errorf("the more harmful cause is not first:\n%s\n%s", out, status)
	}
	for _, says := range []string{
		"2 causes, the most harmful first", "1. leaderboard: no progress in 1 of 2 ranges", "Since     not known", "Next      start a host",
		"2. leaderboard: no progress in 1 of 2 ranges", "Since     20", "Evidence  range ", "owner (free), lease written ", "Next      resume the range when the reason is gone; the command leases resume",
	} {
		if !strings.Contains(out, says) {
			t.Errorf("why lacks %q:\n%s", says, out)
		}
	}
	if _, err := runCommandLine(t, "why", "push"); err == nil || !strings.Contains(err.Error(), "leaderboard") {
		t.Errorf("another function: %v", err)
	}
}

// A lag that is not known is no reason to say that a range makes no progress.
func TestWhyTellsUnknownLagFromNoProgress(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	if _, err := hosttest.Open(t, account.Env()).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	account.Inject(emulator.Fault{Resource: "docs", Header: map[string]string{"A-IM": "."}, Status: http.StatusForbidden})
	out, err := runCommandLine(t, "why")
	if err == nil || !strings.Contains(out, "1. leaderboard: lag not known in 2 of 2 ranges") || strings.Contains(out, "no progress") {
		t.Errorf("%v:\n%s", err, out)
	}
}
