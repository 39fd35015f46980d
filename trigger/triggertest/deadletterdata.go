package triggertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// largeDocument returns 2 MB that do not compress well.
func largeDocument() []byte {
	b := []byte(`{"id":"large","text":"`)
	for i := uint32(1); len(b) < 2<<20-2; i = i*1664525 + 1013904223 {
		b = append(b, ' '+byte(i>>24)%90)
	}
	return append(bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(`\`), []byte("-")), []byte(`"`), []byte("'")), `"}`...)
}

// testDocuments tests that documents come back byte for byte.
func (s letterStore) testDocuments(t *testing.T) {
	for i, document := range []string{
		`{"id":"plain"}`,
		"{ \"spaces\" :\t1 ,\r\n\"number\": 1.00e+2, \"big\": 123456789012345678901234567890 }",
		`{"twice":1,"twice":2,"escaped":"\u003c\u0000\ud800 \/","html":"<&>"}`,
		"{\"separators\":\"\u2028\u2029\"}",
		"not JSON\x00at all\n\nL 00000001 00000000 \x7f",
		"\xff\xfe{\"id\":\"\xc3\x28\"}",
		"",
		strings.Repeat("\x01", 400_000),
		string(largeDocument()),
		string(append([]byte{0xff}, largeDocument()[1:]...)),
		`{"zeros":"` + strings.Repeat("0", 2<<20-12) + `"}`,
	} {
		d := sampleLetter("documents", fmt.Sprint("document ", i))
		d.Document = []byte(document)
		s.put(t, d)
		s.put(t, d)
		got := s.reopened(t).found(t, deadOf("documents"))
		if len(got) != 1 || string(got[0].Document) != document {
			t.Fatalf("document %d did not come back as it was (%d letters)", i, len(got))
		}
		mustLetter(t, s.Delete(t.Context(), got[0]))
		got[0].Document, d.Document = nil, nil // cmp takes seconds for them
		sameLetters(t, got[0], d)
		sameLetters(t, len(s.found(t, deadOf("documents"))), 0)
	}
	d := sampleLetter("documents", "text that is not UTF-8")
	d.Error = "bad \xff byte"
	s.put(t, d)
	got := s.found(t, deadOf("documents"))
	if len(got) == 1 {
		got[0].Error = strings.ToValidUTF8(got[0].Error, "\ufffd") // a store may replace it
	}
	d.Error = "bad \ufffd byte"
	sameLetters(t, got, []trigger.DeadLetter{d})
}

// testImages tests changes of all-versions mode. A missing image differs
// from an empty one.
func (s letterStore) testImages(t *testing.T) {
	old := largeDocument()
	for i, d := range []trigger.DeadLetter{
		{Operation: cosmos.OperationReplace, Document: json.RawMessage(`{"v":2}`), Previous: json.RawMessage(`{"v": 1}`)},
		{Operation: cosmos.OperationDelete, Previous: json.RawMessage("{\"v\":\"\xff\"}"), DocumentKey: json.RawMessage(`["k" ]`)},
		{Operation: cosmos.OperationExpire, DocumentKey: json.RawMessage("[\"\xfe\"]")},
		{Operation: cosmos.OperationDelete},
		{Operation: cosmos.OperationCreate, Document: json.RawMessage{}, Previous: json.RawMessage{}, DocumentKey: json.RawMessage{}},
		{Operation: cosmos.OperationReplace, Document: old, Previous: old[1:]},
	} {
		want := sampleLetter("images", fmt.Sprint(i))
		want.Operation, want.Document, want.Previous, want.DocumentKey = d.Operation, d.Document, d.Previous, d.DocumentKey
		s.put(t, want)
		all := s.found(t, deadOf("images"))
		mustLetter(t, s.Delete(t.Context(), want))
		if len(all) != 1 {
			t.Fatalf("%d letters", len(all))
		}
		for name, image := range map[string][2]*json.RawMessage{
			"document": {&all[0].Document, &want.Document}, "previous": {&all[0].Previous, &want.Previous}, "key": {&all[0].DocumentKey, &want.DocumentKey},
		} {
			if !bytes.Equal(*image[0], *image[1]) || (*image[0] == nil) != (*image[1] == nil) {
				t.Errorf("letter %d: the %s did not come back as it was", i, name)
			}
			*image[0], *image[1] = nil, nil
		}
		sameLetters(t, all[0], want)
	}
	sameLetters(t, len(s.found(t, deadOf("images"))), 0)
}
