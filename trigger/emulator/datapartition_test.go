package emulator

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// newSharedDatabase creates a database with a throughput and a container for each name. A
// container of the database has the key /pk and may have items that expire.
func newSharedDatabase(t *testing.T, opts *Options, containers ...string) (*client, *Account) {
	c, a := newClient(t, opts)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`, "x-ms-offer-throughput", "400")
	for _, name := range containers {
		c.expect("201", "POST", "/dbs/db/colls", `{"id":"`+name+`","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}`)
	}
	return c, a
}

// sharedLSN returns the newest LSN of the range 0 of a container, as its session token, the
// header lsn and the etag of an idle feed name it.
func sharedLSN(c *client, container string) int {
	c.t.Helper()
	a := c.send("GET", "/dbs/db/colls/"+container+"/docs", "", with(feedHeader, "If-None-Match", "*", "x-ms-documentdb-partitionkeyrangeid", "0")...)
	lsn, err := strconv.Atoi(strings.TrimPrefix(a.header.Get("x-ms-session-token"), "0:-1#"))
	if err != nil || a.status != 304 || a.header.Get("lsn") != strconv.Itoa(lsn) || a.header.Get("etag") != fmt.Sprintf(`"%d"`, lsn) {
		c.t.Errorf("idle feed of %s: %d, %v", container, a.status, a.header)
	}
	return lsn
}

// The containers of a database with shared throughput have one sequence of LSNs: recorded
// answers of a hosted account, October 2026.
func TestSharedThroughputSharesLSNs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newSharedDatabase(t, nil, "c", "other")
		if got := sharedLSN(c, "c"); got != 3 {
			t.Errorf("LSN %d after a database and two containers, want 3", got)
		}
		operation := func(kind, id string) string {
			return fmt.Sprintf(`{"operationType":%q,"id":%q,"partitionKey":"[\"k\"]","resourceBody":{"id":%q,"pk":"k"}}`, kind, id, id)
		}
		batch := func(want, atomic string, operations ...string) {
			t.Helper()
			c.expect(want, "POST", items, "["+strings.Join(operations, ",")+"]", with(pk("k"), "x-ms-cosmos-is-batch-request", "true",
				"x-ms-cosmos-batch-atomic", atomic, "x-ms-cosmos-batch-continue-on-error", "true", "x-ms-documentdb-partitionkeyrangeid", "0")...)
		}
		for _, step := range []struct {
			name string
			do   func()
			lsns int
		}{
			{"write", func() { c.create("a", "k") }, 1},
			{"write to the other container", func() {
				c.expect("201", "POST", "/dbs/db/colls/other/docs", doc("a", "k"), pk("k")...)
			}, 1},
			{"conflict", func() { c.expect("409", "POST", items, doc("a", "k"), pk("k")...) }, 0},
			{"absent document", func() { c.expect("404", "DELETE", items+"/none", "", pk("k")...) }, 0},
			{"wrong etag", func() { c.expect("412", "PUT", items+"/a", doc("a", "k"), with(pk("k"), "If-Match", `"x"`)...) }, 0},
			{"wrong key", func() { c.expect("400/1001", "POST", items, doc("b", "other"), pk("k")...) }, 0},
			{"batch", func() { batch("200", "true", operation("Create", "b1"), operation("Create", "b2")) }, 1},
			{"batch that is rolled back", func() { batch("207", "true", operation("Create", "b3"), operation("Create", "b1")) }, 0},
			{"batch that is not atomic", func() {
				batch("207", "false", operation("Create", "b4"), operation("Create", "b1"), operation("Create", "b5"))
			}, 1},
			{"item that expires", func() {
				c.expect("201", "POST", items, `{"id":"e","pk":"k","ttl":1}`, pk("k")...)
				time.Sleep(3 * time.Second)
			}, 1},
			{"container with a throughput of its own", func() {
				c.expect("201", "POST", "/dbs/db/colls", `{"id":"own","partitionKey":{"paths":["/pk"]}}`, "x-ms-offer-throughput", "400")
			}, 0},
		} {
			old := sharedLSN(c, "c")
			step.do()
			if got := sharedLSN(c, "c"); got != old+step.lsns || sharedLSN(c, "other") != got {
				t.Errorf("%s takes %d LSNs, want %d; the other container is at %d", step.name, got-old, step.lsns, sharedLSN(c, "other"))
			}
		}
		if got := sharedLSN(c, "own"); got != 1 {
			t.Errorf("LSN %d of a container with a throughput of its own, want 1", got)
		}
		if got := c.feed("200").ids(t); fmt.Sprint(got) != "[a b1 b2 b4 b5]" {
			t.Errorf("feed of a container: %v", got)
		}
	})
}

// A restart keeps the sequence, also that of a container that was deleted since. A container
// that splits leaves it.
func TestSharedLSNsSurviveRestartAndSplit(t *testing.T) {
	opts := &Options{Data: filepath.Join(t.TempDir(), "data"), Ranges: 3}
	c, a := newSharedDatabase(t, opts, "c", "other", "third")
	for range 5 {
		c.upsert(doc("a", "k"), "k")
		c.expect("201", "POST", "/dbs/db/colls/third/docs", fmt.Sprintf(`{"id":"%d","pk":"k"}`, sharedLSN(c, "c")), pk("k")...)
	}
	c.expect("204", "DELETE", "/dbs/db/colls/third", "")
	newest := sharedLSN(c, "other")
	c, a = reopen(t, a, opts)
	if got := sharedLSN(c, "c"); newest != 14 || got != newest || sharedLSN(c, "other") != newest {
		t.Errorf("LSN %d after a restart, %d before it, want 14", got, newest)
	}
	if _, err := a.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	c.upsert(doc("a", "k"), "k")
	c, _ = reopen(t, a, opts)
	for _, s := range a.State().Databases[0].Containers {
		for _, r := range s.Ranges {
			if s.ID == "other" && r.LSN != int64(newest) || s.ID == "c" && r.LSN <= int64(newest) {
				t.Errorf("range %s of %s at %d after a split at %d", r.ID, s.ID, r.LSN, newest)
			}
		}
	}
	c.expect("201", "POST", "/dbs/db/colls/other/docs", doc("a", "k"), pk("k")...)
	if got := sharedLSN(c, "other"); got != newest+1 {
		t.Errorf("LSN %d of the container that is left, want %d", got, newest+1)
	}
}

// Containers that share a sequence are written at the same time: each LSN is taken once, and
// no feed shows a change twice or leaves one out.
func TestSharedLSNsOfConcurrentWriters(t *testing.T) {
	const writers, writes = 4, 50
	names := []string{"c0", "c1", "c2", "c3"}
	c, _ := newSharedDatabase(t, nil, names...)
	var working sync.WaitGroup
	for _, name := range names {
		working.Go(func() {
			for i := range writes {
				if a := c.send("POST", "/dbs/db/colls/"+name+"/docs", doc(strconv.Itoa(i), "k"), pk("k")...); a.status != 201 {
					t.Errorf("write: %d %s", a.status, a.body)
				}
			}
		})
	}
	working.Wait()
	taken := map[int]string{}
	for _, name := range names {
		found := c.expect("200", "GET", "/dbs/db/colls/"+name+"/docs", "", with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", "0")...).documents(t)
		if len(found) != writes {
			t.Errorf("%d changes of %s, want %d", len(found), name, writes)
		}
		for _, d := range found {
			lsn := int(d["_lsn"].(float64))
			if other := taken[lsn]; other != "" {
				t.Errorf("LSN %d of %s and %s", lsn, name, other)
			}
			taken[lsn] = name
		}
	}
	if got, want := sharedLSN(c, "c0"), 1+writers+writers*writes; got != want {
		t.Errorf("LSN %d, want %d", got, want)
	}
}
