package cosmos

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// envelope is an item of the all-versions feed: azure-cosmos-dotnet-v3
// ChangeFeedItem and ChangeFeedMetadata.
type envelope struct {
	Current  json.RawMessage `json:"current"`
	Previous json.RawMessage `json:"previous"`
	Metadata *struct {
		OperationType     Operation       `json:"operationType"`
		LSN               int64           `json:"lsn"`
		CRTS              int64           `json:"crts"`
		PreviousImageLSN  int64           `json:"previousImageLSN"`
		TimeToLiveExpired bool            `json:"timeToLiveExpired"`
		ID                string          `json:"id"`
		PartitionKey      json.RawMessage `json:"partitionKey"`
	} `json:"metadata"`
}

// decodeEnvelopes converts the items of the all-versions wire format in place.
// If an item has no metadata, it is a bare document, as some versions of the
// service answer, and stays as it is.
func decodeEnvelopes(items []Item) error {
	for i := range items {
		var e envelope
		if err := json.Unmarshal(items[i].Document, &e); err != nil {
			return fmt.Errorf("item %d is not a change: %w", i, err)
		}
		if e.Metadata == nil {
			continue
		}
		m := e.Metadata
		item := Item{
			Document: imageOrNil(e.Current), Previous: imageOrNil(e.Previous), LSN: m.LSN, Timestamp: m.CRTS,
			Operation: m.OperationType, PreviousLSN: m.PreviousImageLSN, ID: m.ID, PartitionKey: m.PartitionKey,
		}
		switch m.OperationType {
		case OperationCreate, OperationReplace:
			if item.Document == nil {
				return fmt.Errorf("item %d is a %s without current", i, m.OperationType)
			}
		case OperationDelete:
			item.Document = nil
			if m.TimeToLiveExpired {
				item.Operation = OperationExpire
			}
		default:
			return fmt.Errorf("item %d has the unknown operation %q", i, m.OperationType)
		}
		items[i] = item
	}
	return nil
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
