package triggertest

import (
	"encoding/json"
	"fmt"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// The functions of this file make changes by hand. A document is JSON text (string,
// []byte or json.RawMessage), which need not be valid, or a value that is marshalled.
// The values of key are those of the partition key, which [trigger.Change.PartitionKey]
// returns. The time of a change is now; its LSN is 0 until [Deliver] sets it.

// Upsert returns the change of a function in latest-version mode: the document was
// created or replaced.
func Upsert(document any, key ...any) trigger.Change {
	return newChange(trigger.DeadLetter{Operation: cosmos.OperationUpsert, Document: rawJSON(document)}, key)
}

// SoftDelete returns the change of a function in latest-version mode whose
// SoftDeleteProperty is true in the document.
func SoftDelete(document any, key ...any) trigger.Change {
	return newChange(trigger.DeadLetter{Operation: cosmos.OperationDelete, Document: rawJSON(document)}, key)
}

// Create returns the change of a function in all-versions mode.
func Create(document any, key ...any) trigger.Change {
	return newChange(trigger.DeadLetter{Operation: cosmos.OperationCreate, Document: rawJSON(document)}, key)
}

// Replace returns the change of a function in all-versions mode.
func Replace(document, previous any, key ...any) trigger.Change {
	return newChange(trigger.DeadLetter{Operation: cosmos.OperationReplace, Document: rawJSON(document), Previous: rawJSON(previous)}, key)
}

// Delete returns the change of a function in all-versions mode. Its Previous is nil, as
// it is if the service does not say.
func Delete(id string, key ...any) trigger.Change {
	return newChange(trigger.DeadLetter{Operation: cosmos.OperationDelete, DocumentID: id}, key)
}

// Expire is [Delete] of a document whose time to live is over.
func Expire(id string, key ...any) trigger.Change {
	return newChange(trigger.DeadLetter{Operation: cosmos.OperationExpire, DocumentID: id}, key)
}

// newChange makes a change the way a dead letter is made one again: only package
// trigger can set the id and the key of a change without a document.
func newChange(d trigger.DeadLetter, key []any) trigger.Change {
	if key == nil {
		key = []any{}
	}
	d.Key, d.Written = string(rawJSON(key)), time.Now().UTC().Truncate(time.Second)
	return d.Change()
}

// rawJSON panics if a value cannot be marshalled: there is no test to fail.
func rawJSON(v any) json.RawMessage {
	switch text := v.(type) {
	case string:
		return json.RawMessage(text)
	case []byte:
		return text
	case json.RawMessage:
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("triggertest: document of a change: %v", err))
	}
	return raw
}
