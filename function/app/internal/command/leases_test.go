package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
	"halley/trigger/emulator"
	"halley/trigger/leases"
)

// The on-call way: a pause holds the range, a plan moves nothing, --yes does it and
// writes a backup, and an import of the backup restores the positions.
func TestLeaseCommands(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	env := account.Env()
	apptest.CleanEnv(t, env)
	dir := t.TempDir()
	run := func(wantErr string, says []string, args ...string) {
		t.Helper()
		out, err := runCommandLine(t, append([]string{"leases"}, args...)...)
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("leases %v: %v, want %q", args, err, wantErr)
		}
		for _, text := range says {
			if !strings.Contains(out, text) {
				t.Errorf("leases %v lacks %q:\n%s", args, text, out)
			}
		}
	}
	run("findings", []string{"there are no leases"}, "verify")
	run("", []string{"2 leases exist"}, "init")
	run("", []string{"cover every key once"}, "verify")
	account.Write(t, 0, 8)
	a := hosttest.Open(t, env)
	drain := func(want int) {
		t.Helper()
		s, err := a.Drain(t.Context())
		if err != nil || s.Changes != want {
			t.Errorf("drained %+v, %v, want %d changes", s, err, want)
		}
	}
	drain(8)

	run("carry out the plan with --yes", []string{"stops: repair"}, "pause", "--reason", "repair")
	run("", nil, "pause", "--reason", "repair", "--yes", "--backup", filepath.Join(dir, "pause.json"))
	run("", []string{"repair", "(free)"}, "list")
	account.Write(t, 8, 4)
	drain(0)
	if out, err := runCommandLine(t, "status"); err != nil && !strings.Contains(out, "paused by an operator") {
		t.Errorf("status: %v\n%s", err, out)
	}
	run("", []string{"nothing was done"}, "resume", "--dry-run")
	drain(0)
	run("", []string{"continues", "done"}, "resume", "--yes", "--backup", filepath.Join(dir, "resume.json"))
	drain(4)

	backup := filepath.Join(dir, "seek.json")
	run("", []string{"repeats ", "nothing was done"}, "seek", "--to", "beginning", "--dry-run")
	run("", []string{"done; the leases as they were are in " + backup}, "seek", "--to", "beginning", "--yes", "--backup", backup)
	drain(12)
	run("nothing was done: write backup", nil, "seek", "--to", "beginning", "--yes", "--backup", backup)
	run("", []string{"nothing to do"}, "import", backup, "--yes", "--backup", filepath.Join(dir, "import.json"))
	run("", nil, "seek", "--to", "beginning", "--yes", "--backup", filepath.Join(dir, "again.json"))
	run("", []string{"skips "}, "import", backup, "--yes", "--backup", filepath.Join(dir, "import.json"))
	drain(0)

	raw, err := os.ReadFile(backup)
	var exports []leases.Export
	if err != nil || json.Unmarshal(raw, &exports) != nil || len(exports) != 1 || len(exports[0].Leases) != 2 {
		t.Errorf("backup %v: %s", err, raw)
	}
	if info, err := os.Stat(backup); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("backup %v, %v", info, err)
	}
}

func TestLeaseCommandsRefuseBadInput(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 40) // the position 12 exists: for one of the future the plan would wait
	apptest.CleanEnv(t, account.Env())
	if out, err := runCommandLine(t, "leases", "init"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"format":"other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"seek", "--to", "yesterday"}, `"now", "snapshot", a time`},
		{[]string{"seek", "--to", "12"}, "name the range"},
		{[]string{"seek", "--to", "now", "--range", "77"}, `no lease for range "77"`},
		{[]string{"seek"}, `"to" not set`},
		{[]string{"pause"}, `"reason" not set`},
		{[]string{"pause", "--reason", " "}, "give a reason"},
		{[]string{"pause", "--reason", "x", "--function", "other"}, "is not enabled"},
		{[]string{"import", bad}, "not a file of leases export"},
		{[]string{"import", bad + "x"}, "no such file"},
		{[]string{"resume", "--yes", "--dry-run"}, "none of the others can be"},
	} {
		if _, err := runCommandLine(t, append([]string{"leases"}, test.args...)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("leases %v: %v, want %q", test.args, err, test.want)
		}
	}
}
