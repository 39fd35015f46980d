package emulator

import (
	"fmt"
	"slices"
	"testing"

	"halley/trigger/emulator/epk"
)

var hashV2 = mustDefine(`{"paths":["/pk"],"kind":"Hash","version":2}`)

func mustDefine(text string) epk.Definition {
	d, err := epk.ParseDefinition([]byte(text))
	if err != nil {
		panic(err)
	}
	return d
}

func keyOf(t testing.TB, key string) epk.Key {
	t.Helper()
	return epk.Key{epk.String(key)}
}

func TestRangesFollowThroughput(t *testing.T) {
	c, _ := newClient(t, nil)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	for i, tt := range []struct {
		header []string
		want   int
	}{
		{nil, 1},
		{[]string{"x-ms-offer-throughput", "400"}, 1},
		{[]string{"x-ms-offer-throughput", "10000"}, 1},
		{[]string{"x-ms-offer-throughput", "20000"}, 2},
		{[]string{"x-ms-offer-throughput", "40000"}, 4},
		{[]string{"x-ms-cosmos-offer-autopilot-settings", `{"maxThroughput":30000}`}, 3},
	} {
		name := fmt.Sprint("c", i)
		c.expect("201", "POST", "/dbs/db/colls", `{"id":"`+name+`","partitionKey":{"paths":["/pk"]}}`, tt.header...)
		a := c.expect("200", "GET", "/dbs/db/colls/"+name+"/pkranges", "")
		if got := int(a.decode(t)["_count"].(float64)); got != tt.want {
			t.Errorf("%v: %d ranges, want %d", tt.header, got, tt.want)
		}
	}
	c.expect("400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]}}`, "x-ms-offer-throughput", "399")
	c.expect("400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]}}`, "x-ms-offer-throughput", "much")
	c.expect("400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]}}`, "x-ms-cosmos-offer-autopilot-settings", `{}`)
}

func TestRangesCoverTheKeySpace(t *testing.T) {
	for _, n := range []int{1, 2, 5, 16} {
		c, _ := newItems(t, n, nil)
		max := ""
		for _, r := range c.ranges() {
			if r.MinInclusive != max || r.Parents == nil {
				t.Errorf("%d ranges: %+v begins elsewhere than at %q, or has no parents array", n, r, max)
			}
			max = r.MaxExclusive
		}
		if max != "FF" {
			t.Errorf("%d ranges end at %q", n, max)
		}
	}
}

func TestRangesIncrementally(t *testing.T) {
	c, a := newItems(t, 2, nil)
	incremental := []string{"A-IM", "Incremental Feed", "x-ms-max-item-count", "-1"}
	path := "/dbs/db/colls/c/pkranges"
	first := c.expect("200", "GET", path, "", incremental...)
	known := with(incremental, "If-None-Match", first.header.Get("etag"))
	if end := c.expect("304", "GET", path, "", known...); end.header.Get("etag") != first.header.Get("etag") {
		t.Errorf("304 has etag %q, not %q", end.header.Get("etag"), first.header.Get("etag"))
	}
	children, err := a.Split("db", "c", "0")
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range c.ranges(known...) {
		ids = append(ids, r.ID)
		if !slices.Equal(r.Parents, []string{"0"}) {
			t.Errorf("child %s has parents %v", r.ID, r.Parents)
		}
	}
	if !slices.Equal(ids, children) {
		t.Errorf("since the split there are %v, want %v", ids, children)
	}
	if repeated := c.expect("200", "GET", path, "", incremental...); repeated.header.Get("etag") == first.header.Get("etag") {
		t.Error("the etag survived the split")
	}
	if plain := c.expect("200", "GET", path, "", "If-None-Match", first.header.Get("etag")); plain.decode(t)["_count"].(float64) != 3 {
		t.Errorf("a read without A-IM gave %s", plain.body)
	}
}

func TestRangesByResourceID(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	self := c.expect("200", "GET", "/dbs/db/colls/c", "").decode(t)["_self"].(string)
	c.expect("200", "GET", "/"+self+"pkranges", "")
	c.expect("200", "GET", "//"+self+"/pkranges/", "")
	c.expect("404/", "GET", "/dbs/db/colls/none/pkranges", "")
}
