package feed

import (
	"encoding/json"
	"testing"

	"halley/trigger/cosmos"
)

func TestPartitionKey(t *testing.T) {
	tests := []struct {
		doc   string
		paths []string
		want  string
	}{
		{`{"pk":"a"}`, []string{"/pk"}, `["a"]`},
		{`{"pk":"\u0061"}`, []string{"/pk"}, `["a"]`},
		{`{"pk":1.0}`, []string{"/pk"}, `[1]`},
		{`{"pk":null}`, []string{"/pk"}, `[null]`},
		{`{}`, []string{"/pk"}, `[{}]`},
		{`{"a":{"b c":true}}`, []string{`/a/"b c"`}, `[true]`},
		{`{"t":"x","u":2}`, []string{"/t", "/u"}, `["x",2]`},
		{`{"a":5}`, []string{"/a/b"}, `[{}]`},
		{`{"a":{"b":5}}`, []string{"/a"}, `[{}]`},
		{`{"a":[1]}`, []string{"/a"}, `[{}]`},
		{`{"t":-0.0,"u":-0}`, []string{"/t", "/u"}, `[0,0]`},
	}
	for _, test := range tests {
		if got := documentKey(json.RawMessage(test.doc), test.paths); got != test.want {
			t.Errorf("%s %v: %s, want %s", test.doc, test.paths, got, test.want)
		}
	}
}

// Numbers that are one double are one key, in the document and in the metadata of a delete.
func TestEqualNumbersAreOneKey(t *testing.T) {
	for _, spellings := range [][]string{
		{`0`, `-0`, `0.0`, `-0.0`, `0e5`, `-0e-5`, `1e-400`, `-1e-400`},
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1E1`},
		{`-1`, `-1.0`, `-10e-1`},
		{`100`, `1e2`, `1E+2`, `100.00`},
		{`9007199254740992`, `9007199254740993`, `9007199254740992.0`},
		{`18446744073709551615`, `18446744073709551616`, `1.8446744073709552e+019`},
		{`0.1`, `1e-1`, `0.1000000000000000055`},
	} {
		paths := []string{"/pk"}
		orders, keys := map[uint64]bool{}, map[string]bool{}
		for _, spelling := range spellings {
			document := []byte(`{"id":"a","pk":` + spelling + `}`)
			for _, item := range []cosmos.Item{
				{Document: document},
				{Document: document, KeyPlace: placeOf(document, []byte(spelling))},
				{ID: "a", PartitionKey: []byte(`[` + spelling + `]`)},
				{ID: "a", PartitionKey: []byte(`{"pk":` + spelling + `}`)},
			} {
				c := Change{Item: item}
				orders[c.OrderKey(paths, false)] = true
				keys[PartitionKey(item, paths)] = true
			}
		}
		if len(orders) != 1 || len(keys) != 1 {
			t.Errorf("%v: %d orders, keys %v", spellings, len(orders), keys)
		}
	}
}
