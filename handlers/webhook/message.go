package webhook

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Payload is the body of a message.
type Payload struct {
	Type      string    `json:"type"`      // the setting EVENT, a dot, and changed, created, replaced, deleted or expired
	Timestamp time.Time `json:"timestamp"` // when the document was written or deleted, in whole seconds
	Data      Data      `json:"data"`
}

// Data is the change of a message. In latest-version mode a document that was created
// or replaced has the type "changed".
type Data struct {
	ID           string          `json:"id"`           // of the document
	PartitionKey json.RawMessage `json:"partitionKey"` // its values, as an array

	// Epoch and LSN order the messages about one document: the greater epoch is newer,
	// and in one epoch the greater LSN. The epoch may rise if a message is repeated.
	Epoch int64 `json:"epoch"`
	LSN   int64 `json:"lsn"`

	Document json.RawMessage `json:"document,omitempty"` // after the change, without system properties; none if it was deleted in all-versions mode
	Previous json.RawMessage `json:"previous,omitempty"` // before the change; only in all-versions mode, if the service gives it
}

var eventNames = map[cosmos.Operation]string{
	cosmos.OperationUpsert:  "changed",
	cosmos.OperationCreate:  "created",
	cosmos.OperationReplace: "replaced",
	cosmos.OperationDelete:  "deleted",
	cosmos.OperationExpire:  "expired",
}

// payload encodes the message about a change. Apart from the epoch it is the same
// bytes whenever the change is delivered.
func payload(event string, epoch int64, c trigger.Change) ([]byte, error) {
	name, ok := eventNames[c.Operation]
	if !ok { // a change that was made by hand
		name = eventNames[cosmos.OperationUpsert]
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(Payload{
		Type:      event + "." + name,
		Timestamp: c.Time.UTC(),
		Data: Data{
			ID: c.ID(), PartitionKey: c.PartitionKey(), Epoch: epoch, LSN: c.LSN,
			Document: withoutSystem(c.Document), Previous: withoutSystem(c.Previous),
		},
	})
	return bytes.TrimSpace(text.Bytes()), err
}

var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// withoutSystem returns a document without the properties that Cosmos DB adds. A
// document that is not an object stays as it is.
func withoutSystem(document json.RawMessage) json.RawMessage {
	var properties map[string]json.RawMessage
	if document == nil || json.Unmarshal(document, &properties) != nil {
		return document
	}
	maps.DeleteFunc(properties, func(name string, _ json.RawMessage) bool { return slices.Contains(systemProperties, name) })
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(properties) != nil {
		return document
	}
	return bytes.TrimSpace(text.Bytes())
}

// messageID names a change of a function and the container that it monitors. The name is the same for each delivery, also
// by another owner, from the range that a split has made, or from a dead letter.
func messageID(function, container string, c trigger.Change) string {
	h := sha256.New()
	for _, part := range []string{function, container, c.ID(), string(c.PartitionKey()), version(c)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "msg_" + strings.ToLower(base32.StdEncoding.EncodeToString(h.Sum(nil)[:20]))
}

// version names a version of a document: its etag, which is new with each write, or for
// a delete, which has no document, its operation and position.
func version(c trigger.Change) string {
	if etag := cosmos.Property(c.Document, "_etag"); etag != nil {
		return string(etag)
	}
	return fmt.Sprintf("%s %d", c.Operation, c.LSN)
}
