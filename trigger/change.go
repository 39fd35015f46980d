package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// Change is one change as the feed reported it.
//
// In latest-version mode a change is a document in its last version. It is not
// known if it was created or replaced, so Operation is [cosmos.OperationUpsert];
// it is [cosmos.OperationDelete] if the function's SoftDeleteProperty says so. In
// all-versions mode each version is a change of its own.
//
// The bytes are read-only: functions on one container may get the same ones. A handler
// may keep them, unless the function sets ReuseBuffers: then they are valid until the
// handler returns, and [Change.Clone] keeps them. They are a part of the page that was
// read: to keep one change of many for long, keep its clone, or the memory of the whole
// page stays in use.
type Change struct {
	Operation cosmos.Operation
	Document  json.RawMessage // as it is after the change, system properties included; nil for OperationDelete, OperationExpire and OperationUnknown in all-versions mode
	Previous  json.RawMessage // as it was before; nil if the service does not say
	LSN       int64           // position in the feed of its physical range; equal within one transaction
	Time      time.Time       // when it was written or deleted, in whole seconds

	origin *changeOrigin // nil for a change that is made by hand
	places foundPlaces   // see Change.asFeed

	// callNumber identifies the change of one call among all of this process. Within the
	// call, the numbers rise in the order of delivery. It is 0 outside of a call.
	callNumber int64
}

// callNumbers is the last number that was given to a change.
var callNumbers atomic.Int64

// takeCallNumbers returns the first of n numbers for the changes of a call.
func takeCallNumbers(n int) (first int64) { return callNumbers.Add(int64(n)) - int64(n) + 1 }

// foundPlaces are those of the id and the partition key in the document that the feed
// reported. A handler may have set another one.
type foundPlaces struct {
	first   *byte // of the document; nil if it has not been searched
	id, key cosmos.Place
}

// changeOrigin identifies the document of a change further. It is immutable, and
// changes that differ in nothing of it share one.
type changeOrigin struct {
	isSnapshot  bool                           // see Change.FromSnapshot
	generation  int64                          // see Change.Generation
	keyPaths    []string                       // of the container; nil for a change outside of a batch
	definition  *cosmos.PartitionKeyDefinition // see Change.EffectiveKey; nil for a change outside of a batch
	metadataID  string                         // of a delete in all-versions mode, from its metadata
	metadataKey json.RawMessage                // likewise its partition key, as the service gives it; the values as a list if keyPaths is nil
}

// ID returns the id of the document that changed, in every mode and operation.
func (c Change) ID() string { return c.asFeed().DocumentID() }

// PartitionKey returns the values of the document's partition key as a JSON array,
// in every mode and operation. Keys that are equal to Cosmos DB are equal bytes; a
// value that the document lacks is {}.
func (c Change) PartitionKey() json.RawMessage {
	origin := c.originOrNone()
	if origin.keyPaths == nil && origin.metadataKey != nil {
		return json.RawMessage(feed.PartitionKey(cosmos.Item{PartitionKey: origin.metadataKey}, nil))
	}
	return json.RawMessage(feed.PartitionKey(c.asFeed().Item, origin.keyPaths))
}

// FromSnapshot reports whether the change was read by the snapshot of a function that starts
// [FromSnapshot]: it is a document as it was, and not an event. A dead letter that is
// replayed is not marked.
func (c Change) FromSnapshot() bool { return c.originOrNone().isSnapshot }

// Generation numbers the last snapshot of the range that was begun before the change was
// delivered, by a function that starts [FromSnapshot]; 0 is unknown. It is the epoch of the owner
// that began the snapshot, and so never before the time of that in Unix seconds. A dead letter
// that is replayed has the time of the replay. A sink that stores generations can remove what a
// snapshot has not shown, see [Function.SnapshotRead].
func (c Change) Generation() int64 { return c.originOrNone().generation }

// EffectiveKey returns the place of the document's partition key in the key space, upper-case
// hex without trailing zero bytes. Texts of this form compare by their bytes with the bounds of a
// [SnapshotEnd]. It is "" for a dead letter that is replayed.
func (c Change) EffectiveKey() string {
	origin := c.originOrNone()
	if origin.definition == nil {
		return ""
	}
	key, _ := origin.definition.EffectiveKey(string(c.PartitionKey())) // a key of the container has a place
	return cosmos.TrimKey(key)
}

// asFeed returns the parts of the change that identify its document.
func (c Change) asFeed() *feed.Change {
	origin := c.originOrNone()
	item := cosmos.Item{Document: c.Document, Previous: c.Previous, ID: origin.metadataID, PartitionKey: origin.metadataKey}
	if len(c.Document) > 0 && &c.Document[0] == c.places.first {
		item.IDPlace, item.KeyPlace = c.places.id, c.places.key
	}
	return &feed.Change{Item: item}
}

func (c Change) originOrNone() changeOrigin {
	if c.origin == nil {
		return changeOrigin{}
	}
	return *c.origin
}

// Clone returns a copy of the change with bytes of its own.
func (c Change) Clone() Change {
	document := bytes.Clone(c.Document)
	if len(document) > 0 && &c.Document[0] == c.places.first {
		c.places.first = &document[0]
	}
	c.Document, c.Previous = document, bytes.Clone(c.Previous)
	if origin := c.originOrNone(); origin.metadataKey != nil {
		origin.metadataKey = bytes.Clone(origin.metadataKey)
		c.origin = &origin
	}
	return c
}

// Decode unmarshals the document into v.
func (c Change) Decode(v any) error { return c.decodeWith(json.Unmarshal, v) }

func (c Change) decodeWith(unmarshal func([]byte, any) error, v any) error {
	if c.Document == nil {
		return c.decodeError(nil)
	}
	if err := unmarshal(c.Document, v); err != nil {
		return c.decodeError(err)
	}
	return nil
}

// decodeError is the error of a change whose document does not decode, or is absent.
func (c Change) decodeError(err error) error {
	if c.Document == nil {
		return fmt.Errorf("change at lsn %d: %w", c.LSN, errNoDocument)
	}
	return fmt.Errorf("decode document at lsn %d: %w", c.LSN, err)
}

// changeOf returns a feed change as a handler gets it, with the same bytes. origin is
// that of changes without metadata, and number is the callNumber.
func (f *Function) changeOf(c *feed.Change, number int64, origin *changeOrigin) Change {
	if c.ID != "" || c.Item.PartitionKey != nil {
		own := *origin
		own.metadataID, own.metadataKey = c.ID, c.Item.PartitionKey
		origin = &own
	}
	change := Change{
		Operation: c.Operation, Document: c.Document, Previous: c.Previous,
		LSN: c.LSN, Time: time.Unix(c.Timestamp, 0).UTC(), origin: origin, callNumber: number,
	}
	if len(c.Document) > 0 {
		change.places = foundPlaces{&c.Document[0], c.IDPlace, c.KeyPlace}
	}
	if change.Operation == "" {
		change.Operation = cosmos.OperationUpsert
		if f.SoftDeleteProperty != "" && feed.IsTrue(c.Document, f.SoftDeleteProperty) {
			change.Operation = cosmos.OperationDelete
		}
	}
	return change
}
