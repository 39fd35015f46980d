package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

var entry = handlers.New("search", "indexes documents", Open)

func setFor(t testing.TB, c *cluster) {
	t.Setenv("HALLEY_SEARCH_URL", c.URL+"/base")
	t.Setenv("HALLEY_SEARCH_INDEX", testIndex)
}

func open(t testing.TB, c *cluster) trigger.Handler {
	setFor(t, c)
	return handlerstest.Under(t, entry, handlers.Env{})
}

// The index ends up the same whatever happens on the way.
func TestIndexConverges(t *testing.T) {
	for name, f := range map[string]trigger.Function{
		"latest version": {},
		"soft delete":    {SoftDeleteProperty: "gone"},
		"all versions":   {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		"lanes by id":    {BatchPolicy: trigger.BatchPolicy{Lanes: 3, LanesByID: true}},
	} {
		t.Run(name, func(t *testing.T) {
			triggertest.Converges(t, triggertest.Scenario{
				Seeds:        handlerstest.Seeds(),
				PartitionKey: "/shop",
				Function:     f,
				Document: func(random *rand.Rand, id, shop string) any {
					return map[string]any{"id": id, "shop": shop, "name": fmt.Sprint("tea ", random.IntN(100))}
				},
				Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
					c := newCluster(t)
					setFor(t, c)
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlers.Env{}) },
						State: func() any { return c.live() },
					}
				},
				Want: func(documents []json.RawMessage) any {
					want := map[string]string{}
					for _, d := range documents {
						want[fmt.Sprintf(`["%s"]/%s`, text(d, "shop"), text(d, "id"))] = fmt.Sprintf(`{"id":"%s","name":"%s","shop":"%s"}`, text(d, "id"), text(d, "name"), text(d, "shop"))
					}
					return want
				},
			})
		})
	}
}

func text(document json.RawMessage, name string) (s string) {
	_ = json.Unmarshal(cosmos.Property(document, name), &s)
	return s
}

func product(id, name string) trigger.Change {
	return triggertest.Upsert(fmt.Sprintf(`{"id":%q,"name":%q,"_ts":1,"_etag":"x"}`, id, name), "s")
}

func TestOlderVersionsAreRefused(t *testing.T) {
	c := newCluster(t)
	handle := open(t, c)
	now := time.Now()
	at := func(change trigger.Change, seconds, lsn int64) trigger.Change {
		change.Time, change.LSN = now.Add(time.Duration(seconds)*time.Second), lsn
		return change
	}
	for _, change := range []trigger.Change{
		at(product("1", "new"), 5, 10), at(product("1", "old"), 4, 11), at(product("1", "older"), 5, 9),
		at(triggertest.Delete("2", "s"), 7, 20), at(product("2", "late"), 6, 19),
		at(triggertest.Delete("3", "s"), 3, 1), at(product("3", "again"), 3, 2),
	} {
		if err := handle(t.Context(), trigger.NewBatch(change)); err != nil {
			t.Fatal(err)
		}
	}
	got := c.live()
	if len(got) != 2 || !strings.Contains(got[`["s"]/1`], `"new"`) || !strings.Contains(got[`["s"]/3`], `"again"`) {
		t.Errorf("index has %v", got)
	}
}

func TestStatusOfEachOperation(t *testing.T) {
	changes := []trigger.Change{product("ok", "a"), product("busy", "a"), triggertest.Upsert(`{"id":"bad","price":"cheap"}`, "s"),
		product("broken", "a"), triggertest.Delete("absent", "s"), triggertest.Upsert(`[]`, "s")}
	c := newCluster(t)
	handle := open(t, c)
	c.status = func(id, _ string) int {
		return map[string]int{`["s"]/busy`: 429, `["s"]/broken`: 503}[id]
	}
	// A document that can never be indexed waits while others have to be repeated.
	v := triggertest.Deliver(t, handle, changes...)
	if v.GivenUp || fmt.Sprint(ids(v.Failed)) != `[busy bad broken ]` {
		t.Errorf("verdict: %v", v)
	}
	c.status = nil
	v = triggertest.Deliver(t, handle, changes...)
	if !v.GivenUp || fmt.Sprint(ids(v.Failed)) != `[bad ]` || !strings.Contains(v.Err.Error(), "number_format_exception") || !strings.Contains(v.Err.Error(), "not a JSON object") {
		t.Errorf("verdict: %v", v)
	}
	if got := len(c.live()); got != 3 {
		t.Errorf("%d documents in the index", got)
	}
}

func ids(changes []trigger.Change) (all []string) {
	for _, c := range changes {
		all = append(all, c.ID())
	}
	return all
}

func TestFailureOfTheRequest(t *testing.T) {
	c := newCluster(t)
	handle := open(t, c)
	for status, want := range map[int]string{
		401: "check USERNAME and PASSWORD", 403: "indices:data/write/bulk", 404: "create the index", 413: "BULK_BYTES", 429: "retry after 7 s", 500: "answers 500", 302: "answers 302",
	} {
		c.answer = func(w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			return true
		}
		v := triggertest.Deliver(t, handle, product("1", "a"), product("2", "b"))
		if v.GivenUp || len(v.Failed) != 2 || !strings.Contains(v.Err.Error(), want) {
			t.Errorf("status %d: %v", status, v)
		}
		v = triggertest.Deliver(t, handle, product("1", "a"))
		if v.GivenUp != (status == 413) || len(v.Failed) != 1 {
			t.Errorf("status %d with one change: %v", status, v)
		}
	}
	for _, answer := range []string{`{"items":[]}`, `<html>`, `{"items":[{"create":{"status":201}}]}`} {
		c.answer = func(w http.ResponseWriter) bool { _, _ = w.Write([]byte(answer)); return true }
		if v := triggertest.Deliver(t, handle, product("1", "a")); v.GivenUp || len(v.Failed) != 1 {
			t.Errorf("answer %s: %v", answer, v)
		}
	}
	c.answer = nil
	c.status = func(string, string) int { return 429 }
	if v := triggertest.Deliver(t, handle, product("1", "a"), product("2", "b")); v.GivenUp || !strings.Contains(v.Err.Error(), "index 2 changes: status 429") {
		t.Errorf("all are refused: %v", v)
	}
}

func TestLargeBatchesAreSeveralRequests(t *testing.T) {
	c := newCluster(t)
	t.Setenv("HALLEY_SEARCH_BULK_BYTES", "500")
	handle := open(t, c)
	large := strings.Repeat("x", 600)
	var changes []trigger.Change
	for i := range 6 {
		changes = append(changes, product(fmt.Sprint(i), "tea"))
	}
	changes = append(changes, product("large", large), product("last", "tea"))
	if v := triggertest.Deliver(t, handle, changes...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	if !slices.Equal(c.requests, []int{4, 2, 1, 1}) || len(c.live()) != 8 {
		t.Errorf("requests %v, %d documents", c.requests, len(c.live()))
	}
}

func TestLongIDsAndFields(t *testing.T) {
	c := newCluster(t)
	t.Setenv("HALLEY_SEARCH_FIELDS", "name")
	handle := open(t, c)
	long := strings.Repeat("i", 600)
	if v := triggertest.Deliver(t, handle, triggertest.Upsert(fmt.Sprintf(`{"id":%q,"name":"tea","secret":1}`, long), "s")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	for id, source := range c.live() {
		if !strings.HasPrefix(id, "sha256:") || strings.Contains(source, "secret") {
			t.Errorf("%s: %s", id, source)
		}
	}
	c.refreshAll()
	x, err := New(Settings{URL: handlers.URL(c.URL + "/base"), Index: testIndex, BulkBytes: 1, RequestTimeout: handlers.Interval(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if hits, err := x.Search(t.Context(), "tea", 10); err != nil || len(hits) != 1 || hits[0].ID != long || hits[0].Key != "" {
		t.Errorf("hits %+v, %v", hits, err)
	}
}

// Rows are the operations that the index has taken, not those that it has a newer version of.
func TestRequestsAreMeasured(t *testing.T) {
	c := newCluster(t)
	setFor(t, c)
	var sinks handlerstest.Sinks
	handle := handlerstest.Under(t, entry, handlers.Env{Measure: sinks.Measure})
	newer := product("1", "tea")
	newer.LSN = 9
	for _, batch := range [][]trigger.Change{{newer, product("2", "coffee")}, {product("1", "old tea")}} {
		if v := triggertest.Deliver(t, handle, batch...); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	c.answer = func(w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	if v := triggertest.Deliver(t, handle, product("3", "milk")); len(v.Failed) != 1 {
		t.Error(v)
	}
	if total := sinks.Of("opensearch"); total != (handlerstest.SinkTotal{OK: 2, Throttled: 1, Rows: 2}) {
		t.Errorf("measured %+v", total)
	}
}

func TestSearch(t *testing.T) {
	c := newCluster(t)
	handle := open(t, c)
	if v := triggertest.Deliver(t, handle, product("1", "green tea"), product("2", "coffee")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	c.refreshAll()
	x, err := New(Settings{URL: handlers.URL(c.URL + "/base"), Index: testIndex, BulkBytes: 1, RequestTimeout: handlers.Interval(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	hits, err := x.Search(t.Context(), "tea", 10)
	if err != nil || len(hits) != 1 || hits[0].ID != "1" || hits[0].Key != `["s"]` || hits[0].Score <= 0 || string(hits[0].Document) != `{"id":"1","name":"green tea"}` {
		t.Errorf("hits %+v, %v", hits, err)
	}
}

func TestUserAndProbe(t *testing.T) {
	c := newCluster(t)
	c.authorize = func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		return user == "halley" && password == "hunter2"
	}
	t.Setenv("HALLEY_SEARCH_USERNAME", "halley")
	t.Setenv("HALLEY_SEARCH_PASSWORD", "hunter2")
	setFor(t, c)
	var probes []handlers.Probe
	handlerstest.Under(t, entry, handlers.Env{Probe: func(p handlers.Probe) { probes = append(probes, p) }})
	for memory, want := range map[string]string{
		"1h":  "",
		"2d":  "",
		"60s": `/_settings {"index.gc_deletes":"1h"}`,
		"":    "forgets deletes too soon",
	} {
		c.setMemory(memory)
		err := probes[0].Try(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("index.gc_deletes %q: %v, want %q", memory, err, want)
		}
	}
	t.Setenv("HALLEY_SEARCH_PASSWORD", "other")
	handlerstest.Under(t, entry, handlers.Env{Probe: func(p handlers.Probe) { probes = append(probes, p) }})
	if err := probes[1].Try(t.Context()); err == nil || !strings.Contains(err.Error(), "check USERNAME") {
		t.Errorf("wrong password: %v", err)
	}
	c.Close()
	if err := probes[0].Try(t.Context()); err == nil || !strings.Contains(err.Error(), "start it, or correct") {
		t.Errorf("no cluster: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	good := Settings{URL: "https://search:9200", Index: "a", BulkBytes: 1, RequestTimeout: handlers.Interval(time.Minute)}
	for want, spoil := range map[string]func(*Settings){
		"setting HALLEY_SEARCH_URL is empty; set it to a URL":                 func(s *Settings) { s.URL = "" },
		"setting HALLEY_SEARCH_URL is not a URL":                              func(s *Settings) { s.URL = "search:9200" },
		"setting HALLEY_SEARCH_URL has a user or a password; put them into":   func(s *Settings) { s.URL = "https://me:hunter2@search" },
		"setting HALLEY_SEARCH_URL has a query":                               func(s *Settings) { s.URL = "https://search?key=hunter2" },
		"setting HALLEY_SEARCH_URL is http, which would show the password":    func(s *Settings) { s.URL, s.Username, s.Password = "http://search", "me", "hunter2" },
		`setting HALLEY_SEARCH_INDEX is "A"`:                                  func(s *Settings) { s.Index = "A" },
		"setting HALLEY_SEARCH_USERNAME and PASSWORD must both be set":        func(s *Settings) { s.Password = "hunter2" },
		"setting HALLEY_SEARCH_REQUEST_TIMEOUT is 1ms; it must be at least 1": func(s *Settings) { s.RequestTimeout = handlers.Interval(time.Millisecond) },
		"setting HALLEY_SEARCH_BULK_BYTES is 0":                               func(s *Settings) { s.BulkBytes = 0 },
	} {
		bad := good
		spoil(&bad)
		_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_SEARCH_"}, bad)
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("error is %v, want %s", err, want)
		}
		if shown := fmt.Sprintf("%v %+v %#v", bad, bad, bad); strings.Contains(shown, "hunter2") {
			t.Errorf("printed: %s", shown)
		}
	}
}

// BenchmarkHandler indexes documents of 1 KB, 100 in a call. The cluster is a stand-in in
// this process, which reads the requests and keeps the documents.
func BenchmarkHandler(b *testing.B) {
	words := strings.Repeat("green tea ", 90)
	handlerstest.Bench(b, open(b, newCluster(b)), 100, func(n int) trigger.Change { return product(strconv.Itoa(n), words) })
}

func TestCommandAsksTheCluster(t *testing.T) {
	c := newCluster(t)
	if v := triggertest.Deliver(t, open(t, c), product("1", "green tea")); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	c.refreshAll()
	settings, err := entry.Load()
	if err != nil {
		t.Fatal(err)
	}
	command := Command(func(context.Context, string) (handlers.Inspection, error) {
		return handlers.Inspection{Settings: settings}, nil
	})
	var out bytes.Buffer
	command.SetArgs([]string{"tea", "--json"})
	command.SetOut(&out)
	if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), `"id":"1","key":"[\"s\"]"`) {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A refusal without an end takes no memory of a host.
func TestRefusalsAreReadInPart(t *testing.T) {
	sent := 0
	c := newCluster(t)
	handle := open(t, c)
	c.answer = func(w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusForbidden)
		for chunk := make([]byte, 1<<20); sent < 48<<20; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return true
			}
		}
		return true
	}
	err := handle(t.Context(), trigger.NewBatch(product("1", "new")))
	c.Close()
	if err == nil || !strings.Contains(err.Error(), "403") || sent >= 48<<20 {
		t.Errorf("%v after %d MB", err, sent>>20)
	}
}

func TestTLSAndPool(t *testing.T) {
	c := newCluster(t)
	config, files := handlerstest.Certificate(t)
	server := httptest.NewUnstartedServer(c)
	server.TLS = config
	server.StartTLS()
	defer server.Close()
	t.Setenv("HALLEY_SEARCH_URL", server.URL+"/base")
	t.Setenv("HALLEY_SEARCH_INDEX", testIndex)
	handlerstest.RequireTLS(t, "HALLEY_SEARCH_", files, func() trigger.Verdict {
		return triggertest.Deliver(t, handlerstest.Under(t, entry, handlers.Env{}), product("1", "tea"))
	})
	x, err := New(Settings{URL: "https://search", Index: "a", BulkBytes: 1, RequestTimeout: handlers.Interval(time.Second), PoolSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	if pool := x.client.Transport.(*http.Transport); pool.MaxConnsPerHost != 3 || pool.MaxIdleConnsPerHost != 3 {
		t.Errorf("%d connections, %d idle", pool.MaxConnsPerHost, pool.MaxIdleConnsPerHost)
	}
}
