package feed

import (
	"encoding/json"
	"testing"
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
	}
	for _, test := range tests {
		if got := documentKey(json.RawMessage(test.doc), test.paths); got != test.want {
			t.Errorf("%s %v: %s, want %s", test.doc, test.paths, got, test.want)
		}
	}
}
