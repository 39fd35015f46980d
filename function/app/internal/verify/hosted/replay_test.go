package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/function/app/internal/verify"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// record is that of a run on an embedded account.
func record(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(&emulator.Options{BulkSeed: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		key, err := cosmos.KeyCredential(emulator.Key)
		if err != nil {
			t.Fatal(err)
		}
		meter := &verify.Meter{}
		client, err := cosmos.NewClient(account.Endpoint(), key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account, PerRetryPolicies: []policy.Policy{meter}}})
		if err != nil {
			t.Fatal(err)
		}
		report, err := verify.Run(t.Context(), verify.Options{
			Client: client, Meter: meter, Run: "halley-verify-r", Create: true, Record: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := report.WriteRecord(&text); err != nil {
			t.Fatal(err)
		}
	})
	return text.String()
}

func TestRecordIsReplayedWithTheSameAnswers(t *testing.T) {
	text := record(t)
	for name, prior := range map[string]int{"a fresh account": 0, "an account whose LSNs and ids are others": 7} {
		t.Run(name, func(t *testing.T) {
			account, err := emulator.New(&emulator.Options{BulkSeed: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer account.Close()
			for i := range prior { // resource ids are counted over the account
				if err := account.CreateContainer("other", strings.Repeat("c", i+1), "/id", 1); err != nil {
					t.Fatal(err)
				}
			}
			result, err := replay(strings.NewReader(text), account)
			if err != nil {
				t.Fatal(err)
			}
			if result.compared < 150 || result.skipped > 10 || len(result.differences) > 0 {
				t.Errorf("%d compared, %d skipped:\n%s", result.compared, result.skipped, strings.Join(result.differences, "\n"))
			}
		})
	}
}

func TestOtherAnswersAreNamed(t *testing.T) {
	text := record(t)
	for name, lie := range map[string]struct{ fact, from, into, want string }{
		"status":        {"lease: create", `"status":409`, `"status":412`, `status "409", recorded "412"`},
		"substatus":     {"ranges: unknown range", `"X-Ms-Substatus":"1002"`, `"X-Ms-Substatus":"1007"`, `substatus "1002", recorded "1007"`},
		"documents":     {"lease: query", `"X-Ms-Item-Count":"1"`, `"X-Ms-Item-Count":"2"`, `documents "1", recorded "2"`},
		"session token": {"session: token", `"X-Ms-Session-Token"`, `"X-Ms-Other"`, `session token "present", recorded "absent"`},
		"etag":          {"feed: end", `"Etag":"\"`, `"Etag":"\"x`, `etag "a quoted number", recorded "quoted"`},
	} {
		t.Run(name, func(t *testing.T) {
			var changed []string
			for line := range strings.Lines(text) {
				if strings.Contains(line, `"fact":"`+lie.fact+`"`) && strings.Contains(line, `"answer":`) {
					head, answer, _ := strings.Cut(line, `"status":`)
					line = head + strings.Replace(`"status":`+answer, lie.from, lie.into, 1)
				}
				changed = append(changed, line)
			}
			path := filepath.Join(t.TempDir(), "record.jsonl")
			if err := os.WriteFile(path, []byte(strings.Join(changed, "")), 0o600); err != nil {
				t.Fatal(err)
			}
			account, err := emulator.New(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer account.Close()
			result, err := replay(strings.NewReader(strings.Join(changed, "")), account)
			if err != nil || !strings.Contains(strings.Join(result.differences, "\n"), "("+lie.fact+"): "+lie.want) {
				t.Errorf("error %v, differences:\n%s", err, strings.Join(result.differences, "\n"))
			}
			var out strings.Builder
			if n, err := replayFile(path, &out); err != nil || n != len(result.differences) || strings.Count(out.String(), "\n") != n+1 {
				t.Errorf("the program sees %d differences, error %v: %s", n, err, out.String())
			}
		})
	}
}

func TestDamagedRecordIsRefused(t *testing.T) {
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	if _, err := replay(strings.NewReader("{}\nnot JSON\n"), account); err == nil {
		t.Error("no error")
	}
}

// answerTable has rows of two recorded exchanges, of October 2026.
const answerTable = `# A record

| exchange | what | answer (status/substatus) | charge | items | session token | first line of the message |
|---|---|---|---|---|---|---|
| 002 | create a database | 201 | 1 | - | 0:-1#1 | |
| 039 | create a document | 201 | 6.67 | - | 0:-1#31 | |
`

func TestTableOfAnswersIsReplayed(t *testing.T) {
	for name, c := range map[string]struct{ table, out, failure string }{
		"the same answers": {answerTable, "2 of 2 answers are the same", ""},
		"another status":   {strings.Replace(answerTable, "201 | 6.67", "409 | 6.67", 1), `039 POST /dbs/it/colls/kv/docs (create a document): status "201", want "409"`, ""},
		"unknown exchange": {strings.Replace(answerTable, "| 039", "| 999", 1), "", `no request is known for exchange "999"`},
		"a row cut short":  {answerTable + "| 040 | query |\n", "", "line 7: 2 cells, want at least 3"},
		"status in words":  {strings.Replace(answerTable, "201 | 6.67", "created | 6.67", 1), "", `line 6: status "created" is not a number`},
		"no table":         {"# A record\n", "", "no table with the columns"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "record.md")
			if err := os.WriteFile(path, []byte(c.table), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			_, err := replayFile(path, &out)
			if c.failure != "" {
				if err == nil || !strings.Contains(err.Error(), c.failure) {
					t.Errorf("error %v, want %q", err, c.failure)
				}
				return
			}
			if err != nil || !strings.Contains(out.String(), c.out) {
				t.Errorf("error %v, output:\n%s\nwant %q", err, out.String(), c.out)
			}
		})
	}
}
