package remote

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

func TestStatuses(t *testing.T) {
	tests := []struct {
		status  string
		changes int
		fate    string
		err     string
	}{
		{"400", 1, "given up", "status 400 Bad Request"},
		{"413", 1, "given up", "status 413"},
		{"422", 1, "given up", "status 422"},
		{"422", 2, "halved", "status 422"},
		{"401", 1, "failed", "status 401 Unauthorized"},
		{"404", 1, "failed", "status 404"},
		{"500", 2, "failed", "status 500 Internal Server Error"},
		{"202", 1, "failed", "answer 200 or 204 when the changes are handled"},
		{"302", 1, "failed", "redirects are not followed"},
	}
	eachLanguage(t, func(t *testing.T, l language) {
		handle := opened(t, urlSetting(l.serve(t, filepath.Join(t.TempDir(), "state"))))
		for _, test := range tests {
			changes := append(changesOf(test.changes-1), document("1", "fault", test.status))
			changes[0], changes[len(changes)-1] = changes[len(changes)-1], changes[0]
			v := triggertest.Deliver(t, handle, changes...)
			if len(v.Failed) != test.changes || !strings.Contains(v.String(), test.fate+" [") || !strings.Contains(fmt.Sprint(v.Err), test.err) {
				t.Errorf("status %s: %v", test.status, v)
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		handle := opened(t, urlSetting(l.serve(t, filepath.Join(t.TempDir(), "state"))))
		for _, status := range []string{"429", "503"} {
			began := time.Now()
			v := triggertest.Deliver(t, handle, document("1", "fault", status))
			if len(v.Failed) != 1 || v.GivenUp || !strings.Contains(fmt.Sprint(v.Err), "retry after 1s") {
				t.Errorf("status %s: %v", status, v)
			}
			if v := triggertest.Deliver(t, handle, document("1", "do", "")); v.Err != nil {
				t.Error(v)
			}
			if waited := time.Since(began); waited < time.Second {
				t.Errorf("the next call is made after %v", waited)
			}
		}
	})
}

// serve has a server in Go for the handler.
func serve(t testing.TB, answer http.HandlerFunc) setting {
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return urlSetting(server.URL + "/changes?code=hunter2")
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got := fmt.Sprint(r.Method, " ", r.URL, " ", r.Header["Content-Type"], r.Header["Halley-Protocol"], r.Header["Authorization"])
		if want := "POST /changes?code=hunter2 [application/json] [1] [Bearer hunter2]"; got != want {
			t.Errorf("request is %s, want %s", got, want)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	if v := triggertest.Deliver(t, opened(t, server, func(s *Settings) { s.Token = "hunter2" }), document("1", "do", "")); v.Err != nil {
		t.Error(v)
	}
}

// A pause that is longer than the call may take does not keep it.
func TestLongPauseEndsTheCall(t *testing.T) {
	t.Parallel()
	calls := 0
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	})
	handle := opened(t, server)
	for range 2 {
		call := triggertest.Call{}
		ctx, cancel := contextWithin(t, 10*time.Second)
		call.Context = ctx
		if v := call.Deliver(t, handle, document("1", "do", "")); len(v.Failed) != 1 || strings.Contains(fmt.Sprint(v.Err), "hunter2") {
			t.Errorf("verdict: %v", v)
		}
		cancel()
	}
	if calls != 1 {
		t.Errorf("%d calls are made in the pause", calls)
	}
}

func TestLongAnswer(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(" ", maxAnswer+1)) // the handler may hang up
	})
	v := triggertest.Deliver(t, opened(t, server), document("1", "do", ""))
	if len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), "malformed: it has more than") {
		t.Errorf("verdict: %v", v)
	}
}

func TestTLSAndPool(t *testing.T) {
	config, files := handlerstest.Certificate(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.TLS = config
	server.StartTLS()
	defer server.Close()
	handlerstest.RequireTLS(t, "HALLEY_REMOTE_", files, func() trigger.Verdict {
		return triggertest.Deliver(t, opened(t, urlSetting(server.URL)), changesOf(1)...)
	})
	e, err := newEndpoint(Settings{URL: "https://functions.example", PoolSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	if pool := e.client.Transport.(*http.Transport); pool.MaxConnsPerHost != 3 || pool.MaxIdleConnsPerHost != 3 {
		t.Errorf("%d connections, %d idle", pool.MaxConnsPerHost, pool.MaxIdleConnsPerHost)
	}
}
