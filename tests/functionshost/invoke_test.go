package functionshost

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAnswersOfHandlers(t *testing.T) {
	h := start(t, Options{})
	for _, test := range []struct{ function, failure string }{
		{"ok", ""},
		{"untyped", "invalid HttpResponseMessage"},
		{"garbled", "invalid HttpResponseMessage"},
		{"refuse", "handler answered 500: no"},
		{"unknown", "not in the app"},
	} {
		r := within(t, h.FireTimer(test.function, Timer{}))
		switch {
		case test.failure == "" && r.Err != nil:
			t.Errorf("%s: %v", test.function, r.Err)
		case test.failure != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), test.failure)):
			t.Errorf("%s: %v, want %q", test.function, r.Err, test.failure)
		}
	}
}

// If a 2xx is empty, the invocation never completes: functionTimeout ends it, and
// kills the process with all its other invocations.
func TestEmptyAnswerHangsUntilTheTimeoutKills(t *testing.T) {
	for _, function := range []string{"empty", "nothing", "null"} {
		t.Run(function, func(t *testing.T) {
			t.Parallel()
			h := start(t, Options{FunctionTimeout: 700 * time.Millisecond})
			hung := h.FireTimer(function, Timer{})
			if r := within(t, h.FireTimer("ok", Timer{})); r.Err != nil {
				t.Fatal(r.Err)
			}
			neighbour := h.FireTimer("slow", Timer{})
			r := within(t, hung)
			if !errors.Is(r.Err, ErrFunctionTimeout) || r.Elapsed < 700*time.Millisecond {
				t.Errorf("ended after %v with %v, want the function timeout", r.Elapsed, r.Err)
			}
			if r := within(t, neighbour); r.Err == nil {
				t.Error("a concurrent invocation survived the kill")
			}
			if r := within(t, h.FireTimer("ok", Timer{})); r.Err != nil {
				t.Errorf("after the restart: %v", r.Err)
			}
			if h.Starts() != 2 || h.Err() != nil {
				t.Errorf("starts %d, host error %v; want 2, none", h.Starts(), h.Err())
			}
		})
	}
}

// Timeouts restart the handler without filling the restart bucket.
func TestTimeoutsAreNotCounted(t *testing.T) {
	t.Parallel()
	h := start(t, Options{FunctionTimeout: 300 * time.Millisecond})
	for range 4 {
		if r := within(t, h.FireTimer("slow", Timer{})); !errors.Is(r.Err, ErrFunctionTimeout) {
			t.Fatalf("slow: %v", r.Err)
		}
		eventually(t, "restart", func() bool { return h.Ready(t.Context()) == nil })
	}
	if h.Err() != nil {
		t.Errorf("host stopped: %v", h.Err())
	}
}

type echo struct {
	Headers http.Header
	Framing []string
	Length  int64
	Path    string
	Method  string
	Args    []string
	Body    struct{ Data, Metadata map[string]json.RawMessage }
}

func echoed(t *testing.T, r Result) echo {
	t.Helper()
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var e echo
	if err := json.Unmarshal(r.Outputs["echo"], &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestRequestHeadersAndFraming(t *testing.T) {
	for _, test := range []struct {
		name    string
		length  bool
		chunked bool
	}{{"Azure", false, true}, {"Core Tools", true, false}} {
		t.Run(test.name, func(t *testing.T) {
			h := start(t, Options{ContentLength: test.length})
			i := h.FireTimer("echo", Timer{})
			r := within(t, i)
			e := echoed(t, r)
			if e.Method != http.MethodPost || e.Path != "/echo" {
				t.Errorf("%s %s, want POST /echo", e.Method, e.Path)
			}
			for name, want := range map[string]string{
				"X-Azure-Functions-Hostversion":  hostVersion,
				"X-Azure-Functions-Invocationid": i.ID,
				"User-Agent":                     "Azure-Functions-Host/" + hostVersion,
				"Content-Type":                   "application/json; charset=utf-8",
			} {
				if got := e.Headers.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if chunked := len(e.Framing) == 1 && e.Framing[0] == "chunked"; chunked != test.chunked || chunked != (e.Length < 0) {
				t.Errorf("framing %v, length %d", e.Framing, e.Length)
			}
			if len(r.Logs) != 1 || r.Logs[0] != "said" || string(r.ReturnValue) != "7" {
				t.Errorf("logs %q, return value %s: keys are read in any case", r.Logs, r.ReturnValue)
			}
		})
	}
}

func TestTimerPayload(t *testing.T) {
	h := start(t, Options{})
	at := time.Date(2026, 1, 5, 10, 0, 0, 10_000_000, time.UTC)
	for _, test := range []struct {
		name  string
		timer Timer
		want  string // the value of Data.t
	}{
		{"sub-minute", Timer{DST: true}, `{"IsPastDue":false,"Schedule":{"AdjustForDST":true},"ScheduleStatus":null}`},
		{"monitor, past due", Timer{IsPastDue: true, Status: &ScheduleStatus{Next: at}},
			`{"IsPastDue":true,"Schedule":{"AdjustForDST":false},"ScheduleStatus":{"Last":"0001-01-01T00:00:00+00:00","LastUpdated":"0001-01-01T00:00:00+00:00","Next":"2026-01-05T10:00:00.01+00:00"}}`},
		{"text", Timer{Encoding: Text}, `"{\"IsPastDue\":false,\"Schedule\":{\"AdjustForDST\":false},\"ScheduleStatus\":null}"`},
		{"double", Timer{Encoding: Double}, `"\"{\\\"IsPastDue\\\":false,\\\"Schedule\\\":{\\\"AdjustForDST\\\":false},\\\"ScheduleStatus\\\":null}\""`},
	} {
		e := echoed(t, within(t, h.FireTimer("echo", test.timer)))
		if got := string(e.Body.Data["t"]); got != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got, test.want)
		}
		var sys struct {
			MethodName, UtcNow string
			ID                 string `json:"RandGuid"`
		}
		if err := json.Unmarshal(e.Body.Metadata["sys"], &sys); err != nil || sys.MethodName != "echo" || sys.UtcNow == "" || sys.ID == "" {
			t.Errorf("%s: sys %s", test.name, e.Body.Metadata["sys"])
		}
	}
}

func TestQueuePayload(t *testing.T) {
	root := writeApp(t, strings.Replace(plainHost, `{`, `{"extensionBundle":{},`, 1), map[string]string{
		"echo": `{"bindings":[{"type":"queueTrigger","direction":"in","name":"msg","queueName":"ranges"}]}`,
	})
	h := startApp(t, root, Options{})
	e := echoed(t, within(t, h.FireQueue("echo", `{"range":"0","n":5,"list":[1],"inner":{"a":1}}`, 2)))
	if got, want := string(e.Body.Data["msg"]), `"\"{\\\"range\\\":\\\"0\\\",\\\"n\\\":5,\\\"list\\\":[1],\\\"inner\\\":{\\\"a\\\":1}}\""`; got != want {
		t.Errorf("Data.msg %s\nwant     %s", got, want)
	}
	for name, want := range map[string]string{
		"range": `"\"0\""`, "n": `"\"5\""`, "inner": `{"a":1}`, "list": "", "DequeueCount": `"2"`,
	} {
		if got := string(e.Body.Metadata[name]); got != want {
			t.Errorf("Metadata.%s %s, want %s", name, got, want)
		}
	}
	if r := within(t, h.FireTimer("echo", Timer{})); r.Err == nil {
		t.Error("a queue function was fired by a timer")
	}
}

func TestQueueMessages(t *testing.T) {
	for _, test := range []struct{ output, want string }{
		{`{"range":"0"}`, `{"range":"0"}`},
		{`"plain text"`, `plain text`},
		{`"YWJj"`, `abc`},
		{`"1234"`, "\xd7\x6d\xf8"},
		{`[{"a":1},"x y"]`, `{"a":1}|x y`},
		{`"[1,2]"`, `1|2`},
		{`7`, `7`},
	} {
		got, err := QueueMessages(json.RawMessage(test.output))
		if err != nil || strings.Join(got, "|") != test.want {
			t.Errorf("%s: %q, %v; want %q", test.output, got, err, test.want)
		}
	}
}
