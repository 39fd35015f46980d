package epk

import (
	"encoding/json"
	"testing"
)

// Version 1 is not written, as in recorded answers of a hosted account, October 2026.
func TestDefinitionIsWrittenWithoutVersion1(t *testing.T) {
	for raw, want := range map[string]string{
		`{"paths":["/pk"]}`:                           `{"paths":["/pk"],"kind":"Hash"}`,
		`{"paths":["/pk"],"kind":"Hash","version":1}`: `{"paths":["/pk"],"kind":"Hash"}`,
		`{"paths":["/pk"],"kind":"Hash","version":2}`: `{"paths":["/pk"],"kind":"Hash","version":2}`,
		`{"paths":["/a","/b"],"kind":"MultiHash"}`:    `{"paths":["/a","/b"],"kind":"MultiHash","version":2}`,
	} {
		d, err := ParseDefinition(json.RawMessage(raw))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(d); err != nil || string(text) != want {
			t.Errorf("%s is written as %s, %v", raw, text, err)
		}
	}
}
