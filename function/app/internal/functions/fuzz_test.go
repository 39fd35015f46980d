package functions

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzInvocation posts any body. The answer must be JSON with its type, the function
// must be called if and only if the status is 200, and its input must be the body.
func FuzzInvocation(f *testing.F) {
	const kind = "application/json; charset=utf-8"
	f.Add("POST", "/function", kind, "127.0.0.1:7071", []byte(timerBody))
	f.Add("POST", "/function", "application/json", "localhost", []byte(`"{\"Data\":{\"timer\":\"\\\"{}\\\"\"}}"`))
	f.Add("GET", "/", "", "[::1]:80", []byte{})
	f.Add("POST", "/x/..%2ffunction", kind, "rebound.example", []byte(`{"data":null,"METADATA":{"sys":1}}`))
	f.Add("PUT", "//function", "text/plain;;", "127.1", []byte(`{"Data":{"a":1},"Data":[]}`))
	f.Fuzz(func(t *testing.T, method, path, contentType, host string, body []byte) {
		r, err := http.NewRequest(method, "http://127.0.0.1"+path, bytes.NewReader(body))
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		r.Host = host
		r.Header.Set("Content-Type", contentType)
		called := &calls{}
		h, _ := newHandler(called.function)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Type"); got != "application/json" || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("answer %d of type %q: %q", w.Code, got, w.Body)
		}
		invoked := w.Code == http.StatusOK && r.URL.EscapedPath() != "/"
		if (called.n == 1) != invoked || called.n > 1 {
			t.Fatalf("answer %d after %d calls", w.Code, called.n)
		}
		if !invoked {
			return
		}
		if method != http.MethodPost || len(body) > maxInvocation {
			t.Fatalf("%s of %d bytes was let through", method, len(body))
		}
		for name, raw := range called.last.Data {
			if !json.Valid(raw) || !json.Valid(unwrap(raw)) {
				t.Fatalf("binding %q is %q", name, raw)
			}
		}
		timerOf(called.last)
	})
}
