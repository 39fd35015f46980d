package functions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/function/app/internal/apptest"
)

// timerBody is an invocation as the Functions host sends it for a schedule
// under a minute (azure-functions-host, HttpScriptInvocationContextExtensions).
const timerBody = `{"Data":{"timer":{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":true}},
 "Metadata":{"sys":{"MethodName":"function","UtcNow":"2026-01-05T10:05:00.02Z","RandGuid":"9c6f"}}}`

// calls is a function that counts its calls and keeps the last invocation.
type calls struct {
	n    int
	last invocation
	logs []string
	err  error
}

func (c *calls) function(_ context.Context, in invocation, _ *zap.Logger) ([]string, error) {
	c.n++
	c.last = in
	return c.logs, c.err
}

func newHandler(f func(context.Context, invocation, *zap.Logger) ([]string, error)) (*customHandler, *observer.ObservedLogs) {
	core, logs := observer.New(zap.DebugLevel)
	return &customHandler{functions: map[string]function{functionName: withoutOutputs(f)}, log: zap.New(core)}, logs
}

func post(path, contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:7071"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// checkJSON fails unless the answer is JSON with its type and not empty, as the host needs it.
func checkJSON(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q, want application/json: the host takes any other for a failure", got)
	}
	var body map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil || len(body) == 0 {
		t.Errorf("body is not a JSON object with keys: %v %v", body, err)
	}
	return body
}

func TestReadyAtOnce(t *testing.T) {
	f := &calls{}
	h, _ := newHandler(f.function)
	resp := serve(h, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7071/", nil))
	if resp.StatusCode != http.StatusOK || f.n != 0 {
		t.Errorf("GET / = %d with %d calls, want 200 and none", resp.StatusCode, f.n)
	}
	checkJSON(t, resp)
}

func TestInvocation(t *testing.T) {
	f := &calls{logs: []string{"drained"}}
	h, _ := newHandler(f.function)
	resp := serve(h, post("/function", "application/json; charset=utf-8", timerBody))
	body := checkJSON(t, resp)
	if resp.StatusCode != http.StatusOK || f.n != 1 {
		t.Fatalf("status %d, calls %d, want 200 and 1", resp.StatusCode, f.n)
	}
	if outputs, ok := body["Outputs"].(map[string]any); !ok || len(outputs) != 0 {
		t.Errorf("Outputs = %v, want {}", body["Outputs"])
	}
	if logs, ok := body["Logs"].([]any); !ok || len(logs) != 1 || logs[0] != "drained" {
		t.Errorf(`Logs = %v, want ["drained"]`, body["Logs"])
	}
	if !timerOf(f.last).IsPastDue {
		t.Error("IsPastDue was lost")
	}
}

func TestNoLogsIsAnEmptyList(t *testing.T) {
	h, _ := newHandler((&calls{}).function)
	resp := serve(h, post("/function", "application/json", `{"Data":{},"Metadata":{}}`))
	body, _ := io.ReadAll(resp.Body)
	if want := `{"Outputs":{},"Logs":[]}`; string(body) != want {
		t.Errorf("body %s, want %s", body, want)
	}
}

func TestInvocationEncodings(t *testing.T) {
	object := `{"IsPastDue":true}`
	once, _ := json.Marshal(object)
	twice, _ := json.Marshal(string(once))
	for name, binding := range map[string]string{"nested": object, "encoded once": string(once), "encoded twice": string(twice)} {
		t.Run(name, func(t *testing.T) {
			f := &calls{}
			h, _ := newHandler(f.function)
			resp := serve(h, post("/function", "application/json", `{"Data":{"t":`+binding+`},"Metadata":{}}`))
			if resp.StatusCode != http.StatusOK || !timerOf(f.last).IsPastDue {
				t.Errorf("status %d, past due %v", resp.StatusCode, timerOf(f.last).IsPastDue)
			}
		})
	}
}

func TestUnwrap(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:               `{"a":1}`,
		`"{\"a\":1}"`:           `{"a":1}`,
		`"\"{\\\"a\\\":1}\""`:   `{"a":1}`,
		`"\"hello\""`:           `"hello"`,
		`"hello"`:               `"hello"`,
		`"1"`:                   `1`,
		`"null"`:                `null`,
		`"\"\\\"\\\\\\\"\\\""`:  `"\"\\\"\\\\\\\"\\\""`,
		` "{}"`:                 `{}`,
		``:                      ``,
		`"\"\\\"three\\\"\""`:   `"three"`,
		`"\"\\\"\\\\\\\"4\\\""`: `"\"\\\"\\\\\\\"4\\\""`,
	} {
		if got := unwrap(json.RawMessage(in)); string(got) != want {
			t.Errorf("unwrap(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestInvocationRefusals(t *testing.T) {
	request := func(change func(*http.Request)) *http.Request {
		r := post("/function", "application/json", timerBody)
		change(r)
		return r
	}
	for name, test := range map[string]struct {
		request *http.Request
		status  int
		says    string
	}{
		"method":        {httptest.NewRequest(http.MethodPut, "http://127.0.0.1/function", strings.NewReader("{}")), 405, "POST"},
		"get":           {httptest.NewRequest(http.MethodGet, "http://127.0.0.1/function", nil), 405, "POST"},
		"post to /":     {post("/", "application/json", timerBody), 405, "GET"},
		"path":          {post("/nothing", "application/json", timerBody), 404, "/nothing"},
		"case":          {post("/Function", "application/json", timerBody), 404, "/Function"},
		"api prefix":    {post("/api/function", "application/json", timerBody), 404, "/api/function"},
		"trailing":      {post("/function/", "application/json", timerBody), 404, "/function/"},
		"traversal":     {post("/x/../function", "application/json", timerBody), 404, "/x/../function"},
		"double slash":  {post("//function", "application/json", timerBody), 404, "//function"},
		"encoded":       {post("/%66unction", "application/json", timerBody), 404, "/%66unction"},
		"no type":       {request(func(r *http.Request) { r.Header.Del("Content-Type") }), 415, "application/json"},
		"text":          {post("/function", "text/plain", timerBody), 415, "text/plain"},
		"form":          {post("/function", "application/x-www-form-urlencoded", "a=b"), 415, "application/json"},
		"charset":       {post("/function", "application/json; charset=utf-16", timerBody), 415, "utf-8"},
		"foreign host":  {request(func(r *http.Request) { r.Host = "evil.example:7071" }), 421, "evil.example"},
		"no host":       {request(func(r *http.Request) { r.Host = "" }), 421, "127.0.0.1"},
		"too large":     {post("/function", "application/json", `{"Data":"`+strings.Repeat("x", maxInvocation)+`"}`), 413, "1048576"},
		"empty":         {post("/function", "application/json", ""), 400, "Data"},
		"not JSON":      {post("/function", "application/json", "{"), 400, "Data"},
		"array":         {post("/function", "application/json", "[]"), 400, "Data"},
		"data a number": {post("/function", "application/json", `{"Data":1}`), 400, "Data"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &calls{}
			h, _ := newHandler(f.function)
			resp := serve(h, test.request)
			body := checkJSON(t, resp)
			if resp.StatusCode != test.status || f.n != 0 {
				t.Errorf("status %d with %d calls, want %d and none", resp.StatusCode, f.n, test.status)
			}
			if says, _ := body["error"].(string); !strings.Contains(says, test.says) {
				t.Errorf("error %q does not name %q", says, test.says)
			}
		})
	}
}

func TestFailureIsJSONAndLogged(t *testing.T) {
	h, logs := newHandler((&calls{err: errors.New("lease store unreachable")}).function)
	r := post("/function", "application/json", timerBody)
	r.Header.Set("X-Azure-Functions-InvocationId", "4f0a")
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	resp := serve(h, r)
	body := checkJSON(t, resp)
	if resp.StatusCode != 500 || body["error"] != "lease store unreachable" {
		t.Errorf("answer %d %v", resp.StatusCode, body)
	}
	failed := logs.FilterMessage("invocation failed").All()
	if len(failed) != 1 {
		t.Fatalf("%d log entries, want 1", len(failed))
	}
	fields := failed[0].ContextMap()
	if fields["invocation"] != "4f0a" || !strings.HasPrefix(fmt.Sprint(fields["traceparent"]), "00-0af7") {
		t.Errorf("log fields %v do not correlate", fields)
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	h, logs := newHandler(func(context.Context, invocation, *zap.Logger) ([]string, error) { panic("boom") })
	resp := serve(h, post("/function", "application/json", timerBody))
	checkJSON(t, resp)
	if resp.StatusCode != 500 || logs.FilterMessage("invocation panicked").Len() != 1 {
		t.Errorf("status %d, log %v", resp.StatusCode, logs.All())
	}
}

// TestInvocationFramings sends one invocation with a length and one in chunks, as Core
// Tools and Azure do, over a real connection.
func TestInvocationFramings(t *testing.T) {
	f := &calls{}
	h, _ := newHandler(f.function)
	server := httptest.NewServer(h)
	defer server.Close()
	for name, body := range map[string]io.Reader{
		"length":  strings.NewReader(timerBody),
		"chunked": io.MultiReader(strings.NewReader(timerBody)), // hides its length
	} {
		resp, err := http.Post(server.URL+"/function", "application/json; charset=utf-8", body)
		if err != nil {
			t.Fatal(err)
		}
		checkJSON(t, resp)
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
	}
	if f.n != 2 {
		t.Errorf("%d calls, want 2", f.n)
	}
}

// pipe serves h over one in-memory connection, inside a bubble.
func pipe(t *testing.T, ctx context.Context, h http.Handler) (client net.Conn, served chan error) {
	t.Helper()
	l := apptest.ListenOnPipe()
	served = make(chan error, 1)
	go func() { served <- serveHTTP(ctx, l, h) }()
	client, err := l.Dial(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, served
}

func request(body string) string {
	return fmt.Sprintf("POST /function HTTP/1.1\r\nHost: 127.0.0.1:7071\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestLongInvocationKeepsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h, _ := newHandler(func(ctx context.Context, _ invocation, _ *zap.Logger) ([]string, error) {
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(29 * time.Minute):
				return nil, nil
			}
		})
		client, served := pipe(t, ctx, h)
		if _, err := io.WriteString(client, request(timerBody)); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if checkJSON(t, resp); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d after 29 min: the context ended early", resp.StatusCode)
		}
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestSlowBodyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := &calls{}
		h, _ := newHandler(f.function)
		client, served := pipe(t, ctx, h)
		if _, err := io.WriteString(client, request(timerBody)[:200]); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if checkJSON(t, resp); resp.StatusCode != http.StatusRequestTimeout || f.n != 0 {
			t.Errorf("status %d, calls %d, want 408 and none", resp.StatusCode, f.n)
		}
		stop()
		<-served
	})
}

func TestSlowHeaderIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h, _ := newHandler((&calls{}).function)
		client, served := pipe(t, ctx, h)
		if _, err := io.WriteString(client, "POST /function HTTP/1.1\r\nHost: 127"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := client.Read(make([]byte, 1)); err == nil || time.Since(began) > 15*time.Second {
			t.Errorf("connection ended with %v after %v, want within 15 s", err, time.Since(began))
		}
		stop()
		<-served
	})
}

// TestIdleConnection: the host's pooled connections are idle for up to two
// minutes; closed before, they would fail an invocation.
func TestIdleConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		f := &calls{}
		h, _ := newHandler(f.function)
		client, served := pipe(t, ctx, h)
		reader := bufio.NewReader(client)
		for range 2 {
			if _, err := io.WriteString(client, request(timerBody)); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			time.Sleep(2*time.Minute + time.Second)
		}
		if f.n != 2 {
			t.Errorf("%d calls over one connection, want 2", f.n)
		}
		stop()
		<-served
	})
}

// TestDisconnectEndsInvocation: when the host dies its connection does, and the work stops.
func TestDisconnectEndsInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		h, _ := newHandler(func(ctx context.Context, _ invocation, _ *zap.Logger) ([]string, error) {
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		})
		client, served := pipe(t, ctx, h)
		if _, err := io.WriteString(client, request(timerBody)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		client.Close()
		<-ended
		stop()
		<-served
	})
}

func TestStopEndsRunningInvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		h, _ := newHandler(func(ctx context.Context, _ invocation, _ *zap.Logger) ([]string, error) {
			<-ctx.Done()
			time.Sleep(5 * time.Second) // stops in good order
			return []string{"stopped"}, nil
		})
		client, served := pipe(t, ctx, h)
		if _, err := io.WriteString(client, request(timerBody)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		resp, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || !bytes.Contains(body, []byte("stopped")) {
			t.Errorf("answer %d %s", resp.StatusCode, body)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
