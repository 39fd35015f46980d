package emulator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPlannedFailoverLosesNothing(t *testing.T) {
	inRegions(t, Options{ReplicationLag: time.Hour}, func(t *testing.T, a *Account, w, n, _ *client) {
		w.create("a", "k")
		must(t, a.FailOver(north, FailoverPlanned))
		n.expect("200", "GET", items+"/a", "", pk("k")...)
		if got := n.create("b", "k").header.Get("x-ms-session-token"); got != "0:1#3#2=-1#3=-1" {
			t.Errorf("the session token after the failover is %s", got)
		}
		w.expect("403/3", "POST", items, doc("c", "k"), pk("k")...)
		must(t, a.SetReplication(east, Replication{Paused: true}))
		if err := a.FailOver(east, FailoverPlanned); err == nil || !strings.Contains(err.Error(), "replication to it is paused") {
			t.Errorf("planned failover to a region that receives nothing: %v", err)
		}
	})
}

// TestUnplannedFailoverLosesTheNewestWrites also has the lost LSN given again, and an etag that
// is not.
func TestUnplannedFailoverLosesTheNewestWrites(t *testing.T) {
	inRegions(t, Options{}, func(t *testing.T, a *Account, w, n, e *client) {
		w.create("kept", "k")
		w.upsert(`{"id":"changed","pk":"k","n":1}`, "k")
		n.expect("200", "GET", items+"/changed", "", pk("k")...)
		must(t, a.SetReplication(north, Replication{Paused: true}))
		lost := w.upsert(`{"id":"changed","pk":"k","n":2}`, "k")
		w.create("new", "k")
		e.expect("200", "GET", items+"/new", "", pk("k")...)
		must(t, a.FailOver(north, FailoverUnplanned))
		written := n.upsert(`{"id":"changed","pk":"k","n":3}`, "k")
		must(t, a.SetReplication(north, Replication{}))
		for _, c := range []*client{w, n, e} {
			c.expect("404", "GET", items+"/new", "", pk("k")...)
			c.expect("200", "GET", items+"/kept", "", pk("k")...)
			if ids := c.feed("200", rangeID("0")...).ids(t); !slices.Equal(ids, []string{"kept", "changed"}) {
				t.Errorf("the feed in %s has %v", c.endpoint, ids)
			}
		}
		if written.header.Get("lsn") != lost.header.Get("lsn") || written.header.Get("etag") == lost.header.Get("etag") {
			t.Errorf("lost was %v, written after the failover %v", lost.header, written.header)
		}
		n.expect("412", "PUT", items+"/changed", doc("changed", "k"), with(pk("k"), "If-Match", lost.header.Get("etag"))...)
		w.expect("403/3", "POST", items, doc("c", "k"), pk("k")...)
	})
}

// A failover whose request waited for the lock began before the newest write.
func TestFailoverWithoutLagLosesNothing(t *testing.T) {
	inRegions(t, Options{PartitionFailover: true}, func(t *testing.T, a *Account, w, n, _ *client) {
		began := a.now()
		time.Sleep(time.Millisecond)
		w.create("a", "k")
		o := a.databases["db"].containers["c"]
		o.mu.Lock()
		advance(o, began)
		move(o, "0", 1, FailoverUnplanned)
		o.mu.Unlock()
		n.expect("200", "GET", items+"/a", "", pk("k")...)
	})
}

func TestFailoverMannersKeepVersionAndSkipLSNs(t *testing.T) {
	manners := Manners{FailoverKeepsVersion: true, FailoverSkipsLSNs: true}
	inRegions(t, Options{Manners: manners}, func(t *testing.T, a *Account, w, n, _ *client) {
		must(t, a.SetReplication(north, Replication{Paused: true}))
		w.create("lost", "k")
		must(t, a.FailOver(north, FailoverUnplanned))
		if got := n.create("b", "k").header.Get("x-ms-session-token"); got != "0:0#3#2=-1#3=-1" {
			t.Errorf("the session token is %s, want version 0 and the LSN after that of the lost write", got)
		}
	})
}

// TestRangeFailsOverByItself has the account's document and the other range stay as they are.
func TestRangeFailsOverByItself(t *testing.T) {
	inRegions(t, Options{PartitionFailover: true}, func(t *testing.T, a *Account, w, n, _ *client) {
		must(t, a.CreateContainer("db", "two", "/pk", 2))
		documents := "/dbs/db/colls/two/docs"
		byRange := map[string]string{} // a key of each range
		for _, k := range keys(20) {
			id := w.expect("201", "POST", documents, doc(k, k), pk(k)...).header.Get("x-ms-documentdb-partitionkeyrangeid")
			byRange[id] = k
		}
		must(t, a.FailOverRange("db", "two", "0", north, FailoverPlanned))
		moved, other := byRange["0"], byRange["1"]
		n.expect("201", "POST", documents, doc("after", moved), pk(moved)...)
		w.expect("403/3", "POST", documents, doc("x", moved), pk(moved)...)
		w.expect("201", "POST", documents, doc("after", other), pk(other)...)
		n.expect("403/3", "POST", documents, doc("x", other), pk(other)...)
		w.expect("200", "GET", documents+"/after", "", pk(moved)...)
		if got := n.locationNames("writableLocations"); got != west {
			t.Errorf("writable locations are %s", got)
		}
		children, err := a.Split("db", "two", "0")
		must(t, err)
		n.expect("201", "POST", documents, doc("after the split", moved), pk(moved)...)
		for _, child := range children {
			must(t, a.FailOverRange("db", "two", child, west, FailoverPlanned))
		}
		w.expect("201", "POST", documents, doc("back", moved), pk(moved)...)
	})
}

func TestInvalidFailoversAreRefused(t *testing.T) {
	_, plain := newItems(t, 1, &Options{Regions: []string{west, north}})
	_, byRange := newItems(t, 1, &Options{Regions: []string{west, north}, PartitionFailover: true})
	for want, err := range map[string]error{
		`give "planned" or "unplanned"`:    plain.FailOver(north, "forced"),
		"set Options.PartitionFailover":    plain.FailOverRange("db", "c", "0", north, FailoverPlanned),
		`The partition key range "7"`:      byRange.FailOverRange("db", "c", "7", north, FailoverPlanned),
		`fail over range "0" of db/none`:   byRange.FailOverRange("db", "none", "0", north, FailoverPlanned),
		`no region "Mars"; it has ["West `: byRange.FailOverRange("db", "c", "0", "Mars", FailoverPlanned),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// copyTest has random writes, splits, merges, failovers and pauses on an account with three
// regions. Its expectation is a map of the items that were accepted and not lost.
type copyTest struct {
	t       *testing.T
	a       *Account
	regions []*client
	dice    *rand.Rand
	losing  bool // some failovers are unplanned
	n       int
}

// TestRegionsConverge has all regions with the same items, feeds and LSNs when replication has
// caught up. If no failover was unplanned, they have all that was accepted.
func TestRegionsConverge(t *testing.T) {
	for seed := range uint64(40) {
		options := Options{ReplicationLag: 2 * time.Second, PartitionFailover: seed%2 == 0, Manners: Manners{FailoverSkipsLSNs: seed%3 == 0}}
		inRegions(t, options, func(t *testing.T, a *Account, w, n, e *client) {
			s := &copyTest{t, a, []*client{w, n, e}, rand.New(rand.NewPCG(seed, 1)), seed%4 > 1, 0}
			must(t, a.CreateContainer("db", "v", "/pk", 2))
			accepted := map[string]string{}
			for range 200 {
				s.step(accepted)
			}
			s.checkConverged(seed, accepted)
		})
	}
}

// step makes one random change.
func (s *copyTest) step(accepted map[string]string) {
	regionNames := []string{west, north, east}
	region := regionNames[s.dice.IntN(3)]
	switch roll := s.dice.IntN(100); {
	case roll < 85:
		s.write(accepted)
	case roll < 90:
		must(s.t, s.a.SetReplication(region, Replication{2 * time.Second, s.dice.IntN(2) == 0}))
	case roll < 93:
		ranges := s.ranges()
		_, _ = s.a.Split("db", "v", ranges[s.dice.IntN(len(ranges))])
	case roll < 94:
		if ranges := s.ranges(); len(ranges) > 1 {
			_, _ = s.a.Merge("db", "v", ranges[0], ranges[1])
		}
	default:
		kind := FailoverPlanned
		if s.losing && s.dice.IntN(2) == 0 {
			kind = FailoverUnplanned
		}
		if ranges := s.ranges(); s.a.options.PartitionFailover && roll < 98 {
			_ = s.a.FailOverRange("db", "v", ranges[s.dice.IntN(len(ranges))], region, kind)
		} else {
			_ = s.a.FailOver(region, kind)
		}
	}
	time.Sleep(time.Duration(s.dice.IntN(1000)) * time.Millisecond)
}

func (s *copyTest) ranges() (ids []string) {
	for _, r := range s.a.State().Databases[0].Containers[1].Ranges {
		ids = append(ids, r.ID)
	}
	return ids
}

// write sends an upsert or a delete to the regions until one accepts it.
func (s *copyTest) write(accepted map[string]string) {
	s.n++
	id := fmt.Sprint(s.dice.IntN(30))
	for _, c := range s.regions {
		var got answer
		text := fmt.Sprint(s.n)
		if s.dice.IntN(5) == 0 {
			got, text = c.send("DELETE", "/dbs/db/colls/v/docs/"+id, "", pk(id)...), ""
		} else {
			got = c.send("POST", "/dbs/db/colls/v/docs", fmt.Sprintf(`{"id":%q,"pk":%q,"n":%q}`, id, id, text), with(pk(id), "x-ms-documentdb-is-upsert", "True")...)
		}
		switch {
		case got.status == 403:
			continue
		case got.status == 404 || text == "":
			delete(accepted, id)
		default:
			accepted[id] = text
		}
		return
	}
	s.t.Errorf("no region accepts a write to item %s", id)
}

func (s *copyTest) checkConverged(seed uint64, accepted map[string]string) {
	for _, name := range []string{west, north, east} {
		must(s.t, s.a.SetReplication(name, Replication{}))
	}
	time.Sleep(time.Minute)
	if !s.losing {
		for _, c := range s.regions {
			if got := s.contents(c); !maps.Equal(got, accepted) {
				s.t.Errorf("seed %d: %s has %v, accepted were %v", seed, c.endpoint, got, accepted)
			}
		}
	}
	for _, r := range s.ranges() {
		var feeds []string
		for _, c := range s.regions {
			feed := c.send("GET", "/dbs/db/colls/v/docs", "", with(rangeID(r), "A-IM", latestVersion)...)
			feeds = append(feeds, feed.body+" "+feed.header.Get("etag"))
			s.checkOrder(seed, feed)
		}
		if feeds[0] != feeds[1] || feeds[0] != feeds[2] {
			s.t.Errorf("seed %d: range %s differs:\n%s", seed, r, strings.Join(feeds, "\n"))
		}
	}
}

// contents are the items in a region.
func (s *copyTest) contents(c *client) map[string]string {
	found := map[string]string{}
	for id := range 30 {
		if got := c.send("GET", fmt.Sprintf("/dbs/db/colls/v/docs/%d", id), "", pk(fmt.Sprint(id))...); got.status == 200 {
			found[fmt.Sprint(id)] = got.decode(s.t)["n"].(string)
		}
	}
	return found
}

func (s *copyTest) checkOrder(seed uint64, feed answer) {
	last := 0.0
	for _, d := range feed.documents(s.t) {
		if d["_lsn"].(float64) < last {
			s.t.Errorf("seed %d: LSNs of the feed go back: %s", seed, feed.body)
		}
		last = d["_lsn"].(float64)
	}
}
