package tests

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"halley/tests/long"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// oncall is what somebody on call has: the settings, the log of a host, halley status
// and exit codes.
type oncall struct {
	settings map[string]string
	host     *process
}

// startOnCall runs the leaderboard with short times and without dead letters.
func startOnCall(t *testing.T, a *account, b *board, more map[string]string) *oncall {
	t.Helper()
	o := &oncall{settings: b.settings(a)}
	o.settings["HALLEY_STALL_AFTER"] = "2s"
	o.settings["HALLEY_DEAD_LETTERS"] = "none"
	o.settings["HALLEY_RETRY_MAX"] = "1s"
	for name, value := range more {
		o.settings[name] = value
	}
	o.host = start(t, "host", binaries.halley, o.settings, "run")
	eventually(t, "the range has caught up", func() bool { return o.logged("range caught up") != nil })
	return o
}

// logged returns the first log line with a message, or nil.
func (o *oncall) logged(message string) map[string]any {
	for line := range strings.Lines(o.host.output.String()) {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) == nil && fields["message"] == message {
			return fields
		}
	}
	return nil
}

// status waits until halley status shows all the texts and ends with the exit code.
func (o *oncall) status(t *testing.T, code int, says ...string) {
	t.Helper()
	var out, errs string
	defer func() {
		if t.Failed() {
			t.Logf("halley status:\n%s%s", out, errs)
		}
	}()
	eventually(t, fmt.Sprintf("halley status ends with %d and shows %q", code, says), func() bool {
		var got int
		out, errs, got = command(t, o.settings, "status")
		return got == code && !slices.ContainsFunc(says, func(text string) bool { return !strings.Contains(out, text) })
	})
}

// stalled waits for the log line about a stalled range, which names the cause.
func (o *oncall) stalled(t *testing.T, cause string, says ...string) {
	t.Helper()
	eventually(t, "the log says that the range is stalled: "+cause, func() bool { return o.logged("range stalled") != nil })
	line := o.logged("range stalled")
	text, _ := json.Marshal(line)
	if line["cause"] != cause || line["range"] == nil || line["since"] == nil || line["advice"] == "" || line["level"] != "error" {
		t.Errorf("the log says %s, want the cause %s", text, cause)
	}
	for _, want := range says {
		if !strings.Contains(string(text), want) {
			t.Errorf("the log says %s, without %q", text, want)
		}
	}
}

func (o *oncall) recovered(t *testing.T) {
	t.Helper()
	eventually(t, "the log says that the range has recovered", func() bool { return o.logged("range recovered") != nil })
	o.status(t, 0, "total")
}

// Somebody on call finds the cause of each failure, and sees when it is over, by
// reading only the status, the log and exit codes.
func TestOnCallStory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	a := startAccount(t, 1)
	gone := startOnCall(t, a, newBoard(t), nil)
	a.dropContainer(t, leases) // the host tries for a minute, while other tests run
	t.Parallel()
	t.Run("poison", func(t *testing.T) {
		t.Parallel()
		a, b := startAccount(t, 1), newBoard(t)
		o := startOnCall(t, a, b, nil)
		o.status(t, 0, "leaderboard")
		write := func(game any) {
			_, err := a.client.Container(database, results).Upsert(t.Context(), cosmos.NewPartitionKey("ada"),
				map[string]any{"id": "bad", "player": "ada", "game": game, "score": 7})
			a.must(t, err)
		}
		write(42)
		o.stalled(t, "handler", "attempt", "game")
		if failed := o.logged("handler failed"); failed["documentId"] != "bad" || failed["key"] != `["ada"]` {
			t.Errorf("the log names another document: %v", failed)
		}
		o.status(t, 1, "handler has failed for", "no limit", "next in")
		write("chess")
		if code := o.host.terminate(t); code != 0 { // it repeats the version that it has read
			t.Errorf("exit code %d after SIGTERM", code)
		}
		o.host = start(t, "next", binaries.halley, o.settings, "run")
		o.status(t, 0, "total")
	})
	t.Run("slow sink", func(t *testing.T) {
		long.Only(t, "starts processes, as the other stories")
		t.Parallel()
		a, b := startAccount(t, 1), newBoard(t)
		sink := b.slowly(t, 0)
		o := startOnCall(t, a, b, nil)
		sink.delay.Store(int64(5 * time.Second))
		a.distinct(newRecord(t)).some(t, 1, 1)
		o.stalled(t, "call")
		o.status(t, 1, "handler call running for")
		sink.over()
		o.recovered(t)
	})
	t.Run("dead host", func(t *testing.T) {
		long.Only(t, "starts processes, as the other stories")
		t.Parallel()
		a, b := startAccount(t, 1), newBoard(t)
		o := startOnCall(t, a, b, map[string]string{"HALLEY_OWNER": "the-dead-one"})
		o.host.kill()
		o.status(t, 1, "the-dead-one", "owner silent for", "lease expired", "no host takes it")
		o.host = start(t, "next", binaries.halley, o.settings, "run")
		o.status(t, 0, "the-dead-one")
	})
	t.Run("throttled account", func(t *testing.T) {
		long.Only(t, "starts processes, as the other stories")
		t.Parallel()
		a, b := startAccount(t, 1), newBoard(t)
		o := startOnCall(t, a, b, nil)
		var fault struct{ ID string }
		a.manage(t, http.MethodPost, "faults", map[string]any{
			"method": "GET", "resource": "docs", "header": map[string]string{"A-IM": "."}, "status": 429, "substatus": 3200, "retryAfter": "100ms",
		}, &fault)
		o.stalled(t, "throttle", "429")
		o.status(t, 1, "?", "429")
		a.manage(t, http.MethodDelete, "faults/"+fault.ID, nil, nil)
		o.recovered(t)
	})
	t.Run("lease container gone", func(t *testing.T) {
		t.Parallel()
		gone.status(t, 1, "read lease container "+database+"/"+leases, "404")
		if !long.Wanted() {
			return // the host tries again for a minute
		}
		code, text := gone.host.waitFor(t, 100*time.Second), gone.host.output.String()
		if code != 1 || !strings.Contains(text, "halley check says") || !strings.Contains(text, "HALLEY_LEASE_CONTAINER_NAME") {
			t.Errorf("exit code %d:\n%s", code, gone.host.output.tail(20))
		}
	})
}

// A host that waits for its account says so at once.
func TestRunNamesTheAccountItWaitsFor(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	began := time.Now()
	p := start(t, "host", binaries.halley, (&board{url: "redis://127.0.0.1:1", prefix: "nowhere:"}).settings(&account{endpoint: "http://" + address + "/"}), "run")
	eventually(t, "the log names the account", func() bool { return strings.Contains(p.output.String(), `"waiting for an account"`) })
	if took := time.Since(began); long.Wanted() && took > 5*time.Second || !strings.Contains(p.output.String(), address) {
		t.Errorf("after %v the log says\n%s", took, p.output)
	}
	if code := p.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// dropContainer deletes a container.
func (a *account) dropContainer(t *testing.T, name string) {
	t.Helper()
	part := base64.RawURLEncoding.EncodeToString
	token := "type=aad&ver=1.0&sig=" + part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(`{}`)) + "." + part([]byte(emulator.Key))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, a.endpoint+"dbs/"+database+"/colls/"+name, nil)
	a.must(t, err)
	req.Header.Set("Authorization", url.QueryEscape(token))
	resp, err := http.DefaultClient.Do(req)
	a.must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("delete container: %s", resp.Status)
	}
}

// Supervisors signal the group and the process: two signals are one request to stop.
func TestRepeatedSignalStopsInGoodOrder(t *testing.T) {
	t.Parallel()
	a, b := startAccount(t, 1), newBoard(t)
	o := startOnCall(t, a, b, map[string]string{"HALLEY_OWNER": "stopping"})
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := o.host.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
	if code := o.host.wait(t); code != 0 || a.owners(t, "stopping") {
		t.Errorf("exit code %d, leases left behind: %v", code, a.owners(t, "stopping"))
	}
}
