package apps

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"halley/trigger"
	"halley/trigger/cosmos"
)

func unmarshalV2(document []byte, v any) error { return jsonv2.Unmarshal(document, v) }

// typedOrder is the document of these tests.
type typedOrder struct {
	ID    string  `json:"id"`
	Total float64 `json:"total"`
	Sizes [2]int  `json:"sizes"`
}

// decodedWith calls a typed handler with one document, and returns the document as it
// got it.
func decodedWith(t *testing.T, unmarshal func([]byte, any) error, document string) (got typedOrder, err error) {
	handler := trigger.DocumentsWith(unmarshal, func(_ context.Context, docs []typedOrder) error {
		got = docs[0]
		return nil
	})
	err = handler(t.Context(), trigger.NewBatch(trigger.Change{Operation: cosmos.OperationUpsert, Document: []byte(document), LSN: 7}))
	return got, err
}

// TestStrictnessOfTheFasterDecoder holds the differences that DocumentsWith states.
func TestStrictnessOfTheFasterDecoder(t *testing.T) {
	for name, document := range map[string]string{
		"a name twice":      `{"id":"a","id":"b"}`,
		"elements too few":  `{"id":"a","sizes":[1]}`,
		"elements too many": `{"id":"a","sizes":[1,2,3]}`,
		"not JSON":          `{"id":`,
		"text for a number": `{"total":"x"}`,
		"number for a text": `{"id":1}`,
	} {
		if _, err := decodedWith(t, unmarshalV2, document); err == nil || !strings.Contains(err.Error(), "decode document at lsn 7") {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := decodedWith(t, unmarshalV2, `{"ID":"a","Total":2}`)
	if err != nil || other != (typedOrder{}) {
		t.Errorf("names in another case: %+v, %v", other, err)
	}
	if same, err := decodedWith(t, json.Unmarshal, `{"ID":"a","Total":2}`); err != nil || same.ID != "a" {
		t.Errorf("encoding/json: %+v, %v", same, err)
	}
}
