// Package stream makes messages of changes, for brokers that Spark, Flink, Azure Stream
// Analytics and other consumers read. Package nats below it publishes them to NATS
// JetStream, package kafka to Kafka, so that an app links only the client that it uses.
//
// Effect: one message per change, in an envelope like that of Debezium
// (https://debezium.io/documentation/reference/stable/connectors/mongodb.html), with the
// document before and after the change, the operation, and the source.
//
// Idempotency: the id of a message is the same whenever the same change is delivered, so
// that the broker or the consumer drops the second message. It is made of the container,
// the partition key, the document's id and its version. The version is the document's
// _etag: it is another one after each write, and splits and merges of ranges keep it,
// but not the range. A delete in all-versions mode has no document; its version is its
// operation, its position and the _etag of the document before, if the service tells it.
//
// A former owner of a range that was paused may publish late. Its messages are new to
// the broker, and old. So a consumer that keeps a state per document compares positions:
// it drops a message whose source.epoch is smaller than the last one's of that document,
// or equal with a smaller source.lsn.
//
// Deletes: op is "d" and after is null. Before is the document if the service tells it,
// which is the document itself for soft deletes. An expired document is a delete with
// source.expired.
//
// Order: messages of one partition key are published in the order of the feed. If one of
// them fails, no later one of that key counts as published.
//
// Errors: changes whose messages the broker did not acknowledge are delivered again
// ([trigger.Failed]; the whole batch if the broker acknowledged nothing). A message that
// is larger than the broker takes is given up ([trigger.Skip]).
package stream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Header names of a message, on all brokers. JetStream has the id in Nats-Msg-Id instead.
const (
	HeaderID  = "halley-id"  // Message.ID
	HeaderKey = "halley-key" // Message.Key
)

// Message is one change, ready to be published.
type Message struct {
	ID      string // 32 hexadecimal digits; equal for the same change
	Key     []byte // the partition key's values, a JSON array; order is kept among equal ones
	Value   []byte // the envelope, a JSON object
	Deleted bool
	Change  trigger.Change
}

// DocumentKey is the JSON array of the partition key's values and the document's id: the
// key of the document in its container.
func (m Message) DocumentKey() []byte {
	id := quote(m.Change.ID())
	if values := bytes.TrimSuffix(m.Key, []byte("]")); len(values) > len("[") {
		return fmt.Appendf(nil, "%s,%s]", values, id)
	}
	return fmt.Appendf(nil, "[%s]", id)
}

// Encoder makes messages. Its fields name the monitored container.
type Encoder struct {
	Database, Container string

	// UpsertOp is the op of changes that are created or replaced documents: the feed in
	// latest-version mode does not tell which. It is "r" if it is empty.
	UpsertOp string
}

// source is the envelope's field of the same name. The names are Debezium's, and those
// that it lacks are in the same style.
type source struct {
	Version    string          `json:"version"` // of the envelope
	Connector  string          `json:"connector"`
	Name       string          `json:"name"` // of the function
	TimeMS     int64           `json:"ts_ms"`
	Database   string          `json:"db"`
	Collection string          `json:"collection"`
	Document   string          `json:"document"` // its id
	Key        json.RawMessage `json:"key"`      // partition key
	LSN        int64           `json:"lsn"`
	Range      string          `json:"range"`
	Epoch      int64           `json:"epoch"`
	ID         string          `json:"id"` // of the message
	Expired    bool            `json:"expired,omitempty"`
}

const envelopeVersion = "1"

// Messages encodes the changes of a batch, in their order.
func (e Encoder) Messages(b trigger.Batch) ([]Message, error) {
	now := time.Now().UnixMilli()
	messages := make([]Message, len(b.Changes))
	for i, c := range b.Changes {
		key := c.PartitionKey()
		s := source{
			Version: envelopeVersion, Connector: "halley", Name: b.Function, TimeMS: c.Time.UnixMilli(),
			Database: e.Database, Collection: e.Container, Document: c.ID(), Key: key,
			LSN: c.LSN, Range: b.Range.ID, Epoch: b.Epoch,
			ID: e.id(c, key), Expired: c.Operation == cosmos.OperationExpire,
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			return nil, trigger.Failed(fmt.Errorf("encode source of document %q: %w", s.Document, err), c)
		}
		messages[i] = Message{ID: s.ID, Key: key, Value: e.envelope(c, encoded, now), Deleted: isDelete(c), Change: c}
	}
	return messages, nil
}

func isDelete(c trigger.Change) bool {
	return c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire
}

// envelope joins the parts. Documents are JSON already.
func (e Encoder) envelope(c trigger.Change, source []byte, now int64) []byte {
	oldDocument, newDocument := c.Previous, c.Document
	if isDelete(c) {
		if oldDocument == nil {
			oldDocument = c.Document // of a soft delete
		}
		newDocument = nil
	}
	value := make([]byte, 0, len(oldDocument)+len(newDocument)+len(source)+80)
	value = append(value, `{"before":`...)
	value = appendDocument(value, oldDocument)
	value = append(value, `,"after":`...)
	value = appendDocument(value, newDocument)
	value = append(value, `,"source":`...)
	value = append(value, source...)
	return fmt.Appendf(value, `,"op":%q,"ts_ms":%d}`, e.op(c), now)
}

func appendDocument(to, document []byte) []byte {
	if document == nil {
		return append(to, "null"...)
	}
	return append(to, document...)
}

// op returns the operation as Debezium abbreviates it.
func (e Encoder) op(c trigger.Change) string {
	switch {
	case isDelete(c):
		return "d"
	case c.Operation == cosmos.OperationCreate:
		return "c"
	case c.Operation == cosmos.OperationReplace:
		return "u"
	case e.UpsertOp != "":
		return e.UpsertOp
	}
	return "r"
}

// id returns the id of a change's message, see the package documentation.
func (e Encoder) id(c trigger.Change, key []byte) string {
	version := cosmos.Property(c.Document, "_etag")
	if len(version) == 0 {
		version = fmt.Appendf(nil, "%s %d %s", c.Operation, c.LSN, cosmos.Property(c.Previous, "_etag"))
	}
	digest := sha256.New()
	for _, part := range [][]byte{[]byte(e.Database), []byte(e.Container), key, []byte(c.ID()), version} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		digest.Write(length[:])
		digest.Write(part)
	}
	return hex.EncodeToString(digest.Sum(nil)[:16])
}

// quote encodes a string as JSON.
func quote(s string) []byte {
	quoted, _ := json.Marshal(s) // a string always encodes
	return quoted
}

// CheckUpsertOp returns an error if op is not an [Encoder].UpsertOp. It names the setting
// that handlers have for it.
func CheckUpsertOp(op string) error {
	switch op {
	case "r", "c", "u":
		return nil
	}
	return fmt.Errorf("UPSERT_OP is %q; set r (read), c (create) or u (update)", op)
}
