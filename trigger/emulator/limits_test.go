package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// deep is a document of so many levels, itself included.
func deep(id string, levels int) string {
	return fmt.Sprintf(`{"id":%q,"pk":"k","v":%s}`, id, nested(levels-1))
}

// nested is arrays in arrays.
func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

func TestDeepDocumentsAreRefused(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	const text = "The request payload is invalid. Ensure to provide a valid request payload"
	c.expect("201", "POST", items, deep("a", 128), pk("k")...)
	for _, levels := range []int{129, 9_997, 500_000} {
		document := deep("a", levels)
		for _, answer := range []answer{
			c.expect("400", "POST", items, deep("b", levels), pk("k")...),
			c.expect("400", "POST", items, document, with(pk("k"), "x-ms-documentdb-is-upsert", "True")...),
			c.expect("400", "PUT", items+"/a", document, pk("k")...),
		} {
			if !strings.Contains(answer.body, text) {
				t.Errorf("%d levels: %s", levels, answer.body)
			}
		}
	}
	for _, levels := range []int{127, 9_000} {
		c.expect("400", "PATCH", items+"/a", `{"operations":[{"op":"set","path":"/v/0","value":`+nested(levels)+`}]}`, pk("k")...)
		c.expect("400", "PATCH", items+"/a", `[{"op":"set","path":"/w/-","value":`+nested(levels)+`}]`, pk("k")...)
		batch := fmt.Sprintf(`[{"operationType":"Create","resourceBody":%s},{"operationType":"Upsert","resourceBody":%s}]`, doc("b", "k"), deep("c", levels+2))
		answer := c.expect("207", "POST", items, batch, with(pk("k"), "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")...)
		if !strings.Contains(answer.body, `"statusCode":424`) || !strings.Contains(answer.body, `"statusCode":400`) {
			t.Errorf("batch: %s", answer.body)
		}
	}
	if got := c.expect("200", "GET", items, "", feedHeader...).ids(t); len(got) != 1 || got[0] != "a" {
		t.Errorf("the feed has %v", got)
	}
	c.expect("200", "PATCH", items+"/a", `[{"op":"set","path":"/v","value":`+nested(127)+`}]`, pk("k")...)
}

// pageRequest is a request of a browser.
func pageRequest(method, path, remote, host, origin string) *http.Request {
	req := httptest.NewRequest(method, path, nil)
	req.RemoteAddr, req.Host = remote, host
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	return req
}

func TestDataPlaneRefusesWebPages(t *testing.T) {
	c, a := newItems(t, 1, &Options{Hosts: []string{"cosmos.test"}})
	c.create("a", "k")
	for _, tt := range []struct {
		remote, host, origin string
		want                 int
	}{
		{"127.0.0.1:99", "localhost:8081", "", 200},
		{"127.0.0.1:99", "LOCALHOST", "", 200},
		{"127.0.0.1:99", "127.0.0.1:8081", "", 200},
		{"[::1]:99", "[::1]:8081", "", 200},
		{"192.0.2.1:99", "192.0.2.7:8081", "", 200},
		{"192.0.2.1:99", "Cosmos.test:8081", "", 200},
		{"127.0.0.1:99", "rebound.example:8081", "", 403},
		{"127.0.0.1:99", "localhost.rebound.example", "", 403},
		{"127.0.0.1:99", "127.0.0.1.rebound.example", "", 403},
		{"192.0.2.1:99", "other.test", "", 403},
		{"127.0.0.1:99", "", "", 403},
		{"127.0.0.1:99", "localhost:8081", "https://example.com", 403},
		{"127.0.0.1:99", "localhost:8081", "http://localhost:8081", 403},
		{"127.0.0.1:99", "localhost:8081", "null", 403},
	} {
		for _, path := range []string{"/", items + "/a"} {
			req := pageRequest("GET", path, tt.remote, tt.host, tt.origin)
			signed := c.request("GET", path, "", pk("k"))
			for name, values := range signed.Header {
				req.Header[name] = values
			}
			w := httptest.NewRecorder()
			a.ServeHTTP(w, req)
			if w.Code != tt.want || tt.want == 403 && !strings.Contains(w.Body.String(), `"Forbidden"`) {
				t.Errorf("%s from %s as %q with Origin %q: %d %s, want %d", path, tt.remote, tt.host, tt.origin, w.Code, w.Body, tt.want)
			}
		}
	}
	if _, err := New(&Options{Hosts: []string{"http://cosmos.test"}}); err == nil || !strings.Contains(err.Error(), "without scheme") {
		t.Errorf("a host with a scheme: %v", err)
	}
}

func TestQueriesThatTakeTooMuchAreRefused(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	query := `SELECT VALUE REPLACE(REPLACE(REPLICATE(\"x\", 10000), \"x\", REPLICATE(\"x\", 10000)), \"x\", REPLICATE(\"x\", 10000)) FROM c`
	answer := c.expect("400", "POST", items, `{"query":"`+query+`"}`, with(pk("k"), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json")...)
	if !strings.Contains(answer.body, "a value of more than 4194304 bytes") {
		t.Errorf("%s", answer.body)
	}
	c.expect("400", "POST", "/dbs", `{"query":"`+strings.ReplaceAll(query, "FROM c", "")+`"}`, "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json")
	condition := `from c where ` + strings.Repeat(`LENGTH(REPLICATE(\"x\", 10000)) + `, 3_000) + `1 = 2`
	answer = c.expect("400", "PATCH", items+"/a", `{"condition":"`+condition+`","operations":[{"op":"set","path":"/v","value":1}]}`, pk("k")...)
	if !strings.Contains(answer.body, "units of work") {
		t.Errorf("%s", answer.body)
	}
}

// TestQueryEndsWithItsRequest cancels the request of a query that would take seconds.
func TestQueryEndsWithItsRequest(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	list := strings.TrimSuffix(strings.Repeat("1,", 1000), ",")
	for i := range 50 {
		c.upsert(fmt.Sprintf(`{"id":"%d","pk":"k","a":[%s]}`, i, list), "k")
	}
	gone := errors.New("the client went away")
	for _, text := range []string{
		`SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a WHERE a != b`,
		`SELECT VALUE c.id FROM c JOIN a IN c.a JOIN b IN c.a WHERE a != b`,
		`SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE 1 FROM a IN c.a JOIN b IN c.a WHERE a != b) ORDER BY c.id`,
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(50*time.Millisecond, func() { cancel(gone) })
		req := c.request("POST", items, `{"query":"`+text+`"}`, with(pk("k"), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json"))
		_, err := c.do(req.WithContext(ctx))
		timer.Stop()
		if !errors.Is(err, gone) {
			t.Errorf("%s: %v, want the cause of the request's context", text, err)
		}
	}
}

// TestQueryEndsWhenItsClientDisconnects waits for all places of queries, of which an
// abandoned query holds one until it ends.
func TestQueryEndsWhenItsClientDisconnects(t *testing.T) {
	_, a := newItems(t, 1, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{t: t, do: (&http.Client{Transport: transport}).Do, endpoint: strings.TrimSuffix(serve(t, a, ServeOptions{}), "/")}
	list := strings.TrimSuffix(strings.Repeat("1,", 1000), ",")
	for i := range 100 {
		c.upsert(fmt.Sprintf(`{"id":"%d","pk":"k","a":[%s]}`, i, list), "k")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req := c.request("POST", items, `{"query":"SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a WHERE a != b"}`, with(pk("k"), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json"))
	if _, err := c.do(req.WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("the query was answered: %v", err)
	}
	began := time.Now()
	if err := a.queries.Acquire(t.Context(), maxQueries); err != nil {
		t.Fatal(err)
	}
	a.queries.Release(maxQueries)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the query ran on for %v", took)
	}
}

func TestDefinitionsAreBounded(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	paths := func(n int, path string) string {
		return strings.TrimSuffix(strings.Repeat(`{"path":"`+path+`"},`, n), ",")
	}
	define := func(key, properties string) string {
		return `{"id":"c","partitionKey":{"paths":["` + key + `"],"kind":"Hash","version":2}` + properties + `}`
	}
	for body, want := range map[string]string{
		define("/"+strings.Repeat("x", 1024), ""):                                                          "at most 1024",
		define(strings.Repeat("/x", 17), ""):                                                               "17 levels, at most 16",
		define("/pk", `,"indexingPolicy":{"includedPaths":[`+paths(1501, "/a/?")+`]}`):                     "1501 paths in includedPaths, at most 1500",
		define("/pk", `,"indexingPolicy":{"excludedPaths":[`+paths(1501, "/a/?")+`]}`):                     "1501 paths in excludedPaths, at most 1500",
		define("/pk", `,"indexingPolicy":{"compositeIndexes":[[`+paths(9, "/a")+`]]}`):                     "9 paths in an index of compositeIndexes, at most 8",
		define("/pk", `,"indexingPolicy":{"compositeIndexes":[[]`+strings.Repeat(",[]", 100)+`]}`):         "101 compositeIndexes",
		define("/pk", `,"indexingPolicy":{"includedPaths":[`+paths(1, "/"+strings.Repeat("x", 2000))+`]}`): "2001 bytes, at most 1024",
		define("/pk", `,"indexingPolicy":"none"`):                                                          "indexingPolicy cannot be read",
		define("/pk", `,"x":"`+strings.Repeat("x", 600_000)+`"`):                                           "at most 524288",
		define("/pk", `,"x":`+nested(200)):                                                                 "201 levels deep, at most 128",
		`{"id":"a ","partitionKey":{"paths":["/pk"]}}`:                                                     "invalid character",
		`{"id":"a\nb","partitionKey":{"paths":["/pk"]}}`:                                                   "invalid character",
		`{"id":"` + strings.Repeat("x", 256) + `","partitionKey":{"paths":["/pk"]}}`:                       "less than '255' characters",
		`{"id":"` + strings.Repeat("x", 500_000) + `","partitionKey":{"paths":["/pk"]}}`:                   "less than '255' characters",
	} {
		answer := c.expect("400", "POST", "/dbs/db/colls", body)
		if !strings.Contains(answer.body, want) || len(answer.body) > 32<<10 {
			t.Errorf("%.120s: %.300s, want %q", body, answer.body, want)
		}
	}
	c.expect("400", "POST", "/dbs", `{"id":"b"}`, "x-ms-cosmos-offer-autopilot-settings", `{"maxThroughput":4000,"x":"`+strings.Repeat("x", 2000)+`"}`)
	c.expect("201", "POST", "/dbs/db/colls", define(strings.Repeat("/x", 16), `,"indexingPolicy":{"includedPaths":[`+paths(1500, "/a/?")+`],"compositeIndexes":[[`+paths(8, "/a")+`]]}`))
}

func TestLongPartitionKeyValuesAreRefused(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	long := strings.Repeat("x", 2048)
	c.create("a", long)
	c.expect("400", "POST", items, doc("b", long+"x"), pk(long+"x")...)
}

// TestOperationsAreNotReadPastTheLimit posts many small operations in one body. Each
// would take more than a hundred times its text in memory.
func TestOperationsAreNotReadPastTheLimit(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	manyObjects := "[" + strings.TrimSuffix(strings.Repeat("{},", 600_000), ",") + "]"
	for name, send := range map[string]func(){
		"batch": func() {
			c.expect("400", "POST", items, manyObjects, with(pk("k"), "x-ms-cosmos-is-batch-request", "True")...)
		},
		"patch":           func() { c.expect("400", "PATCH", items+"/a", manyObjects, pk("k")...) },
		"patch in object": func() { c.expect("400", "PATCH", items+"/a", `{"operations":`+manyObjects+`}`, pk("k")...) },
	} {
		if made := allocated(send); made > 64<<20 {
			t.Errorf("%s: %d MB", name, made>>20)
		}
	}
}

func allocated(f func()) uint64 {
	var oldStats, newStats runtime.MemStats
	runtime.ReadMemStats(&oldStats)
	f()
	runtime.ReadMemStats(&newStats)
	return newStats.TotalAlloc - oldStats.TotalAlloc
}

// TestUnknownResourceIDIsFoundQuickly reads items by resource ids of which one
// exists: that takes no scan of the range.
func TestUnknownResourceIDIsFoundQuickly(t *testing.T) {
	c, a := newItems(t, 1, nil)
	for i := range 100 {
		c.create(fmt.Sprint(i), "k")
	}
	o := a.databases["db"].containers["c"]
	for i, want := range map[uint64]string{1: "200", 57: "200", 100: "200", 101: "404", 1 << 40: "404"} {
		c.expect(want, "GET", items+"/"+memberRID(o.ridBytes, typeItem, i), "", pk("k")...)
	}
	c.expect("404", "GET", items+"/"+memberRID(o.ridBytes, typeItem, 57), "", pk("other")...)
	c.expect("404", "GET", items+"/"+memberRID(o.ridBytes, typeRange, 57), "", pk("k")...)
}

func TestLargeContinuationIsRefused(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for i := range 3 {
		c.upsert(fmt.Sprintf(`{"id":"%d","pk":"k","v":"%s"}`, i, strings.Repeat("x", 40_000)), "k")
	}
	h := with(pk("k"), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json", "x-ms-max-item-count", "1")
	answer := c.expect("400", "POST", items, `{"query":"SELECT c.id FROM c ORDER BY c.v"}`, h...)
	if !strings.Contains(answer.body, "at most 32768") {
		t.Errorf("%s", answer.body)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	name := strings.Repeat("é", 100_000)
	answer := c.expect("400", "POST", items, `{"query":"SELECT c.x, `+"x"+strings.Repeat("x", 200_000)+`.y FROM c"}`, with(pk("k"), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json")...)
	var body, inner struct {
		Message string
		Errors  []struct{ Message string }
	}
	if err := json.Unmarshal([]byte(answer.body), &body); err != nil || len(body.Message) > 2*maxMessage {
		t.Errorf("message of %d bytes, %v", len(body.Message), err)
	}
	message, _, _ := strings.Cut(body.Message, "\r\n")
	if err := json.Unmarshal([]byte(strings.TrimPrefix(message, "Message: ")), &inner); err != nil || len(inner.Errors) != 1 {
		t.Errorf("the message is not the service's JSON: %v", err)
	}
	if got := shortened(name, 1001); len(got) > 1010 || !json.Valid([]byte(`"`+got+`"`)) {
		t.Errorf("shortened to %d bytes", len(got))
	}
}

// TestBodiesInMemoryAreBounded reserves all the memory for bodies: a request with a
// body then waits until its context ends, one without is answered.
func TestBodiesInMemoryAreBounded(t *testing.T) {
	c, a := newItems(t, 1, nil)
	if !a.bodies.TryAcquire(maxBodies) {
		t.Fatal("bodies are reserved before any request")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for _, length := range []int64{0, -1} {
		req := c.request("POST", items, doc("a", "k"), pk("k")).WithContext(ctx)
		if length < 0 {
			req.ContentLength, req.Body = -1, io.NopCloser(bytes.NewReader([]byte(doc("a", "k"))))
		}
		if _, err := c.do(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request with a body: %v", err)
		}
	}
	c.expect("200", "GET", "/dbs", "")
	a.bodies.Release(maxBodies)
	c.create("a", "k")
	if !a.bodies.TryAcquire(maxBodies) {
		t.Error("a request did not release its share")
	}
}
