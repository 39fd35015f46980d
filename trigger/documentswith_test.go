package trigger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// knownFields decodes documents that have no field besides those of the type.
func knownFields(document []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	return decoder.Decode(v)
}

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

func TestDocumentsWithAnotherDecoder(t *testing.T) {
	const document = `{"id":"a","total":1.5,"sizes":[1,2],"_ts":1}`
	if got, err := decodedWith(t, json.Unmarshal, document); err != nil || got.Total != 1.5 {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := decodedWith(t, knownFields, strings.Replace(document, `,"_ts":1`, "", 1)); err != nil || got.Total != 1.5 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := decodedWith(t, knownFields, document); err == nil || !strings.Contains(err.Error(), "decode document at lsn 7") {
		t.Errorf("a field that the decoder refuses: %v", err)
	}
}

func ExampleDocumentsWith() {
	handler := trigger.DocumentsWith(knownFields,
		func(_ context.Context, orders []typedOrder) error {
			fmt.Println(orders[0].Total)
			return nil
		})
	_ = handler(context.Background(), trigger.NewBatch(trigger.Change{Document: []byte(`{"id":"a","total":1.5}`)}))
	// Output: 1.5
}
