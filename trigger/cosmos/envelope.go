package cosmos

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// envelope is an item of the all-versions feed: azure-cosmos-dotnet-v3
// ChangeFeedItem and ChangeFeedMetadata.
type envelope struct {
	ID       json.RawMessage `json:"id"` // of a bare document
	Current  json.RawMessage `json:"current"`
	Previous json.RawMessage `json:"previous"`
	Metadata json.RawMessage `json:"metadata"`
}

// changeMetadata is the metadata of an item. Documentation names the operation changeType,
// SDKs and captures operationType.
type changeMetadata struct {
	OperationType     json.RawMessage `json:"operationType"`
	ChangeType        json.RawMessage `json:"changeType"`
	LSN               looseInteger    `json:"lsn"`
	CRTS              looseInteger    `json:"crts"`
	PreviousImageLSN  looseInteger    `json:"previousImageLSN"`
	TimeToLiveExpired bool            `json:"timeToLiveExpired"`
	ID                string          `json:"id"`
	PartitionKey      json.RawMessage `json:"partitionKey"`
}

// looseInteger is a number, also as text. It is 0 for any other value.
type looseInteger int64

func (n *looseInteger) UnmarshalJSON(value []byte) error {
	*n = looseInteger(integer(bytes.Trim(value, `"`)))
	return nil
}

// operation returns the operation as the service names it, "" if it names none.
func (m *changeMetadata) operation() Operation {
	for _, value := range []json.RawMessage{m.OperationType, m.ChangeType} {
		var name string
		if json.Unmarshal(value, &name) == nil && name != "" {
			return Operation(strings.ToLower(name))
		}
		if len(value) > 0 && name == "" && string(value) != "null" && string(value) != `""` {
			return Operation(value)
		}
	}
	return ""
}

// decodeEnvelopes converts the items of the all-versions wire format in place. unknown
// describes the first item whose form does not name a known operation, "" if there is none:
//
//   - An item without metadata is a bare document, as some versions of the service answer,
//     and stays as it is.
//   - An item with an image is an upsert.
//   - An item without an image is a delete if it names no operation, because only deletes
//     come without one, and otherwise an [OperationUnknown].
func decodeEnvelopes(items []Item) (unknown string, err error) {
	for i := range items {
		item, form, err := decodeEnvelope(items[i])
		if err != nil {
			return "", fmt.Errorf("item %d %w", i, err)
		}
		items[i], unknown = item, cmp.Or(unknown, form)
	}
	return unknown, nil
}

func decodeEnvelope(bare Item) (item Item, unknown string, err error) {
	var e envelope
	if err := json.Unmarshal(bare.Document, &e); err != nil {
		return bare, "", fmt.Errorf("is not a change: %w", err)
	}
	if e.ID != nil || len(e.Metadata) == 0 || e.Metadata[0] != '{' {
		return bare, "document without metadata", nil
	}
	var m changeMetadata
	if err := json.Unmarshal(e.Metadata, &m); err != nil {
		return bare, "", fmt.Errorf("is not a change: %w", err)
	}
	item = Item{
		Document: imageOrNil(e.Current), Previous: imageOrNil(e.Previous), LSN: int64(m.LSN), Timestamp: int64(m.CRTS),
		Operation: m.operation(), PreviousLSN: int64(m.PreviousImageLSN), ID: m.ID, PartitionKey: m.PartitionKey,
	}
	switch item.Operation {
	case OperationCreate, OperationReplace:
		if item.Document == nil {
			return bare, "", fmt.Errorf("is a %s without current", item.Operation)
		}
		return item, "", nil
	case OperationDelete:
		return item.asDelete(m.TimeToLiveExpired), "", nil
	}
	unknown = "change without operationType"
	if item.Operation != "" {
		unknown = fmt.Sprintf("operation %q", printable(string(item.Operation)))
	}
	switch {
	case item.Document != nil:
		item.Operation = OperationUpsert
	case item.Operation == "":
		item = item.asDelete(m.TimeToLiveExpired)
	default:
		item.Operation = OperationUnknown
	}
	return item, unknown, nil
}

// asDelete returns the item as a delete. Its current image, if it has one, only tells the
// document if the metadata do not.
func (i Item) asDelete(expired bool) Item {
	image := i.Document
	i.Document, i.Operation = nil, OperationDelete
	if expired {
		i.Operation = OperationExpire
	}
	if i.ID == "" {
		_ = json.Unmarshal(Property(image, "id"), &i.ID)
	}
	if i.PartitionKey == nil {
		i.PartitionKey = image
	}
	return i
}

// imageOrNil returns image, or nil if the service left the image out, which it
// does in several ways.
func imageOrNil(image json.RawMessage) json.RawMessage {
	switch trimmed := bytes.TrimSpace(image); string(trimmed) {
	case "", "null", "{}":
		return nil
	}
	return image
}
