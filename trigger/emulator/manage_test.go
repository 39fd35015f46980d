package emulator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// manage sends a management request, which is not signed.
func (c *client) manage(want int, method, path, body string, h ...string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.endpoint+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	resp, err := c.do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	var text json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&text); err != nil || resp.StatusCode != want {
		c.t.Fatalf("%s %s: %d %s %v, want %d", method, path, resp.StatusCode, text, err, want)
	}
	return string(text)
}

func TestManagement(t *testing.T) {
	inside, a := newItems(t, 1, nil)
	inside.create("a", "k")
	served := httptest.NewServer(a)
	defer served.Close()
	c := &client{t: t, do: served.Client().Do, endpoint: served.URL}

	if got := c.manage(200, "POST", "/_emulator/split", `{"database":"db","container":"c","range":"0"}`); !strings.Contains(got, `"1"`) || !strings.Contains(got, `"2"`) {
		t.Errorf("split gave %s", got)
	}
	c.manage(410, "POST", "/_emulator/split", `{"database":"db","container":"c","range":"0"}`)
	if got := c.manage(200, "POST", "/_emulator/merge", `{"database":"db","container":"c","ranges":["1","2"]}`); !strings.Contains(got, `"child": "3"`) {
		t.Errorf("merge gave %s", got)
	}
	var state State
	if err := json.Unmarshal([]byte(c.manage(200, "GET", "/_emulator/state", "")), &state); err != nil {
		t.Fatal(err)
	}
	if o := state.Databases[0].Containers[0]; o.ID != "c" || o.Items != 1 || len(o.Ranges) != 1 || o.Ranges[0].ID != "3" || o.Ranges[0].Items != 1 {
		t.Errorf("state is %+v", state)
	}

	c.manage(200, "POST", "/_emulator/faults", `{"method":"GET","status":503,"retryAfter":"10ms"}`)
	id := c.manage(200, "POST", "/_emulator/faults", `{"method":"PUT","status":503}`)
	c.expect("503", "GET", "/dbs", "")
	if got := c.manage(200, "GET", "/_emulator/faults", ""); !strings.Contains(got, `"retryAfter": "10ms"`) || !strings.Contains(got, strings.Trim(id, "{}\n ")) {
		t.Errorf("faults are %s", got)
	}
	c.manage(200, "DELETE", "/_emulator/faults/1", "")
	c.expect("200", "GET", "/dbs", "")
	c.manage(200, "DELETE", "/_emulator/faults", "")
	if got := a.State().Faults; len(got) != 0 {
		t.Errorf("faults after all were removed: %v", got)
	}
}

func TestManagementRefuses(t *testing.T) {
	_, a := newClient(t, nil)
	served := httptest.NewServer(a)
	defer served.Close()
	c := &client{t: t, do: served.Client().Do, endpoint: served.URL}
	c.manage(404, "GET", "/_emulator/secrets", "")
	c.manage(400, "POST", "/_emulator/split", `{"db":"x"}`)
	c.manage(400, "POST", "/_emulator/faults", `{"status":1}`)
	c.manage(404, "POST", "/_emulator/merge", `{"database":"x"}`)
	c.manage(403, "GET", "/_emulator/state", "", "Origin", "https://example.com")

	for _, tt := range []struct{ remote, host string }{{"192.0.2.1:99", "localhost:8081"}, {"127.0.0.1:99", "rebound.example"}} {
		req := httptest.NewRequest("GET", "/_emulator/state", nil)
		req.RemoteAddr, req.Host = tt.remote, tt.host
		w := httptest.NewRecorder()
		a.ServeHTTP(w, req)
		if w.Code != http.StatusForbidden {
			t.Errorf("from %s as %s: %d", tt.remote, tt.host, w.Code)
		}
	}
}
