package command

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"halley/function/app/internal/apptest"
	"halley/handlers/handlerstest"
	"halley/trigger/emulator"
)

// falsified answers for an embedded account, with one text of its answers replaced.
type falsified struct {
	account    *emulator.Account
	from, into string
}

func (f falsified) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	recorded := httptest.NewRecorder()
	f.account.ServeHTTP(recorded, req)
	body := recorded.Body.String()
	if f.from != "" {
		body = strings.ReplaceAll(body, f.from, f.into)
	}
	for name, values := range recorded.Header() {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(recorded.Code)
	if recorded.Code != http.StatusNotModified && recorded.Code != http.StatusNoContent {
		_, _ = w.Write([]byte(body)) // the client sees if it is cut
	}
}

// TestCommandsOnSlowAccounts runs commands that wait for seconds, at once.
func TestCommandsOnSlowAccounts(t *testing.T) {
	if !handlerstest.IsLong() {
		t.Skip("waits ten seconds for documents to expire, and for an account that does not answer; package verify runs the facts of the first in simulated time: it runs if HALLEY_TEST_LONG is set")
	}
	silent := listenInSilence(t)
	env := apptest.Complete("HALLEY_FUNCTIONS", "leaderboard", "HALLEY_CONTAINER_NAME", "results", "CosmosDB", connectionTo("http://"+silent))
	accounts := serveFalsified(t, env)
	apptest.CleanEnv(t, env)
	t.Setenv("FUNCTIONS_APP_ROOT_PATH", t.TempDir())
	t.Run("verify-service", func(t *testing.T) {
		t.Parallel()
		testVerifyServiceCommand(t, accounts)
	})
	t.Run("silent account", func(t *testing.T) {
		t.Parallel()
		testSilentAccount(t, silent)
	})
}

func connectionTo(endpoint string) string {
	return "AccountEndpoint=" + endpoint + "/;AccountKey=" + emulator.Key + ";"
}

// serveFalsified serves an account as it should be, one with a difference that is a remark,
// and one that must not be used, and adds their connections to env.
func serveFalsified(t *testing.T, env map[string]string) map[string]falsified {
	t.Helper()
	accounts := map[string]falsified{
		"Good": {}, "Weak": {from: `"defaultConsistencyLevel":"`, into: `"defaultConsistencyLevel":"Eventual","other":"`}, "Bad": {from: `"operationType":"create"`, into: `"operationType":"replace"`},
	}
	for name, f := range accounts {
		account, err := emulator.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		f.account = account
		server := httptest.NewServer(f)
		t.Cleanup(func() {
			server.Close()
			if err := account.Close(); err != nil {
				t.Error(err)
			}
		})
		accounts[name] = f
		env[name] = connectionTo(server.URL)
	}
	return accounts
}

func testVerifyServiceCommand(t *testing.T, accounts map[string]falsified) {
	record := filepath.Join(t.TempDir(), "record.jsonl")
	var runs sync.WaitGroup
	for name, want := range map[string]struct {
		code  int
		says  string
		flags []string
	}{
		"Good": {0, `"verdict": "Verified: `, []string{"--json", "--record", record}},
		"Weak": {2, "Verified with remarks: account: consistency;", nil},
		"Bad":  {3, "Do not use Halley on this account: all versions: order", nil},
	} {
		runs.Go(func() {
			var out, notes strings.Builder
			c := VerifyServiceCommand()
			c.SetArgs(append([]string{"--create", "--connection", name}, want.flags...))
			c.SetOut(&out)
			c.SetErr(&notes)
			code := 0
			if err := c.ExecuteContext(t.Context()); err != nil {
				code = ExitCode(err)
			}
			if code != want.code || !strings.Contains(out.String(), want.says) {
				t.Errorf("%s: exit code %d, want %d\n%s\n%s", name, code, want.code, out.String(), notes.String())
			}
			if !strings.Contains(notes.String(), "This run costs about ") {
				t.Errorf("%s: the price is not said: %s", name, notes.String())
			}
			if left := accounts[name].account.State().Databases; len(left) > 0 {
				t.Errorf("%s: left behind: %v", name, left)
			}
			if want.flags != nil && !json.Valid([]byte(out.String())) {
				t.Errorf("%s: not JSON: %s", name, out.String())
			}
		})
	}
	runs.Wait()
	if info, err := os.Stat(record); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("record: %v, %v", info, err)
	}
}

func TestVerifyServiceRefusesInvalidArguments(t *testing.T) {
	apptest.CleanEnv(t, nil)
	for args, want := range map[string]string{
		"":                            "give --create",
		"--create --container a":      "leave out --container",
		"--create --limit -1":         "must not be negative",
		"--create":                    "connection CosmosDB is not set",
		"--create --connection a=b;c": "not the connection string",
		"--database a --container b --leases c --i-know-it-has-data --record x": "would hold your data",
	} {
		c := VerifyServiceCommand()
		c.SetArgs(strings.Fields(args))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
