package emulator

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestVersionsSurviveRestart(t *testing.T) {
	opts := &Options{Data: t.TempDir(), Ranges: 2}
	c, a := newVersions(t, opts)
	tokens := map[string]string{"0": c.end("0"), "1": c.end("1")}
	for i, k := range keys(15) {
		c.upsert(numbered("id", k, 1, ""), k)
		c.upsert(numbered("id", k, 2, ""), k)
		if i%3 == 0 {
			c.expect("204", "DELETE", items+"/id", "", pk(k)...)
		}
	}
	if _, err := a.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	c.upsert(numbered("id", keys(1)[0], 3, ""), keys(1)[0])
	read := func() (all []string) {
		for _, r := range c.ranges() {
			token := tokens[append([]string{r.ID}, r.Parents...)[len(r.Parents)]]
			if token == "" {
				token = tokens["0"]
			}
			got := c.versions("200", token, rangeID(r.ID)...)
			all = append(all, got.header.Get("etag"), got.body)
		}
		return append(all, fmt.Sprint(a.State().Databases[0].Containers[0]))
	}
	oldVersions := read()
	c, a = reopen(t, a, opts)
	if newVersions := read(); !slices.Equal(oldVersions, newVersions) {
		t.Errorf("before %v\n after %v", oldVersions, newVersions)
	}
	c.create("more", "k")
	oldVersions = read()
	c, a = reopen(t, a, opts)
	if newVersions := read(); !slices.Equal(oldVersions, newVersions) {
		t.Errorf("after a write: before %v\n after %v", oldVersions, newVersions)
	}
}

func TestTrimmedAndExpiredOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := &Options{Data: t.TempDir()}
		c, a := newVersions(t, opts)
		start := c.end("0")
		c.create("old", "k")
		kept := c.end("0")
		time.Sleep(8 * time.Minute)
		c.upsert(numbered("short", "k", 1, `,"ttl":60`), "k")
		time.Sleep(3 * time.Minute)
		c.versions("400", start)
		ended := time.Now().Add(-2 * time.Minute).Unix()
		c, a = reopen(t, a, opts)
		c.versions("400", start)
		got := c.versions("200", kept).seen(t)
		if !slices.Equal(lines(got), []string{"create short <nil>→1", "expire short 1→<nil>"}) || got[1].Metadata.CRTS != ended {
			t.Errorf("after the restart there are %v", lines(got))
		}
		time.Sleep(20 * time.Minute) // no request arrives while the rest expires
		c, a = reopen(t, a, opts)
		c.versions("400", kept)
		if s := a.State().Databases[0].Containers[0].Ranges[0]; s.Versions != 0 {
			t.Errorf("%d versions are left", s.Versions)
		}
		c, a = reopen(t, a, opts)
		c.versions("400", kept)
		c.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
		c.create("unlogged", "k")
		c, a = reopen(t, a, opts)
		c.versions("400", "*")
		c.expect("200", "PUT", "/dbs/db/colls/c", versionsDefinition)
		repeated := c.end("0")
		c.create("logged", "k")
		c.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}`)
		c.expect("200", "PUT", "/dbs/db/colls/c", versionsDefinition)
		c, a = reopen(t, a, opts)
		c.versions("400", repeated)
		if s := a.State().Databases[0].Containers[0].Ranges[0]; s.Versions != 0 {
			t.Errorf("%d versions outlived their policy", s.Versions)
		}
	})
}
