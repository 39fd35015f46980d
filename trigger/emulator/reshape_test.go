package emulator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFeedContinuesOnChildrenAfterSplit(t *testing.T) {
	c, a := newItems(t, 1, nil)
	for _, k := range keys(20) {
		c.create("old-"+k, k)
	}
	token := c.feed("304", with(rangeID("0"), "If-None-Match", "*")...).header.Get("etag")
	children, err := a.Split("db", "c", "0")
	if err != nil {
		t.Fatal(err)
	}
	c.feed("410/1002", rangeID("0")...)
	for _, k := range keys(20) {
		c.upsert(doc("old-"+k, k), k)
		c.create("new-"+k, k)
	}
	fullCounts, laterCounts := map[string]int{}, map[string]int{}
	for _, child := range children {
		for _, id := range c.feed("200", rangeID(child)...).ids(t) {
			fullCounts[id]++
		}
		for _, id := range c.feed("200", with(rangeID(child), "If-None-Match", token)...).ids(t) {
			laterCounts[id]++
		}
	}
	if len(fullCounts) != 40 || len(laterCounts) != 40 {
		t.Errorf("children have %d of 40 items, %d of 40 changes since the split", len(fullCounts), len(laterCounts))
	}
	if later := c.feed("304", with(rangeID(children[0]), "If-None-Match", "*")...).header.Get("etag"); lsnOf(later) <= lsnOf(token) {
		t.Errorf("child ends at %s, its parent ended at %s", later, token)
	}
}

func lsnOf(etag string) int {
	n, _ := strconv.Atoi(strings.Trim(etag, `"`))
	return n
}

func TestFeedContinuesAfterMergeFromEachParent(t *testing.T) {
	c, a := newItems(t, 2, nil)
	ranges := c.ranges()
	for i, k := range keys(30) {
		c.create("old-"+k, k)
		if i%3 == 0 { // uneven LSNs
			c.upsert(doc("old-"+k, k), k)
		}
	}
	tokens := map[string]string{}
	for _, r := range ranges {
		tokens[r.ID] = c.feed("304", with(rangeID(r.ID), "If-None-Match", "*")...).header.Get("etag")
	}
	merged, err := a.Merge("db", "c", "0", "1")
	if err != nil {
		t.Fatal(err)
	}
	if now := c.ranges(); len(now) != 1 || !slices.Equal(now[0].Parents, []string{"0", "1"}) {
		t.Errorf("ranges after the merge: %+v", now)
	}
	for _, k := range keys(30) {
		c.create("new-"+k, k)
	}
	seen := map[string]int{}
	for _, r := range ranges {
		c.feed("410/1002", rangeID(r.ID)...)
		h := with(rangeID(merged), "If-None-Match", tokens[r.ID], "x-ms-start-epk", r.MinInclusive, "x-ms-end-epk", r.MaxExclusive)
		for _, id := range c.feed("200", h...).ids(t) {
			seen[id]++
		}
	}
	for _, k := range keys(30) {
		if seen["new-"+k] != 1 || seen["old-"+k] != 0 {
			t.Errorf("%s was seen %d times, its old document %d times", k, seen["new-"+k], seen["old-"+k])
		}
	}
	if got := c.create("x", "k").header.Get("x-ms-session-token"); !strings.HasPrefix(got, merged+":0#") {
		t.Errorf("session token after the merge is %q", got)
	}
}

func TestStartTimeOnMergedRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := newItems(t, 2, nil)
		for _, k := range keys(10) {
			c.create("old-"+k, k)
		}
		time.Sleep(time.Minute)
		start := []string{"If-Modified-Since", time.Now().UTC().Format(time.RFC1123)}
		time.Sleep(time.Minute)
		merged, err := a.Merge("db", "c", "1", "0")
		if err != nil {
			t.Fatal(err)
		}
		c.create("new", "k")
		c.feed("400", with(rangeID(merged), with(start, "x-ms-cosmos-sdk-supportedcapabilities", "1")...)...)
		able := with(rangeID(merged), with(start, "x-ms-cosmos-sdk-supportedcapabilities", "3")...)
		for _, h := range [][]string{able, with(able, "If-None-Match", `"2"`)} {
			if got := c.feed("200", h...).ids(t); !slices.Equal(got, []string{"new"}) {
				t.Errorf("since the start time there are %v", got)
			}
		}
	})
}

func TestSplittingPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := newItems(t, 1, &Options{Splitting: 3 * time.Second})
		c.create("before", "k")
		children, err := a.Split("db", "c", "0")
		if err != nil {
			t.Fatal(err)
		}
		c.feed("410/1007", rangeID("0")...)
		c.create("meanwhile", "k")
		if _, err := a.Split("db", "c", "0"); err == nil {
			t.Error("a second split began during the first")
		}
		if s := a.State().Databases[0].Containers[0].Ranges; len(s) != 1 || !s[0].Splitting {
			t.Errorf("state during the split: %+v", s)
		}
		time.Sleep(3 * time.Second)
		c.feed("410/1002", rangeID("0")...)
		var got []string
		for _, child := range children {
			got = append(got, c.send("GET", items, "", with(feedHeader, rangeID(child)...)...).ids(t)...)
		}
		if !slices.Equal(got, []string{"before", "meanwhile"}) {
			t.Errorf("children have %v", got)
		}
	})
}

func TestSplitAndMergeRefuseInvalidRanges(t *testing.T) {
	c, a := newItems(t, 4, nil)
	ids := []string{}
	for _, r := range c.ranges() {
		ids = append(ids, r.ID)
	}
	for name, reshape := range map[string]func() error{
		"split of an unknown range":   func() error { _, err := a.Split("db", "c", "9"); return err },
		"unknown container":           func() error { _, err := a.Split("db", "none", "0"); return err },
		"unknown database":            func() error { _, err := a.Merge("none", "c", "0", "1"); return err },
		"merge of one":                func() error { _, err := a.Merge("db", "c", "0"); return err },
		"merge with itself":           func() error { _, err := a.Merge("db", "c", "0", "0"); return err },
		"merge of those apart":        func() error { _, err := a.Merge("db", "c", ids[0], ids[2]); return err },
		"merge with an unknown range": func() error { _, err := a.Merge("db", "c", "0", "9"); return err },
	} {
		if err := reshape(); err == nil {
			t.Errorf("%s succeeded", name)
		}
	}
	if got := c.ranges(); len(got) != 4 {
		t.Errorf("what was refused left %d ranges", len(got))
	}
}

func TestEveryKindOfKeySplits(t *testing.T) {
	for _, definition := range []string{
		`{"paths":["/pk"],"kind":"Hash","version":1}`,
		`{"paths":["/pk"],"kind":"Hash","version":2}`,
		`{"paths":["/pk","/b"],"kind":"MultiHash","version":2}`,
	} {
		c, a := newClient(t, &Options{Ranges: 2})
		c.expect("201", "POST", "/dbs", `{"id":"db"}`)
		c.expect("201", "POST", "/dbs/db/colls", `{"id":"c","partitionKey":`+definition+`}`)
		multi := strings.Contains(definition, "MultiHash")
		for i := range 50 {
			key := fmt.Sprintf(`["k%d"]`, i)
			if multi {
				key = fmt.Sprintf(`["k%d",%d]`, i%7, i)
			}
			body := fmt.Sprintf(`{"id":"%d","pk":"k%d","b":%d}`, i, map[bool]int{false: i, true: i % 7}[multi], i)
			c.expect("201", "POST", items, body, "x-ms-documentdb-partitionkey", key)
		}
		for _, id := range []string{"0", "1", "2"} {
			if _, err := a.Split("db", "c", id); err != nil {
				t.Fatalf("%s: %v", definition, err)
			}
		}
		total := 0
		for _, r := range c.ranges() {
			total += len(c.send("GET", items, "", with(feedHeader, rangeID(r.ID)...)...).ids(t))
		}
		if total != 50 {
			t.Errorf("%s: after three splits the ranges have %d of 50 items", definition, total)
		}
		if multi {
			if got := len(c.feed("200", "x-ms-documentdb-partitionkey", `["k3"]`).ids(t)); got != 7 {
				t.Errorf("the feed of a key prefix has %d items, want 7", got)
			}
		}
	}
}

// TestReadersThroughReshaping has readers follow the feed by ranges and tokens
// alone while writers write and ranges split and merge.
func TestReadersThroughReshaping(t *testing.T) {
	c, a := newItems(t, 1, nil)
	const writers, each = 4, 200
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				key := fmt.Sprintf("key%d", i%37)
				if a, err := c.try("POST", items, doc(fmt.Sprintf("%d-%d", w, i), key), pk(key)...); err != nil || a.status != 201 {
					t.Errorf("create: %d, %v", a.status, err)
				}
			}
		})
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(stop)
		for step := 0; step < 12; step++ {
			ranges := c.ranges()
			var err error
			if step%3 == 2 {
				_, err = a.Merge("db", "c", ranges[0].ID, ranges[1].ID)
			} else {
				_, err = a.Split("db", "c", ranges[step%len(ranges)].ID)
			}
			if err != nil {
				t.Error(err)
			}
		}
		writing.Wait()
	})
	seen := followFeed(c, stop)
	reading.Wait()
	for w := range writers {
		for i := range each {
			if id := fmt.Sprintf("%d-%d", w, i); seen[id] != 1 {
				t.Errorf("item %s was seen %d times", id, seen[id])
			}
		}
	}
}

// followFeed reads every part of the key space from its own token, exactly as a
// lease per part would, until stop is closed and nothing is left.
func followFeed(c *client, stop <-chan struct{}) map[string]int {
	type part struct{ min, max, token string }
	parts, seen := []part{{"", "FF", ""}}, map[string]int{}
	for last := false; ; {
		select {
		case <-stop:
			last = true
		default:
		}
		idle := true
		for i := 0; i < len(parts); i++ {
			p := parts[i]
			var overlapping []pkrange
			for _, r := range c.ranges() {
				if r.MinInclusive < p.max && p.min < r.MaxExclusive {
					overlapping = append(overlapping, r)
				}
			}
			if len(overlapping) > 1 { // the part was split: each piece continues from its token
				parts = slices.Delete(parts, i, i+1)
				for _, r := range overlapping {
					parts = append(parts, part{max(p.min, r.MinInclusive), min(p.max, r.MaxExclusive), p.token})
				}
				i--
				idle = false
				continue
			}
			a := c.send("GET", items, "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", overlapping[0].ID,
				"If-None-Match", p.token, "x-ms-start-epk", p.min, "x-ms-end-epk", p.max, "x-ms-max-item-count", "7")...)
			if a.status == 410 {
				idle = false
				continue
			}
			parts[i].token = a.header.Get("etag")
			for _, id := range a.ids(c.t) {
				seen[id]++
				idle = false
			}
		}
		if last && idle {
			return seen
		}
	}
}
