package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The tests of this file hold neighbours of the recorded exchanges of package hosted, and
// facts of the record that its replay does not compare.

// TestEachAnswerTellsItsPartition has the session token, the LSN headers and the charge of
// answers: a range's, the master partition's, or none of them from the gateway.
func TestEachAnswerTellsItsPartition(t *testing.T) {
	const (
		data    = "0:-1#2"
		written = "0:-1#3"
		master  = "master"
		gateway = ""
	)
	query := with(crossHeader, "Content-Type", "application/query+json")
	batch := with(pk("k"), "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")
	stale := with(pk("k"), "If-Match", `"stale"`)
	for _, tt := range []struct {
		name, want, method, path, body string
		header                         []string
		from, charge                   string
	}{
		{"read", "200/", "GET", items + "/a", "", pk("k"), data, "1.00"},
		{"read, not modified", "304/", "GET", items + "/a", "", with(pk("k"), "If-None-Match", "current"), data, "1.00"},
		{"read an absent item", "404/", "GET", items + "/x", "", pk("k"), data, "1.00"},
		{"read without a key", "400/1001", "GET", items + "/a", "", nil, data, "0.00"},
		{"read with a key that is not JSON", "400/", "GET", items + "/a", "", []string{"x-ms-documentdb-partitionkey", "k"}, gateway, ""},
		{"read with a longer key", "400/1001", "GET", items + "/a", "", []string{"x-ms-documentdb-partitionkey", `["k","l"]`}, data, "1.00"},
		{"create an existing item", "409/", "POST", items, doc("a", "k"), pk("k"), data, "1.48"},
		{"create without a key", "400/1001", "POST", items, doc("b", "k"), nil, data, "0.00"},
		{"create under another key", "400/1001", "POST", items, doc("b", "l"), pk("k"), data, "1.24"},
		{"create without an id", "400/", "POST", items, `{"pk":"k"}`, pk("k"), data, "1.24"},
		{"create an array", "400/", "POST", items, `[]`, pk("k"), data, "1.24"},
		{"create a large item", "413/", "POST", items, `{"id":"b","pk":"k","s":"` + strings.Repeat("x", maxDocument) + `"}`, pk("k"), gateway, ""},
		{"upsert with a stale etag", "412/", "POST", items, doc("a", "k"), with(stale, "x-ms-documentdb-is-upsert", "True"), data, "1.24"},
		{"replace with a stale etag", "412/", "PUT", items + "/a", doc("a", "k"), stale, data, "1.24"},
		{"replace an absent item", "404/", "PUT", items + "/x", doc("x", "k"), pk("k"), data, "1.24"},
		{"replace under another key", "400/1001", "PUT", items + "/a", doc("a", "l"), pk("k"), data, "1.24"},
		{"patch an absent item", "404/", "PATCH", items + "/x", `{"operations":[{"op":"set","path":"/n","value":1}]}`, pk("k"), data, "1.24"},
		{"patch with a stale etag", "412/", "PATCH", items + "/a", `{"operations":[{"op":"set","path":"/n","value":1}]}`, stale, data, "1.24"},
		{"delete an absent item", "404/", "DELETE", items + "/x", "", pk("k"), data, "1.24"},
		{"delete with a stale etag", "412/", "DELETE", items + "/a", "", stale, data, "1.24"},
		{"session ahead", "404/1002", "GET", items + "/a", "", with(pk("k"), "x-ms-session-token", "0:-1#99"), data, "1.00"},
		{"feed", "200/", "GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", "0"), data, "1.00"},
		{"feed from no etag", "400/", "GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", "0", "If-None-Match", "x"), data, "1.00"},
		{"feed of an absent range", "410/1002", "GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", "9"), gateway, ""},
		{"query", "200/", "POST", items, ask("SELECT * FROM c"), query, data, "any"},
		{"query with a syntax error", "400/", "POST", items, ask("SELECT"), query, gateway, ""},
		{"query for a client to plan", "400/1004", "POST", items, ask("SELECT * FROM c ORDER BY c.n"), query, gateway, ""},
		{"upload to an item", "405/", "POST", items + "/a", doc("a", "k"), pk("k"), gateway, ""},
		{"list of stored procedures", "400/", "GET", "/dbs/db/colls/c/sprocs", "", nil, gateway, ""},
		{"list of conflicts", "200/", "GET", "/dbs/db/colls/c/conflicts", "", nil, data, "1.00"},
		{"query of conflicts", "200/", "POST", "/dbs/db/colls/c/conflicts", ask("SELECT * FROM c"), query, data, "1.00"},
		{"read an absent conflict", "404/", "GET", "/dbs/db/colls/c/conflicts/x", "", nil, data, "1.00"},
		{"list of users", "200/", "GET", "/dbs/db/users", "", nil, master, "2.00"},
		{"query of users", "200/", "POST", "/dbs/db/users", ask("SELECT * FROM c"), query, master, "2.00"},
		{"create a user", "400/", "POST", "/dbs/db/users", `{"id":"u"}`, nil, gateway, ""},
		{"read an absent user", "404/", "GET", "/dbs/db/users/u", "", nil, master, "2.00"},
		{"permissions of an absent user", "404/", "GET", "/dbs/db/users/u/permissions", "", nil, master, "2.00"},
		{"list of offers", "200/", "GET", "/offers", "", nil, master, "2.00"},
		{"query of offers", "200/", "POST", "/offers", ask("SELECT * FROM c"), query, master, "2.00"},
		{"query of offers with a syntax error", "400/", "POST", "/offers", ask("SELECT"), query, gateway, ""},
		{"read an absent offer", "404/", "GET", "/offers/none", "", nil, master, "2.00"},
		{"list of databases", "200/", "GET", "/dbs", "", nil, master, "2.00"},
		{"read a database", "200/", "GET", "/dbs/db", "", nil, master, "2.00"},
		{"read an absent database", "404/", "GET", "/dbs/none", "", nil, master, "2.00"},
		{"create a database again", "409/", "POST", "/dbs", `{"id":"db"}`, nil, master, "0.00"},
		{"create a database without an id", "400/", "POST", "/dbs", `{}`, nil, master, "0.00"},
		{"list of containers", "200/", "GET", "/dbs/db/colls", "", nil, master, "2.00"},
		{"read a container", "200/", "GET", "/dbs/db/colls/c", "", nil, data, "1.00"},
		{"read an absent container", "404/", "GET", "/dbs/db/colls/none", "", nil, master, "2.00"},
		{"delete an absent container", "404/", "DELETE", "/dbs/db/colls/none", "", nil, master, "2.00"},
		{"read in an absent container", "404", "GET", "/dbs/db/colls/none/docs/a", "", pk("k"), master, "2.00"},
		{"feed of an absent container", "404", "GET", "/dbs/db/colls/none/docs", "", feedHeader, master, "2.00"},
		{"patch in an absent database", "404", "PATCH", "/dbs/none/colls/c/docs/a", `{}`, pk("k"), master, "2.00"},
		{"ranges", "200/", "GET", "/dbs/db/colls/c/pkranges", "", nil, master, ""},
		{"ranges of an absent container", "404", "GET", "/dbs/db/colls/none/pkranges", "", nil, master, "2.00"},
		{"unknown path", "400/", "DELETE", "/dbs/db/colls/c/docs/a/b", "", pk("k"), gateway, ""},
		{"options", "403/", "OPTIONS", items, "", nil, gateway, ""},
		{"account", "200/", "GET", "/", "", nil, gateway, ""},
		{"create", "201/", "POST", items, doc("b", "k"), pk("k"), written, "any"},
		{"replace", "200/", "PUT", items + "/a", doc("a", "k"), pk("k"), written, "any"},
		{"patch", "200/", "PATCH", items + "/a", `{"operations":[{"op":"set","path":"/n","value":1}]}`, pk("k"), written, "any"},
		{"delete", "204/", "DELETE", items + "/a", "", pk("k"), written, "any"},
		{"batch without a key", "400/1001", "POST", items, `[{"operationType":"Create","resourceBody":` + doc("b", "k") + `}]`, batch[2:], data, "0.00"},
		{"batch", "200/", "POST", items, `[{"operationType":"Create","resourceBody":` + doc("b", "k") + `}]`, batch, written, "any"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, a := newItems(t, 1, nil)
			etag := c.create("a", "k").header.Get("etag")
			for i, value := range tt.header {
				if value == "current" {
					tt.header[i] = etag
				}
			}
			got := c.expect(tt.want, tt.method, tt.path, tt.body, tt.header...).header
			token := tt.from
			if tt.from == master {
				token = a.masterReplica().session
			}
			_, lsn, _ := strings.Cut(token, "#")
			committed := lsn
			if tt.from == written {
				committed = "2"
			}
			want := fmt.Sprint(token, lsn, lsn, committed, lsn != "")
			is := fmt.Sprint(got.Get("x-ms-session-token"), got.Get("lsn"), got.Get("x-ms-cosmos-llsn"), got.Get("x-ms-global-committed-lsn"), got.Get("x-ms-serviceversion") != "")
			if charge := got.Get("x-ms-request-charge"); is != want || charge != tt.charge && (tt.charge != "any" || charge == "") {
				t.Errorf("token, LSNs and service version %q, want %q; charge %q, want %q", is, want, charge, tt.charge)
			}
			if itemLSN := got.Get("x-ms-item-lsn"); (itemLSN != "") != (tt.path == items+"/a" && tt.method == "GET" && tt.want[0] != '4') {
				t.Errorf("x-ms-item-lsn %q", itemLSN)
			}
		})
	}
}

// The master partition counts the changes of databases, containers and offers, also over a
// restart.
func TestMasterPartitionCountsMetadata(t *testing.T) {
	options := &Options{Data: filepath.Join(t.TempDir(), "account")}
	c, a := newClient(t, options)
	lsn := func() string { return c.expect("200", "GET", "/dbs", "").header.Get("lsn") }
	for i, step := range [][]string{
		{"201", "POST", "/dbs", `{"id":"db"}`},
		{"201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`},
		{"200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":5}`},
		{"409", "POST", "/dbs", `{"id":"db"}`},
		{"204", "DELETE", "/dbs/db/colls/c", ""},
	} {
		c.expect(step[0], step[1], step[2], step[3])
		if got, want := lsn(), fmt.Sprint(i+1-i/3); got != want {
			t.Errorf("LSN %s after %v, want %s", got, step, want)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	c, _ = newClient(t, options)
	if got := lsn(); got != "4" {
		t.Errorf("LSN %s after a restart, want 4", got)
	}
}

// A 429 has LSNs, but no session token.
func TestThrottledAnswerHasNoSessionToken(t *testing.T) {
	c, _ := newItems(t, 1, &Options{RU: 1})
	c.create("a", "k")
	got := c.expect("429/3200", "GET", items+"/a", "", pk("k")...).header
	if got.Get("x-ms-session-token") != "" || got.Get("lsn") != "2" || got.Get("x-ms-request-charge") != "0.38" || got.Get("x-ms-retry-after-ms") == "" {
		t.Errorf("%v", got)
	}
}

// Errors of a partition have its text, and diagnostics on further lines.
func TestErrorsOfPartitionsHaveDiagnostics(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for path, want := range map[string]string{
		items + "/x":        `^Entity with the specified id does not exist in the system\. More info: https://aka.ms/cosmosdb-tsg-not-found, \r\nRequestStartTime: .*\r\nRequestStart: .*ResourceType: Document, .*\r\n, SDK: Microsoft\.Azure\.Documents\.Common/2\.14\.0$`,
		"/dbs/none":         `^Message: {"Errors":\["Resource Not Found\. Learn more: https://aka.ms/cosmosdb-tsg-not-found"\]}\r\nActivityId: me, Request URI: .*, RequestStats: \r\n.*\r\n.*ResourceType: Database, .*\r\n, SDK: Microsoft\.Azure\.Documents\.Common/2\.14\.0$`,
		"/dbs/db/nowhere":   `^Request url is invalid\.\r\nActivityId: me, Microsoft\.Azure\.Documents\.Common/2\.14\.0$`,
		"/dbs/db/colls/c/x": `^Request url is invalid\.\r\nActivityId: me, `,
	} {
		a := c.send("GET", path, "", with(pk("k"), "x-ms-activity-id", "me")...)
		if message, _ := a.decode(t)["message"].(string); !regexp.MustCompile(want).MatchString(message) {
			t.Errorf("%s: %q", path, message)
		}
	}
}

// Browsers keep strict transport security of a host for a year, and localhost has other
// servers.
func TestStrictTransportIsNotForTLS(t *testing.T) {
	_, a := newClient(t, nil)
	for served, want := range map[*httptest.Server]string{httptest.NewServer(a): "max-age=31536000", httptest.NewTLSServer(a): ""} {
		c := &client{t: t, do: served.Client().Do, endpoint: served.URL}
		if got := c.expect("200", "GET", "/", "").header.Get("Strict-Transport-Security"); got != want {
			t.Errorf("at %s %q, want %q", served.URL, got, want)
		}
		served.Close()
	}
}

// The usage that a write tells counts the items before it.
func TestWritesTellTheUsageBefore(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for _, step := range []struct{ got, want string }{
		{c.create("a", "k").header.Get("x-ms-resource-usage"), "documentsCount=0;"},
		{c.create("b", "k").header.Get("x-ms-resource-usage"), "documentsCount=1;"},
		{c.expect("204", "DELETE", items+"/a", "", pk("k")...).header.Get("x-ms-resource-usage"), "documentsCount=2;"},
		{c.expect("200", "GET", items+"/b", "", pk("k")...).header.Get("x-ms-resource-usage"), "documentsCount=1;"},
	} {
		if !strings.Contains(step.got, step.want) {
			t.Errorf("usage %q, want %q", step.got, step.want)
		}
	}
}

func TestAccountDocument(t *testing.T) {
	c, _ := newClient(t, nil)
	a := c.expect("200", "GET", "/", "")
	d := a.decode(t)
	for _, name := range []string{"continuousBackupEnabled", "enableNRegionSynchronousCommit", "enablePerPartitionFailoverBehavior", "disableCrossRegionalHedging"} {
		if d[name] != false {
			t.Errorf("%s is %v", name, d[name])
		}
	}
	var engine struct{ MaxSQLQueryInputLength int }
	text, _ := d["queryEngineConfiguration"].(string)
	if err := json.Unmarshal([]byte(text), &engine); err != nil || engine.MaxSQLQueryInputLength != 524288 {
		t.Errorf("queryEngineConfiguration %s", text)
	}
	replicas := fmt.Sprint(d["userReplicationPolicy"])
	if d["_rid"] != "halley.emulator" || replicas != "map[asyncReplication:false maxReplicasetSize:4 minReplicaSetSize:3]" {
		t.Errorf("_rid %v, userReplicationPolicy %s", d["_rid"], replicas)
	}
	if got := cmp.Or(a.header.Get("x-ms-request-charge"), a.header.Get("x-ms-activity-id"), a.header.Get("x-ms-session-token")); got != "" {
		t.Errorf("the account has a charge, an activity id or a token: %v", a.header)
	}
}

// TestContainerIsReadAsOnTheService has what the service leaves out of the definition of a
// container and adds to it.
func TestContainerIsReadAsOnTheService(t *testing.T) {
	c, _ := newSharedDatabase(t, nil)
	own := []string{"x-ms-offer-throughput", "400"}
	for _, tt := range []struct {
		name, sent, has, lacks string
		header                 []string
		shares                 string
	}{
		{"hash version 1", `"partitionKey":{"paths":["/pk"],"kind":"Hash","version":1}`, `"partitionKey":{"paths":["/pk"],"kind":"Hash"}`, `"version"`, nil, "true"},
		{"hash version 2", `"partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}`, `"version":2`, "?", own, ""},
		{"no excluded paths", `"partitionKey":{"paths":["/pk"]},"indexingPolicy":{"includedPaths":[{"path":"/*"}]}`, `"excludedPaths":[{"path":"/\"_etag\"/?"}]`, "?", nil, "true"},
		{"excluded paths", `"partitionKey":{"paths":["/pk"]},"indexingPolicy":{"excludedPaths":[{"path":"/a/?"}]}`, `"excludedPaths":[{"path":"/a/?"}]`, `/\"_etag`, nil, "true"},
		{"unknown properties", `"partitionKey":{"paths":["/pk"]},"flavour":{"any":[1]},"Rules":"x"`, `"id"`, "avour", nil, "true"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			body := `{"id":"` + strings.ReplaceAll(tt.name, " ", "") + `",` + tt.sent + `}`
			created := c.expect("201", "POST", "/dbs/db/colls", body, tt.header...)
			read := c.expect("200", "GET", "/dbs/db/colls/"+strings.ReplaceAll(tt.name, " ", ""), "")
			if read.body != created.body || !strings.Contains(read.body, tt.has) || strings.Contains(read.body, strings.Replace(tt.lacks, "?", "\x00", 1)) {
				t.Errorf("created %s\nread %s", created.body, read.body)
			}
			for _, a := range []answer{created, read} {
				if got := a.header.Get("x-ms-share-throughput"); got != tt.shares {
					t.Errorf("x-ms-share-throughput %q, want %q", got, tt.shares)
				}
			}
		})
	}
}

// Hierarchical keys need an API version that knows them.
func TestMultiHashNeedsANewerVersion(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	body := `{"id":"h","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`
	c.expect("400/", "POST", "/dbs/db/colls", body, "x-ms-version", "2018-12-31")
	c.expect("400/", "POST", "/dbs/db/colls", body, "x-ms-version", "2017-02-22")
	c.expect("201", "POST", "/dbs/db/colls", body, "x-ms-version", "2020-07-15")
}

// A read of the ranges has an etag only as a change feed.
func TestRangesWithoutEtag(t *testing.T) {
	c, _ := newItems(t, 2, nil)
	plain := c.expect("200", "GET", "/dbs/db/colls/c/pkranges", "")
	feed := c.expect("200", "GET", "/dbs/db/colls/c/pkranges", "", feedHeader...)
	if plain.header.Get("etag") != "" || feed.header.Get("etag") == "" || plain.header.Get("x-ms-item-count") != "2" {
		t.Errorf("plain %v, feed %v", plain.header, feed.header)
	}
	for _, name := range []string{"id", "_etag", "minInclusive", "maxExclusive", "ridPrefix", "throughputFraction", "status", "parents", "ownedArchivalPKRangeIds", "_ts", "lsn"} {
		if !strings.Contains(plain.body, `"`+name+`":`) {
			t.Errorf("a range has no %s: %s", name, plain.body)
		}
	}
}

// TestAnswersOfPartitionsTellTheirDuration: clients show it in their diagnostics. It covers
// the latency of the account; the gateway's own answers do not have it.
func TestAnswersOfPartitionsTellTheirDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newItems(t, 1, &Options{Latency: 1500 * time.Microsecond})
		for _, a := range []answer{
			c.create("a", "k"),
			c.expect("200", "GET", items+"/a", "", pk("k")...),
			c.expect("404", "GET", items+"/b", "", pk("k")...),
			c.expect("200", "GET", items, "", with(feedHeader, rangeID("0")...)...),
		} {
			if got := a.header.Get("x-ms-request-duration-ms"); got != "1.500" {
				t.Errorf("status %d took %q ms", a.status, got)
			}
		}
		for _, a := range []answer{c.expect("200", "GET", "/", ""), c.expect("400", "GET", "/unknown", "")} {
			if got := a.header["X-Ms-Request-Duration-Ms"]; got != nil {
				t.Errorf("an answer of the gateway took %q ms", got)
			}
		}
	})
}

// TestPartOfHierarchicalKeyIsTooShort: an operation on an item needs all levels of its key.
func TestPartOfHierarchicalKeyIsTooShort(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":2}}`)
	document := `{"id":"x","a":"1","b":"2"}`
	c.expect("201", "POST", items, document, "x-ms-documentdb-partitionkey", `["1","2"]`)
	for _, key := range []string{`["1"]`, `[]`, ""} {
		short := []string{"x-ms-documentdb-partitionkey", key}
		for _, tt := range []struct {
			method, path, body string
			header             []string
		}{
			{"POST", items, document, nil},
			{"POST", items, document, []string{"x-ms-documentdb-is-upsert", "true"}},
			{"GET", items + "/x", "", nil},
			{"PUT", items + "/x", document, nil},
			{"PATCH", items + "/x", `[{"op":"set","path":"/n","value":1}]`, nil},
			{"DELETE", items + "/x", "", nil},
			{"POST", items, `[{"operationType":"Read","id":"x"}]`, []string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "true"}},
			{"POST", items, `[{"operationType":"Read","id":"x"}]`, []string{"x-ms-cosmos-is-batch-request", "true", "x-ms-cosmos-batch-atomic", "false"}},
			{"POST", "/dbs/db/colls/c/operations/partitionkeydelete", "", nil},
		} {
			c.expect("400/1001", tt.method, tt.path, tt.body, with(short, tt.header...)...)
		}
	}
}
