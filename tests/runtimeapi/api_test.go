package runtimeapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// request speaks to the API as a runtime would.
func request(t *testing.T, a *api, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// taken is an API whose only invocation a runtime has taken.
func taken(t *testing.T) (*api, *call) {
	t.Helper()
	a := &api{timeout: time.Minute, concurrency: 1, maxBody: 100, next: make(chan *call, 1),
		calls: make(map[string]*call), extensions: make(map[string]*extension)}
	c := newCall(Event{Payload: []byte(`{"a":1}`)})
	a.next <- c
	w := request(t, a, http.MethodGet, "/2018-06-01/runtime/invocation/next", "")
	if w.Code != http.StatusOK || w.Body.String() != `{"a":1}` || w.Header().Get(headerRequestID) != c.id {
		t.Fatalf("next: %d %s %v", w.Code, w.Body, w.Header())
	}
	return a, c
}

func TestStatusCodes(t *testing.T) {
	const base = "/2018-06-01/runtime/"
	for _, test := range []struct {
		name, method, path string
		status             int
	}{
		{"response", http.MethodPost, "invocation/ID/response", 202},
		{"error", http.MethodPost, "invocation/ID/error", 202},
		{"response to an unknown id", http.MethodPost, "invocation/none/response", 400},
		{"error for an unknown id", http.MethodPost, "invocation/none/error", 400},
		{"next before the response", http.MethodGet, "invocation/next", 403},
		{"init error after the first invocation", http.MethodPost, "init/error", 403},
		{"restore without a snapshot", http.MethodPost, "restore/error", 403},
		{"unknown path", http.MethodPost, "invocation/ID/other", 404},
		{"wrong method", http.MethodPut, "invocation/ID/response", 405},
	} {
		a, c := taken(t)
		w := request(t, a, test.method, base+strings.Replace(test.path, "ID", c.id, 1), "{}")
		if w.Code != test.status {
			t.Errorf("%s: %d, want %d", test.name, w.Code, test.status)
		}
	}
}

func TestCallIsAnsweredOnce(t *testing.T) {
	a, c := taken(t)
	path := "/2018-06-01/runtime/invocation/" + c.id + "/response"
	request(t, a, http.MethodPost, path, "first")
	if w := request(t, a, http.MethodPost, path, "second"); w.Code != http.StatusForbidden {
		t.Errorf("second response: %d, want 403", w.Code)
	}
	if <-c.done; string(c.result.Payload) != "first" {
		t.Errorf("result %q", c.result.Payload)
	}
}

// A runtime posts its response even when the deadline has passed.
func TestLatePostIsTolerated(t *testing.T) {
	a, c := taken(t)
	a.finish(c, Result{Err: &TimeoutError{time.Second}})
	w := request(t, a, http.MethodPost, "/2018-06-01/runtime/invocation/"+c.id+"/response", "late")
	if w.Code != http.StatusAccepted || c.result.Err == nil {
		t.Errorf("late post: %d, result %+v", w.Code, c.result)
	}
}

func TestResponseTooLarge(t *testing.T) {
	a, c := taken(t)
	w := request(t, a, http.MethodPost, "/2018-06-01/runtime/invocation/"+c.id+"/response", strings.Repeat("x", 101))
	if <-c.done; w.Code != http.StatusRequestEntityTooLarge || c.result.Err == nil {
		t.Errorf("%d, result %+v; want 413 and an error", w.Code, c.result)
	}
}

func TestUnknownResponseModeIsRefused(t *testing.T) {
	for mode, status := range map[string]int{"streaming": 202, "buffered": 400} {
		a, c := taken(t)
		w := request(t, a, http.MethodPost, "/2018-06-01/runtime/invocation/"+c.id+"/response", "{}", headerResponseMode, mode)
		if w.Code != status {
			t.Errorf("mode %s: %d, want %d", mode, w.Code, status)
		}
	}
}

func TestExtensionRegistration(t *testing.T) {
	a, _ := taken(t)
	const register = "/2020-01-01/extension/register"
	for _, test := range []struct {
		name, body string
		status     int
	}{
		{"internal", `{"events":["INVOKE"]}`, 200},
		{"none", `{"events":[]}`, 200},
		{"shutdown", `{"events":["SHUTDOWN"]}`, 403},
		{"", `{"events":[]}`, 400},
		{"garbled", `{`, 400},
	} {
		w := request(t, a, http.MethodPost, register, test.body, headerExtensionName, test.name)
		if w.Code != test.status || (w.Code == 200) != (w.Header().Get(headerExtensionID) != "") {
			body, _ := io.ReadAll(w.Body)
			t.Errorf("register %q: %d %s, want %d", test.name, w.Code, body, test.status)
		}
	}
	for range maxExtensions - 2 {
		request(t, a, http.MethodPost, register, `{"events":[]}`, headerExtensionName, "more")
	}
	if w := request(t, a, http.MethodPost, register, `{"events":[]}`, headerExtensionName, "eleventh"); w.Code != 403 {
		t.Errorf("eleventh extension: %d, want 403", w.Code)
	}
	if w := request(t, a, http.MethodGet, "/2020-01-01/extension/event/next", "", headerExtensionID, "none"); w.Code != 403 {
		t.Errorf("next of an unknown extension: %d, want 403", w.Code)
	}
}

func TestExtensionGetsInvokeEvents(t *testing.T) {
	a := &api{timeout: time.Minute, concurrency: 1, maxBody: 100, next: make(chan *call, 1),
		calls: make(map[string]*call), extensions: make(map[string]*extension)}
	w := request(t, a, http.MethodPost, "/2020-01-01/extension/register", `{"events":["INVOKE"]}`, headerExtensionName, "probe")
	c := newCall(Event{})
	a.next <- c
	request(t, a, http.MethodGet, "/2018-06-01/runtime/invocation/next", "")
	got := request(t, a, http.MethodGet, "/2020-01-01/extension/event/next", "", headerExtensionID, w.Header().Get(headerExtensionID))
	if !strings.Contains(got.Body.String(), c.id) || !strings.Contains(got.Body.String(), `"INVOKE"`) {
		t.Errorf("event %s", got.Body)
	}
}
