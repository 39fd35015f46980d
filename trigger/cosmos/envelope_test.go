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
				err = decodeEnvelopes(items)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, items[0]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeEnvelopesRejectsInvalidItems(t *testing.T) {
	for item, want := range map[string]string{
		`{"metadata":{"operationType":"create","lsn":1}}`:              "without current",
		`{"current":{"id":"a"},"metadata":{"operationType":"rename"}}`: `unknown operation "rename"`,
		`{"metadata":{"operationType":7}}`:                             "not a change",
	} {
		err := decodeEnvelopes([]Item{{Document: json.RawMessage(item)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", item, err)
		}
	}
}
