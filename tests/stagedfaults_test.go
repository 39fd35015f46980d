package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/tests/long"
	"halley/trigger/cosmos"
)

// within is the time in which everybody on call learns the cause of a staged fault.
const within = 20 * time.Second

// staged is a host with its page and its metrics, and an account to be broken.
type staged struct {
	*oncall
	account       *account
	board         *board
	sink          *slowness
	page, metrics string
}

var pageOfRun = regexp.MustCompile(`page: (http://[^/]+/)`)

// startStaged runs the leaderboard with short times, behind a sink that can be slow.
func startStaged(t *testing.T, more map[string]string) *staged {
	t.Helper()
	s := &staged{account: startAccount(t, 2), board: newBoard(t)}
	s.sink = s.board.slowly(t, 0)
	s.metrics = "http://" + freeAddress(t) + "/"
	s.oncall = &oncall{settings: s.board.settings(s.account)}
	for name, value := range map[string]string{
		"HALLEY_STALL_AFTER": "2s", "HALLEY_DEAD_LETTERS": "none", "HALLEY_RETRY_MAX": "1s", "HALLEY_APP_NAME": "shop", "HALLEY_OWNER": "on-duty",
		"HALLEY_METRICS_ADDRESS": strings.TrimSuffix(strings.TrimPrefix(s.metrics, "http://"), "/"),
	} {
		s.settings[name] = value
	}
	for name, value := range more {
		s.settings[name] = value
	}
	if s.settings["HALLEY_DEAD_LETTERS"] != "none" {
		s.account.create(t, "letters", "/function", 400)
	}
	s.host = start(t, "host", binaries.halley, s.settings, "run", "--page", "127.0.0.1:0")
	eventually(t, "the host serves its page", func() bool { return pageOfRun.MatchString(s.host.output.String()) })
	s.page = pageOfRun.FindStringSubmatch(s.host.output.String())[1]
	eventually(t, "the host works", func() bool {
		return s.logged("range caught up") != nil || s.logged("held back by a limit of the function") != nil
	})
	return s
}

// get returns the text at an address, and "" if nobody answers.
func get(address string) string {
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(address)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(text))
}

// shownCauses returns the page's first screen: the causes with their next steps, and the problems
// of functions and ranges.
func (s *staged) shownCauses() string {
	var status struct {
		Why       []struct{ Title, Cause, Evidence, Next string }
		Functions []struct{ Problem string }
	}
	_, text, _ := strings.Cut(get(s.page+"api/v1/status"), " ")
	if json.Unmarshal([]byte(text), &status) != nil {
		return ""
	}
	return fmt.Sprintf("%+v", status)
}

// fault injects a fault into the account; remove takes it out.
func (s *staged) fault(t *testing.T, fault map[string]any) (remove func()) {
	t.Helper()
	var made struct{ ID string }
	s.account.manage(t, http.MethodPost, "faults", fault, &made)
	return func() { s.account.manage(t, http.MethodDelete, "faults/"+made.ID, nil, nil) }
}

// onFeed injects a fault into reads of the feed.
func onFeed(status, substatus int, more ...any) func(*testing.T, *staged) func() {
	return func(t *testing.T, s *staged) func() {
		return s.fault(t, withMore(map[string]any{"method": "GET", "resource": "docs", "header": map[string]string{"A-IM": "."}, "status": status, "substatus": substatus}, more))
	}
}

// onLeases injects a fault into requests for leases.
func onLeases(method string, status, substatus int, more ...any) func(*testing.T, *staged) func() {
	return func(t *testing.T, s *staged) func() {
		return s.fault(t, withMore(map[string]any{"method": method, "resource": "docs", "path": "colls/" + leases, "status": status, "substatus": substatus}, more))
	}
}

func withMore(fault map[string]any, more []any) map[string]any {
	for i := 0; i+1 < len(more); i += 2 {
		fault[more[i].(string)] = more[i+1]
	}
	return fault
}

// onLease edits the lease of range 0.
func onLease(edit func(document map[string]any)) func(*testing.T, *staged) func() {
	return func(t *testing.T, s *staged) func() {
		container := s.account.client.Container(database, leases)
		write := func(edit func(map[string]any)) {
			for {
				for page, err := range container.Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c WHERE c.LeaseToken = '0'"}) {
					s.account.must(t, err)
					for _, raw := range page.Items {
						var document map[string]any
						s.account.must(t, json.Unmarshal(raw, &document))
						etag := document["_etag"].(string)
						edit(document)
						_, err := container.Replace(t.Context(), document["id"].(string), cosmos.NewPartitionKey(document["id"]), document, azcore.ETag(etag))
						if err == nil {
							return
						}
						if !cosmos.IsPreconditionFailed(err) {
							t.Fatal(err)
						}
					}
				}
			}
		}
		var before map[string]any
		write(func(document map[string]any) {
			text, _ := json.Marshal(document)
			_ = json.Unmarshal(text, &before)
			edit(document)
		})
		return func() {
			write(func(document map[string]any) {
				clear(document)
				for name, value := range before {
					document[name] = value
				}
			})
		}
	}
}

// poison writes a document that the handler refuses, to both ranges.
func (s *staged) poison(t *testing.T, game any) {
	t.Helper()
	for _, player := range []string{"ada", "grace", "edsger", "barbara"} {
		_, err := s.account.client.Container(database, results).Upsert(t.Context(), cosmos.NewPartitionKey(player),
			map[string]any{"id": "bad", "player": player, "game": game, "score": 7})
		s.account.must(t, err)
	}
}

func (s *staged) write(t *testing.T, n int64) {
	t.Helper()
	s.account.distinct(newRecord(t)).some(t, 1, n)
}

// stagedFaults are faults, and how status, page and log name each. A metric or a probe tells of it,
// too: one of the lines of /metrics and of the answer of /readyz matches.
var stagedFaults = []struct {
	name     string
	settings map[string]string
	stage    func(*testing.T, *staged) (mend func()) // mend does what the advice says; nil: the test does not
	cause    string                                  // pattern; in status, page and log
	log      string                                  // instead of cause in the log, if it is not empty
	signal   string                                  // pattern
	next     string                                  // pattern of the advice on the page
}{
	{"feed: the key is wrong", nil, onFeed(401, 0), "401", "", `^halley_range_stalled_seconds\{.*cause="(feed|range)"|^503 .*401`, "check the network|account"},
	{"feed: the firewall refuses", nil, onFeed(403, 0), "403", "", `cause="(feed|range)"|^503 .*403`, "permissions|firewall"},
	{"feed: the request is refused", nil, onFeed(400, 0), "400", "", `cause="(feed|range)"|^503 .*400`, "check"},
	{"feed: throttled", nil, onFeed(429, 3200, "retryAfter", "100ms"), "429", "", `cause="throttle"`, "throughput"},
	{"feed: the service is not available", nil, onFeed(503, 0), "503", "", `cause="throttle"`, "throughput|wait"},
	{"feed: the service fails", nil, onFeed(500, 0), "500", "", `cause="(feed|range)"|^503 .*500`, "check"},
	{"feed: connections end", nil, onFeed(0, 0, "drop", "before"), "EOF|reset|closed", "", `cause="(feed|range)"|^503 `, "check the network"},
	{"feed: no answer", nil, onFeed(0, 0, "delay", "10m"), "deadline|no complete answer|not answered|no answer", "", `cause="(feed|range)"|^503 `, "check"},
	{"feed: replicas are behind the session", nil, onFeed(404, 1002), "404/1002", "", `cause="(feed|range)"|^503 `, "check"},
	{"feed: damaged pages", nil, func(t *testing.T, s *staged) func() {
		mend := onFeed(0, 0, "truncate", 20)(t, s)
		s.write(t, 10)
		return mend
	}, "EOF|unexpected end|truncated|read answer", "", `cause="(feed|range)"|^503 `, "check"},
	{"the monitored container is deleted", nil, func(t *testing.T, s *staged) func() {
		s.account.dropContainer(t, results)
		return func() { s.account.create(t, results, "/player", 20_000) }
	}, "404", "", `^halley_function_problem\{.*\} 1|^503 `, "create|container|check"},
	{"leases: writes are throttled", nil, onLeases("PUT", 429, 3200, "retryAfter", "100ms"), "429", "", `cause="lease"|^503 `, "throughput"},
	{"leases: writes are refused", nil, onLeases("PUT", 403, 0), "403", "", `cause="lease"|^503 |function_problem\{.*\} 1`, "check|permission|role"},
	{"leases: writes fail", nil, onLeases("PUT", 500, 0), "500", "", `cause="lease"|^503 `, "check"},
	{"leases: writes get no answer", nil, onLeases("PUT", 0, 0, "drop", "before"), "EOF|reset|closed", "", `cause="lease"|^503 `, "check"},
	{"leases: lists are refused", nil, onLeases("POST", 403, 0), "403", "", `^halley_function_problem\{.*\} 1|^503 `, "check|permission|role"},
	{"the lease container is deleted", nil, func(t *testing.T, s *staged) func() {
		s.account.dropContainer(t, leases)
		return func() { s.account.create(t, leases, "/id", 400) }
	}, "404", "", `^halley_function_problem\{.*\} 1|^503 `, "create|container|check"},
	{"a lease document is damaged", nil, onLease(func(d map[string]any) { d["version"] = "x" }), "version", "", `cause="document"|^503 `, "repair"},
	{"a lease is of a newer version", nil, onLease(func(d map[string]any) { d["properties"].(map[string]any)["halley.form"] = "9" }), "newer version", "", `cause="version"|^503 `, "upgrading"},
	{"a lease without FeedRange", nil, onLease(func(d map[string]any) { d["version"] = 1; delete(d, "FeedRange") }), "FeedRange", "", `cause="document"|^503 `, "repair"},
	{"a position beyond the feed", nil, onLease(func(d map[string]any) {
		d["ContinuationToken"], d["Owner"] = `"500000"`, nil
		delete(d["properties"].(map[string]any), "halley.incarnation")
	}), "500000|ahead|older position", "", `cause="(feed|range)"|^503 `, "check|seek"},
	{"a position that is none", nil, onLease(func(d map[string]any) {
		d["ContinuationToken"], d["Owner"] = `garbage`, nil
		delete(d["properties"].(map[string]any), "halley.incarnation")
	}), "400", "", `cause="(feed|range)"|^503 `, "check|seek"},
	{"paused by an operator", nil, func(t *testing.T, s *staged) func() {
		run := func(arguments ...string) {
			if out, errs, code := command(t, s.settings, append([]string{"leases"}, arguments...)...); code != 0 {
				t.Fatalf("leases %v: %s%s", arguments, out, errs)
			}
		}
		run("pause", "--function", "leaderboard", "--yes", "--reason", "migration of the sink")
		return func() { run("resume", "--function", "leaderboard", "--yes") }
	}, "migration of the sink", "migration of the sink|paused", `^halley_leases\{.*state="paused"\} 2`, "resume"},
	{"a poison document", nil, func(t *testing.T, s *staged) func() {
		s.poison(t, 42)
		return nil
	}, "game", "", `cause="handler"`, "repair the handler"},
	{"a slow sink", nil, func(t *testing.T, s *staged) func() {
		s.sink.delay.Store(int64(10 * time.Second))
		s.write(t, 10)
		return s.sink.over
	}, "call", "call", `cause="call"`, "handler calls"},
	{"the sink is gone", nil, func(t *testing.T, s *staged) func() {
		s.sink.close()
		s.write(t, 10)
		return nil
	}, "refused|EOF|closed", "", `cause="handler"`, "repair the handler"},
	{"the dead letter store refuses", map[string]string{"HALLEY_DEAD_LETTERS": "container:letters", "HALLEY_MAX_ATTEMPTS": "2"}, func(t *testing.T, s *staged) func() {
		mend := s.fault(t, map[string]any{"method": "POST", "resource": "docs", "path": "colls/letters", "status": 403})
		s.poison(t, 42)
		return mend
	}, "403", "", `cause="store"`, "dead letter store"},
	{"a limit of changes", map[string]string{"HALLEY_RATE": "0.2", "HALLEY_MAX_ITEMS_PER_INVOCATION": "1"}, func(t *testing.T, s *staged) func() {
		s.write(t, 20)
		return nil
	}, "RATE|changes a second", "held back", `cause="rate"`, "raise the limit"},
	{"a limit of request units", map[string]string{"HALLEY_READ_REQUEST_UNITS": "0.05"}, func(t *testing.T, s *staged) func() {
		s.write(t, 20)
		return nil
	}, "READ_REQUEST_UNITS|request units", "held back", `cause="units"`, "raise the limit"},
	{"another app takes leases", nil, func(t *testing.T, s *staged) func() {
		other := map[string]string{}
		for name, value := range s.settings {
			other[name] = value
		}
		delete(other, "HALLEY_METRICS_ADDRESS")
		other["HALLEY_APP_NAME"], other["HALLEY_OWNER"] = "billing", "stranger"
		host := start(t, "the other app", binaries.halley, other, "run")
		return func() { host.terminate(t) }
	}, "billing/leaderboard", "", `^halley_leases\{.*state="held"\} 2`, "stop the app"},
}

// Within 20 s status, page, log and a metric or a probe name the cause of each fault, with advice
// that mends it. The default run stages one of them, continuous integration some, scripts/oncall all.
func TestStagedFaultsAreNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	for i, fault := range stagedFaults {
		if !long.All() && i%6 != 0 || !long.Wanted() && i != 0 {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			s := startStaged(t, fault.settings)
			began := time.Now()
			mend := fault.stage(t, s)
			named := map[string]time.Duration{}
			cause, next, signal := regexp.MustCompile(fault.cause), regexp.MustCompile(fault.next), regexp.MustCompile("(?m)"+fault.signal)
			logs, inStatus := cause, cause
			if strings.HasPrefix(fault.name, "leases: writes") { // a lease that cannot be written cannot tell
				inStatus = regexp.MustCompile("owner silent")
			}
			if fault.log != "" {
				logs = regexp.MustCompile(fault.log)
			}
			var shown, status, ready string
			for len(named) < 5 && time.Since(began) < within {
				note := func(where string, isNamed bool) {
					if _, known := named[where]; !known && isNamed {
						named[where] = time.Since(began).Round(100 * time.Millisecond)
					}
				}
				shown = s.shownCauses()
				note("page", cause.MatchString(shown))
				note("advice", next.MatchString(shown))
				ready = get(s.metrics + "readyz")
				note("signal", signal.MatchString(ready) || signal.MatchString(get(s.metrics+"metrics")))
				note("log", s.logs(logs))
				out, errs, _ := command(t, s.settings, "status")
				status = out + errs
				note("status", inStatus.MatchString(status))
			}
			t.Logf("named after %v", named)
			if len(named) < 5 {
				t.Errorf("after %v the cause is named by %v alone\npage: %s\nready: %s\nstatus: %s", within, named, shown, ready, status)
			}
			if mend == nil || t.Failed() {
				return
			}
			mend()
			eventually(t, "the range works again", func() bool {
				out, _, code := command(t, s.settings, "status")
				return code == 0 && !cause.MatchString(out) || strings.Contains(fault.name, "another app")
			})
		})
	}
}

// logs reports whether a line of the host's log after its start matches.
func (s *staged) logs(pattern *regexp.Regexp) bool {
	for line := range strings.Lines(s.host.output.String()) {
		if !strings.Contains(line, `"function started"`) && !strings.Contains(line, `"lease acquired"`) && !strings.Contains(line, `"range caught up"`) && pattern.MatchString(line) {
			return true
		}
	}
	return false
}
