package emulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDatabasesAndContainers(t *testing.T) {
	c, _ := newClient(t, nil)
	definition := `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`
	for _, tt := range []struct{ name, want, method, path, body string }{
		{"create database", "201", "POST", "/dbs", `{"id":"db"}`},
		{"create database again", "409", "POST", "/dbs", `{"id":"db"}`},
		{"database without id", "400", "POST", "/dbs", `{}`},
		{"database with a slash", "400", "POST", "/dbs", `{"id":"a/b"}`},
		{"database that is no JSON", "400", "POST", "/dbs", `id`},
		{"read database", "200", "GET", "/dbs/db", ""},
		{"read missing database", "404/", "GET", "/dbs/none", ""},
		{"replace database", "405", "PUT", "/dbs/db", ""},
		{"create container", "201", "POST", "/dbs/db/colls", definition},
		{"create container again", "409", "POST", "/dbs/db/colls", definition},
		{"container in a missing database", "404/", "POST", "/dbs/none/colls", definition},
		{"container without id", "400", "POST", "/dbs/db/colls", `{"partitionKey":{"paths":["/pk"]}}`},
		{"container without key", "400", "POST", "/dbs/db/colls", `{"id":"x"}`},
		{"container with a bad path", "400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["pk"]}}`},
		{"container with a bad kind", "400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"],"kind":"Range"}}`},
		{"container with a ttl of zero", "400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]},"defaultTtl":0}`},
		{"container with a unique key without paths", "400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}}`},
		{"container with a bad unique path", "400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["a"]}]}}`},
		{"list containers", "200", "GET", "/dbs/db/colls", ""},
		{"list containers of a missing database", "404/", "GET", "/dbs/none/colls", ""},
		{"read container", "200", "GET", "/dbs/db/colls/c", ""},
		{"read missing container", "404/", "GET", "/dbs/db/colls/none", ""},
		{"replace container", "200", "PUT", "/dbs/db/colls/c", strings.Replace(definition, `"id"`, `"defaultTtl":60,"id"`, 1)},
		{"replace container with another key", "400", "PUT", "/dbs/db/colls/c", strings.Replace(definition, "pk", "other", 1)},
		{"replace container with another id", "400", "PUT", "/dbs/db/colls/c", strings.Replace(definition, `"c"`, `"z"`, 1)},
		{"replace missing container", "404/", "PUT", "/dbs/db/colls/none", definition},
		{"delete container", "204", "DELETE", "/dbs/db/colls/c", ""},
		{"delete container again", "404/", "DELETE", "/dbs/db/colls/c", ""},
		{"delete database", "204", "DELETE", "/dbs/db", ""},
		{"delete database again", "404/", "DELETE", "/dbs/db", ""},
		{"account", "200", "GET", "/", ""},
		{"account cannot be posted", "405", "POST", "/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			c.expect(tt.want, tt.method, tt.path, tt.body)
		})
	}
}

func TestContainerDefinitionIsKept(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	sent := `{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":10},"vectorEmbeddingPolicy":{"vectorEmbeddings":[]},"_rid":"mine"}`
	a := c.expect("201", "POST", "/dbs/db/colls", sent)
	d := a.decode(t)
	key := d["partitionKey"].(map[string]any)
	if key["kind"] != "Hash" || key["version"] != nil {
		t.Errorf("partitionKey was completed to %v", key)
	}
	if d["changeFeedPolicy"] == nil || d["vectorEmbeddingPolicy"] == nil || d["indexingPolicy"] == nil || d["_rid"] == "mine" || d["_etag"] != a.header.Get("etag") {
		t.Errorf("container reads %s", a.body)
	}
	if got := c.expect("200", "GET", "/dbs/db/colls/c", ""); got.body != a.body {
		t.Errorf("read %s\nafter %s", got.body, a.body)
	}
	c.expect("412", "PUT", "/dbs/db/colls/c", sent, "If-Match", `"stale"`)
	c.expect("200", "GET", "/"+d["_self"].(string), "")
}

// Clients make links of these headers: Java that of a container
// (RxDocumentServiceResponse in azure-sdk-for-java), JavaScript that under which it
// keeps session tokens.
func TestResponsesNameDatabaseAndContainer(t *testing.T) {
	c, _ := newClient(t, nil)
	database := c.expect("201", "POST", "/dbs", `{"id":"db"}`).decode(t)["_rid"]
	definition := `{"id":"c","partitionKey":{"paths":["/pk"]}}`
	created := c.expect("201", "POST", "/dbs/db/colls", definition)
	container := created.decode(t)["_rid"]
	for _, a := range []answer{
		created,
		c.expect("200", "GET", "/dbs/db/colls/c", ""),
		c.expect("200", "GET", fmt.Sprintf("/dbs/%s/colls/%s", database, container), ""),
		c.expect("200", "PUT", "/dbs/db/colls/c", definition),
	} {
		if path, rid := a.header.Get("x-ms-alt-content-path"), a.header.Get("x-ms-content-path"); path != "dbs/db" || rid != database {
			t.Errorf("a container is in %q (%s), not in its database", path, rid)
		}
	}
	for _, a := range []answer{
		c.expect("201", "POST", items, `{"id":"1","pk":"k"}`, pk("k")...),
		c.expect("200", "GET", "/dbs/db/colls/c/pkranges", ""),
		c.expect("200", "POST", items, ask("SELECT * FROM c"), crossHeader...),
	} {
		if path, rid := a.header.Get("x-ms-alt-content-path"), a.header.Get("x-ms-content-path"); path != "dbs/db/colls/c" || rid != container {
			t.Errorf("an answer is of %q (%s), not of the container", path, rid)
		}
	}
}

func TestQueriesOfResources(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for path, member := range map[string]string{"/dbs": "Databases", "/dbs/db/colls": "DocumentCollections"} {
		id := map[string]string{"/dbs": "db", "/dbs/db/colls": "c"}[path]
		a := c.expect("200", "POST", path, ask("SELECT * FROM c WHERE c.id = @id", "@id", id), crossHeader...)
		if got := a.decode(t)[member].([]any); len(got) != 1 || got[0].(map[string]any)["id"] != id {
			t.Errorf("query of %s gave %s", path, a.body)
		}
		c.expect("400", "POST", path, ask("SELECT"), crossHeader...)
	}
	c.expect("404/", "POST", "/dbs/none/colls", ask("SELECT * FROM c"), crossHeader...)
}

func TestReplaceContainerUnderWrites(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 50 {
			if a, err := c.try("POST", items, doc(fmt.Sprint(i), "k"), pk("k")...); err != nil || a.status != 201 {
				t.Errorf("create: %d, %v", a.status, err)
			}
		}
	})
	for i := range 50 {
		c.expect("200", "PUT", "/dbs/db/colls/c", fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/pk"],"version":2},"defaultTtl":%d}`, 1000+i))
	}
	writing.Wait()
}

func TestOffers(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	for id, h := range map[string][]string{
		"manual": {"x-ms-offer-throughput", "500"},
		"auto":   {"x-ms-cosmos-offer-autopilot-settings", `{"maxThroughput":4000}`},
		"unsaid": nil,
	} {
		rid := c.expect("201", "POST", "/dbs/db/colls", `{"id":"`+id+`","partitionKey":{"paths":["/pk"]}}`, h...).decode(t)["_rid"]
		found := c.expect("200", "POST", "/offers", ask("SELECT * FROM c WHERE c.offerResourceId = '"+rid.(string)+"'"), crossHeader...)
		list := found.decode(t)["Offers"].([]any)
		if len(list) != 1 {
			t.Fatalf("%s has %d offers", id, len(list))
		}
		o := list[0].(map[string]any)
		text, _ := json.Marshal(o["content"])
		want := map[string]string{
			"manual": `{"offerIsRUPerMinuteThroughputEnabled":false,` + highest(500) + `,"offerThroughput":500}`,
			"auto":   `{"offerAutopilotSettings":{"maxThroughput":4000},"offerIsRUPerMinuteThroughputEnabled":false,` + highest(4000) + `,"offerThroughput":400}`,
			"unsaid": `{"offerIsRUPerMinuteThroughputEnabled":false,` + highest(400) + `,"offerThroughput":400}`,
		}[id]
		if string(text) != want {
			t.Errorf("%s has the offer %s, want %s", id, text, want)
		}
		self := "/" + o["_self"].(string)
		c.expect("412", "PUT", self, `{"content":{"offerThroughput":800}}`, "If-Match", `"stale"`)
		c.expect("400", "PUT", self, `{"content":{"offerThroughput":8}}`)
		c.expect("400", "PUT", self, `{"content":"much"}`)
		changed := c.expect("200", "PUT", self, `{"content":{"offerThroughput":800}}`, "If-Match", o["_etag"].(string))
		if got := c.expect("200", "GET", self, ""); got.body != changed.body || !strings.Contains(got.body, `"offerThroughput":800`) || changed.header.Get("etag") == o["_etag"] {
			t.Errorf("changed to %s, read %s", changed.body, got.body)
		}
	}
	if all := c.expect("200", "GET", "/offers", "").decode(t)["Offers"].([]any); len(all) != 3 {
		t.Errorf("%d offers", len(all))
	}
	c.expect("404", "GET", "/offers/none", "")
	c.expect("405", "DELETE", "/offers/none", "")
}

func highest(units int) string {
	return fmt.Sprintf(`"offerMinimumThroughputParameters":{"maxConsumedStorageEverInKB":0,"maxThroughputEverProvisioned":%d}`, units)
}

func TestOfferMigratesToAutoscaleAndBack(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"items","partitionKey":{"paths":["/pk"]}}`, "x-ms-offer-throughput", "1300")
	offer := c.expect("200", "GET", "/offers", "").decode(t)["Offers"].([]any)[0].(map[string]any)
	self, body := "/"+offer["_self"].(string), string(encode(offer))
	toAutoscale, toManual := []string{"x-ms-cosmos-migrate-offer-to-autopilot", "true"}, []string{"x-ms-cosmos-migrate-offer-to-manual-throughput", "true"}
	c.expect("400", "PUT", self, body, toManual...)
	if got := c.expect("200", "PUT", self, body, toAutoscale...).body; !strings.Contains(got, `"offerAutopilotSettings":{"maxThroughput":2000}`) || !strings.Contains(got, `"offerThroughput":200`) {
		t.Errorf("autoscale: %s", got)
	}
	c.expect("400", "PUT", self, body, toAutoscale...)
	if got := c.expect("200", "PUT", self, body, toManual...).body; strings.Contains(got, "Autopilot") || !strings.Contains(got, `"offerThroughput":2000`) || !strings.Contains(got, highest(2000)) {
		t.Errorf("manual: %s", got)
	}
}

func TestSharedThroughput(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`, "x-ms-offer-throughput", "1000")
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`)
	if all := c.expect("200", "GET", "/offers", "").decode(t)["Offers"].([]any); len(all) != 1 {
		t.Errorf("%d offers, want the database's only", len(all))
	}
	c.expect("400", "POST", "/dbs", `{"id":"x"}`, "x-ms-offer-throughput", "1")
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := newClient(t, nil)
		c.expect("201", "POST", "/dbs", `{"id":"db"}`)
		definition := `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":%d}`
		c.expect("201", "POST", "/dbs/db/colls", fmt.Sprintf(definition, 60))
		for id, ttl := range map[string]string{"default": "", "short": `,"ttl":10`, "never": `,"ttl":-1`, "null": `,"ttl":null`} {
			c.upsert(fmt.Sprintf(`{"id":%q,"pk":"k"%s}`, id, ttl), "k")
		}
		remainingIDs := func() []string {
			ids := c.send("GET", items, "", feedHeader...).ids(t)
			slices.Sort(ids)
			return ids
		}
		oldToken := c.feed("304", "If-None-Match", "*").header.Get("etag")
		time.Sleep(9 * time.Second)
		c.expect("200", "GET", items+"/short", "", pk("k")...)
		time.Sleep(time.Second)
		c.expect("404/", "GET", items+"/short", "", pk("k")...)
		c.feed("304", "If-None-Match", oldToken)
		c.create("short", "k") // with the container's default
		time.Sleep(50 * time.Second)
		if got := remainingIDs(); !slices.Equal(got, []string{"never", "short"}) {
			t.Errorf("after a minute there are %v", got)
		}
		c.expect("200", "PUT", "/dbs/db/colls/c", fmt.Sprintf(definition, 3600))
		time.Sleep(time.Minute)
		if got := remainingIDs(); !slices.Equal(got, []string{"never", "short"}) {
			t.Errorf("with a longer default there are %v", got)
		}
		c.expect("200", "PUT", "/dbs/db/colls/c", fmt.Sprintf(definition, -1))
		c.upsert(`{"id":"own","pk":"k","ttl":5}`, "k")
		time.Sleep(24 * time.Hour)
		if got := remainingIDs(); !slices.Equal(got, []string{"never", "short"}) {
			t.Errorf("without a default there are %v", got)
		}
		if got := a.State().Databases[0].Containers[0].Items; got != 2 {
			t.Errorf("the state counts %d items", got)
		}
	})
}

// Time that is skipped passes for documents, in answers and over connections alike.
func TestAdvanceSkipsTime(t *testing.T) {
	c, a := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60}`)
	c.upsert(`{"id":"a","pk":"k"}`, "k")
	served := httptest.NewServer(a)
	defer served.Close()
	httpClient := &client{t: t, do: served.Client().Do, endpoint: served.URL}
	start := time.Now()
	a.Advance(30 * time.Second)
	a.Advance(31 * time.Second)
	for _, c := range []*client{c, httpClient} {
		gone := c.expect("404/", "GET", items+"/a", "", pk("k")...)
		date, err := http.ParseTime(gone.header.Get("Date"))
		if lead := date.Sub(start); err != nil || len(gone.header["Date"]) != 1 || lead < time.Minute {
			t.Errorf("the answer's Date is %v ahead (%v)", lead, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("the clock went back")
		}
	}()
	a.Advance(-1)
}

func TestTTLWithoutDefaultIsAnOrdinaryProperty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newItems(t, 1, nil)
		c.upsert(`{"id":"a","pk":"k","ttl":1}`, "k")
		time.Sleep(time.Hour)
		c.expect("200", "GET", items+"/a", "", pk("k")...)
	})
}

func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newItems(t, 2, &Options{RU: 200})
		write := func(key string) answer {
			return c.send("POST", items, doc(fmt.Sprint(time.Now().UnixNano()), key), with(pk(key), "x-ms-documentdb-is-upsert", "true")...)
		}
		writes := 0
		for a := write("k"); ; a = write("k") {
			if a.status == 429 {
				if a.header.Get("x-ms-substatus") != "3200" || a.header.Get("x-ms-retry-after-ms") == "" {
					t.Errorf("429 has %v", a.header)
				}
				wait, err := time.ParseDuration(a.header.Get("x-ms-retry-after-ms") + "ms")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(wait)
				break
			}
			if writes++; writes > 1000 {
				t.Fatal("there is no limit")
			}
		}
		if writes < 5 || writes > 20 {
			t.Errorf("half of 200 RU let %d writes pass", writes)
		}
		if a := write("k"); a.status >= 400 {
			t.Errorf("after the wait: %d", a.status)
		}
		c.feed("429", pk("k")...)
		c.expect("429/3200", "POST", items, ask("SELECT * FROM c"), with(crossHeader, pk("k")...)...)
		other := slices.IndexFunc(keys(20), func(k string) bool { return write(k).status < 300 })
		if other < 0 {
			t.Error("the other range has no budget of its own")
		}
		c.expect("200", "GET", "/dbs/db/colls/c", "")
		time.Sleep(time.Second)
		c.feed("200", pk("k")...)
	})
}

func TestCharges(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	large := fmt.Sprintf(`{"id":"large","pk":"k","v":%q}`, strings.Repeat("x", 100<<10))
	c.expect("201", "POST", items, large, pk("k")...)
	c.create("small", "k")
	charge := func(a answer) (units float64) {
		fmt.Sscan(a.header.Get("x-ms-request-charge"), &units)
		return units
	}
	for _, tt := range []struct {
		name     string
		low, top float64
		a        answer
	}{
		{"small read", 1, 1, c.send("GET", items+"/small", "", pk("k")...)},
		{"large read", 50, 150, c.send("GET", items+"/large", "", pk("k")...)},
		{"small write", 4, 15, c.upsert(doc("small", "k"), "k")},
		{"304", 0.1, 2, c.feed("304", "If-None-Match", "*")},
		{"feed", 50, 200, c.feed("200")},
		{"query", 2, 20, c.send("POST", items, ask("SELECT VALUE 1 FROM c"), crossHeader...)},
		{"failure", 0.1, 2, c.send("GET", items+"/none", "", pk("k")...)},
	} {
		if got := charge(tt.a); got < tt.low || got > tt.top {
			t.Errorf("%s costs %v, want %v to %v", tt.name, got, tt.low, tt.top)
		}
	}
}
