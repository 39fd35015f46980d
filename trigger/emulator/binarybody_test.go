package emulator

import (
	"fmt"
	"strings"
	"testing"
)

// binaryText is {"id":id,"pk":"k","type":"a"} in binary JSON, as the SDK for Rust sends it.
func binaryText(id string) string {
	members := fmt.Sprintf("\x2C%s%s\x82pk\x81k\x3B\x81a", string([]byte{0x80 + byte(len(id))}), id)
	return "\x80\xEA" + string([]byte{byte(len(members))}) + members
}

// TestBinaryBodies: the SDK for Rust writes in binary JSON unless it is told otherwise, and
// reads text.
func TestBinaryBodies(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	const text = `{"id":"a","pk":"k","type":"a"`
	upsert := with(pk("k"), "x-ms-documentdb-is-upsert", "True")
	for _, a := range []answer{
		c.expect("201", "POST", items, binaryText("a"), pk("k")...),
		c.expect("200", "POST", items, binaryText("a"), upsert...),
		c.expect("200", "PUT", items+"/a", binaryText("a"), pk("k")...),
		c.expect("200", "GET", items+"/a", "", pk("k")...),
	} {
		if !strings.HasPrefix(a.body, text) {
			t.Errorf("the document is %s", a.body)
		}
	}
	c.expect("409", "POST", items, binaryText("a"), pk("k")...)
	c.expect("400/1001", "POST", items, binaryText("b"), pk("other")...)
	if a := c.expect("400", "POST", items, binaryText("b")+"\x00", pk("k")...); !strings.Contains(a.body, "binary form of JSON: 1 bytes follow") {
		t.Errorf("the refusal is %s", a.body)
	}
	long := "\x80\xC2\x00\x00\x10\x00" + strings.Repeat("\x01", 1<<20) // 6 MB of \u0001
	c.expect("413", "POST", items, long, pk("k")...)
}
