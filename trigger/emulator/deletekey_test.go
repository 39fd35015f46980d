package emulator

import (
	"encoding/base64"
	"net/url"
	"slices"
	"testing"
)

const deletion = "/dbs/db/colls/c/operations/partitionkeydelete"

func TestDeleteAllItemsOfAKey(t *testing.T) {
	opts := &Options{Data: t.TempDir()}
	c, a := newItems(t, 2, opts)
	c.expect("200", "PUT", "/dbs/db/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"changeFeedPolicy":{"retentionDuration":10}}`)
	for _, id := range []string{"1", "2", "3"} {
		c.create(id, "gone")
		c.create(id, "stays")
	}
	c.create("other", "elsewhere")
	c.expect("200", "POST", deletion, "", pk("gone")...)
	c.expect("200", "POST", deletion, "", pk("nothing here")...)
	deletes := 0
	for _, r := range c.ranges() {
		feed := c.send("GET", items, "", append(rangeID(r.ID), "A-IM", allVersions, "x-ms-cosmos-changefeed-wire-format-version", wireFormat, "If-None-Match", `"1"`)...)
		for _, d := range feed.documents(t) {
			if d["metadata"].(map[string]any)["operationType"] == "delete" {
				deletes++
			}
		}
	}
	if deletes != 3 {
		t.Errorf("the log has %d deletes, want 3", deletes)
	}
	for range 2 {
		c.expect("404/", "GET", items+"/1", "", pk("gone")...)
		got := ofValues(c.query(ask("SELECT VALUE CONCAT(c.pk, '/', c.id) FROM c")))
		if slices.Sort(got); !slices.Equal(got, []string{"elsewhere/other", "stays/1", "stays/2", "stays/3"}) {
			t.Errorf("what is left: %v", got)
		}
		c, a = reopen(t, a, opts)
	}
	c.create("1", "gone")
}

func TestDeleteAllItemsNeedsAKey(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	req := c.request("POST", deletion, "", pk("k"))
	for kind, want := range map[string]int{"partitionkey": 200, "colls": 200, "docs": 401} {
		sig := sign("POST", kind, "dbs/db/colls/c", req.Header.Get("x-ms-date"))
		req.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+base64.StdEncoding.EncodeToString(sig)))
		resp, err := c.do(req)
		if err != nil || resp.StatusCode != want {
			t.Errorf("signed as %s: %v, %v", kind, resp, err)
		}
		resp.Body.Close()
	}
	c.expect("400", "POST", deletion, "")
	c.expect("405", "GET", deletion, "", pk("k")...)
	c.expect("405", "POST", "/dbs/db/colls/c/operations/others", "", pk("k")...)
	c.expect("404/", "POST", "/dbs/db/colls/none/operations/partitionkeydelete", "", pk("k")...)
}
