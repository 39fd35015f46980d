package bleve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	blevesearch "github.com/blevesearch/bleve/v2"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/search"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

var entry = handlers.New("search", "indexes documents", Open)

// The index ends up the same whatever happens on the way, for each word.
func TestIndexConverges(t *testing.T) {
	for name, f := range map[string]trigger.Function{
		"latest version": {},
		"soft delete":    {SoftDeleteProperty: "gone"},
		"all versions":   {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}, BatchPolicy: trigger.BatchPolicy{Lanes: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			triggertest.Converges(t, triggertest.Scenario{
				PartitionKey: "/shop",
				Function:     f,
				Seeds:        handlerstest.ShortOrLong(2, 6), // each batch waits for the disk
				Document: func(random *rand.Rand, id, shop string) any {
					return map[string]any{"id": id, "shop": shop, "name": fmt.Sprint("word", random.IntN(3)), "price": random.IntN(100)}
				},
				Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
					directory := filepath.Join(t.TempDir(), "index")
					t.Setenv("HALLEY_SEARCH_DIRECTORY", directory)
					x := New(directory, nil)
					t.Cleanup(func() {
						if err := x.Close(); err != nil {
							t.Error(err)
						}
					})
					return triggertest.Sink{
						Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlers.Env{}) },
						State: func() any { return found(t, x, "word0", "word1", "word2") },
					}
				},
				Want: func(documents []json.RawMessage) any {
					want := map[string]string{}
					for _, d := range documents {
						var p struct {
							ID, Shop, Name string
							Price          int
						}
						if err := json.Unmarshal(d, &p); err != nil {
							t.Fatal(err)
						}
						want[fmt.Sprintf(`%s: ["%s"]/%s`, p.Name, p.Shop, p.ID)] = fmt.Sprintf(`{"id":"%s","name":"%s","price":%d,"shop":"%s"}`, p.ID, p.Name, p.Price, p.Shop)
					}
					return want
				},
			})
		})
	}
}

// found returns the documents that each query finds.
func found(t testing.TB, x *Index, queries ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, q := range queries {
		hits, err := x.Search(t.Context(), q, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			all[q+": "+h.Key+"/"+h.ID] = string(h.Document)
		}
	}
	return all
}

func newIndex(t testing.TB, fields ...string) *Index {
	t.Helper()
	x := New(filepath.Join(t.TempDir(), "index"), fields)
	t.Cleanup(func() {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func deliver(t testing.TB, x *Index, changes ...trigger.Change) {
	t.Helper()
	if v := triggertest.Deliver(t, x.Handle, changes...); len(v.Failed) > 0 {
		t.Fatal(v)
	}
}

func TestQueries(t *testing.T) {
	x := newIndex(t)
	deliver(t, x,
		triggertest.Upsert(`{"id":"1","name":"green tea","origin":{"country":"Japan"},"price":7,"_etag":"green"}`, "a"),
		triggertest.Upsert(`{"id":"1","name":"black tea","tags":["strong","green label"],"price":3}`, "b"),
		triggertest.Upsert(`{"id":"2","name":"coffee","_halley":{"state":"deleted","key":"tea"}}`, nil),
		triggertest.Upsert(`{"id":"3","name":"green tea"}`, "a"),
		triggertest.Delete("3", "a"))
	for query, want := range map[string]string{
		"tea":                   `map[tea: ["a"]/1 tea: ["b"]/1]`,
		"green":                 `map[green: ["a"]/1 green: ["b"]/1]`,
		`"green tea"`:           `map["green tea": ["a"]/1]`,
		"origin.country:japan":  `map[origin.country:japan: ["a"]/1]`,
		"+tea +price:>5":        `map[+tea +price:>5: ["a"]/1]`,
		"coffee":                `map[coffee: [null]/2]`,
		"nothing":               `map[]`,
		"deleted":               `map[]`,
		"tea -green":            `map[]`,
		"_halley.state:deleted": `map[]`,
	} {
		got := map[string]bool{}
		for name := range found(t, x, query) {
			got[name] = true
		}
		if text := strings.ReplaceAll(fmt.Sprint(got), ":true", ""); text != want {
			t.Errorf("%s finds %s, want %s", query, text, want)
		}
	}
	if hits, err := x.Search(t.Context(), "tea", 1); err != nil || len(hits) != 1 || hits[0].Score <= 0 {
		t.Errorf("%+v, %v", hits, err)
	}
	if _, err := x.Search(t.Context(), `"`, 1); err == nil {
		t.Error("a query that is not complete is accepted")
	}
}

// A query takes neither a processor for minutes nor more time than its client has: its length,
// its wildcards and its time have limits.
func TestQueriesAreBounded(t *testing.T) {
	x := newIndex(t)
	deliver(t, x, triggertest.Upsert(`{"id":"1","name":"green tea"}`, "a"))
	if hits, err := x.Search(t.Context(), "gr*n t?a", 1); err != nil || len(hits) != 1 {
		t.Errorf("%+v, %v", hits, err)
	}
	for query, want := range map[string]string{
		strings.Repeat("a", 513):            "has 513 bytes; shorten it to 512",
		strings.Repeat("*a", 100):           "has 100 of the characters * ? ~ /; use 4 at most",
		"/a+/ tea~2 b?c":                    "",
		"/a+/ tea~2 b?c d* e*":              "has 6 of the characters",
		strings.Repeat("tea ", 512/4):       "",
		strings.Repeat("tea ", 512/4) + "*": "has 513 bytes",
	} {
		_, err := x.Search(t.Context(), query, 1)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20s…: %v", query, err)
		}
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if _, err := x.Search(gone, "tea", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("the query of a client that has gone: %v", err)
	}
	x.queryTime = time.Nanosecond
	if _, err := x.Search(t.Context(), "tea", 1); err == nil || !strings.Contains(err.Error(), "not finished within 1ns; make the query narrower") {
		t.Errorf("a query that takes too long: %v", err)
	}
}

func TestOlderVersionsAreNotIndexed(t *testing.T) {
	x := newIndex(t)
	at := func(c trigger.Change, seconds, lsn int64) trigger.Change {
		c.Time, c.LSN = time.Unix(1_700_000_000+seconds, 0), lsn
		return c
	}
	tea := func(id, name string) trigger.Change {
		return triggertest.Upsert(fmt.Sprintf(`{"id":%q,"name":"tea %s"}`, id, name), "s")
	}
	for _, c := range []trigger.Change{
		at(tea("1", "new"), 5, 10), at(tea("1", "old"), 4, 11), at(tea("1", "older"), 5, 9),
		at(triggertest.Delete("2", "s"), 7, 20), at(tea("2", "late"), 6, 19),
		at(triggertest.Expire("3", "s"), 3, 1), at(tea("3", "again"), 3, 2),
	} {
		if err := x.Handle(t.Context(), trigger.NewBatch(c)); err != nil {
			t.Fatal(err)
		}
	}
	got := found(t, x, "tea")
	if len(got) != 2 || !strings.Contains(got[`tea: ["s"]/1`], "tea new") || !strings.Contains(got[`tea: ["s"]/3`], "tea again") {
		t.Errorf("index has %v", got)
	}
}

func TestIndexStaysOnDisk(t *testing.T) {
	x := newIndex(t, "name")
	deliver(t, x, triggertest.Upsert(`{"id":"1","name":"tea","secret":"green"}`, "a"))
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	again := New(x.directory, nil)
	defer again.Close()
	if got := found(t, again, "tea", "green"); len(got) != 1 || strings.Contains(fmt.Sprint(got), "secret") {
		t.Errorf("found %v", got)
	}
}

func TestDocumentsThatAreNoObjectsAreGivenUp(t *testing.T) {
	x := newIndex(t)
	v := triggertest.Deliver(t, x.Handle, triggertest.Upsert(`{"id":"1","name":"tea"}`, "a"), triggertest.Upsert(`["tea"]`, "a"))
	if !v.GivenUp || len(v.Failed) != 1 || !strings.Contains(v.Err.Error(), "not a JSON object") {
		t.Errorf("verdict: %v", v)
	}
	if got := found(t, x, "tea"); len(got) != 1 {
		t.Errorf("found %v", got)
	}
}

func TestDirectoryThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	x := New(file, nil)
	if v := triggertest.Deliver(t, x.Handle, triggertest.Upsert(`{"id":"1"}`, "a")); v.GivenUp || len(v.Failed) != 1 || !strings.Contains(v.Err.Error(), "open the index") {
		t.Errorf("verdict: %v", v)
	}
	if err := probe("HALLEY_SEARCH_", file).Try(t.Context()); err == nil || !strings.Contains(err.Error(), "correct HALLEY_SEARCH_DIRECTORY") {
		t.Errorf("probe: %v", err)
	}
	if err := probe("HALLEY_SEARCH_", t.TempDir()).Try(t.Context()); err != nil {
		t.Errorf("probe: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

// Another process holds the lock of the directory.
func TestIndexOfAnotherProcess(t *testing.T) {
	const child = "HALLEY_TEST_INDEX"
	if directory := os.Getenv(child); directory != "" {
		x, err := blevesearch.New(directory, newMapping())
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		fmt.Println("open")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	directory := filepath.Join(t.TempDir(), "index")
	other := exec.Command(os.Args[0], "-test.run=^TestIndexOfAnotherProcess$")
	other.Env = append(os.Environ(), child+"="+directory)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	x := New(directory, nil)
	if _, err := x.Search(t.Context(), "tea", 1); err == nil || !strings.Contains(err.Error(), "another process has it open") {
		t.Errorf("error is %v", err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Fatal(err)
	}
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Search(t.Context(), "tea", 1); err != nil {
		t.Errorf("after the other process: %v", err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
}

func TestQueriesAreServed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HALLEY_SEARCH_DIRECTORY", t.TempDir())
	t.Setenv("HALLEY_SEARCH_QUERY_ADDRESS", address)
	handle, stop := handlerstest.Start(t, entry, handlers.Env{})
	for range 2 {
		if v := triggertest.Deliver(t, handle, triggertest.Upsert(`{"id":"1","name":"green tea"}`, "a")); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	get := func(path, host string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	status, body := get("/search?q=tea&limit=5", address)
	var hits []search.Hit
	if err := json.Unmarshal([]byte(body), &hits); err != nil || status != 200 || len(hits) != 1 || hits[0].ID != "1" {
		t.Errorf("%d %s", status, body)
	}
	for path, want := range map[string]int{"/search?q=tea&limit=0": 400, "/search?q=%22": 400, "/": 404} {
		if status, body := get(path, address); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, _ := get("/search?q=tea", "evil.example"); status != 403 {
		t.Errorf("under another name: %d", status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the server still listens")
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for want, s := range map[string]Settings{
		"setting HALLEY_SEARCH_DIRECTORY is empty; name a directory":       {},
		`setting HALLEY_SEARCH_QUERY_ADDRESS is ":8100"; write a loopback`: {Directory: "x", QueryAddress: ":8100"},
		`setting HALLEY_SEARCH_QUERY_ADDRESS is "0.0.0.0:1"`:               {Directory: "x", QueryAddress: "0.0.0.0:1"},
		`setting HALLEY_SEARCH_QUERY_ADDRESS is "localhost"; write`:        {Directory: "x", QueryAddress: "localhost"},
	} {
		if _, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_SEARCH_"}, s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error is %v, want %s", err, want)
		}
	}
	if _, _, err := Open(t.Context(), handlers.Env{}, Settings{Directory: "x", QueryAddress: "[::1]:8100"}); err != nil {
		t.Error(err)
	}
}

// BenchmarkHandler indexes documents of 1 KB, 100 in a call, in an index on disk.
func BenchmarkHandler(b *testing.B) {
	b.Setenv("HALLEY_SEARCH_DIRECTORY", filepath.Join(b.TempDir(), "index"))
	handle := handlerstest.Under(b, entry, handlers.Env{})
	random := rand.New(rand.NewPCG(1, 1))
	handlerstest.Bench(b, handle, 100, func(n int) trigger.Change {
		var words strings.Builder
		for range 120 {
			fmt.Fprintf(&words, "word%d ", random.IntN(5000))
		}
		return triggertest.Upsert(fmt.Sprintf(`{"id":"%d","text":%q}`, n, words.String()), "s")
	})
}

func TestCommandAsksTheIndex(t *testing.T) {
	x := newIndex(t)
	deliver(t, x, triggertest.Upsert(`{"id":"1","name":"green tea"}`, "a"))
	inspect := func(context.Context, string) (handlers.Inspection, error) {
		return handlers.Inspection{Settings: &Settings{Directory: x.directory}}, nil
	}
	var out bytes.Buffer
	c := Command(inspect)
	c.SetArgs([]string{"tea", "--json"})
	c.SetOut(&out)
	if err := c.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), `"id":"1"`) {
		t.Errorf("%v: %s", err, out.String())
	}
	other := Command(func(context.Context, string) (handlers.Inspection, error) {
		return handlers.Inspection{Settings: &struct{}{}}, nil
	})
	other.SetArgs([]string{"tea"})
	other.SetErr(&out)
	other.SetOut(&out)
	if err := other.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "not an index in a directory") {
		t.Errorf("error is %v", err)
	}
}
