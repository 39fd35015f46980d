package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// pageApp is an app whose handler refuses orders with a negative total.
func pageApp() *Program {
	p := newProgram("shop", handlers.New("orders", "takes orders", func(context.Context, handlers.Env, struct{}) (trigger.Handler, func() error, error) {
		return trigger.Documents(func(_ context.Context, orders []struct{ Total float64 }) error {
			for _, o := range orders {
				if o.Total < 0 {
					return errors.New("negative total")
				}
			}
			return nil
		}), nil, nil
	}))
	p.Containers = []Container{{Name: "orders", PartitionKey: []string{"/customer"}}}
	return p
}

// pageClient uses the page of a development run as the script in the browser does.
type pageClient struct {
	t              *testing.T
	address, token string
	container      *cosmos.Container
}

// openPage runs dev with a page. The leases of a host that was killed expire soon, and it does
// not try for long to give them back.
func openPage(t *testing.T, hosts int) *pageClient {
	t.Helper()
	p := pageApp()
	p.Services = presets("HALLEY_MAX_ATTEMPTS", "3", "HALLEY_RETRY_MIN", "10ms", "HALLEY_RETRY_MAX", "50ms",
		"HALLEY_LEASE_ACQUIRE_INTERVAL", "500ms", "HALLEY_LEASE_RENEW_INTERVAL", "1s", "HALLEY_LEASE_EXPIRATION_INTERVAL", "3s", "HALLEY_STOP_GRACE", "2s")
	out := startDev(t, p, runFlags{Rate: 1, Hosts: hosts, Addr: "127.0.0.1:0", Page: "127.0.0.1:0", Seeds: []string{}})
	c := &pageClient{t: t}
	c.sees("dev prints its addresses", func() bool {
		found := regexp.MustCompile(`(http://\S+)/\?token=(\w+)`).FindStringSubmatch(out.String())
		if found != nil {
			c.address, c.token = found[1], found[2]
		}
		return found != nil
	})
	endpoint := regexp.MustCompile(`AccountEndpoint=(\S+?);`).FindStringSubmatch(out.String())[1]
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(endpoint, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.container = client.Container("shop", "orders")
	return c
}

// sees waits until a condition holds.
func (c *pageClient) sees(state string, condition func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(apptest.Patience); !condition(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("never came true: %s", state)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (c *pageClient) request(method, path, body string) (status int, text string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.address+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer.StatusCode, string(all)
}

// get returns the answer about a path.
func (c *pageClient) get(path string) (v pageAnswer) {
	c.t.Helper()
	status, text := c.request(http.MethodGet, path, "")
	if status != http.StatusOK {
		c.t.Fatalf("GET %s: %d %s", path, status, text)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		c.t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

// pageAnswer holds the fields of all answers that the tests read.
type pageAnswer struct {
	pageRow
	Items  []pageRow
	Hosts  []struct{ Name, State string }
	Poison []string
	Health struct{ Problems, Letters, Hosts int }
	Plan   string

	Effects, Warnings []string
	Operation         string
}

type pageRow struct {
	ID, DocumentID, State, Error, Letter, Range, Owner, Problem, Advice string
	Text, Document                                                      string
	Attempt                                                             int
	Attempts                                                            json.RawMessage
}

// act does an action and returns the state and the text of its operation.
func (c *pageClient) act(action, selection, document string) (state, text string) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"action": action, "select": json.RawMessage(selection), "args": map[string]string{"document": document}})
	if err != nil {
		c.t.Fatal(err)
	}
	var plan, done pageAnswer
	status, answer := c.request(http.MethodPost, "plans", string(body))
	if status != http.StatusOK {
		return "refused", answer
	}
	if err := json.Unmarshal([]byte(answer), &plan); err != nil || len(plan.Effects) == 0 {
		c.t.Fatalf("%s: plan %s: %v", action, answer, err)
	}
	if _, answer = c.request(http.MethodPost, "plans/"+plan.Plan, "{}"); json.Unmarshal([]byte(answer), &done) != nil {
		c.t.Fatalf("%s: %s", action, answer)
	}
	var o pageAnswer
	c.sees(action+" ends", func() bool {
		o = c.get("operations/" + done.Operation)
		return o.State != "running"
	})
	return o.State, o.Text
}

func (c *pageClient) write(id string, total float64) {
	c.t.Helper()
	if _, err := c.container.Upsert(c.t.Context(), cosmos.NewPartitionKey("eve"), fmt.Appendf(nil, `{"id":%q,"customer":"eve","total":%g}`, id, total)); err != nil {
		c.t.Fatal(err)
	}
}

// change waits until the newest change of a document has a state.
func (c *pageClient) change(id, state string) (row pageRow) {
	c.t.Helper()
	c.sees(id+" is "+state, func() bool {
		if items := c.get("changes?key=" + id).Items; len(items) > 0 {
			row = items[0]
		}
		return row.State == state
	})
	return row
}

// TestPageDeliversAgain: a refused document is dead-lettered with its attempts and
// error; it fails again, and succeeds with an edited document, which empties the store.
func TestPageDeliversAgain(t *testing.T) {
	t.Parallel()
	c := openPage(t, 1)
	c.write("good", 1)
	good := c.change("good", "handled")
	c.write("bad", -1)
	bad := c.change("bad", "dead-lettered")
	if bad.Attempt != 3 || bad.Error != "negative total" || bad.Letter == "" {
		t.Errorf("change %+v", bad)
	}
	if letters := c.get("letters").Items; len(letters) != 1 || letters[0].ID != bad.Letter {
		t.Fatalf("dead letters %+v", letters)
	}
	if state, text := c.act("deliver", `{"change":"`+good.ID+`"}`, ""); state != "done" || text != "document good was handled" {
		t.Errorf("deliver: %s, %s", state, text)
	}
	if state, text := c.act("deliver", `{"letter":"`+bad.Letter+`"}`, ""); state != "failed" || !strings.Contains(text, "negative total") {
		t.Errorf("deliver a dead letter: %s, %s", state, text)
	}
	for document, says := range map[string]string{`{"id":`: "not JSON", `[1]`: "JSON object"} {
		if state, text := c.act("edit", `{"letter":"`+bad.Letter+`"}`, document); state != "refused" || !strings.Contains(text, says) {
			t.Errorf("edit to %s: %s, %s", document, state, text)
		}
	}
	if state, text := c.act("edit", `{"letter":"`+bad.Letter+`"}`, c.get("letters/"+bad.Letter).Document); state != "refused" || !strings.Contains(text, "not changed") {
		t.Errorf("edit without a change: %s, %s", state, text)
	}
	if state, text := c.act("edit", `{"letter":"`+bad.Letter+`"}`, `{"id":"bad","customer":"eve","total":1}`); state != "done" || !strings.Contains(text, "removed") {
		t.Errorf("edit: %s, %s", state, text)
	}
	if row := c.change("bad", "handled"); row.Letter != "" {
		t.Errorf("change %+v", row)
	}
	c.sees("the store is empty", func() bool { return len(c.get("letters").Items) == 0 })
}

// TestPagePoisonsAndCures: a poison document is written again, fails with a stack, and
// can be delivered once it is cured.
func TestPagePoisonsAndCures(t *testing.T) {
	t.Parallel()
	c := openPage(t, 1)
	c.write("one", 1)
	row := c.change("one", "handled")
	if state, text := c.act("poison", `{"change":"`+row.ID+`"}`, ""); state != "done" {
		t.Fatalf("poison: %s, %s", state, text)
	}
	poisoned := c.change("one", "dead-lettered")
	if attempts := string(c.get("changes/" + poisoned.ID).Attempts); !strings.Contains(attempts, "document one is poison") || !strings.Contains(attempts, "goroutine") {
		t.Errorf("attempts %s", attempts)
	}
	if names := c.get("status").Poison; len(names) != 1 || names[0] != "one" {
		t.Errorf("poison %v", names)
	}
	if state, text := c.act("cure", `{"document":"one"}`, ""); state != "done" {
		t.Errorf("cure: %s, %s", state, text)
	}
	if state, text := c.act("cure", `{"document":"one"}`, ""); state != "refused" {
		t.Errorf("cure twice: %s, %s", state, text)
	}
	if state, text := c.act("deliver", `{"change":"`+poisoned.ID+`"}`, ""); state != "done" || !strings.Contains(text, "removed") {
		t.Errorf("deliver: %s, %s", state, text)
	}
}

// TestPageSplitsMergesAndKills: ranges follow a split and a merge, and another host
// takes the leases of one that was killed.
func TestPageSplitsMergesAndKills(t *testing.T) {
	t.Parallel()
	c := openPage(t, 2)
	owned := func(n int, by ...string) func() bool {
		return func() bool {
			rows := c.get("ranges").Items
			for _, r := range rows {
				if r.Problem != "" || !strings.Contains(strings.Join(by, " "), r.Owner) || r.Owner == "" {
					return false
				}
			}
			return len(rows) == n
		}
	}
	c.sees("the range has an owner", owned(1, "dev-1", "dev-2"))
	if state, text := c.act("merge", `{"function":"orders","range":"0"}`, ""); state != "refused" || !strings.Contains(text, "no next range") {
		t.Errorf("merge: %s, %s", state, text)
	}
	if state, text := c.act("split", `{"function":"orders","range":"0"}`, ""); state != "done" {
		t.Fatalf("split: %s, %s", state, text)
	}
	c.sees("the children have owners", owned(2, "dev-1", "dev-2"))
	if state, text := c.act("merge", `{"function":"orders","range":"1"}`, ""); state != "done" {
		t.Fatalf("merge: %s, %s", state, text)
	}
	c.sees("the merge is in the timeline", func() bool {
		_, text := c.request(http.MethodGet, "timeline", "")
		return strings.Contains(text, "ranges 1 and 2 were merged into 3") && strings.Contains(text, "replaced by 1, 2")
	})
	c.sees("the leases of the merged range have owners", func() bool {
		rows := c.get("ranges").Items
		return owned(2, "dev-1", "dev-2")() && len(rows) == 2 && strings.Contains(rows[0].Range, "-") && strings.Contains(rows[1].Range, "-")
	})
	if state, text := c.act("split", `{"function":"orders","range":"`+c.get("ranges").Items[0].Range+`"}`, ""); state != "done" {
		t.Fatalf("split of a lease of keys: %s, %s", state, text)
	}
	var victim string
	c.sees("all leases have an owner", func() bool {
		rows := c.get("ranges").Items
		if len(rows) > 0 {
			victim = rows[0].Owner
		}
		return victim != ""
	})
	if state, text := c.act("kill", `{"host":"`+victim+`"}`, ""); state != "done" {
		t.Fatalf("kill: %s, %s", state, text)
	}
	if state, text := c.act("kill", `{"host":"`+victim+`"}`, ""); state != "refused" {
		t.Errorf("kill twice: %s, %s", state, text)
	}
	if state, text := c.act("start", `{}`, ""); state != "done" || text != "host dev-3 was started" {
		t.Errorf("start: %s, %s", state, text)
	}
	c.sees("the host is killed, and others own all leases", func() bool {
		var killed, running []string
		for _, h := range c.get("status").Hosts {
			if h.State == "killed" {
				killed = append(killed, h.Name)
			} else {
				running = append(running, h.Name)
			}
		}
		return slices.Equal(killed, []string{victim}) && len(running) == 2 && owned(len(c.get("ranges").Items), running...)()
	})
	c.write("late", 1)
	c.change("late", "handled")
}

// TestPageNamesTheStallAsStatusDoes: a range that makes no progress has its reason and
// the next step.
func TestPageNamesTheStallAsStatusDoes(t *testing.T) {
	t.Parallel()
	c := openPage(t, 1)
	c.sees("the range has an owner", func() bool { rows := c.get("ranges").Items; return len(rows) == 1 && rows[0].Owner == "dev-1" })
	if state, text := c.act("kill", `{"host":"dev-1"}`, ""); state != "done" {
		t.Fatalf("kill: %s, %s", state, text)
	}
	c.write("late", 1)
	c.sees("the owner is silent", func() bool {
		rows := c.get("ranges").Items
		return len(rows) == 1 && strings.Contains(rows[0].Problem, "owner silent") && strings.Contains(rows[0].Advice, "check that the owner's process runs")
	})
	if state, text := c.act("start", `{}`, ""); state != "done" {
		t.Errorf("start: %s, %s", state, text)
	}
	c.change("late", "handled")
}

func TestPageIsForLoopbackOnly(t *testing.T) {
	for page, says := range map[string]string{
		"": "", "on": "", "off": "", "127.0.0.1:0": "", "localhost:9000": "",
		"0.0.0.0:8082": "reached by other machines", ":8082": "reached by other machines", "8082": "write an address",
	} {
		err := runFlags{Rate: 1, Hosts: 1, Page: page}.check()
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("--page=%s: error %v", page, err)
		}
	}
	if err := (runFlags{Rate: 1, Hosts: 1, Watch: true, Letters: "x"}).check(); err == nil || !strings.Contains(err.Error(), "--watch") {
		t.Errorf("--dead-letters with --watch: error %v", err)
	}
	for name, test := range map[string]struct {
		options  runFlags
		terminal bool
		listens  bool
	}{
		"terminal":            {runFlags{}, true, true},
		"no terminal":         {runFlags{}, false, false},
		"asked for":           {runFlags{Page: "127.0.0.1:0"}, false, true},
		"off":                 {runFlags{Page: "off"}, true, false},
		"watched on terminal": {runFlags{Watch: true}, true, true},
	} {
		l, err := listenForPage(test.options, test.terminal)
		if err != nil || (l != nil) != test.listens {
			t.Errorf("%s: %v, error %v", name, l, err)
		}
		l.Shut()
	}
}

// TestDeadLettersRunInDev: dead letters that were exported elsewhere reach the local
// handler, once each, and the verdict tells of them.
func TestDeadLettersRunInDev(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	letter := func(id string, total float64) string {
		text, err := json.Marshal(trigger.DeadLetter{
			Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: id, Function: "orders", Account: "prod.example", Range: "17", LSN: 99, Key: `["eve"]`, Operation: cosmos.OperationUpsert, DocumentID: id,
			Document: fmt.Appendf(nil, `{"id":%q,"customer":"eve","total":%g}`, id, total), Error: "it failed in production", Attempts: 10,
		})
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (string, error) {
		var out apptest.Lines
		err := develop(t.Context(), pageApp(), runFlags{For: time.Second, Rate: 1, Hosts: 1, Addr: "127.0.0.1:0", Seeds: []string{}, Letters: file}, &out, &out)
		return out.String(), err
	}
	write(letter("first", 1) + "\n" + letter("second", 2))
	if out, err := run(); err != nil || !strings.Contains(out, "dead letter first, document first of orders: handled") || !strings.Contains(out, "2 dead letters of the file handled") {
		t.Errorf("%v\n%s", err, out)
	}
	write(letter("first", 1) + letter("second", -2))
	if out, err := run(); !errors.Is(err, errUnhandled) || !strings.Contains(out, "document second of orders: failed again: negative total") || !strings.Contains(out, "NOT HANDLED: 1 dead letter of the file") {
		t.Errorf("%v\n%s", err, out)
	}
	for text, says := range map[string]string{
		"":                               "the file has no dead letter",
		letter("first", 1) + "no JSON\n": ":2: not a dead letter",
		`{"id":"1","version":9,"kind":"dead","function":"orders"}`: "use a newer Halley",
		`{"id":"1","version":1,"kind":"dead","function":"other"}`:  `of function "other", which is not enabled: the functions are orders`,
	} {
		write(text)
		if out, err := run(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v\n%s", text, err, out)
		}
	}
}
