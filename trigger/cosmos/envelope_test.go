package cosmos

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodeEnvelopes(t *testing.T) {
	tests := []struct {
		name string
		item string
		want Item
	}{
		{
			"create", `{"current":{"id":"a"},"metadata":{"operationType":"create","lsn":7,"crts":100}}`,
			Item{Document: json.RawMessage(`{"id":"a"}`), LSN: 7, Timestamp: 100, Operation: OperationCreate},
		},
		{
			"replace", `{"metadata":{"operationType":"replace","lsn":8,"crts":101,"previousImageLSN":7,"new":1},"current":{"id":"a"},"previous":{"id":"a","n":1}}`,
			Item{
				Document: json.RawMessage(`{"id":"a"}`), Previous: json.RawMessage(`{"id":"a","n":1}`), LSN: 8, Timestamp: 101,
				Operation: OperationReplace, PreviousLSN: 7,
			},
		},
		{
			"delete with empty current", `{"current":{},"metadata":{"operationType":"delete","lsn":9,"crts":102,"id":"a","partitionKey":{"pk":"x"}}}`,
			Item{LSN: 9, Timestamp: 102, Operation: OperationDelete, ID: "a", PartitionKey: json.RawMessage(`{"pk":"x"}`)},
		},
		{
			"expired", `{"previous":null,"metadata":{"operationType":"delete","lsn":9,"crts":102,"timeToLiveExpired":true}}`,
			Item{LSN: 9, Timestamp: 102, Operation: OperationExpire},
		},
		{
			"bare document", `{"id":"a","_lsn":3}`,
			Item{Document: json.RawMessage(`{"id":"a","_lsn":3}`), LSN: 3},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			items, err := scanDocuments([]byte(`{"Documents":[`+test.item+`],"_count":1}`), nil, "")
			if err == nil {
				_, err = decodeEnvelopes(items)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, items[0], exceptPlaces); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeEnvelopesRejectsInvalidItems(t *testing.T) {
	for item, want := range map[string]string{
		`{"metadata":{"operationType":"create","lsn":1}}`: "without current",
		`{"metadata":{"operationType":"create","id":7}}`:  "not a change",
	} {
		_, err := decodeEnvelopes([]Item{{Document: json.RawMessage(item)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", item, err)
		}
	}
}

// Forms of other captures and of the documentation.
func TestDecodeEnvelopesTakesOtherForms(t *testing.T) {
	image := json.RawMessage(`{"id":"a","pk":"x"}`)
	for name, test := range map[string]struct {
		item    string
		want    Item
		unknown string
	}{
		"no operation": {
			`{"current":{"id":"a","pk":"x"},"metadata":{"lsn":7,"crts":100}}`,
			Item{Document: image, LSN: 7, Timestamp: 100, Operation: OperationUpsert}, "change without operationType",
		},
		"changeType, and times as text": {
			`{"current":{"id":"a","pk":"x"},"metadata":{"lsn":"7","crts":"100","changeType":"replace","previousImageLSN":"6"}}`,
			Item{Document: image, LSN: 7, Timestamp: 100, Operation: OperationReplace, PreviousLSN: 6}, "",
		},
		"delete with a minimal image": {
			`{"current":{"id":"a","pk":"x"},"metadata":{"operationType":"delete","lsn":7,"crts":100,"previousImageLSN":6}}`,
			Item{LSN: 7, Timestamp: 100, Operation: OperationDelete, ID: "a", PartitionKey: image, PreviousLSN: 6}, "",
		},
		"no operation and no image": {
			`{"current":{},"metadata":{"lsn":7,"crts":100,"id":"a"}}`,
			Item{LSN: 7, Timestamp: 100, Operation: OperationDelete, ID: "a"}, "change without operationType",
		},
		"unknown operation": {
			`{"current":{"id":"a","pk":"x"},"metadata":{"operationType":"rename","lsn":7,"crts":100}}`,
			Item{Document: image, LSN: 7, Timestamp: 100, Operation: OperationUpsert}, `operation "rename"`,
		},
		"unknown operation without an image": {
			`{"metadata":{"operationType":7,"lsn":7,"crts":1.5,"id":"a"}}`,
			Item{LSN: 7, Operation: OperationUnknown, ID: "a"}, `operation "7"`,
		},
		"bare document with metadata of its own": {
			`{"id":"a","metadata":{"operationType":"delete"},"_lsn":3}`,
			Item{Document: json.RawMessage(`{"id":"a","metadata":{"operationType":"delete"},"_lsn":3}`), LSN: 3}, "document without metadata",
		},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := scanDocuments([]byte(`{"Documents":[`+test.item+`],"_count":1}`), nil, "")
			if err != nil {
				t.Fatal(err)
			}
			unknown, err := decodeEnvelopes(items)
			if diff := cmp.Diff(test.want, items[0], exceptPlaces); diff != "" || unknown != test.unknown || err != nil {
				t.Error(diff, unknown, err)
			}
		})
	}
}
