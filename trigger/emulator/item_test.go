package emulator

import (
	"strings"
	"testing"
)

func TestItemStatus(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	stored := c.create("a", "k")
	tag := stored.header.Get("Etag")
	upsert := []string{"x-ms-documentdb-is-upsert", "true"}
	big := `{"id":"big","pk":"k","v":"` + strings.Repeat("x", maxDocument) + `"}`
	for _, tt := range []struct {
		name, want, method, path, body string
		header                         []string
	}{
		{"create", "201", "POST", items, doc("b", "k"), pk("k")},
		{"create again", "409", "POST", items, doc("b", "k"), pk("k")},
		{"same id in another partition", "201", "POST", items, doc("b", "other"), pk("other")},
		{"create with the wrong key", "400/1001", "POST", items, doc("c", "k"), pk("other")},
		{"create without a key", "400", "POST", items, doc("c", "k"), nil},
		{"key that is no array", "400", "POST", items, doc("c", "k"), []string{"x-ms-documentdb-partitionkey", "k"}},
		{"key with too many components", "400", "POST", items, doc("c", "k"), []string{"x-ms-documentdb-partitionkey", `["k","l"]`}},
		{"no id", "400", "POST", items, `{"pk":"k"}`, pk("k")},
		{"id that is a number", "400", "POST", items, `{"id":1,"pk":"k"}`, pk("k")},
		{"id too long", "400", "POST", items, doc(strings.Repeat("i", 1024), "k"), pk("k")},
		{"not an object", "400", "POST", items, `[]`, pk("k")},
		{"not JSON", "400", "POST", items, `{"id":`, pk("k")},
		{"not UTF-8", "400", "POST", items, "{\"id\":\"x\",\"pk\":\"k\",\"v\":\"\xff\"}", pk("k")},
		{"ttl of zero", "400", "POST", items, `{"id":"x","pk":"k","ttl":0}`, pk("k")},
		{"too large", "413", "POST", items, big, pk("k")},
		{"far too large", "413", "POST", items, big + big, pk("k")},
		{"undefined key", "201", "POST", items, `{"id":"u"}`, []string{"x-ms-documentdb-partitionkey", "[{}]"}},
		{"read undefined key", "200", "GET", items + "/u", "", []string{"x-ms-documentdb-partitionkey", "[{}]"}},
		{"upsert anew", "201", "POST", items, doc("d", "k"), with(pk("k"), upsert...)},
		{"upsert again", "200", "POST", items, doc("d", "k"), with(pk("k"), upsert...)},
		{"upsert with a stale etag", "412", "POST", items, doc("d", "k"), with(pk("k"), append(upsert, "If-Match", tag)...)},
		{"read", "200", "GET", items + "/a", "", pk("k")},
		{"read with a trailing slash", "200", "GET", items + "/a/", "", pk("k")},
		{"read what is unchanged", "304", "GET", items + "/a", "", with(pk("k"), "If-None-Match", tag)},
		{"read what changed", "200", "GET", items + "/a", "", with(pk("k"), "If-None-Match", `"x"`)},
		{"read missing", "404/", "GET", items + "/nothing", "", pk("k")},
		{"read in the wrong partition", "404/", "GET", items + "/a", "", pk("other")},
		{"read in a missing container", "404/", "GET", "/dbs/db/colls/none/docs/a", "", pk("k")},
		{"read in a missing database", "404/", "GET", "/dbs/none/colls/c/docs/a", "", pk("k")},
		{"replace missing", "404/", "PUT", items + "/nothing", doc("nothing", "k"), pk("k")},
		{"replace with a stale etag", "412", "PUT", items + "/a", doc("a", "k"), with(pk("k"), "If-Match", `"stale"`)},
		{"replace under another id", "400", "PUT", items + "/a", doc("z", "k"), pk("k")},
		{"replace under another key", "400/1001", "PUT", items + "/a", doc("a", "z"), pk("k")},
		{"replace", "200", "PUT", items + "/a", doc("a", "k"), with(pk("k"), "If-Match", tag)},
		{"delete with a stale etag", "412", "DELETE", items + "/a", "", with(pk("k"), "If-Match", tag)},
		{"delete any", "204", "DELETE", items + "/a", "", with(pk("k"), "If-Match", "*")},
		{"delete again", "404/", "DELETE", items + "/a", "", pk("k")},
		{"unknown method", "405", "PUT", items, doc("a", "k"), pk("k")},
		{"unknown resource", "400", "GET", "/dbs/db/colls/c/others/x", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			a := c.expect(tt.want, tt.method, tt.path, tt.body, tt.header...)
			if a.status >= 400 && (a.decode(t)["code"] == "" || a.decode(t)["message"] == "") {
				t.Errorf("error body %q lacks code or message", a.body)
			}
			if (a.header.Get("x-ms-request-charge") == "") != (a.header.Get("lsn") == "") || a.header.Get("x-ms-activity-id") == "" || a.header.Get("Date") == "" {
				t.Errorf("headers %v lack activity id or date, or have charge or LSN alone", a.header)
			}
		})
	}
}

// TestDocumentKeepsItsText apart from its numbers, see [TestNumbersOfDocuments].
func TestDocumentKeepsItsText(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	sent := `{ "z": 1.0, "id": "a", "n": 12345678901234567890, "e": 1E2, "pk": "k", "_etag": "mine", "\u0061b": [1, {"_ts": 5}], "s": "a\"}{, b" }`
	kept := `{"z":1,"id":"a","n":12345678901234567890,"e":100,"pk":"k","\u0061b":[1,{"_ts":5}],"s":"a\"}{, b","_rid":"`
	if a := c.expect("201", "POST", items, sent, pk("k")...); !strings.HasPrefix(a.body, kept) {
		t.Errorf("stored %s, want it to begin %s", a.body, kept)
	}
}

func TestSystemProperties(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	a := c.create("a", "k")
	d := a.decode(t)
	rid := d["_rid"].(string)
	if n := len(decodeRID(rid)); n != 16 {
		t.Errorf("_rid %q has %d bytes, want 16", rid, n)
	}
	container := c.expect("200", "GET", "/dbs/db/colls/c", "").decode(t)
	if want := container["_self"].(string) + "docs/" + rid + "/"; d["_self"] != want {
		t.Errorf("_self is %q, want %q", d["_self"], want)
	}
	if d["_etag"] != a.header.Get("etag") || d["_attachments"] != "attachments/" || d["_ts"].(float64) == 0 {
		t.Errorf("system properties %v do not agree with etag %s", d, a.header.Get("etag"))
	}
	if _, ok := d["_lsn"]; ok {
		t.Error("_lsn is shown outside the feed")
	}
	replaced := c.expect("200", "PUT", items+"/a", a.body, pk("k")...).decode(t)
	if replaced["_rid"] != rid || replaced["_etag"] == d["_etag"] {
		t.Errorf("a replace made _rid %v of %v and _etag %v of %v", replaced["_rid"], rid, replaced["_etag"], d["_etag"])
	}
}

func TestPreferMinimal(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	h := with(pk("k"), "Prefer", "return=minimal")
	for _, a := range []answer{
		c.expect("201", "POST", items, doc("a", "k"), h...),
		c.expect("200", "PUT", items+"/a", doc("a", "k"), h...),
	} {
		if a.body != "" || a.header.Get("etag") == "" {
			t.Errorf("minimal answer has body %q and etag %q", a.body, a.header.Get("etag"))
		}
	}
	if a := c.expect("200", "GET", items+"/a", "", h...); a.body == "" {
		t.Error("a read has no body")
	}
}

func TestAddressingByResourceID(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	rid := c.create("a", "k").decode(t)["_self"].(string)
	if a := c.expect("200", "GET", "/"+rid, "", pk("k")...); a.decode(t)["id"] != "a" {
		t.Errorf("read by resource id gave %s", a.body)
	}
	c.expect("201", "POST", "/"+rid[:strings.Index(rid, "docs/")+5], doc("b", "k"), pk("k")...)
	c.expect("204", "DELETE", "/"+rid, "", pk("k")...)
}

func TestIDsNeedEscaping(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for id, path := range map[string]string{
		"a b":     "a%20b",
		"ü/x":     "%C3%BC%2Fx",
		"q?#%":    "q%3F%23%25",
		"p..0":    "p..0",
		"x.info=": "x.info=",
	} {
		c.create(id, "k")
		if a := c.expect("200", "GET", items+"/"+path, "", pk("k")...); a.decode(t)["id"] != id {
			t.Errorf("GET %s gave %s", path, a.body)
		}
	}
}
