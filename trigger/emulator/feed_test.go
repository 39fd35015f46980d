package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var feedHeader = []string{"A-IM", "Incremental Feed"}

func (c *client) feed(want string, h ...string) answer {
	c.t.Helper()
	return c.expect(want, "GET", items, "", with(feedHeader, h...)...)
}

func rangeID(id string) []string { return []string{"x-ms-documentdb-partitionkeyrangeid", id} }

func TestFeedReadsInPages(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for i := range 5 {
		c.create(strconv.Itoa(i), "k")
	}
	etag, got := "", [][]string{}
	for {
		a := c.send("GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-max-item-count", "2", "If-None-Match", etag)...)
		if a.header.Get("x-ms-item-count") != strconv.Itoa(len(a.documents(t))) || a.header.Get("x-ms-continuation") != "" {
			t.Errorf("item count %q, continuation %q", a.header.Get("x-ms-item-count"), a.header.Get("x-ms-continuation"))
		}
		etag = a.header.Get("etag")
		if lsn, err := strconv.Atoi(strings.Trim(etag, `"`)); err != nil || etag != strconv.Quote(strconv.Itoa(lsn)) {
			t.Errorf("etag %q is not a quoted number", etag)
		}
		if a.status == 304 {
			if a.body != "" {
				t.Errorf("304 has body %q", a.body)
			}
			break
		}
		if last := a.documents(t)[len(a.documents(t))-1]["_lsn"]; fmt.Sprintf(`"%v"`, last) != etag {
			t.Errorf("etag %s of a page that ends with _lsn %v", etag, last)
		}
		got = append(got, a.ids(t))
	}
	if want := [][]string{{"0", "1"}, {"2", "3"}, {"4"}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("pages %v, want %v", got, want)
	}
}

func TestFeedShowsLatestVersions(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	c.create("b", "k")
	c.create("gone", "k")
	c.upsert(doc("a", "k"), "k")
	c.expect("204", "DELETE", items+"/gone", "", pk("k")...)
	a := c.feed("200", rangeID("0")...)
	if got := a.ids(t); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("feed has %v, want b before the newer a, and nothing deleted", got)
	}
	if got := a.header.Get("etag"); got != `"6"` {
		t.Errorf("the etag %s of a page that reaches the end does not pass the delete at 6", got)
	}
}

func TestFeedStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newItems(t, 1, nil)
		c.create("early", "k")
		time.Sleep(10 * time.Second)
		middle := time.Now().UTC()
		time.Sleep(10 * time.Second)
		c.create("late", "k")
		now := c.feed("304", "If-None-Match", "*").header.Get("etag")
		c.create("latest", "k")
		for _, tt := range []struct {
			name   string
			header []string
			want   []string
		}{
			{"beginning", nil, []string{"early", "late", "latest"}},
			{"time in GMT", []string{"If-Modified-Since", middle.Format("Mon, 02 Jan 2006 15:04:05 GMT")}, []string{"late", "latest"}},
			{"time in UTC", []string{"If-Modified-Since", middle.Format(time.RFC1123)}, []string{"late", "latest"}},
			{"what was now", []string{"If-None-Match", now}, []string{"latest"}},
			{"etag with a later time", []string{"If-None-Match", now, "If-Modified-Since", time.Now().Add(time.Hour).UTC().Format(time.RFC1123)}, []string{"latest"}},
			{"lower case mode", []string{"A-IM", "Incremental feed"}, []string{"early", "late", "latest"}},
		} {
			if got := c.feed("200", tt.header...).ids(t); !slices.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
	})
}

func TestFeedRefuses(t *testing.T) {
	c, _ := newItems(t, 2, &Options{Manners: Manners{RefuseAhead: true}})
	c.create("a", "k")
	for _, tt := range []struct {
		name, want string
		header     []string
	}{
		{"all versions", "400", []string{"A-IM", "Full-Fidelity Feed", "x-ms-documentdb-partitionkeyrangeid", "0"}},
		{"several ranges at once", "400", nil},
		{"unknown range", "410/1002", rangeID("7")},
		{"continuation that is none", "400", with(rangeID("0"), "If-None-Match", `"x"`)},
		{"continuation from the future", "400", with(rangeID("0"), "If-None-Match", `"999"`)},
		{"page size", "400", with(rangeID("0"), "x-ms-max-item-count", "0")},
		{"date", "400", with(rangeID("0"), "If-Modified-Since", "yesterday")},
		{"bounds the wrong way", "400", with(rangeID("0"), "x-ms-start-epk", "30", "x-ms-end-epk", "20")},
		{"bounds beyond the key space", "400", []string{"x-ms-start-epk", "FF", "x-ms-end-epk", "FFFF"}},
		{"key", "400", []string{"x-ms-documentdb-partitionkey", "{"}},
		{"deep key", "400", []string{"x-ms-documentdb-partitionkey", `["a","b"]`}},
		{"other container", "400/1024", with(rangeID("0"), "x-ms-cosmos-intended-collection-rid", "AAAA")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			c.feed(tt.want, tt.header...)
		})
	}
}

// keys spreads n partition keys over the ranges of a container.
func keys(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "key" + strconv.Itoa(i)
	}
	return list
}

type pkrange struct {
	ID, MinInclusive, MaxExclusive string
	Parents                        []string
}

func (c *client) ranges(h ...string) []pkrange {
	c.t.Helper()
	a := c.expect("200", "GET", "/dbs/db/colls/c/pkranges", "", h...)
	var v struct{ PartitionKeyRanges []pkrange }
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		c.t.Fatal(err)
	}
	return v.PartitionKeyRanges
}

func TestFeedParts(t *testing.T) {
	c, _ := newItems(t, 3, nil)
	all := keys(40)
	for _, k := range all {
		c.create("id-"+k, k)
	}
	total := 0
	for _, r := range c.ranges() {
		fullFeed := c.feed("200", rangeID(r.ID)...).ids(t)
		total += len(fullFeed)
		middle := hashV2.Hash(keyOf(t, strings.TrimPrefix(fullFeed[len(fullFeed)/2], "id-")))
		for _, kind := range [][]string{nil, {"x-ms-read-key-type", "EffectivePartitionKeyRange"}, {"x-ms-read-key-type", "EffectivePartitionKey"}} {
			low := c.feed("200", with(rangeID(r.ID), append(kind, "x-ms-start-epk", r.MinInclusive, "x-ms-end-epk", middle)...)...).ids(t)
			high := c.feed("200", with(rangeID(r.ID), append(kind, "x-ms-start-epk", middle, "x-ms-end-epk", r.MaxExclusive)...)...).ids(t)
			if got := slices.Concat(low, high); len(got) != len(fullFeed) || len(low) == 0 || len(high) == 0 {
				t.Errorf("range %s: %d below and %d above %s, of %d", r.ID, len(low), len(high), middle, len(fullFeed))
			}
		}
	}
	if total != len(all) {
		t.Errorf("the ranges have %d of %d items", total, len(all))
	}
	if got := c.feed("200", pk(all[7])...).ids(t); !slices.Equal(got, []string{"id-" + all[7]}) {
		t.Errorf("feed of one key has %v", got)
	}
}

func TestFilteredFeedSkipsChangesOfOtherKeys(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "mine")
	for i := range 3 {
		c.create(strconv.Itoa(i), "other")
	}
	first := c.feed("200", pk("mine")...)
	end := c.feed("304", with(pk("mine"), "If-None-Match", first.header.Get("etag"))...)
	if now := c.feed("304", "If-None-Match", "*").header.Get("etag"); end.header.Get("etag") != now {
		t.Errorf("the 304 ends at %s, the range at %s", end.header.Get("etag"), now)
	}
}

func TestFeedSession(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	a := c.create("b", "k")
	if got := a.header.Get("x-ms-session-token"); got != "0:-1#3" {
		t.Errorf("session token of a write is %q", got)
	}
	for _, h := range [][]string{nil, {"If-None-Match", "*"}} {
		a := c.send("GET", items, "", with(feedHeader, h...)...)
		if a.header.Get("x-ms-session-token") != "0:-1#3" || a.header.Get("lsn") != "3" {
			t.Errorf("feed %v: session %q, lsn %q", h, a.header.Get("x-ms-session-token"), a.header.Get("lsn"))
		}
	}
}

// A read that carries a session token is answered only if its range has reached it.
func TestReadsWithSessionToken(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k") // LSN 2
	for _, test := range []struct{ token, want string }{
		{"0:-1#2", "200/"},
		{"0:-1#1", "200/"},
		{"0:-1#2#1=9#2=1", "200/"},
		{"0:-1#3", "404/1002"},
		{"0:0#1", "404/1002"},
		{"7:-1#1000", "200/"}, // another range's
		{"7:-1#1000,0:-1#2", "200/"},
		{"7:-1#1, 0:-1#3", "404/1002"},
		{"-1#2", "400/"},
		{"0:2", "400/"},
		{"0:-1#x", "400/"},
		{"0:x#1", "400/"},
	} {
		session := []string{"x-ms-session-token", test.token}
		for name, got := range map[string]answer{
			"feed":  c.send("GET", items, "", with(session, feedHeader...)...),
			"item":  c.send("GET", items+"/a", "", with(session, pk("k")...)...),
			"query": c.send("POST", items, ask("SELECT * FROM c"), with(session, with(pk("k"), "x-ms-documentdb-isquery", "true")...)...),
		} {
			if status := fmt.Sprint(got.status, "/", got.header.Get("x-ms-substatus")); status != test.want {
				t.Errorf("%s with %s: %s, want %s; %s", name, test.token, status, test.want, got.body)
			}
		}
	}
	c.expect("201", "POST", items, doc("b", "k"), with(pk("k"), "x-ms-session-token", "0:-1#1000")...) // a write is not behind
}

// TestPagesAreBoundedByBytes: no page of a feed or query is larger than the 4 MB that are
// documented, unless one transaction is, and pages have all documents together.
func TestPagesAreBoundedByBytes(t *testing.T) {
	const limit = 4 << 20
	c, _ := newItems(t, 1, nil)
	sized := func(id string, kilobytes int) string {
		return fmt.Sprintf(`{"id":%q,"pk":"k","n":%d,"v":%q}`, id, kilobytes, strings.Repeat("x", kilobytes<<10))
	}
	for i := range 4 { // 3.6 MB
		c.expect("201", "POST", items, sized(strconv.Itoa(i), 900), pk("k")...)
	}
	var operations []string
	for i := range 2 { // 1.8 MB in one LSN: the first one alone would fit
		operations = append(operations, `{"operationType":"Create","resourceBody":`+sized("t"+strconv.Itoa(i), 450+450*i)+`}`)
	}
	c.expect("200", "POST", items, "["+strings.Join(operations, ",")+"]", with(pk("k"), "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", "True")...)
	for name, header := range map[string][]string{"feed": nil, "feed of envelopes": versionsHeader[2:]} {
		var pages []int
		for token := ""; ; {
			a := c.send("GET", items, "", with(feedHeader, with(header, "If-None-Match", token)...)...)
			if token = a.header.Get("etag"); a.status == 304 {
				break
			}
			if pages = append(pages, strings.Count(a.body, `"pk":"k"`)); len(a.body) > limit {
				t.Errorf("%s: a page has %d bytes", name, len(a.body))
			}
		}
		if !slices.Equal(pages, []int{4, 2}) {
			t.Errorf("%s: pages of %v documents", name, pages)
		}
	}
	for _, text := range []string{"SELECT * FROM c", "SELECT VALUE c.v FROM c", "SELECT * FROM c ORDER BY c.n DESC", "SELECT DISTINCT c.id, c.v FROM c"} {
		var pages []int
		for _, page := range c.query(ask(text), pk("k")...) {
			if pages = append(pages, len(page)); len(strings.Join(page, ",")) > limit {
				t.Errorf("%s: a page has %d bytes", text, len(strings.Join(page, ",")))
			}
		}
		if !slices.Equal(pages, []int{4, 2}) && !slices.Equal(pages, []int{5, 1}) {
			t.Errorf("%s: pages of %v documents", text, pages)
		}
	}
}
