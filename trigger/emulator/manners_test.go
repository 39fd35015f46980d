package emulator

import (
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// The etag of a page that reaches the end is the newest LSN: in a recorded answer of a hosted
// account (October 2026) it is "43" after an item at 42, because the one at 43 had expired.
func TestETagPassesExpiredItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newItems(t, 1, nil)
		c.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}`)
		c.create("a", "k")
		c.expect("201", "POST", items, `{"id":"b","pk":"k","ttl":1}`, pk("k")...)
		time.Sleep(3 * time.Second)
		a := c.feed("200", rangeID("0")...)
		last := int(a.documents(t)[0]["_lsn"].(float64))
		if etag, err := strconv.Unquote(a.header.Get("etag")); err != nil || len(a.documents(t)) != 1 || etag != a.header.Get("lsn") || etag <= strconv.Itoa(last) {
			t.Errorf("etag %s and lsn %s after an item at %d, want one etag and lsn after it", a.header.Get("etag"), a.header.Get("lsn"), last)
		}
	})
}

// Each unknown point has both answers, and whichever is given, a reader sees every change once.
func TestManners(t *testing.T) {
	for _, test := range []struct {
		name    string
		manners Manners
		want    string // of each page its first and last LSN, and its etag
	}{
		{"recorded", Manners{}, `2-3 "3", 5-6 "6", 8-9 "10", - "10"`},
		{"cut below next", Manners{CutBelowNext: true}, `2-3 "4", 5-6 "7", 8-9 "10", - "10"`},
		{"full as cut", Manners{FullAsCut: true}, `2-3 "3", 5-6 "6", 8-9 "9", - "10"`},
		{"idle keeps etag", Manners{FullAsCut: true, IdleKeepsETag: true}, `2-3 "3", 5-6 "6", 8-9 "9", - "9"`},
		{"empty pages", Manners{EmptyPages: true}, `- "1", 2-3 "3", - "4", 5-6 "6", - "7", 8-9 "10", - "10"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, _ := newItems(t, 1, &Options{Manners: test.manners})
			for _, id := range []string{"a", "b", "gone", "c", "d", "gone", "e", "f"} { // from LSN 2 on
				c.upsert(doc(id, "k"), "k")
			}
			c.expect("204", "DELETE", items+"/gone", "", pk("k")...) // LSN 10
			got, etag := "", ""
			for status := 200; status == 200; {
				h := with(feedHeader, "x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-max-item-count", "2")
				if etag != "" {
					h = with(h, "If-None-Match", etag)
				}
				a := c.send("GET", items, "", h...)
				status, etag = a.status, a.header.Get("etag")
				first, last := "", ""
				if status == 200 && len(a.documents(t)) > 0 {
					documents := a.documents(t)
					first, last = fmt.Sprint(documents[0]["_lsn"]), fmt.Sprint(documents[len(documents)-1]["_lsn"])
				}
				if got != "" {
					got += ", "
				}
				got += first + "-" + last + " " + etag
			}
			if got != test.want {
				t.Errorf("pages %s\nwant  %s", got, test.want)
			}
		})
	}
}

// Neighbours write to the data partition of an idle container: its etag passes their LSNs, or
// stays at its own, as the account's manners say.
func TestETagPassesNeighbours(t *testing.T) {
	for own, want := range map[bool]string{false: `"7"`, true: `"2"`} {
		c, a := newItems(t, 1, &Options{Manners: Manners{OwnLSNs: own}})
		c.create("a", "k")
		a.databases["db"].containers["c"].Partitions[0].lsn += 5
		first := c.feed("200", rangeID("0")...)
		idle := c.feed("304", with(rangeID("0"), "If-None-Match", first.header.Get("etag"))...)
		if got := first.header.Get("etag"); got != want || idle.header.Get("etag") != want {
			t.Errorf("own %v: etags %s and %s, want %s", own, got, idle.header.Get("etag"), want)
		}
	}
}

// A range that has not reached the etag of a request has nothing new, and says where it is.
func TestETagOfTheFuture(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	end := c.create("a", "k").header.Get("lsn")
	idle := c.feed("304", with(rangeID("0"), "If-None-Match", `"999"`)...)
	if got := idle.header.Get("etag"); got != `"`+end+`"` {
		t.Errorf("etag %s, want that of LSN %s", got, end)
	}
}

func TestCommittedLSNIsHidden(t *testing.T) {
	for hides, want := range map[bool]string{false: "2", true: ""} {
		c, _ := newItems(t, 1, &Options{Manners: Manners{HideCommitted: hides}})
		c.create("a", "k")
		if got := c.feed("200", rangeID("0")...).header.Get("x-ms-global-committed-lsn"); got != want {
			t.Errorf("hidden %v: %q, want %q", hides, got, want)
		}
	}
}
