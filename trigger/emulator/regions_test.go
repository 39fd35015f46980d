package emulator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	west  = "West Europe"
	north = "North Europe"
	east  = "East US"
)

// region is the client in one region.
func (c *client) region(a *Account, name string) *client {
	c.t.Helper()
	endpoint, err := a.RegionEndpoint(name)
	if err != nil {
		c.t.Fatal(err)
	}
	return &client{t: c.t, do: c.do, endpoint: strings.TrimSuffix(endpoint, "/")}
}

// inRegions runs fn on an account in West Europe, North Europe and East US, in a bubble.
func inRegions(t *testing.T, options Options, fn func(t *testing.T, a *Account, west, north, east *client)) {
	synctest.Test(t, func(t *testing.T) {
		options.Regions = []string{west, north, east}
		c, a := newItems(t, 1, &options)
		fn(t, a, c.region(a, west), c.region(a, north), c.region(a, east))
	})
}

// locationNames are the names of a list of regions in the account's document.
func (c *client) locationNames(property string) string {
	c.t.Helper()
	var document map[string]json.RawMessage
	if err := json.Unmarshal([]byte(c.expect("200", "GET", "/", "").body), &document); err != nil {
		c.t.Fatal(err)
	}
	var list []location
	if err := json.Unmarshal(document[property], &list); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, l := range list {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

func TestAccountListsItsRegions(t *testing.T) {
	inRegions(t, Options{PartitionFailover: true}, func(t *testing.T, a *Account, w, n, _ *client) {
		for _, c := range []*client{w, n} {
			if got := c.locationNames("readableLocations"); got != "West Europe, North Europe, East US" {
				t.Errorf("readable locations are %s", got)
			}
			if got := c.locationNames("writableLocations"); got != west {
				t.Errorf("writable locations are %s", got)
			}
		}
		document := n.expect("200", "GET", "/", "").decode(t)
		if document["enableMultipleWriteLocations"] != false || document["enablePerPartitionFailoverBehavior"] != true {
			t.Errorf("the account says %v", document)
		}
		if err := a.FailOver(east, FailoverPlanned); err != nil {
			t.Fatal(err)
		}
		if got := n.locationNames("readableLocations"); got != "East US, West Europe, North Europe" {
			t.Errorf("after the failover readable locations are %s", got)
		}
	})
	inRegions(t, Options{MultipleWrites: true}, func(t *testing.T, _ *Account, w, _, _ *client) {
		if got := w.locationNames("writableLocations"); got != "West Europe, North Europe, East US" {
			t.Errorf("writable locations are %s", got)
		}
	})
}

func TestReadRegionRefusesWrites(t *testing.T) {
	inRegions(t, Options{}, func(_ *testing.T, _ *Account, w, n, _ *client) {
		w.create("a", "k")
		n.expect("403/3", "POST", items, doc("b", "k"), pk("k")...)
		n.expect("403/3", "PUT", items+"/a", doc("a", "k"), pk("k")...)
		n.expect("403/3", "DELETE", items+"/a", "", pk("k")...)
		n.expect("403/3", "POST", items, `[{"operationType":"Create","resourceBody":{"id":"b","pk":"k"}}]`,
			with(pk("k"), "x-ms-cosmos-is-batch-request", "True")...)
		n.expect("403/3", "POST", "/dbs", `{"id":"other"}`)
		n.expect("403/3", "DELETE", "/dbs/db/colls/c", "")
		n.expect("200", "GET", items+"/a", "", pk("k")...)
		n.expect("200", "POST", items, `{"query":"SELECT * FROM c"}`, with(pk("k"), "x-ms-documentdb-isquery", "True", "Content-Type", "application/query+json")...)
	})
}

func TestReplicationArrivesAfterItsLag(t *testing.T) {
	inRegions(t, Options{ReplicationLag: 3 * time.Second}, func(t *testing.T, a *Account, w, n, e *client) {
		if err := a.SetReplication(east, Replication{Paused: true}); err != nil {
			t.Fatal(err)
		}
		written := w.create("a", "k")
		session := written.header.Get("x-ms-session-token")
		if want := "0:0#2#2=-1#3=-1"; session != want {
			t.Errorf("the session token is %s, want %s", session, want)
		}
		n.expect("404", "GET", items+"/a", "", pk("k")...)
		n.expect("404/1002", "GET", items+"/a", "", with(pk("k"), "x-ms-session-token", session)...)
		n.feed("404/1002", with(rangeID("0"), "x-ms-session-token", session)...)
		time.Sleep(3 * time.Second)
		arrived := n.expect("200", "GET", items+"/a", "", with(pk("k"), "x-ms-session-token", session)...)
		if arrived.header.Get("etag") != written.header.Get("etag") || arrived.header.Get("lsn") != "2" {
			t.Errorf("the copy has %v, written was %v", arrived.header, written.header)
		}
		if got := arrived.header.Get("x-ms-global-committed-lsn"); got != "1" {
			t.Errorf("all regions have LSN %s, want 1: one does not receive", got)
		}
		if got := arrived.header.Get("x-ms-number-of-read-regions"); got != "2" {
			t.Errorf("%s read regions, want 2", got)
		}
		if ids := n.feed("200", rangeID("0")...).ids(t); !slices.Equal(ids, []string{"a"}) {
			t.Errorf("the feed has %v", ids)
		}
		e.expect("404", "GET", items+"/a", "", pk("k")...)
		if err := a.SetReplication(east, Replication{}); err != nil {
			t.Fatal(err)
		}
		if got := e.expect("200", "GET", items+"/a", "", pk("k")...).header.Get("x-ms-global-committed-lsn"); got != "2" {
			t.Errorf("all regions have LSN %s, want 2", got)
		}
	})
}

func TestDefinitionsAreTheSameInAllRegions(t *testing.T) {
	inRegions(t, Options{ReplicationLag: time.Hour}, func(t *testing.T, _ *Account, w, n, _ *client) {
		w.create("a", "k")
		w.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":60}`)
		first, second := w.expect("200", "GET", "/dbs/db/colls/c", ""), n.expect("200", "GET", "/dbs/db/colls/c", "")
		if first.body != second.body || !strings.Contains(first.body, `"defaultTtl":60`) {
			t.Errorf("%s and %s", first.body, second.body)
		}
		w.expect("204", "DELETE", "/dbs/db/colls/c", "")
		n.expect("404", "GET", items, "")
	})
}

// TestExpiryReplicates has the deletion of an expired item in another region after the lag.
func TestExpiryReplicates(t *testing.T) {
	inRegions(t, Options{ReplicationLag: 5 * time.Second}, func(_ *testing.T, _ *Account, w, n, _ *client) {
		w.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":10}`)
		w.create("a", "k")
		time.Sleep(12 * time.Second)
		w.expect("404", "GET", items+"/a", "", pk("k")...)
		n.expect("200", "GET", items+"/a", "", pk("k")...)
		time.Sleep(5 * time.Second)
		n.expect("404", "GET", items+"/a", "", pk("k")...)
	})
}

func TestSplitWaitsForReplication(t *testing.T) {
	inRegions(t, Options{ReplicationLag: time.Hour}, func(t *testing.T, a *Account, w, n, _ *client) {
		for _, k := range keys(10) {
			w.create(k, k)
		}
		children, err := a.Split("db", "c", "0")
		if err != nil {
			t.Fatal(err)
		}
		w.create("after", "k")
		for _, child := range children {
			first, second := w.feed("200", rangeID(child)...).ids(t), n.feed("200", rangeID(child)...).ids(t)
			first = slices.DeleteFunc(first, func(id string) bool { return id == "after" })
			if !slices.Equal(first, second) {
				t.Errorf("range %s has %v, and in the read region %v", child, first, second)
			}
		}
		n.feed("410/1002", rangeID("0")...)
	})
}

// TestLastWriterWins has two regions write the same item: both end with the later version.
func TestLastWriterWins(t *testing.T) {
	inRegions(t, Options{MultipleWrites: true, ReplicationLag: 5 * time.Second}, func(t *testing.T, _ *Account, w, n, e *client) {
		n.upsert(`{"id":"a","pk":"k","n":1}`, "k")
		n.create("only-north", "k")
		time.Sleep(time.Second)
		session := w.upsert(`{"id":"a","pk":"k","n":2}`, "k").header.Get("x-ms-session-token")
		e.expect("404/1002", "GET", items+"/a", "", with(pk("k"), "x-ms-session-token", session)...)
		time.Sleep(6 * time.Second)
		for _, c := range []*client{w, n, e} {
			if got := c.expect("200", "GET", items+"/a", "", with(pk("k"), "x-ms-session-token", session)...).decode(t)["n"]; got != 2.0 {
				t.Errorf("%s has version %v", c.endpoint, got)
			}
			c.expect("200", "GET", items+"/only-north", "", pk("k")...)
		}
	})
}

func TestRegionDoesNotAnswer(t *testing.T) {
	inRegions(t, Options{}, func(t *testing.T, a *Account, w, n, _ *client) {
		restore := a.Inject(Fault{Region: "westeurope", Drop: DropBefore})
		if _, err := w.try("GET", "/dbs", ""); err == nil {
			t.Error("the region answers")
		}
		n.expect("200", "GET", "/dbs", "")
		restore()
		w.expect("200", "GET", "/dbs", "")
	})
}

func TestInvalidRegionsAreRefused(t *testing.T) {
	for want, options := range map[string]Options{
		`region "" is not a name`:                 {Regions: []string{""}},
		`region "West/Europe" is not a name`:      {Regions: []string{"West/Europe"}},
		`region "westeurope" is named twice`:      {Regions: []string{west, "westeurope"}},
		"in memory only":                          {Regions: []string{west, north}, Data: t.TempDir()},
		"name at least two":                       {Regions: []string{west}, MultipleWrites: true},
		"it cannot be negative":                   {Regions: []string{west, north}, ReplicationLag: -1},
		"choose it or multiple writes":            {Regions: []string{west, north}, MultipleWrites: true, PartitionFailover: true},
		"partition failover and replication lag ": {ReplicationLag: time.Second},
	} {
		if _, err := New(&options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", options, err, want)
		}
	}
	_, one := newItems(t, 1, nil)
	_, several := newItems(t, 1, &Options{Regions: []string{west, north}})
	for name, err := range map[string]error{
		"one region, replication": one.SetReplication(west, Replication{}),
		"one region, failover":    one.FailOver(west, FailoverPlanned),
		"one region, fault":       func() error { _, err := one.addFault(Fault{Region: west, Status: 503}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "the account has one region") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, endpoint := several.RegionEndpoint("Mars")
	for name, err := range map[string]error{
		"replication": several.SetReplication("Mars", Replication{}),
		"failover":    several.FailOver("Mars", FailoverPlanned),
		"endpoint":    endpoint,
		"fault":       func() error { _, err := several.addFault(Fault{Region: "Mars", Status: 503}); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), `no region "Mars"; it has ["West Europe" "North Europe"]`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRegionsAreServedAtPortsOfTheirOwn also has the account's endpoint follow a failover.
func TestRegionsAreServedAtPortsOfTheirOwn(t *testing.T) {
	_, a := newItems(t, 1, &Options{Regions: []string{west, north}})
	ctx, stop := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- a.Serve(ctx, ServeOptions{Addr: "127.0.0.1:0", Ready: func(endpoint string) { ready <- endpoint }})
	}()
	transport := &http.Transport{}
	c := &client{t: t, do: (&http.Client{Transport: transport}).Do, endpoint: strings.TrimSuffix(<-ready, "/")}
	w, n := c.region(a, west), c.region(a, north)
	if c.endpoint == w.endpoint || w.endpoint == n.endpoint {
		t.Fatalf("endpoints are %s, %s and %s", c.endpoint, w.endpoint, n.endpoint)
	}
	document := c.expect("200", "GET", "/", "").body
	for _, region := range []*client{w, n} {
		if !strings.Contains(document, fmt.Sprintf(`"databaseAccountEndpoint":"%s/"`, region.endpoint)) {
			t.Errorf("the account says %s, without %s", document, region.endpoint)
		}
	}
	w.create("a", "k")
	n.expect("403/3", "POST", items, doc("b", "k"), pk("k")...)
	c.expect("400", "POST", "/_emulator/failover", `{"region":"Mars","kind":"planned"}`)
	if got := c.expect("200", "POST", "/_emulator/failover", `{"region":"North Europe","kind":"planned"}`).body; !strings.Contains(got, `"writes": true`) {
		t.Errorf("the failover says %s", got)
	}
	c.create("b", "k")
	w.expect("403/3", "POST", items, doc("c", "k"), pk("k")...)
	c.expect("200", "POST", "/_emulator/replication", `{"region":"West Europe","lag":"2s","paused":true}`)
	if got := c.expect("200", "GET", "/_emulator/state", "").body; !strings.Contains(got, `"lag": "2s"`) || !strings.Contains(got, `"copies"`) {
		t.Errorf("the state is %s", got)
	}
	transport.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServingRegionsRefusesAnAdvertisedURL(t *testing.T) {
	_, a := newItems(t, 1, &Options{Regions: []string{west, north}})
	if err := a.Serve(t.Context(), ServeOptions{Addr: "127.0.0.1:0", Advertise: "https://cosmos.test"}); err == nil || !strings.Contains(err.Error(), "one address for each") {
		t.Errorf("serve: %v", err)
	}
}
