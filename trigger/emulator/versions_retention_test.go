package emulator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestExpiriesAreVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newVersions(t, nil)
		began := time.Now().Unix()
		token := c.end("0")
		for i, ttl := range []int{30, 10, 20, 10, 10} {
			c.upsert(numbered(fmt.Sprint(i), "k", i, fmt.Sprintf(`,"ttl":%d`, ttl)), "k")
		}
		kept := c.end("0")
		time.Sleep(15*time.Second + 500*time.Millisecond)
		c.create("between", "other") // an access, but not to the items
		time.Sleep(5 * time.Minute)
		all := c.versions("200", kept).seen(t)
		want := []string{
			"expire 1 1→<nil>", "expire 3 3→<nil>", "expire 4 4→<nil>", "create between <nil>→<nil>",
			"expire 2 2→<nil>", "expire 0 0→<nil>",
		}
		if !slices.Equal(lines(all), want) {
			t.Errorf("after the ends: %v", lines(all))
		}
		for i, second := range []int64{10, 10, 10, 15, 20, 30} {
			if m := all[i].Metadata; m.CRTS != began+second || i > 0 && m.LSN != all[i-1].Metadata.LSN+1 {
				t.Errorf("%v at second %d, LSN %d", all[i], m.CRTS-began, m.LSN)
			}
		}
		if repeated := c.versions("200", token).seen(t); len(repeated) != 11 {
			t.Errorf("a second reader has %v", lines(repeated))
		}
		c.create("late", "k")
		late := c.end("0")
		time.Sleep(time.Minute)
		c.expect("200", "PUT", "/dbs/db/colls/c", strings.Replace(versionsDefinition, `"defaultTtl":-1`, `"defaultTtl":5`, 1))
		shortened := time.Now().Unix()
		time.Sleep(time.Minute)
		all = c.versions("200", late).seen(t)
		if got := lines(all); !slices.Equal(got, []string{"expire between <nil>→<nil>", "expire late <nil>→<nil>"}) || all[0].Metadata.CRTS != shortened {
			t.Errorf("a shorter default ends %v at %d, want %d", got, all[0].Metadata.CRTS, shortened)
		}
	})
}

func TestRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := newVersions(t, &Options{Ranges: 2})
		key := map[string]string{}
		for _, k := range keys(20) {
			key[c.create("id", k).header.Get("x-ms-documentdb-partitionkeyrangeid")] = k
		}
		start := map[string]string{"0": c.end("0"), "1": c.end("1")}
		for i := range 5 {
			c.upsert(numbered("x", key["0"], i, ""), key["0"])
			time.Sleep(5 * time.Minute)
		}
		// 25 minutes have passed: the versions of minutes 15 and 20 are left.
		got := c.versions("400", start["0"], rangeID("0")...)
		if !strings.Contains(got.body, "10m0s") || !strings.Contains(got.body, "Start from now") {
			t.Errorf("the error does not say what to do: %s", got.body)
		}
		c.versions("304", start["1"], rangeID("1")...) // nothing was lost there
		from := lsnOf(start["0"]) + 3
		if got := lines(c.versions("200", fmt.Sprintf(`"%d"`, from), rangeID("0")...).seen(t)); !slices.Equal(got, []string{"replace x 2→3", "replace x 3→4"}) {
			t.Errorf("what is kept is %v", got)
		}
		c.versions("400", fmt.Sprintf(`"%d"`, from-1), rangeID("0")...)
		if s := a.State().Databases[0].Containers[0].Ranges; s[0].Versions != 2 || s[0].Trimmed != int64(from) || s[1].Versions != 0 {
			t.Errorf("state %+v", s)
		}
		c.expect("200", "PUT", "/dbs/db/colls/c", strings.Replace(versionsDefinition, "10}", "5}", 1))
		c.versions("400", fmt.Sprintf(`"%d"`, from), rangeID("0")...)
		if got := lines(c.versions("200", fmt.Sprintf(`"%d"`, from+1), rangeID("0")...).seen(t)); !slices.Equal(got, []string{"replace x 3→4"}) {
			t.Errorf("a shorter retention keeps %v", got)
		}
		c.upsert(numbered("y", key["1"], 1, `,"ttl":1`), key["1"])
		time.Sleep(24 * time.Hour) // the deletion is older than the retention when the reader comes
		c.versions("400", start["1"], rangeID("1")...)
		c.versions("304", c.end("1"), rangeID("1")...)
		children, err := a.Split("db", "c", "1")
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range children {
			c.versions("400", start["1"], rangeID(child)...)
		}
		if got := len(c.feed("200", rangeID("0")...).ids(t)); got == 0 {
			t.Error("the latest versions went with the others")
		}
	})
}
