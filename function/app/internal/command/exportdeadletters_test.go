package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/operate"
	"halley/trigger"
	"halley/trigger/emulator"
)

// TestExportedDeadLettersAreReadAgain: a file of export has each dead letter with its
// document, error and position, and dev reads it.
func TestExportedDeadLettersAreReadAgain(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	apptest.CleanEnv(t, a.Env())
	putDeadLetters(t, apptest.Scored("r1", "ada", 9), poisonous("r2", "grace"))
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	if out, err := runCommandLine(t, "deadletters", "export", "--output", file); err != nil || out != "" {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	letters, err := operate.ReadDeadLetters(file, []string{"leaderboard"})
	if err != nil || len(letters) != 2 {
		t.Fatalf("%d dead letters, error %v", len(letters), err)
	}
	first := letters[0]
	if first.ID != "d0" || string(first.Document) != apptest.Scored("r1", "ada", 9) || !strings.HasPrefix(first.Error, "redis is full") ||
		first.Stack == "" || first.Function != "leaderboard" || first.Range != "0" || first.LSN != 10 || first.Key != `["ada"]` {
		t.Errorf("dead letter %+v", first)
	}
	if change := first.Change(); change.ID() != "r1" || string(change.PartitionKey()) != `["ada"]` {
		t.Errorf("change %+v", change)
	}
	if _, err := runCommandLine(t, "deadletters", "export", "--output", file); err == nil || !strings.Contains(err.Error(), "the file exists") {
		t.Errorf("error %v", err)
	}
	out, err := runCommandLine(t, "deadletters", "export", "d1")
	var one trigger.DeadLetter
	if err != nil || json.Unmarshal([]byte(out), &one) != nil || one.ID != "d1" {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := runCommandLine(t, "deadletters", "export", "d9"); err == nil || !strings.Contains(err.Error(), "no dead letter d9") {
		t.Errorf("error %v", err)
	}
}
