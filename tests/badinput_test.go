package tests

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/tests/functionshost"
	"halley/tests/history"
	"halley/tests/long"
	"halley/trigger/cosmos"
)

// anywhere returns settings of the leaderboard for an account that does not exist.
func anywhere() map[string]string {
	return (&board{url: "redis://127.0.0.1:1", prefix: "nowhere:"}).settings(&account{endpoint: "http://127.0.0.1:1/"})
}

// If a setting is invalid, the process ends at once, and the error names the
// setting and the fix, both on the command line and under a host.
func TestInvalidSettingsEndTheProcess(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        []string
	}{
		{"HALLEY_LEASE_RENEW_INTERVAL", "soon", []string{"HALLEY_LEASE_RENEW_INTERVAL", "not a duration"}},
		{"HALLEY_LEASE_RENEW_INTERVAL", "2s", []string{"HALLEY_LEASE_RENEW_INTERVAL", "HALLEY_LEASE_EXPIRATION_INTERVAL", "half"}},
		{"HALLEY_FEED_POLL_DELAY", "-1s", []string{"HALLEY_FEED_POLL_DELAY", "above 0"}},
		{"HALLEY_MAX_ITEMS_PER_INVOCATION", "many", []string{"HALLEY_MAX_ITEMS_PER_INVOCATION", "whole number"}},
		{"HALLEY_START_FROM", "yesterday", []string{"HALLEY_START_FROM", "beginning", "now"}},
		{"HALLEY_MODE", "always", []string{"HALLEY_MODE", "timer", "continuous"}},
		{"HALLEY_FUNCTIONS", "scoreboard", []string{"HALLEY_FUNCTIONS", "scoreboard", "leaderboard"}},
		{"HALLEY_LEASE_CONTAINER", "x", []string{"HALLEY_LEASE_CONTAINER is not a setting", "HALLEY_LEASE_CONTAINER_NAME"}},
		{"HALLEY_CONTAINER_NAME", "", []string{"HALLEY_CONTAINER_NAME", "not set"}},
		{"HALLEY_LEASE_CONTAINER_NAME", results, []string{"HALLEY_LEASE_CONTAINER_NAME", "of their own"}},
		{"HALLEY_LEADERBOARD_REDIS_URL", "localhost:6379", []string{"HALLEY_LEADERBOARD_REDIS_URL", "redis://"}},
		{"HALLEY_CONNECTION", "AccountEndpoint=http://x/;AccountKey=c2VjcmV0;", []string{"CONNECTION", "name"}},
		{"CosmosDB", "", []string{"CosmosDB", "not set"}},
		{"CosmosDB", "AccountEndpoint=http://127.0.0.1:1/;", []string{"CosmosDB", "AccountKey"}},
		{"CosmosDB", "AccountEndpoint=http://127.0.0.1:1/;AccountKey=not a key;", []string{"CosmosDB", "base64"}},
	} {
		settings := anywhere()
		settings[test.name] = test.value
		_, stderr, code := command(t, settings, "run")
		if code != 1 {
			t.Errorf("%s=%s: exit code %d", test.name, test.value, code)
		}
		for _, want := range test.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s=%s: no %q in %s", test.name, test.value, want, stderr)
			}
		}
		if strings.Contains(stderr, "c2VjcmV0") {
			t.Errorf("%s=%s: a key is shown in %s", test.name, test.value, stderr)
		}
	}
}

// If the name of a connection is set to a connection string by mistake, no output
// shows it, on the command line and under each host.
func TestConnectionStringAsNameIsNotPrinted(t *testing.T) {
	for _, name := range []string{"HALLEY_CONNECTION", "HALLEY_LEASE_CONNECTION", "HALLEY_DEAD_LETTERS_CONNECTION"} {
		for _, args := range [][]string{{"check"}, {"run"}, nil} {
			settings := anywhere()
			settings["HALLEY_DEAD_LETTERS"] = "blob:dead"
			settings[name] = "AccountEndpoint=https://x/;AccountKey=c2VjcmV0;"
			if args == nil { // under the Functions host
				_, settings["FUNCTIONS_CUSTOMHANDLER_PORT"], _ = net.SplitHostPort(freeAddress(t))
			}
			stdout, stderr, code := command(t, settings, args...)
			if code != 1 || strings.Contains(stdout+stderr, "c2VjcmV0") {
				t.Errorf("%s, halley %s: exit code %d\n%s%s", name, args, code, stdout, stderr)
			}
			if args == nil && !strings.Contains(stdout, name+"=[redacted]") && !strings.Contains(stdout, name+": a connection is a name") {
				t.Errorf("%s under the Functions host: %s", name, stdout)
			}
		}
	}
}

func TestInvalidCommandLines(t *testing.T) {
	for _, test := range []struct {
		args string
		want string
	}{
		{"orbit", "orbit"},
		{"emulator --addr 0.0.0.0:0", "listen on 127.0.0.1"},
		{"emulator --addr 127.0.0.1:0 --cert-out no/directory/x.pem", "write certificate"},
		{"dev --hosts 0 --for 1s", "--hosts"},
		{"dev --for 1s --split-after 2s", "--split-after"},
		{"run now", "now"},
	} {
		_, stderr, code := command(t, nil, strings.Fields(test.args)...)
		if code != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("halley %s: exit code %d, %s; want 1 and %q", test.args, code, stderr, test.want)
		}
	}
}

// If an account cannot work, halley check says so, and halley run does not start.
func TestUnusableAccountsAreReported(t *testing.T) {
	a := startAccount(t, 1)
	a.create(t, "foreign", "/leasePk", 400)
	good := newBoard(t).settings(a)
	unknown := maps.Clone(good)
	unknown["HALLEY_CONTAINER_NAME"] = "scores"
	var trying *process // tries for a minute, while other tests run
	if long.Wanted() {
		trying = start(t, "run without its container", binaries.halley, unknown, "run")
	}
	t.Parallel()
	for _, test := range []struct {
		name    string
		setting string
		value   string
		want    []string
		runs    bool // halley check succeeds
	}{
		{"as it should be", "HALLEY_LOG_LEVEL", "info", []string{"create, read, query, replace and delete a lease"}, true},
		{"unknown container", "HALLEY_CONTAINER_NAME", "scores", []string{"scores", "HALLEY_CONTAINER_NAME"}, false},
		{"unknown lease container", "HALLEY_LEASE_CONTAINER_NAME", "rents", []string{"rents", "HALLEY_LEASE_CONTAINER_NAME"}, false},
		{"unknown database", "HALLEY_DATABASE_NAME", "sports", []string{"sports", "HALLEY_DATABASE_NAME"}, false},
		{"foreign key path", "HALLEY_LEASE_CONTAINER_NAME", "foreign", []string{"/leasePk", "/id", "HALLEY_LEASE_CONTAINER_NAME"}, false},
		{"wrong key", "CosmosDB", "AccountEndpoint=" + a.endpoint + ";AccountKey=d3Jvbmc=;", []string{"401", "key"}, false},
		{"nobody there", "CosmosDB", "AccountEndpoint=http://127.0.0.1:1/;AccountKey=d3Jvbmc=;", []string{"refused", "endpoint"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			settings := maps.Clone(good)
			settings[test.setting] = test.value
			stdout, stderr, code := command(t, settings, "check")
			if ok := code == 0; ok != test.runs {
				t.Errorf("halley check: exit code %d\n%s%s", code, stdout, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("halley check does not say %q:\n%s", want, stdout)
				}
			}
			if strings.Contains(stdout+stderr, "d3Jvbmc=") || strings.Contains(stdout+stderr, "C2y6yDjf5") {
				t.Errorf("halley check shows a key:\n%s", stdout)
			}
		})
	}
	if trying != nil {
		code := trying.waitFor(t, 2*time.Minute)
		_, failure, _ := strings.Cut(trying.output.String(), "\nhalley: ")
		if code != 1 || !strings.Contains(failure, "scores") || !strings.Contains(failure, "HALLEY_CONTAINER_NAME") {
			t.Errorf("halley run: exit code %d, want 1 and an error that names the container and its setting:\n%s", code, trying.output)
		}
	}
	if documents := a.documents(t, leases); len(documents) != 0 {
		t.Errorf("the lease container holds %v after checks alone", documents)
	}
}

// If a request is not an invocation, it gets a 4xx with a reason and runs nothing.
func TestInvalidInvocationsRunNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("packages the app")
	}
	t.Parallel()
	a := startAccount(t, 1)
	b := newBoard(t)
	r := newRecord(t)
	l := a.distinct(r)
	l.players = 5
	l.some(t, 1, 2)
	h := hostApp(t, unpacked(t), b.settings(a), functionshost.Options{})
	if err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	const kind = "application/json; charset=utf-8"
	for _, test := range []struct {
		name, method, path, kind, host string
		body                           string
		status                         int
	}{
		{"method", http.MethodGet, "function", kind, "", "", 405},
		{"path", http.MethodPost, "functions", kind, "", `{}`, 404},
		{"path of another case", http.MethodPost, "Function", kind, "", `{}`, 404},
		{"path through the API", http.MethodPost, "api/function", kind, "", `{}`, 404},
		{"traversal", http.MethodPost, "x/..%2ffunction", kind, "", `{}`, 404},
		{"posted readiness", http.MethodPost, "", kind, "", `{}`, 405},
		{"type", http.MethodPost, "function", "text/plain", "", `{}`, 415},
		{"no type", http.MethodPost, "function", "", "", `{}`, 415},
		{"not JSON", http.MethodPost, "function", kind, "", `{"Data":`, 400},
		{"no object", http.MethodPost, "function", kind, "", `[1]`, 400},
		{"empty", http.MethodPost, "function", kind, "", ``, 400},
		{"size", http.MethodPost, "function", kind, "", `{"Data":{"t":"` + strings.Repeat("x", 2<<20) + `"}}`, 413},
		{"host", http.MethodPost, "function", kind, "rebound.example", `{}`, 421},
	} {
		status, answer := post(t, test.method, h.URL()+test.path, test.kind, test.host, test.body)
		var problem struct{ Error string }
		if err := json.Unmarshal(answer, &problem); status != test.status || err != nil || problem.Error == "" {
			t.Errorf("%s: %d %s, want %d with a reason as JSON", test.name, status, answer, test.status)
		}
	}
	if games := b.games(t); games != 0 {
		t.Errorf("refused invocations have made %d boards", games)
	}
	if result := ended(t, h.FireTimer("function", functionshost.Timer{})); result.Err != nil || b.missing(t, r) != 0 {
		t.Errorf("a tick afterwards: %v, %d changes are missing", result.Err, b.missing(t, r))
	}
	if h.Starts() != 1 {
		t.Errorf("%d processes", h.Starts())
	}
}

func post(t *testing.T, method, url, kind, host, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// Feed pages are cut, connections drop, requests are throttled or fail, and a
// document has almost 2 MB: no change is lost, and none overtakes another.
func TestBrokenAnswersLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about five seconds")
	}
	t.Parallel()
	a := startAccount(t, 2)
	r := newRecord(t)
	l := a.load(r)
	l.some(t, 1, 2)
	for _, fault := range []map[string]any{
		{"truncate": 40},
		{"drop": "before"},
		{"status": 429, "substatus": 3200, "retryAfter": "50ms"},
		{"status": 503},
		{"status": 449},
		{"status": 410, "substatus": 1007},
		{"status": 404, "substatus": 1002},
	} {
		fault["method"], fault["resource"], fault["nth"], fault["count"] = http.MethodGet, "docs", 3, 2
		fault["header"] = map[string]string{"A-IM": "."} // only feed reads
		a.manage(t, http.MethodPost, "faults", fault, nil)
	}
	a.manage(t, http.MethodPost, "faults", map[string]any{ // lease writes that are applied, but not answered
		"method": http.MethodPut, "drop": "after", "nth": 2, "count": 5,
	}, nil)
	large := map[string]any{"id": "player-0-3", "player": "player-0", "game": "game-3", "score": 3, "replay": strings.Repeat("x", 2_000_000)}
	_, err := a.client.Container(database, results).Upsert(t.Context(), cosmos.NewPartitionKey("player-0"), large)
	a.must(t, err)
	a.must(t, history.Append(r.file, history.Event{Kind: history.Write, Key: "player-0", Seq: 3, ID: "player-0-3"}))
	p := a.recorder(t, "only", r, "-fail", "2")
	l.some(t, 4, 8)
	passes(t, r.settled(t))
	if code := p.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
