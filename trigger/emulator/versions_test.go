package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var versionsHeader = []string{"A-IM", "Full-Fidelity Feed", "x-ms-cosmos-changefeed-wire-format-version", "2021-09-15"}

// previousMode is the policy by which the versions of some operations have the image before
// them.
func previousMode(mode int) string {
	return fmt.Sprintf(`,"previousImageRetentionPolicy":{"supportedFeatures":{"allVersionsAndDeletes":{"mode":%d},"containerCopy":{"mode":2}}}`, mode)
}

const plainVersions = `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1,"changeFeedPolicy":{"retentionDuration":10}%s}`

var versionsDefinition = fmt.Sprintf(plainVersions, previousMode(3))

// newVersions is a client of an account with the container db/c that keeps all
// versions with the images before them for ten minutes.
func newVersions(t testing.TB, opts *Options) (*client, *Account) {
	t.Helper()
	c, a := newClient(t, opts)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", versionsDefinition)
	return c, a
}

func (c *client) versions(want, token string, h ...string) answer {
	c.t.Helper()
	return c.expect(want, "GET", items, "", with(versionsHeader, with(h, "If-None-Match", token)...)...)
}

// end is the position of a range at this moment.
func (c *client) end(id string) string {
	c.t.Helper()
	return c.versions("304", "*", rangeID(id)...).header.Get("etag")
}

// seen is an item of the feed, as a reader of the protocol would declare it.
type seen struct {
	Current, Previous map[string]any
	Metadata          struct {
		OperationType     string
		LSN, CRTS         int64
		PreviousImageLSN  int64
		TimeToLiveExpired bool
		ID                string
		PartitionKey      map[string]any
	}
}

func (a answer) seen(t testing.TB) []seen {
	t.Helper()
	if a.status == 304 {
		return nil
	}
	var body struct{ Documents []seen }
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return body.Documents
}

// String returns "operation id" and, if they differ, the values of n before and after.
func (s seen) String() string {
	id := s.Metadata.ID
	if s.Current["id"] != nil {
		id = s.Current["id"].(string)
	}
	operation := s.Metadata.OperationType
	if s.Metadata.TimeToLiveExpired {
		operation = "expire"
	}
	return fmt.Sprint(operation, " ", id, " ", s.Previous["n"], "→", s.Current["n"])
}

func lines(all []seen) []string {
	list := []string{}
	for _, s := range all {
		list = append(list, s.String())
	}
	return list
}

func numbered(id, key string, n int, extra string) string {
	return fmt.Sprintf(`{"id":%q,"pk":%q,"n":%d%s}`, id, key, n, extra)
}

func TestChangeFeedPolicy(t *testing.T) {
	c, a := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	definition := func(policy string) string {
		return `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}` + policy + `}`
	}
	for _, policy := range []string{`[]`, `5`, `{"retentionDuration":-1}`, `{"retentionDuration":1.5}`, `{"retentionDuration":"5"}`, `{"retentionDuration":43201}`} {
		if got := c.expect("400", "POST", "/dbs/db/colls", definition(`,"changeFeedPolicy":`+policy)); !strings.Contains(got.body, "43200") {
			t.Errorf("%s: %s", policy, got.body)
		}
	}
	minutes := func() any {
		policy, _ := c.expect("200", "GET", "/dbs/db/colls/c", "").decode(t)["changeFeedPolicy"].(map[string]any)
		return policy["retentionDuration"]
	}
	c.expect("201", "POST", "/dbs/db/colls", definition(`,"changeFeedPolicy":{"retentionDuration":43200}`))
	if got := minutes(); got != 43200.0 {
		t.Errorf("the policy is %v minutes", got)
	}
	token := c.end("0")
	c.create("a", "k")
	c.expect("200", "PUT", "/dbs/db/colls/c", definition(`,"changeFeedPolicy":{"retentionDuration":5}`))
	if got := a.State().Databases[0].Containers[0]; got.Retention != 5 || got.Ranges[0].Versions != 1 || got.Ranges[0].Trimmed != 1 {
		t.Errorf("the state is %+v", got)
	}
	if got := lines(c.versions("200", token).seen(t)); len(got) != 1 {
		t.Errorf("after a change of the policy there are %v", got)
	}
	for _, off := range []string{``, `,"changeFeedPolicy":null`, `,"changeFeedPolicy":{"retentionDuration":0}`} {
		c.expect("200", "PUT", "/dbs/db/colls/c", definition(off))
		c.versions("400", token)
		c.upsert(numbered("b", "k", 1, ""), "k")
		c.expect("200", "PUT", "/dbs/db/colls/c", definition(`,"changeFeedPolicy":{"retentionDuration":5}`))
		if got := c.versions("400", token); !strings.Contains(got.body, "Start from now") {
			t.Errorf("a position from before the log: %s", got.body)
		}
		c.versions("304", c.end("0"))
	}
}

func TestVersionsRefuse(t *testing.T) {
	c, a := newVersions(t, &Options{Ranges: 2, Manners: Manners{RefuseAhead: true}})
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"plain","partitionKey":{"paths":["/pk"]}}`)
	c.expect("201", "POST", "/dbs/db/colls", strings.Replace(versionsDefinition, `"c"`, `"merged"`, 1))
	if _, err := a.Merge("db", "merged", "0", "1"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Split("db", "merged", "2"); err != nil {
		t.Fatal(err)
	}
	first := rangeID("0")
	for _, tt := range []struct {
		name, container, want, message string
		header                         []string
	}{
		{"beginning", "c", "400", "beginning", with(versionsHeader, first...)},
		{"start time", "c", "400", "start time", with(versionsHeader, with(first, "If-Modified-Since", "Mon, 02 Jan 2023 15:04:05 GMT")...)},
		{"start time and etag", "c", "400", "start time", with(versionsHeader, with(first, "If-None-Match", `"1"`, "If-Modified-Since", "Mon, 02 Jan 2023 15:04:05 GMT")...)},
		{"no etag", "c", "400", "not a continuation", with(versionsHeader, with(first, "If-None-Match", `"x"`)...)},
		{"etag from the future", "c", "400", "not a continuation", with(versionsHeader, with(first, "If-None-Match", `"99"`)...)},
		{"etag before the log", "c", "400", "older than", with(versionsHeader, with(first, "If-None-Match", `"0"`)...)},
		{"without wire format", "c", "400", "2021-09-15", []string{"A-IM", "Full-Fidelity Feed", "If-None-Match", "*", first[0], first[1]}},
		{"no policy", "plain", "400", "changeFeedPolicy", with(versionsHeader, with(first, "If-None-Match", "*")...)},
		{"merged", "merged", "400", "merged", with(versionsHeader, with(rangeID("3"), "If-None-Match", "*")...)},
		{"all ranges", "c", "400", "partitionkeyrangeid", with(versionsHeader, "If-None-Match", "*")},
		{"range that is gone", "merged", "410/1002", "gone", with(versionsHeader, with(first, "If-None-Match", "*")...)},
		{"unknown mode", "c", "400", "Full-Fidelity Feed", []string{"A-IM", "Everything"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			if got := c.expect(tt.want, "GET", "/dbs/db/colls/"+tt.container+"/docs", "", tt.header...); !strings.Contains(got.body, tt.message) {
				t.Errorf("the message does not name %q: %s", tt.message, got.body)
			}
		})
	}
	c.t = t
	for _, r := range a.State().Databases[0].Containers[1].Ranges {
		if r.Versions != 0 || r.Trimmed != 0 {
			t.Errorf("the merged container keeps %+v", r)
		}
	}
	c.expect("201", "POST", "/dbs/db/colls/merged/docs", doc("a", "k"), pk("k")...)
}

func TestEnvelopes(t *testing.T) {
	for _, tt := range []struct {
		policy           string
		ofAccount        bool
		replaces, erases bool
	}{
		{"", false, false, false},
		{previousMode(0), false, false, false},
		{previousMode(1), false, true, false},
		{previousMode(2), false, false, true},
		{previousMode(3), false, true, true},
		{"", true, true, true},
		{`,"previousImageRetentionPolicy":{"supportedFeatures":{}}`, false, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := newVersions(t, &Options{PreviousImages: tt.ofAccount})
			c.expect("200", "PUT", "/dbs/db/colls/c", fmt.Sprintf(plainVersions, tt.policy))
			began := time.Now().Unix()
			token := c.end("0")
			c.create("a", "k")
			time.Sleep(time.Second)
			c.expect("200", "PUT", items+"/a", numbered("a", "k", 2, ""), pk("k")...)
			time.Sleep(time.Second)
			c.expect("200", "PATCH", items+"/a", `[{"op":"set","path":"/n","value":3}]`, pk("k")...)
			c.upsert(numbered("a", "k", 4, ""), "k")
			time.Sleep(time.Second)
			c.expect("204", "DELETE", items+"/a", "", pk("k")...)
			c.upsert(numbered("a", "k", 5, `,"ttl":7`), "k")
			time.Sleep(time.Hour / 10)
			got := c.versions("200", token)
			if got.header.Get("x-ms-item-count") != "7" || got.header.Get("etag") != `"8"` {
				t.Errorf("count %s, etag %s", got.header.Get("x-ms-item-count"), got.header.Get("etag"))
			}
			all := got.seen(t)
			image := func(shown bool, n string) string { return map[bool]string{true: n, false: "<nil>"}[shown] }
			want := []string{
				"create a <nil>→<nil>", "replace a <nil>→2",
				"replace a " + image(tt.replaces, "2") + "→3", "replace a " + image(tt.replaces, "3") + "→4", "delete a " + image(tt.erases, "4") + "→<nil>",
				"create a <nil>→5", "expire a " + image(tt.erases, "5") + "→<nil>",
			}
			if !slices.Equal(lines(all), want) {
				t.Fatalf("policy %q, account %v:\n%v, want\n%v", tt.policy, tt.ofAccount, lines(all), want)
			}
			for i, second := range []int64{0, 1, 2, 2, 3, 3, 10} {
				m := all[i].Metadata
				if m.LSN != int64(i+2) || m.CRTS != began+second {
					t.Errorf("%v: LSN %d at second %d", all[i], m.LSN, m.CRTS-began)
				}
				if oldLSN := map[string]int64{"create": 0, "replace": int64(i + 1), "delete": int64(i + 1)}[m.OperationType]; m.PreviousImageLSN != oldLSN {
					t.Errorf("%v: previous image LSN %d", all[i], m.PreviousImageLSN)
				}
				if isDelete := m.OperationType == "delete"; isDelete != (m.ID == "a") || isDelete != (m.PartitionKey["pk"] == "k") || isDelete != (len(all[i].Current) == 0) {
					t.Errorf("%v: %+v", all[i], all[i])
				}
			}
			if all[1].Current["_etag"] == nil || all[1].Current["_ts"] != float64(began+1) || !strings.Contains(got.body, `{"current":{},`) {
				t.Errorf("body %s", got.body)
			}
			c.versions("304", `"8"`)
		})
	}
}

func TestDeletedKeys(t *testing.T) {
	for _, tt := range []struct{ paths, kind, document, key, want string }{
		{`"/a/b"`, "Hash", `{"id":"x","a":{"b":7,"c":1}}`, `[7]`, `{"a":{"b":7}}`},
		{`"/pk"`, "Hash", `{"id":"x","pk":null}`, `[null]`, `{"pk":null}`},
		{`"/pk"`, "Hash", `{"id":"x"}`, `[{}]`, ``},
		{`"/t","/a/b","/a/c"`, "MultiHash", `{"id":"x","t":"é","a":{"b":true,"c":1.5}}`, `["é",true,1.5]`, `{"a":{"b":true,"c":1.5},"t":"é"}`},
	} {
		t.Run(tt.paths, func(t *testing.T) {
			c, _ := newClient(t, nil)
			c.expect("201", "POST", "/dbs", `{"id":"db"}`)
			c.expect("201", "POST", "/dbs/db/colls", fmt.Sprintf(`{"id":"c","partitionKey":{"paths":[%s],"kind":%q,"version":2},"changeFeedPolicy":{"retentionDuration":10}}`, tt.paths, tt.kind))
			c.expect("201", "POST", items, tt.document, "x-ms-documentdb-partitionkey", tt.key)
			token := c.end("0")
			c.expect("204", "DELETE", items+"/x", "", "x-ms-documentdb-partitionkey", tt.key)
			got := c.versions("200", token).body
			want := `"id":"x"`
			if tt.want != "" {
				want += `,"partitionKey":` + tt.want
			}
			if !strings.Contains(got, want+"}}") {
				t.Errorf("%s has no %s", got, want)
			}
		})
	}
}

func TestVersionsKeepTransactionsWhole(t *testing.T) {
	c, _ := newVersions(t, nil)
	token := c.end("0")
	c.create("first", "k")
	c.expect("200", "POST", items, `[
		{"operationType":"Create","resourceBody":{"id":"a","pk":"k","n":1}},
		{"operationType":"Upsert","resourceBody":{"id":"a","pk":"k","n":2}},
		{"operationType":"Read","id":"a"},
		{"operationType":"Delete","id":"a"},
		{"operationType":"Create","resourceBody":{"id":"a","pk":"k","n":3}},
		{"operationType":"Replace","id":"first","resourceBody":{"id":"first","pk":"k","n":9}}]`, with(pk("k"), "x-ms-cosmos-is-batch-request", "true")...)
	c.expect("207", "POST", items, `[{"operationType":"Upsert","resourceBody":{"id":"a","pk":"k","n":8}},{"operationType":"Read","id":"none"}]`,
		with(pk("k"), "x-ms-cosmos-is-batch-request", "true")...)
	c.create("last", "k")
	var pages [][]string
	for {
		got := c.send("GET", items, "", with(versionsHeader, "If-None-Match", token, "x-ms-max-item-count", "1")...)
		if got.status == 304 {
			break
		}
		token = got.header.Get("etag")
		pages = append(pages, lines(got.seen(t)))
		for _, s := range got.seen(t) {
			if fmt.Sprintf("%q", fmt.Sprint(s.Metadata.LSN)) != token {
				t.Errorf("%v has LSN %d in the page of %s", s, s.Metadata.LSN, token)
			}
			if s.Metadata.PreviousImageLSN > s.Metadata.LSN {
				t.Errorf("%v comes after %d", s, s.Metadata.PreviousImageLSN)
			}
		}
	}
	want := [][]string{
		{"create first <nil>→<nil>"},
		{"create a <nil>→1", "replace a 1→2", "delete a 2→<nil>", "create a <nil>→3", "replace first <nil>→9"},
		{"create last <nil>→<nil>"},
	}
	if fmt.Sprint(pages) != fmt.Sprint(want) {
		t.Errorf("pages %v\nwant  %v", pages, want)
	}
	if got := c.feed("200").ids(t); !slices.Equal(got, []string{"a", "first", "last"}) {
		t.Errorf("the latest versions are %v", got)
	}
}

func TestVersionsOfParts(t *testing.T) {
	c, _ := newVersions(t, nil)
	token := c.end("0")
	for _, k := range keys(20) {
		c.create("id-"+k, k)
		c.expect("204", "DELETE", items+"/id-"+k, "", pk(k)...)
	}
	middle := "20"
	low := lines(c.versions("200", token, with(rangeID("0"), "x-ms-read-key-type", "EffectivePartitionKeyRange", "x-ms-end-epk", middle)...).seen(t))
	high := lines(c.versions("200", token, with(rangeID("0"), "x-ms-start-epk", middle, "x-ms-end-epk", "FF")...).seen(t))
	if len(low) == 0 || len(high) == 0 || len(low)+len(high) != 40 || slices.Contains(high, low[0]) {
		t.Errorf("%d below and %d above of 40", len(low), len(high))
	}
	key := keys(20)[7]
	mine := c.versions("200", token, pk(key)...)
	if got := lines(mine.seen(t)); len(got) != 2 || got[1] != "delete id-"+key+" <nil>→<nil>" {
		t.Errorf("one key has %v", got)
	}
	c.create("foreign", keys(20)[8])
	end := c.versions("304", mine.header.Get("etag"), pk(key)...)
	if end.header.Get("etag") != c.end("0") {
		t.Errorf("the 304 of one key ends at %s", end.header.Get("etag"))
	}
}

func TestLatestVersionsInEnvelopes(t *testing.T) {
	for _, definition := range []string{versionsDefinition, `{"id":"c","partitionKey":{"paths":["/pk"],"version":2}}`} {
		c, _ := newClient(t, nil)
		c.expect("201", "POST", "/dbs", `{"id":"db"}`)
		c.expect("201", "POST", "/dbs/db/colls", definition)
		c.create("a", "k")
		c.create("gone", "k")
		c.upsert(numbered("a", "k", 1, ""), "k")
		c.expect("204", "DELETE", items+"/gone", "", pk("k")...)
		all := c.feed("200", "x-ms-cosmos-changefeed-wire-format-version", "2021-09-15").seen(t)
		if len(all) != 1 || all[0].Current["n"] != 1.0 || all[0].Current["_lsn"] != 4.0 || all[0].Previous != nil {
			t.Fatalf("envelopes %+v", all)
		}
		if m := all[0].Metadata; m.LSN != 4 || m.CRTS != int64(all[0].Current["_ts"].(float64)) || m.OperationType != "" {
			t.Errorf("metadata %+v", m)
		}
		for _, bare := range [][]string{nil, {"x-ms-cosmos-changefeed-wire-format-version", "2017-01-01"}} {
			if got := c.feed("200", bare...).documents(t); len(got) != 1 || got[0]["n"] != 1.0 {
				t.Errorf("bare documents %v", got)
			}
		}
	}
}
