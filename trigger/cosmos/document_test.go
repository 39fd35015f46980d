package cosmos

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var documentHeaders = []string{"If-Match", "Prefer", "Content-Type", "x-ms-documentdb-partitionkey", "x-ms-documentdb-is-upsert", "x-ms-session-token"}

func TestDocumentRequests(t *testing.T) {
	type score struct {
		ID string `json:"id"`
	}
	ctx := context.Background()
	body := map[string]string{"Content-Type": "application/json", "Prefer": "return=minimal", "x-ms-documentdb-partitionkey": `["a"]`}
	extended := func(m map[string]string, pairs ...string) map[string]string {
		got := map[string]string{}
		for k, v := range m {
			got[k] = v
		}
		for i := 0; i < len(pairs); i += 2 {
			got[pairs[i]] = pairs[i+1]
		}
		return got
	}
	pkOnly := map[string]string{"x-ms-documentdb-partitionkey": `["a"]`}
	for name, test := range map[string]struct {
		call    func(*Container) (Response, error)
		method  string
		id      string
		headers map[string]string
		body    string
	}{
		"create": {func(c *Container) (Response, error) { return c.Create(ctx, onePK, score{"x"}) },
			"POST", "", body, `{"id":"x"}`},
		"create raw": {func(c *Container) (Response, error) {
			return c.Create(ctx, onePK, json.RawMessage(`{ "id":"x","n":1.0 }`))
		}, "POST", "", body, `{ "id":"x","n":1.0 }`},
		"upsert": {func(c *Container) (Response, error) { return c.Upsert(ctx, onePK, []byte(`{"id":"x"}`)) },
			"POST", "", extended(body, "x-ms-documentdb-is-upsert", "true"), `{"id":"x"}`},
		"replace": {func(c *Container) (Response, error) { return c.Replace(ctx, "x", onePK, score{"x"}, `"e1"`) },
			"PUT", "x", extended(body, "If-Match", `"e1"`), `{"id":"x"}`},
		"replace any": {func(c *Container) (Response, error) { return c.Replace(ctx, "x", onePK, score{"x"}, "") },
			"PUT", "x", body, `{"id":"x"}`},
		"read":       {func(c *Container) (Response, error) { return c.Read(ctx, "x", onePK) }, "GET", "x", pkOnly, ""},
		"delete":     {func(c *Container) (Response, error) { return c.Delete(ctx, "x", onePK, `"e1"`) }, "DELETE", "x", extended(pkOnly, "If-Match", `"e1"`, "Prefer", "return=minimal"), ""},
		"delete any": {func(c *Container) (Response, error) { return c.Delete(ctx, "x", onePK, "") }, "DELETE", "x", extended(pkOnly, "Prefer", "return=minimal"), ""},
		"odd id":     {func(c *Container) (Response, error) { return c.Read(ctx, "a b%c..ä&=+;:@", onePK) }, "GET", "a%20b%25c..%C3%A4&=+%3B:@", pkOnly, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, func() *http.Response {
				return reply(200, "{}", "Etag", `"e2"`, "Date", vectorDate, "x-ms-request-charge", "5.5", "x-ms-activity-id", "act")
			})
			got, err := test.call(s.container())
			if err != nil {
				t.Fatal(err)
			}
			moment, _ := http.ParseTime(vectorDate)
			if got.ETag != `"e2"` || !got.Date.Equal(moment) || got.Charge != 5.5 || got.ActivityID != "act" || string(got.Body) != "{}" {
				t.Errorf("response %+v", got)
			}
			r := s.requests[0]
			path := "/dbs/Games/colls/High%20Scores/docs"
			if test.id != "" {
				path += "/" + test.id
			}
			if r.Method != test.method || r.URL.EscapedPath() != path || r.body != test.body || r.ContentLength != int64(len(test.body)) {
				t.Errorf("%s %s with %q of %d bytes", r.Method, r.URL.EscapedPath(), r.body, r.ContentLength)
			}
			if diff := cmp.Diff(test.headers, headersOf(r.Header, documentHeaders)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDocumentOperationsRejectInvalidArguments(t *testing.T) {
	ctx := t.Context()
	s := newService(t, ok("{}"))
	c := s.container()
	read := func(id string, pk PartitionKey) error { _, err := c.Read(ctx, id, pk); return err }
	write := func(doc any) error { _, err := c.Create(ctx, onePK, doc); return err }
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"empty id":      {read("", onePK), "document id"},
		"slash":         {read("a/b", onePK), "document id"},
		"backslash":     {read(`a\b`, onePK), "document id"},
		"question mark": {read("a?", onePK), "document id"},
		"hash":          {read("a#b", onePK), "document id"},
		"no key":        {read("x", PartitionKey{}), "no partition key"},
		"empty key":     {read("x", NewPartitionKey()), "no components"},
		"struct key":    {read("x", NewPartitionKey("a", struct{}{})), "component 2: a struct {} cannot"},
		"not a number":  {read("x", NewPartitionKey(math.NaN())), "not a finite number"},
		"infinite":      {read("x", NewPartitionKey(math.Inf(1))), "not a finite number"},
		"not JSON":      {write(func() {}), "document: json"},
		"empty":         {write([]byte{}), "document: is empty"},
		"empty raw":     {write(json.RawMessage(nil)), "document: is empty"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, test.err, test.want)
		}
	}
	if len(s.requests) != 0 {
		t.Errorf("%d requests were sent", len(s.requests))
	}
}

func TestPartitionKey(t *testing.T) {
	for _, test := range []struct {
		key  PartitionKey
		want string
	}{
		{NewPartitionKey("a"), `["a"]`},
		{NewPartitionKey(""), `[""]`},
		{NewPartitionKey(nil), `[null]`},
		{NewPartitionKey(Undefined), `[{}]`},
		{NewPartitionKey(true, false), `[true,false]`},
		{NewPartitionKey(1.5, 3, int64(-7), uint8(9)), `[1.5,3,-7,9]`},
		{NewPartitionKey(math.Copysign(0, -1), float32(math.Copysign(0, -1)), 1.0), `[0,0,1]`},
		{NewPartitionKey("tenant", "user", nil), `["tenant","user",null]`},
		{NewPartitionKey("a\"b\\c\n\x00\x7f"), `["a\"b\\c\u000a\u0000\u007f"]`},
		{NewPartitionKey("ä€😀"), `["\u00e4\u20ac\ud83d\ude00"]`},
	} {
		if got := test.key.String(); got != test.want || test.key.err != nil {
			t.Errorf("got %s, want %s: %v", got, test.want, test.key.err)
		}
		var decoded []any
		if err := json.Unmarshal([]byte(test.want), &decoded); err != nil {
			t.Errorf("%s: %v", test.want, err)
		}
	}
}

func FuzzPartitionKey(f *testing.F) {
	f.Add("ä\"\\\u2028\x00😀")
	f.Fuzz(func(t *testing.T, s string) {
		header := NewPartitionKey(s).String()
		var got []string
		if err := json.Unmarshal([]byte(header), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\uFFFD"); got[0] != want && len(got[0]) < len(want) {
			t.Errorf("%q came back as %q", s, got[0])
		}
		for i := range len(header) {
			if header[i] < ' ' || header[i] > '~' {
				t.Errorf("byte %#x in a header", header[i])
			}
		}
	})
}
