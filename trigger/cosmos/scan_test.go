package cosmos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestScanDocuments(t *testing.T) {
	for name, test := range map[string]struct {
		body string
		want []Item
	}{
		"empty":            {`{"_rid":"r","Documents":[],"_count":0}`, nil},
		"one":              {`{"_rid":"r","Documents":[{"id":"a","_ts":7,"_lsn":3}],"_count":1}`, []Item{{Document: json.RawMessage(`{"id":"a","_ts":7,"_lsn":3}`), LSN: 3, Timestamp: 7}}},
		"count first":      {`{"_count":1,"Documents":[{"_lsn":3}]}`, []Item{{Document: json.RawMessage(`{"_lsn":3}`), LSN: 3, Timestamp: 0}}},
		"no count":         {`{"Documents":[{},{}]}`, []Item{{Document: json.RawMessage(`{}`)}, {Document: json.RawMessage(`{}`)}}},
		"white space":      {" {\n\"Documents\" :\t[ { \"_lsn\" : 3 } ,\r{ } ] , \"_count\" : 2 } \n", []Item{{Document: json.RawMessage(`{ "_lsn" : 3 }`), LSN: 3, Timestamp: 0}, {Document: json.RawMessage(`{ }`)}}},
		"nested lsn":       {`{"Documents":[{"a":{"_lsn":9,"_ts":9},"b":[{"_lsn":8}],"_ts":1}]}`, []Item{{Document: json.RawMessage(`{"a":{"_lsn":9,"_ts":9},"b":[{"_lsn":8}],"_ts":1}`), LSN: 0, Timestamp: 1}}},
		"lsn as value":     {`{"Documents":[{"a":"_lsn","_ts":"_lsn"}]}`, []Item{{Document: json.RawMessage(`{"a":"_lsn","_ts":"_lsn"}`)}}},
		"escaped name":     {`{"Documents":[{"\u005flsn":3,"_\u0074s":4}]}`, []Item{{Document: json.RawMessage(`{"\u005flsn":3,"_\u0074s":4}`), LSN: 3, Timestamp: 4}}},
		"escaped envelope": {`{"\u0044ocuments":[{"_lsn":3}]}`, []Item{{Document: json.RawMessage(`{"_lsn":3}`), LSN: 3, Timestamp: 0}}},
		"last name holds":  {`{"Documents":[{"_lsn":3,"_lsn":4}]}`, []Item{{Document: json.RawMessage(`{"_lsn":3,"_lsn":4}`), LSN: 4, Timestamp: 0}}},
		"quotes, brackets": {`{"Documents":[{"a":"\"}],{","b":"\\","c":"\\\"","_lsn":5}]}`, []Item{{Document: json.RawMessage(`{"a":"\"}],{","b":"\\","c":"\\\"","_lsn":5}`), LSN: 5, Timestamp: 0}}},
		"not integers":     {`{"Documents":[{"_lsn":3.5,"_ts":1e3},{"_lsn":null,"_ts":99999999999999999999}]}`, []Item{{Document: json.RawMessage(`{"_lsn":3.5,"_ts":1e3}`)}, {Document: json.RawMessage(`{"_lsn":null,"_ts":99999999999999999999}`)}}},
		"not objects":      {`{"Documents":[1,"x",null,[1,[2]],true]}`, []Item{{Document: json.RawMessage(`1`)}, {Document: json.RawMessage(`"x"`)}, {Document: json.RawMessage(`null`)}, {Document: json.RawMessage(`[1,[2]]`)}, {Document: json.RawMessage(`true`)}}},
		"other properties": {`{"x":{"Documents":[1]},"Documents":[],"y":[{"_count":5}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := scanDocuments([]byte(test.body), nil, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, exceptPlaces); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestScanDocumentsReadsTheDeepestThatTheServiceStores has documents of 128 levels,
// as objects and as arrays.
func TestScanDocumentsReadsTheDeepestThatTheServiceStores(t *testing.T) {
	const levels = 128
	objects := strings.Repeat(`{"v":`, levels-1) + "{}" + strings.Repeat("}", levels-1)
	arrays := `{"v":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	items, err := scanDocuments([]byte(`{"_rid":"r","Documents":[`+objects+`,`+arrays+`],"_count":2}`), nil, "")
	if err != nil || len(items) != 2 || string(items[0].Document) != objects || string(items[1].Document) != arrays {
		t.Errorf("%d documents, %v", len(items), err)
	}
}

func TestScanDocumentsRejectsInvalidPages(t *testing.T) {
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	for name, test := range map[string]struct{ body, want string }{
		"nothing":             {``, "truncated, at byte 0"},
		"HTML":                {`<html>sorry</html>`, "not JSON, at byte 0"},
		"array":               {`[]`, "not JSON, at byte 0"},
		"empty object":        {`{}`, "no Documents array"},
		"no documents":        {`{"_rid":"r","_count":0}`, "no Documents array"},
		"null documents":      {`{"Documents":null}`, "no Documents array"},
		"other case":          {`{"documents":[]}`, "no Documents array"},
		"two arrays":          {`{"Documents":[],"Documents":[]}`, "two Documents arrays"},
		"count too low":       {`{"Documents":[{},{}],"_count":1}`, "_count is 1 but it has 2"},
		"count too high":      {`{"_count":3,"Documents":[{},{}]}`, "_count is 3 but it has 2"},
		"count not a number":  {`{"Documents":[],"_count":"0"}`, "_count is not a number"},
		"count negative":      {`{"Documents":[],"_count":-1}`, "_count is not a number"},
		"truncated in text":   {`{"Documents":[{"a":"b`, "truncated, at byte 21"},
		"truncated in item":   {`{"Documents":[{"a":[1,2`, "truncated, at byte 23"},
		"truncated in scalar": {`{"Documents":[12`, "truncated, at byte 16"},
		"truncated in array":  {`{"Documents":[{}`, "truncated, at byte 16"},
		"truncated at end":    {`{"Documents":[{}]`, "truncated, at byte 17"},
		"trailing":            {`{"Documents":[]}{}`, "not JSON, at byte 16"},
		"trailing comma":      {`{"Documents":[{},]}`, "not JSON, at byte 17"},
		"missing comma":       {`{"Documents":[{}{}]}`, "not JSON, at byte 16"},
		"missing colon":       {`{"Documents" []}`, "not JSON, at byte 13"},
		"wrong bracket":       {`{"Documents":[{"a":[1}]}]}`, "not JSON, at byte 21"},
		"bad rid":             {`{"_rid":nul,"Documents":[]}`, "not JSON, at byte 11"},
		"bad name":            {"{\"a\x01\":1,\"Documents\":[]}", "not JSON, at byte 3"},
		"bad item":            {`{"Documents":[{"_lsn":1},{"a":tru,"_lsn":2},{"_lsn":3}],"_count":3}`, "not JSON, at byte 33"},
		"bad UTF-8":           {"{\"Documents\":[{\"a\":\"text \xff\"}]}", "not JSON, at byte 25"},
		"control character":   {"{\"Documents\":[{\"a\":\"a long text\n\"}]}", "not JSON, at byte 31"},
		"bad escape":          {`{"Documents":[{"a":"\x"}]}`, "not JSON, at byte 21"},
		"bad number":          {`{"Documents":[{"a":01}]}`, "not JSON, at byte 20"},
		"deep":                {`{"Documents":[` + deep + `]}`, "nests deeper than 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scanDocuments([]byte(test.body), nil, "")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// Every prefix of a page is an error: a truncated page is never accepted as a
// shorter one.
func TestScanDocumentsRejectsEveryPrefix(t *testing.T) {
	body := feedPage(3, 40)
	for n := range body {
		if _, err := scanDocuments(body[:n], nil, ""); err == nil {
			t.Fatalf("prefix of %d bytes was taken: %s", n, body[:n])
		}
	}
}

func TestScanDocumentsOfAnySize(t *testing.T) {
	for _, size := range []int{0, 2 << 20} {
		body := feedPage(20, size)
		items, err := scanDocuments(body, nil, "")
		if err != nil || len(items) != 20 {
			t.Fatalf("%d items, %v", len(items), err)
		}
		for i, item := range items {
			if item.LSN != int64(100+i) || item.Timestamp != int64(1700000000+i) || !json.Valid(item.Document) {
				t.Errorf("item %d: lsn %d, ts %d", i, item.LSN, item.Timestamp)
			}
		}
	}
}

// Appending to a document cannot overwrite its neighbour.
func TestScannedDocumentsHaveNoSpareCapacity(t *testing.T) {
	items, err := scanDocuments([]byte(`{"Documents":[{"a":1},{"b":2}]}`), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = append(items[0].Document, "overrun"...)
	if got := string(items[1].Document); got != `{"b":2}` {
		t.Errorf("neighbour became %s", got)
	}
}

func TestScanDocumentsDoesNotAllocate(t *testing.T) {
	body := feedPage(100, 1000)
	items := make([]Item, 0, 100)
	if n := testing.AllocsPerRun(100, func() { items, _ = scanDocuments(body, items[:0], "") }); n > 0 || len(items) != 100 {
		t.Errorf("%v allocations for %d documents", n, len(items))
	}
}

func TestProperty(t *testing.T) {
	for _, test := range []struct{ document, name, want string }{
		{`{"id":"a","ID":"b"}`, "id", `"a"`},
		{` { "a" : [1, {"id":2}] , "id" : 3 } `, "id", `3`},
		{`{"a":{"id":1}}`, "id", ``},
		{`{"id":1,"id":{"x":[]}}`, "id", `{"x":[]}`},
		{`{"\u0069d":"escaped"}`, "id", `"escaped"`},
		{`{"say \"id\"":1}`, `say "id"`, `1`},
		{"{\"\xff\":1}", "\ufffd", ``},
		{`{"id":null}`, "id", `null`},
		{`{"":0}`, "", `0`},
		{`{}`, "id", ``},
		{`[{"id":1}]`, "id", ``},
		{`"id"`, "id", ``},
		{``, "id", ``},
		{`{"id":1`, "id", `1`},
		{`{"id"}`, "id", ``},
		{`{"id":1,"\u0069d":2}`, "id", `2`},
		{`{"a/b":1,"a\/b":2}`, "a/b", `2`},
		{`{"a\tb":1}`, "a\tb", `1`},
	} {
		if got := string(Property([]byte(test.document), test.name)); got != test.want {
			t.Errorf("%q of %s is %s, want %s", test.name, test.document, got, test.want)
		}
	}
}

// Each part of a document begins once at each place of the marked blocks, and is damaged there.
func TestScanDocumentsAtEachPlace(t *testing.T) {
	for place := range 64*markedBlocks + 64 {
		document := fmt.Sprintf(`{"id":"a\"b","größe":"ü","n":-12345678901.5e3,"s" : "x","t": "y","a":["\\",true,{"k":null}],"long":"%*s\"","_ts":1700000000,"_lsn":7}`, place%80, "")
		body := fmt.Appendf(nil, `{"x":"%*s","Documents":[%s,%s],"_count":2}`, place, "", document, document)
		check := func(body []byte) {
			got, err := scanDocuments(body, nil, "")
			want, sound := decodeDocuments(body)
			if (err == nil) != sound {
				t.Fatalf("error %v at place %d, want one: %v, of %q", err, place, !sound, body)
			}
			if diff := cmp.Diff(want, got, exceptPlaces); sound && diff != "" {
				t.Fatal(diff)
			}
		}
		check(body)
		check(body[:place%len(body)])
		for _, damage := range []byte("\"\\\x1f\x80,:}") {
			damaged := bytes.Clone(body)
			damaged[len(damaged)-1-(place*7+int(damage))%len(document)] = damage
			check(damaged)
		}
	}
}

func FuzzScanDocuments(f *testing.F) {
	f.Add(feedPage(2, 30))
	f.Add([]byte(`{"_count":1,"Documents":[{"\u005flsn":3,"a":"\\\""}],"x":[{"y":null}]}`))
	f.Add([]byte(`{"Documents":[1,"x",[[]],{"a":tru}],"_count":4}`))
	f.Add([]byte(`{"Documents":[{"_lsn":1,"_lsn":-0,"_ts":1.5}]} `))
	f.Add([]byte(`{"Documents":[{"id":1,"\u0069d":{"id":2},"a\"b":[3],"x":{"id":4}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := scanDocuments(body, nil, "")
		want, sound := decodeDocuments(body)
		if (err == nil) != sound {
			t.Fatalf("error %v, want one: %v", err, !sound)
		}
		if diff := cmp.Diff(want, got, exceptPlaces); sound && diff != "" {
			t.Fatal(diff)
		}
		for _, name := range []string{"id", "_ts", `a"b`, ""} {
			keyed, _ := scanDocuments(body, nil, name)
			for _, item := range keyed {
				want := Property(item.Document, name)
				if name == "" { // none is asked for
					want = nil
				}
				if got := item.KeyPlace.In(item.Document); string(got) != string(want) {
					t.Fatalf("%q of %s is %s, want %s", name, item.Document, got, want)
				}
				if got, want := item.IDPlace.In(item.Document), Property(item.Document, "id"); string(got) != string(want) {
					t.Fatalf("the id of %s is %s, want %s", item.Document, got, want)
				}
			}
		}
	})
}

// exceptPlaces compares items without the places of their ids, which a fuzz test compares with
// [Property].
var exceptPlaces = cmpopts.IgnoreFields(Item{}, "IDPlace")

// decodeDocuments is scanDocuments implemented with encoding/json.
func decodeDocuments(body []byte) (items []Item, sound bool) {
	var page map[string]json.RawMessage
	var raw []json.RawMessage
	if !utf8.Valid(body) || json.Unmarshal(body, &page) != nil || page == nil || arrays(body) != 1 {
		return nil, false
	}
	if json.Unmarshal(page["Documents"], &raw) != nil || raw == nil {
		return nil, false
	}
	if count, ok := page["_count"]; ok {
		if n, err := strconv.Atoi(string(count)); err != nil || n != len(raw) {
			return nil, false
		}
	}
	for _, doc := range raw {
		var properties map[string]json.RawMessage
		item := Item{Document: doc}
		if json.Unmarshal(doc, &properties) == nil {
			item.LSN, _ = strconv.ParseInt(string(properties["_lsn"]), 10, 64)
			item.Timestamp, _ = strconv.ParseInt(string(properties["_ts"]), 10, 64)
		}
		items = append(items, item)
	}
	return items, true
}

// arrays counts the properties with the name Documents.
func arrays(body []byte) (n int) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.Token()
	for d.More() {
		if name, _ := d.Token(); name == "Documents" {
			n++
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			break
		}
	}
	return n
}

// feedPage returns a page of n documents in the format of the service, with
// size bytes of user data each.
func feedPage(n, size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"_rid":"Sl8fALN4sw4=","Documents":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":"score-%d","player":"player %d","game":"chess","score":%d,"tags":["a","b"],"at":{"x":1.5,"y":-2},"text":%q,`+
			`"_rid":"Sl8fALN4sw4CAAAAAAAAAA==","_self":"dbs/Sl8fAA==/colls/Sl8fALN4sw4=/docs/Sl8fALN4sw4CAAAAAAAAAA==/","_etag":"\"ec0e06fe-0000-0700-0000-5e4d9f6c0000\"",`+
			`"_attachments":"attachments/","_ts":%d,"_lsn":%d}`, i, i%17, i*31, strings.Repeat("text ", size/5), 1700000000+i, 100+i)
	}
	fmt.Fprintf(&b, `],"_count":%d}`, n)
	return b.Bytes()
}

// BenchmarkPage compares scanning a page, decoding it into raw messages, and
// copying the body, which is the lower bound.
func BenchmarkPage(b *testing.B) {
	for _, size := range []int{0, 1000} {
		body := feedPage(100, size)
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%dB/%s", len(body)/100, name), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					f()
				}
			})
		}
		var items []Item
		run("cut", func() {
			items, _ = scanDocuments(body, items[:0], "")
			if len(items) != 100 {
				b.Fatal(len(items))
			}
		})
		run("decode", func() {
			var page struct{ Documents []json.RawMessage }
			if err := json.NewDecoder(bytes.NewReader(body)).Decode(&page); err != nil || len(page.Documents) != 100 {
				b.Fatal(err)
			}
		})
		buffer := make([]byte, len(body))
		run("copy", func() {
			if _, err := io.ReadFull(bytes.NewReader(body), buffer); err != nil {
				b.Fatal(err)
			}
		})
	}
}
