package emulator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// client sends signed requests, as a reader of the REST reference would write it.
type client struct {
	t        testing.TB
	do       func(*http.Request) (*http.Response, error)
	endpoint string
}

// reply of the account, complete.
type answer struct {
	status int
	header http.Header
	body   string
}

// headers alternates names and values.
type headers []string

func newClient(t testing.TB, opts *Options) (*client, *Account) {
	t.Helper()
	a, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return &client{t: t, do: a.Do, endpoint: strings.TrimSuffix(a.Endpoint(), "/")}, a
}

// newItems is a client of an account with the container db/c, keyed by /pk.
func newItems(t testing.TB, ranges int, opts *Options) (*client, *Account) {
	t.Helper()
	c, a := newClient(t, opts)
	if err := a.CreateContainer("db", "c", "/pk", ranges); err != nil {
		t.Fatal(err)
	}
	return c, a
}

func (c *client) request(method, path, body string, h headers) *http.Request {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.endpoint+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
	for i := 0; i < len(h); i += 2 {
		req.Header.Set(h[i], h[i+1])
	}
	if req.Header.Get("Authorization") == "" {
		req.Header.Set("Authorization", signature(c.t, req))
	}
	return req
}

// signature signs what the path names: the type is the last odd segment, a list
// signs its owner's link.
func signature(t testing.TB, req *http.Request) string {
	t.Helper()
	segments := strings.FieldsFunc(req.URL.EscapedPath(), func(r rune) bool { return r == '/' })
	for i, s := range segments {
		segments[i], _ = url.PathUnescape(s)
	}
	kind, link := "", ""
	if n := len(segments); n > 0 {
		kind, link = segments[(n-1)&^1], strings.Join(segments[:n&^1], "/")
		if kind == "operations" {
			kind, link = "partitionkey", strings.Join(segments[:n-2], "/")
		}
	}
	sig := base64.StdEncoding.EncodeToString(sign(req.Method, kind, link, req.Header.Get("x-ms-date")))
	return url.QueryEscape("type=master&ver=1.0&sig=" + sig)
}

func (c *client) try(method, path, body string, h ...string) (answer, error) {
	c.t.Helper()
	resp, err := c.do(c.request(method, path, body, h))
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

func (c *client) send(method, path, body string, h ...string) answer {
	c.t.Helper()
	a, err := c.try(method, path, body, h...)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// expect sends and requires "status" or "status/substatus".
func (c *client) expect(want, method, path, body string, h ...string) answer {
	c.t.Helper()
	a := c.send(method, path, body, h...)
	got := fmt.Sprint(a.status)
	if strings.Contains(want, "/") {
		got += "/" + a.header.Get("x-ms-substatus")
	}
	if got != want {
		c.t.Fatalf("%s %s %s = %s, want %s; %s", method, path, body, got, want, a.body)
	}
	return a
}

const items = "/dbs/db/colls/c/docs"

func pk(key string) []string {
	quoted, _ := json.Marshal([]string{key})
	return []string{"x-ms-documentdb-partitionkey", string(quoted)}
}

func with(h []string, extra ...string) []string { return append(append([]string{}, h...), extra...) }

func doc(id, key string) string { return fmt.Sprintf(`{"id":%q,"pk":%q}`, id, key) }

func (c *client) create(id, key string) answer {
	c.t.Helper()
	return c.expect("201", "POST", items, doc(id, key), pk(key)...)
}

func (c *client) upsert(body, key string) answer {
	c.t.Helper()
	a := c.send("POST", items, body, with(pk(key), "x-ms-documentdb-is-upsert", "True")...)
	if a.status != 200 && a.status != 201 {
		c.t.Fatalf("upsert %s: %d %s", body, a.status, a.body)
	}
	return a
}

// decode reads a body into a generic object.
func (a answer) decode(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return v
}

// documents are the members of an envelope.
func (a answer) documents(t testing.TB) []map[string]any {
	t.Helper()
	if a.status == http.StatusNotModified {
		return nil
	}
	var v struct {
		Documents []map[string]any
		Count     int `json:"_count"`
	}
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	if v.Count != len(v.Documents) {
		t.Fatalf("_count is %d of %d documents", v.Count, len(v.Documents))
	}
	return v.Documents
}

func (a answer) ids(t testing.TB) []string {
	t.Helper()
	ids := []string{}
	for _, d := range a.documents(t) {
		ids = append(ids, d["id"].(string))
	}
	return ids
}
