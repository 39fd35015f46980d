package remote

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

func document(id, property, value string) trigger.Change {
	return triggertest.Upsert(fmt.Sprintf(`{"id":%q,%q:%q}`, id, property, value), id)
}

func ids(changes []trigger.Change) string {
	var all []string
	for _, c := range changes {
		all = append(all, c.ID())
	}
	return strings.Join(all, " ")
}

func TestFunctionJudgesEachChange(t *testing.T) {
	eachFunction(t, func(t *testing.T, function setting) {
		handle := opened(t, function)
		v := triggertest.Deliver(t, handle, document("1", "do", ""), document("2", "do", "retry"), triggertest.Delete("3", "k"), document("4", "do", "retry"))
		if ids(v.Failed) != "2 4" || v.GivenUp || !strings.Contains(fmt.Sprint(v.Err), `the function failed on document "2": asked for retry`) {
			t.Errorf("verdict: %v", v)
		}
		v = triggertest.Deliver(t, handle, document("1", "do", "skip"), document("2", "do", ""))
		if ids(v.Failed) != "1" || !v.GivenUp {
			t.Errorf("verdict: %v", v)
		}
		v = triggertest.Deliver(t, handle, document("1", "do", "skip"), document("2", "do", "retry"))
		if ids(v.Failed) != "1 2" || v.GivenUp {
			t.Errorf("verdict: %v", v)
		}
	})
}

// Documents arrive as they are: large ones, and ones with characters that end lines.
func TestDocumentsArriveWhole(t *testing.T) {
	hard := triggertest.Upsert("{\"id\":\"1\",\n \"text\":\"a\u2028b\u2029c\u0085 <&> \\u0000 \U0001F600\"}", "k")
	large := triggertest.Upsert(fmt.Sprintf(`{"id":"2","text":%q}`, strings.Repeat("x", 3<<20)), "k")
	want := []any{"a\u2028b\u2029c\u0085 <&> \x00 \U0001F600", strings.Repeat("x", 3<<20)}
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			url := l.serve(t, filepath.Join(t.TempDir(), "state"))
			if v := triggertest.Deliver(t, opened(t, urlSetting(url)), hard, large); v.Err != nil {
				t.Fatal(v)
			}
			for i, d := range stateAt(t, url) {
				if d["text"] != want[i] {
					t.Errorf("document %d arrived as %.80q", i, d["text"])
				}
			}
		})
	}
	t.Run("as command", func(t *testing.T) {
		t.Parallel()
		state := filepath.Join(t.TempDir(), "state")
		for _, l := range languages {
			if v := triggertest.Deliver(t, opened(t, l.commandSetting(t, state)), hard, large); v.Err != nil {
				t.Errorf("%s: %v", l.name, v)
			}
		}
		for i, d := range stateAt(t, python.serve(t, state)) { // Node.js would refuse a line that is cut
			if d["text"] != want[i] {
				t.Errorf("document %d arrived as %.80q", i, d["text"])
			}
		}
	})
}

func TestCommandIsStartedAgain(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		core, logs := observer.New(zap.InfoLevel)
		handle := handlerstest.Under(t, entryWith(l.commandSetting(t, filepath.Join(t.TempDir(), "state"))), handlers.Env{Logger: zap.New(core)})
		for _, test := range []struct{ fault, want string }{
			{"exit", "the command exited: exit status 3"},
			{"noise", "the answer is malformed"},
			{"empty", "it has no call: a command answers with the number of the call"},
		} {
			v := triggertest.Deliver(t, handle, document("1", "fault", test.fault), document("2", "do", ""))
			if len(v.Failed) != 2 || v.GivenUp || !strings.Contains(fmt.Sprint(v.Err), test.want) {
				t.Errorf("verdict on %s: %v", test.fault, v)
			}
			if v := triggertest.Deliver(t, handle, document("2", "do", "")); v.Err != nil {
				t.Errorf("verdict after %s: %v", test.fault, v)
			}
		}
		if logs.FilterField(zap.ByteString("line", []byte("leaving"))).Len() != 1 {
			t.Errorf("standard error is not in the log: %v", logs.All())
		}
	})
}

func TestCallsEnd(t *testing.T) {
	eachFunction(t, func(t *testing.T, function setting) {
		const timeout = 2 * time.Second
		handle := opened(t, function, timeoutSetting(timeout))
		v := triggertest.Deliver(t, handle, document("1", "fault", "hang"))
		if len(v.Failed) != 1 || v.GivenUp || !strings.Contains(fmt.Sprint(v.Err), "no answer within 2s") {
			t.Errorf("verdict: %v", v)
		}
		if v := triggertest.Deliver(t, handle, document("1", "do", "")); v.Err != nil {
			t.Errorf("verdict after a timeout: %v", v)
		}
		stopped := errors.New("the host stops")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(stopped) })
		began := time.Now()
		err := handle(ctx, trigger.NewBatch(document("1", "fault", "hang")))
		if !errors.Is(err, stopped) || time.Since(began) >= timeout {
			t.Errorf("error after %v: %v", time.Since(began), err)
		}
	})
}

func TestProbe(t *testing.T) {
	probe := func(t *testing.T, function setting) error {
		var offered handlers.Probe
		handlerstest.Under(t, entryWith(function), handlers.Env{Probe: func(p handlers.Probe) { offered = p }})
		return offered.Try(t.Context())
	}
	eachFunction(t, func(t *testing.T, function setting) {
		if err := probe(t, function); err != nil {
			t.Error(err)
		}
	})
	t.Run("nothing there", func(t *testing.T) {
		t.Parallel()
		if err := probe(t, urlSetting("http://127.0.0.1:1/?code=hunter2")); err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestBadSettingsNameTheFix(t *testing.T) {
	good := Settings{URL: "https://functions.example", Processes: 1, RequestTimeout: handlers.Interval(time.Second)}
	tests := []struct {
		name   string
		change func(s *Settings)
		want   string
	}{
		{"neither", func(s *Settings) { s.URL = "" }, "setting HALLEY_REMOTE_URL and COMMAND are empty; set one of them"},
		{"both", func(s *Settings) { s.Command = "true" }, "URL and COMMAND are set; set one of them"},
		{"not a URL", func(s *Settings) { s.URL = "functions.example/?code=hunter2" }, "which is not the URL of a function; write for example http://127.0.0.1:8080/changes"},
		{"scheme", func(s *Settings) { s.URL = "ftp://functions.example" }, "URL is ftp://functions.example, which is not the URL of a function"},
		{"user", func(s *Settings) { s.URL = "https://me:hunter2@functions.example" }, "URL holds a user; remove it, and set TOKEN"},
		{"clear text", func(s *Settings) { s.URL = "http://functions.example/?code=hunter2" }, "URL is http://functions.example/[redacted]: documents would be sent in clear text; write https://, or set PLAIN_HTTP=true"},
		{"timeout", func(s *Settings) { s.RequestTimeout = 0 }, "REQUEST_TIMEOUT is 0s; set 1ms or more"},
		{"grace", func(s *Settings) { s.ExitGrace = -1 }, "EXIT_GRACE is -1ns; set 0 or more"},
		{"token of a command", func(s *Settings) { s.URL, s.Command, s.Token = "", "true", "hunter2" }, "TOKEN is for a URL"},
		{"no program", func(s *Settings) { s.URL, s.Command = "", "halley-no-such-program hunter2" }, "setting HALLEY_REMOTE_COMMAND cannot be started"},
		{"array", func(s *Settings) { s.URL, s.Command = "", `["hunter2"` }, "COMMAND is not a JSON array of strings"},
		{"empty array", func(s *Settings) { s.URL, s.Command = "", `[]` }, "COMMAND has no program"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := good
			test.change(&s)
			_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_REMOTE_"}, s)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
	for _, url := range []handlers.URL{"http://localhost:8080", "http://[::1]:8080/changes", "https://functions.example:8443/changes?code=x"} {
		s := good
		s.URL = url
		if _, _, err := Open(t.Context(), handlers.Env{}, s); err != nil {
			t.Errorf("%v is refused: %v", url, err)
		}
	}
}
