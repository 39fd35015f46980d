package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// runCommandLine runs halley with args; stdin is not a terminal.
func runCommandLine(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	return runCommandsOf(t, testApp(), args...)
}

func runCommandsOf(t *testing.T, p *Program, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	command := p.Root(args)
	command.SetIn(strings.NewReader("y\n"))
	command.SetOut(&out)
	command.SetErr(&out)
	err = command.ExecuteContext(t.Context())
	return out.String(), err
}

// putDeadLetters stores dead letters of the leaderboard as the environment says,
// oldest first, with ids d0, d1, ….
func putDeadLetters(t *testing.T, documents ...string) {
	t.Helper()
	stores, err := (&letterFlags{program: &testApp().Program.Program, function: "leaderboard"}).openStores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, document := range documents {
		var doc struct{ ID, Player string }
		if err := json.Unmarshal([]byte(document), &doc); err != nil {
			t.Fatal(err)
		}
		of := stores[0].Source
		err := stores[0].Put(t.Context(), trigger.DeadLetter{
			Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead,
			ID: fmt.Sprint("d", i), Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Range: fmt.Sprint(i % 2), LSN: int64(10 + i), Key: fmt.Sprintf("[%q]", doc.Player),
			Operation: cosmos.OperationUpsert, Document: []byte(document), DocumentID: doc.ID, Error: "redis is full\nsecond line", Stack: "goroutine 1",
			Attempts: 10, Time: time.Date(2026, 1, 31, 9, 0, i, 0, time.UTC),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// poisonous is a document that the leaderboard refuses.
func poisonous(id, player string) string { return fmt.Sprintf(`{"id":%q,"player":%q}`, id, player) }

func ids(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := runCommandLine(t, append([]string{"deadletters", "list", "--json"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for line := range strings.Lines(out) {
		var d trigger.DeadLetter
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		ids = append(ids, d.ID)
	}
	return ids
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ",") != strings.Join(want, ",") {
		t.Errorf("letters %v, want %v", got, want)
	}
}

// A postponed change is listed as such, and left to its function unless it is selected.
func TestDeadLetterCommandsTellPostponedChangesApart(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	if _, err := runCheck(t, a.Env("HALLEY_DEAD_LETTERS", "container")); err != nil {
		t.Fatal(err)
	}
	putDeadLetters(t, apptest.Scored("a", "ada", 5))
	stores, err := (&letterFlags{program: &testApp().Program.Program, function: "leaderboard"}).openStores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for d, err := range trigger.AllDeadLetters(t.Context(), stores[0], trigger.DeadLetterQuery{Source: stores[0].Source, Kind: trigger.RecordDead}) {
		if err != nil {
			t.Fatal(err)
		}
		d.Kind, d.ID, d.Time, d.Postponed, d.Due = trigger.RecordPostponed, "late", d.Time.Add(time.Second), 1, time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
		if err := stores[0].Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		break
	}
	equal(t, ids(t), "d0", "late")
	equal(t, ids(t, "--limit", "1"), "d0", "late") // of each kind
	equal(t, ids(t, "--postponed"), "late")
	if out, err := runCommandLine(t, "deadletters", "show", "late"); err != nil || !strings.Contains(out, "postponed until") {
		t.Errorf("show: %v\n%s", err, out)
	}
	if out, err := runCommandLine(t, "deadletters", "list", "--postponed"); err != nil || !strings.Contains(out, "postponed until 2030-01-31T09:00:00Z") {
		t.Errorf("list: %v\n%s", err, out)
	}
	if out, err := runCommandLine(t, "deadletters", "replay", "--yes"); err != nil || !strings.Contains(out, "1 handled") {
		t.Errorf("replay: %v\n%s", err, out)
	}
	equal(t, ids(t), "late")
	if out, err := runCommandLine(t, "deadletters", "discard", "--all", "--yes"); err != nil || !strings.Contains(out, "0 dead letters deleted") {
		t.Errorf("discard: %v\n%s", err, out)
	}
	if out, err := runCommandLine(t, "deadletters", "replay", "--postponed", "--yes"); err != nil || !strings.Contains(out, "1 handled") {
		t.Errorf("replay of postponed changes: %v\n%s", err, out)
	}
	equal(t, ids(t))
}

// TestDeadLetterCommandsOnEachStore goes through the commands on the stores of package app;
// tests/letters_test.go has those of Azure Storage.
func TestDeadLetterCommandsOnEachStore(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) string{
		"container": func(*testing.T) string { return "container" },
		"directory": func(t *testing.T) string { return "directory:" + t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			where := store(t)
			a := apptest.ServeAccount(t, emulator.ServeOptions{})
			out, err := runCheck(t, a.Env("HALLEY_DEAD_LETTERS", where))
			if err != nil || !strings.Contains(out, "dead letters to "+where) {
				t.Errorf("check: %v\n%s", err, out)
			}
			equal(t, ids(t))
			putDeadLetters(t, apptest.Scored("a", "ada", 5), poisonous("b", "bob"), apptest.Scored("c", "cid", 7), apptest.Scored("d", "bob", 9))
			equal(t, ids(t), "d0", "d1", "d2", "d3")
			equal(t, ids(t, "--key", "bob"), "d1", "d3")
			equal(t, ids(t, "--key", `["ada"]`, "--function", "leaderboard"), "d0")
			equal(t, ids(t, "--range", "0"), "d0", "d2")
			equal(t, ids(t, "--since", "2026-01-31T09:00:02Z"), "d2", "d3")
			equal(t, ids(t, "--since", "1h"))
			equal(t, ids(t, "--until", "2026-01-31T09:00:02Z"), "d0", "d1")
			equal(t, ids(t, "--since", "2026-01-31T09:00:01Z", "--until", "2026-01-31T09:00:03Z"), "d1", "d2")
			equal(t, ids(t, "--newest", "--limit", "4"), "d3", "d2", "d1", "d0")
			checkNewestPages(t)
			equal(t, ids(t, "--limit", "1", "--key", "bob"), "d1")
			equal(t, ids(t, "--error", "redis is"), "d0", "d1", "d2", "d3")
			equal(t, ids(t, "--error", "disk"))
			if _, err := runCommandLine(t, "deadletters", "replay", "d0", "d9", "--yes"); err == nil || !strings.Contains(err.Error(), "no dead letter d9") {
				t.Errorf("an id that is missing: %v", err)
			}
			out, err = runCommandLine(t, "deadletters", "replay", "--dry-run", "--limit", "3")
			if err != nil || !strings.Contains(out, "d2") || strings.Contains(out, "d3") || !strings.Contains(out, `["bob"]`) || a.OnBoard(t) != 0 {
				t.Errorf("dry run: %v\n%s", err, out)
			}
			if out, err := runCommandLine(t, "deadletters", "replay", "d0", "--yes"); err != nil || !strings.Contains(out, "1 handled, 0 failed") {
				t.Errorf("replay of one: %v\n%s", err, out)
			}
			equal(t, ids(t), "d1", "d2", "d3")

			out, err = runCommandLine(t, "deadletters", "replay", "--yes")
			if err == nil || !strings.Contains(err.Error(), "2 dead letters are left") {
				t.Errorf("error %v", err)
			}
			if !strings.Contains(out, "leaderboard: 1 handled, 1 failed again, 1 waiting") || !strings.Contains(out, "letter d1 failed again") {
				t.Errorf("replay says %q", out)
			}
			if a.OnBoard(t) != 2 {
				t.Errorf("%d players on the board, want ada and cid", a.OnBoard(t))
			}
			equal(t, ids(t), "d1", "d3")

			if out, err := runCommandLine(t, "deadletters", "discard", "d1", "--yes"); err != nil || out != "1 dead letters deleted\n" {
				t.Errorf("%q, %v", out, err)
			}
			out, err = runCommandLine(t, "deadletters", "replay", "--yes", "--json")
			if want := `[{"function":"leaderboard","handled":1,"failed":0,"waiting":0,"failures":[]}]` + "\n"; err != nil || out != want {
				t.Errorf("%s, %v, want %s", out, err, want)
			}
			equal(t, ids(t))
		})
	}
}

// checkNewestPages lists four dead letters in pages of three, the newest first, and continues
// with the token of the first.
func checkNewestPages(t *testing.T) {
	t.Helper()
	out, err := runCommandLine(t, "deadletters", "list", "--newest", "--limit", "3")
	_, token, found := strings.Cut(out, "older ones: --after ")
	if err != nil || !found || strings.Contains(out, "\nd0 ") || !strings.Contains(out, "\nd1 ") {
		t.Fatalf("the newest three: %v\n%s", err, out)
	}
	equal(t, ids(t, "--newest", "--limit", "3", "--after", strings.TrimSpace(token)), "d0")
	if _, err := runCommandLine(t, "deadletters", "list", "--after", strings.TrimSpace(token)); err == nil || !strings.Contains(err.Error(), "--newest") {
		t.Errorf("--after without --newest: %v", err)
	}
	if _, err := runCommandLine(t, "deadletters", "list", "--newest", "--after", "d1"); err == nil || !strings.Contains(err.Error(), "--after: the token") {
		t.Errorf("an id as a token: %v", err)
	}
}

func TestListAndShow(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	apptest.CleanEnv(t, a.Env())
	putDeadLetters(t, apptest.Scored("a", "ada", 5))
	out, err := runCommandLine(t, "deadletters", "list")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"ID", "d0", "2026-01-31T09:00:00Z", "leaderboard", `["ada"]`, "10", "redis is full\n"} {
		if !strings.Contains(out, says) {
			t.Errorf("list lacks %q:\n%s", says, out)
		}
	}
	out, err = runCommandLine(t, "deadletters", "show", "d0")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"d0", apptest.Scored("a", "ada", 5), "redis is full\nsecond line", "goroutine 1"} {
		if !strings.Contains(out, says) {
			t.Errorf("show lacks %q:\n%s", says, out)
		}
	}
	out, err = runCommandLine(t, "deadletters", "show", "d0", "--json")
	var d trigger.DeadLetter
	if err != nil || json.Unmarshal([]byte(out), &d) != nil || d.LSN != 10 || string(d.Document) != apptest.Scored("a", "ada", 5) {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := runCommandLine(t, "deadletters", "show", "d9"); err == nil || !strings.Contains(err.Error(), "no dead letter d9") {
		t.Errorf("error %v", err)
	}
}

// TestDiscardNeedsConfirmation: nothing is deleted without a clear word.
func TestDiscardNeedsConfirmation(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	apptest.CleanEnv(t, a.Env())
	putDeadLetters(t, apptest.Scored("a", "ada", 5), apptest.Scored("b", "bob", 5), apptest.Scored("c", "bob", 6))
	for _, refused := range []struct {
		args []string
		says string
	}{
		{[]string{"discard"}, "--all"},
		{[]string{"discard", "d0", "--all", "--yes"}, "--all"},
		{[]string{"discard", "d0", "--key", "bob", "--yes"}, "--key"},
		{[]string{"discard", "--error", "bob", "--yes"}, "--all"},
		{[]string{"discard", "--key", "bob"}, "--yes"},
		{[]string{"discard", "d0"}, "--yes"},
		{[]string{"discard", "--all"}, "--yes"},
		{[]string{"replay"}, "--yes"},
		{[]string{"discard", "d0", "d9", "--yes"}, "d9"},
		{[]string{"replay", "d9", "--yes"}, "d9"},
		{[]string{"replay", "--yes", "--limit", "-1"}, "--limit"},
		{[]string{"replay", "--yes", "--parallel", "0"}, "--parallel"},
		{[]string{"list", "--since", "yesterday"}, "2h"},
		{[]string{"list", "--limit", "-1"}, "--limit"},
		{[]string{"list", "--function", "push"}, "leaderboard"},
	} {
		if _, err := runCommandLine(t, append([]string{"deadletters"}, refused.args...)...); err == nil || !strings.Contains(err.Error(), refused.says) {
			t.Errorf("%v: error %v, want one that says %s", refused.args, err, refused.says)
		}
	}
	equal(t, ids(t), "d0", "d1", "d2")
	if out, err := runCommandLine(t, "deadletters", "discard", "--key", "bob", "--yes", "--json"); err != nil || out != `{"discarded":2}`+"\n" {
		t.Errorf("%q, %v", out, err)
	}
	equal(t, ids(t), "d0")
}

func TestConfirmationAnswers(t *testing.T) {
	for in, yes := range map[string]bool{"y\n": true, "YES\n": true, " yes ": true, "n\n": false, "\n": false, "": false, "yo\n": false} {
		var out bytes.Buffer
		err := ask(strings.NewReader(in), &out, "Delete?")
		if (err == nil) != yes || out.String() != "Delete? [y/N] " {
			t.Errorf("%q: error %v after %q", in, err, out.String())
		}
	}
}

func TestCommandsRefuseStoresThatKeepNothing(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	for _, store := range []string{"none", "drop"} {
		apptest.CleanEnv(t, a.Env("HALLEY_DEAD_LETTERS", store))
		if _, err := runCommandLine(t, "deadletters", "list"); err == nil || !strings.Contains(err.Error(), "HALLEY_DEAD_LETTERS") {
			t.Errorf("%s: error %v", store, err)
		}
	}
}

// TestCommandsReportFailingStore: if a store cannot be read that is an error, also
// for a replay, which does not treat it as empty.
func TestCommandsReportFailingStore(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	apptest.CleanEnv(t, a.Env("HALLEY_DEAD_LETTERS", "container:missing"))
	for _, args := range [][]string{{"list"}, {"list", "--json"}, {"show", "x"}, {"replay", "--yes"}, {"discard", "--all", "--yes"}} {
		if out, err := runCommandLine(t, append([]string{"deadletters"}, args...)...); err == nil {
			t.Errorf("%v passes: %s", args, out)
		}
	}
}

// TestMistypedDirectoryIsNotCreated: a missing directory is an error that names it.
func TestMistypedDirectoryIsNotCreated(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	path := filepath.Join(t.TempDir(), "leters")
	apptest.CleanEnv(t, a.Env("HALLEY_DEAD_LETTERS", "directory:"+path))
	for _, args := range [][]string{{"list"}, {"show", "x"}, {"replay", "--yes"}, {"discard", "--all", "--yes"}} {
		out, err := runCommandLine(t, append([]string{"deadletters"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "HALLEY_DEAD_LETTERS=directory:"+path) {
			t.Errorf("%v: error %v\n%s", args, err, out)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the directory was made")
	}
}

// TestDamagedDeadLettersAreReported: intact dead letters are listed, replayed and
// deleted, and a damaged one makes the exit code 1.
func TestDamagedDeadLettersAreReported(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	dir := t.TempDir()
	apptest.CleanEnv(t, a.Env("HALLEY_DEAD_LETTERS", "directory:"+dir))
	putDeadLetters(t, apptest.Scored("a", "ada", 5), apptest.Scored("b", "bob", 5), apptest.Scored("c", "cid", 5), apptest.Scored("d", "dan", 5))
	damage(t, dir)
	for _, step := range []struct{ args, says string }{
		{"list", "d3"}, {"list --json", `"id":"d3"`}, {"discard --all --key ada --yes", "1 dead letters deleted"},
		{"replay --yes", "leaderboard: 2 handled"}, {"replay --yes", ""}, {"discard --all --yes", ""},
	} {
		out, err := runCommandLine(t, append([]string{"deadletters"}, strings.Fields(step.args)...)...)
		if !errors.Is(err, trigger.ErrDamaged) || !strings.Contains(out, step.says) {
			t.Errorf("%s: error %v, want damage and %q in\n%s", step.args, err, step.says, out)
		}
	}
}

// damage changes a byte of the second of four dead letters in the one file of a
// directory.
func damage(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.letters"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	content, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)*3/8] ^= 1
	if err := os.WriteFile(files[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestReplayCallsHaveADeadline: a call has the deadline of the function's other
// calls, and a panic is a failure.
func TestReplayCallsHaveADeadline(t *testing.T) {
	a := apptest.ServeAccount(t, emulator.ServeOptions{})
	apptest.CleanEnv(t, a.Env())
	putDeadLetters(t, apptest.Scored("a", "ada", 1), apptest.Scored("b", "bob", 1), apptest.Scored("c", "cid", 1))
	stores, err := (&letterFlags{program: &testApp().Program.Program}).openStores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := trigger.Function{HandlerTimeout: 20 * time.Millisecond, Handler: func(ctx context.Context, b trigger.Batch) error {
		switch b.Changes[0].LSN {
		case 10:
			<-ctx.Done()
			return ctx.Err()
		case 11:
			panic("boom")
		}
		return nil
	}}
	r, err := (&operate.Selection{}).Replay(t.Context(), stores[0], f, operate.ReplayBounds{Parallel: 1})
	if err != nil || r.Handled != 1 || r.Failed != 2 || len(r.Failures) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	if first, second := r.Failures[0], r.Failures[1]; first.ID != "d0" || !strings.Contains(first.Error, "deadline") || second.ID != "d1" || !strings.Contains(second.Error, "panic") {
		t.Errorf("refusals %+v", r.Failures)
	}
}

func TestDeadLettersPrintSafely(t *testing.T) {
	d := operate.Printable(trigger.DeadLetter{ID: "x", Document: []byte(`{"half`), Previous: []byte(`{"whole":1}`)})
	raw, err := json.Marshal(d)
	if err != nil || !strings.Contains(string(raw), `"document":"{\"half"`) || !strings.Contains(string(raw), `"previous":{"whole":1}`) {
		t.Errorf("%s, %v", raw, err)
	}
	if got := text.Cell("a\x1b[31mred\tb\nsecond"); got != "a?[31mred b" {
		t.Errorf("cell %q", got)
	}
	if got := text.Printable("a\x1b[31mred\tb\nsecond\r"); got != "a?[31mred\tb\nsecond?" {
		t.Errorf("text %q", got)
	}
	if got := text.Cell(strings.Repeat("ä", 100)); got != strings.Repeat("ä", 80)+"…" {
		t.Errorf("cell of 100 runes: %q", got)
	}
}

// TestFunctionDeadLettersIntoItsStore: the whole way, from a poison document in the
// feed to its letter, with the settings' policy.
func TestFunctionDeadLettersIntoItsStore(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 8)
	account.WriteRaw(t, "p3", poisonous("bad", "p3"))
	a := hosttest.Open(t, account.Env("HALLEY_MAX_ATTEMPTS", "2", "HALLEY_RETRY_MIN", "1ms", "HALLEY_RETRY_MAX", "2ms"))
	s, err := a.Drain(t.Context())
	if err != nil || s.DeadLetters != 1 || s.Behind != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	if account.OnBoard(t) != 8 {
		t.Errorf("%d players on the board, want 8", account.OnBoard(t))
	}
	if got := ids(t); len(got) != 1 {
		t.Errorf("letters %v, want one", got)
	}
	out, err := runCommandLine(t, "deadletters", "list")
	if err != nil || !strings.Contains(out, `["p3"]`) || !strings.Contains(out, "bad") {
		t.Errorf("%v\n%s", err, out)
	}
	if line := hosting.Summarize(s); !strings.Contains(line, "1 dead-lettered") {
		t.Errorf("summary %q", line)
	}
}
