package emulator

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

var _ policy.Transporter = (*Account)(nil)

// TestHeaderNamesInProcess has what azcore sends: names that http.Header does not
// know as canonical.
func TestHeaderNamesInProcess(t *testing.T) {
	c, a := newItems(t, 1, nil)
	req := c.request("POST", items, doc("a", "k"), pk("k"))
	lower := http.Header{}
	for name, values := range req.Header {
		lower[strings.ToLower(name)] = values
	}
	req.Header = lower
	resp, err := a.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 201 || resp.Header.Get("ETag") == "" || resp.Request != req {
		t.Errorf("answer %+v", resp)
	}
}

func TestAdvertisedBehindAnotherServer(t *testing.T) {
	_, a := newClient(t, nil)
	for _, start := range []func(http.Handler) *httptest.Server{httptest.NewServer, httptest.NewTLSServer} {
		served := start(a)
		c := &client{t: t, do: served.Client().Do, endpoint: served.URL}
		if got := c.expect("200", "GET", "/", ""); !strings.Contains(got.body, `"databaseAccountEndpoint":"`+served.URL+`/"`) {
			t.Errorf("at %s the account says %s", served.URL, got.body)
		}
		served.Close()
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		options Options
		names   string
	}{
		{Options{RU: -1}, "RU"},
		{Options{Latency: -1}, "latency"},
		{Options{Splitting: -1}, "splitting"},
		{Options{Ranges: -1}, "ranges"},
		{Options{Ranges: maxRanges + 1}, "ranges"},
	} {
		if _, err := New(&tt.options); err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("%+v: %v, want an error that names %q", tt.options, err, tt.names)
		}
	}
}

func TestCreateContainer(t *testing.T) {
	c, a := newItems(t, 5, nil)
	if got := len(c.ranges()); got != 5 {
		t.Errorf("%d ranges, want 5", got)
	}
	for name, err := range map[string]error{
		"exists":     a.CreateContainer("db", "c", "/pk", 1),
		"no path":    a.CreateContainer("db", "x", "", 1),
		"no ranges":  a.CreateContainer("db", "x", "/pk", 0),
		"a bad name": a.CreateContainer("db", "a/b", "/pk", 1),
		"bad owner":  a.CreateContainer("", "x", "/pk", 1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRangesOption(t *testing.T) {
	c, _ := newClient(t, &Options{Ranges: 4})
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	if got := len(c.ranges()); got != 4 {
		t.Errorf("%d ranges, want 4", got)
	}
}

// TestRunsInBubbleAreReproducible holds the account to giving the same answers in every bubble.
func TestRunsInBubbleAreReproducible(t *testing.T) {
	run := func() (all []string) {
		synctest.Test(t, func(t *testing.T) {
			c, a := newItems(t, 2, &Options{Latency: time.Millisecond})
			for _, k := range keys(10) {
				c.create("id-"+k, k)
			}
			if _, err := a.Split("db", "c", "1"); err != nil {
				t.Fatal(err)
			}
			all = picture(c)
			all = append(all, c.create("x", "k").header.Get("x-ms-activity-id"))
		})
		return all
	}
	if first, second := strings.Join(run(), "\n"), strings.Join(run(), "\n"); first != second {
		t.Errorf("first run\n%s\nsecond\n%s", first, second)
	}
}

func TestAccountsHaveDistinctIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newItems(t, 1, nil)
		time.Sleep(time.Second)
		later, _ := newItems(t, 1, nil)
		a, b := c.create("a", "k"), later.create("a", "k")
		if a.decode(t)["_rid"] == b.decode(t)["_rid"] || a.header.Get("etag") == b.header.Get("etag") {
			t.Errorf("two accounts gave %s and %s", a.body, b.body)
		}
	})
}

func TestSeries(t *testing.T) {
	var s series[*item]
	for i := range 1000 {
		s.push(&item{seq: uint64(i + 1), current: &document{}})
	}
	for _, m := range append([]*item{}, s.members...) {
		if m.seq%10 != 0 {
			m.current = nil
			s.discard()
		}
	}
	if s.len() != 100 || len(s.members) > 300 {
		t.Errorf("%d of 100 left, in a list of %d", s.len(), len(s.members))
	}
	var got []int64
	for m := range s.after(970) {
		got = append(got, m.position())
		if len(got) == 2 {
			break
		}
	}
	if len(got) != 2 || got[0] != 980 || got[1] != 990 {
		t.Errorf("after 970 there are %v", got)
	}
}

func FuzzDraft(f *testing.F) {
	for _, seed := range []string{`{"id":"a","pk":1}`, `{"id":"\\\"","pk":{"a":[1,{"b":"}"}]}}`, `{ "_ts" : 1 , "id":"x" }`, `{"id":"a","id":"b"}`, `{}`, `[]`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := parseDraft(body, hashV2)
		if err != nil {
			return
		}
		stored := string(d.finish("rid", "path/", `"tag"`, 7))
		reparsed, err := parseDraft([]byte(stored), hashV2)
		if err != nil {
			t.Fatalf("%q was stored as %q: %v", body, stored, err)
		}
		if string(reparsed.open) != string(d.open) || reparsed.id != d.id || reparsed.key.String() != d.key.String() {
			t.Errorf("%q was stored as %q and read as %+v", body, stored, reparsed)
		}
	})
}

// FuzzRequest holds the account to answering whatever it is sent.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/dbs/db/colls/c/docs", "A-IM", "Incremental Feed", "x-ms-start-epk", "FF", "")
	f.Add("GET", "/dbs/db/colls/c/docs", "A-IM", "Incremental Feed", "If-None-Match", "\"-1\"", "")
	f.Add("POST", "/dbs/db/colls/c/docs", "x-ms-documentdb-partitionkey", "[1e400]", "x-ms-cosmos-is-batch-request", "true", `[{}]`)
	f.Add("POST", "/dbs/db/colls/c/docs", "x-ms-documentdb-query", "true", "x-ms-documentdb-partitionkey", `["k"]`, `{"query":"SELECT * FROM c ORDER BY c.n"}`)
	f.Add("PATCH", "/dbs/db/colls/c/docs/a", "x-ms-documentdb-partitionkey", `["k"]`, "If-Match", "*", `[{"op":"move","from":"/a","path":"/b"}]`)
	f.Add("PUT", "/dbs/db/colls/c", "a", "b", "c", "d", `{"id":"c","partitionKey":{"paths":["/pk"],"version":2},"defaultTtl":1}`)
	f.Add("POST", "/dbs/db/colls/c/docs", "x-ms-documentdb-partitionkey", `["k"]`, "a", "b", binaryText("b"))
	f.Add("POST", "/_emulator/split", "a", "b", "c", "d", `{"database":"db","container":"c","range":"0"}`)
	f.Add("", "/dbs/db/colls/c/docs/a", "x-ms-documentdb-partitionkey", `["k"]`, "a", "b", "")
	f.Add("", "/dbs/db/colls/c/users/a/b", "a", "b", "c", "d", "")
	f.Fuzz(func(t *testing.T, method, path, name1, value1, name2, value2, body string) {
		c, _ := newItems(t, 2, nil)
		c.create("a", "k")
		req := c.request("GET", "/", body, nil)
		req.Method, req.URL.Path, req.URL.RawPath = method, path, ""
		req.Header.Set(name1, value1)
		req.Header.Set(name2, value2)
		req.Header.Set("Authorization", "type=aad&ver=1.0&sig=x.e30."+base64.RawURLEncoding.EncodeToString([]byte(Key)))
		resp, err := c.do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answered, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode < 200 || len(answered) > 0 && !json.Valid(answered) {
			t.Errorf("%s %s: %d %q %v", method, path, resp.StatusCode, answered, err)
		}
	})
}
