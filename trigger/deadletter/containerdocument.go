package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/record"
)

// Values of the property kind.
const (
	kindDeadLetter = "halley dead letter"
	kindPart       = "halley dead letter part"
)

// never is the time to live of documents that do not expire.
const never = -1

// maxTextBytes is the limit of an error or a stack; the rest is cut off.
const maxTextBytes = 64 << 10

// deadLetterDocument is the main document of a dead letter. Integers of 64 bits
// are stored as text, because Cosmos DB stores numbers with 53 bits.
type deadLetterDocument struct {
	record.Record
	DocumentID   string    `json:"id"`
	PartitionKey string    `json:"partitionKey,omitempty"`
	Kind         string    `json:"kind"`
	RecordKind   string    `json:"record"`
	TTL          int       `json:"ttl"` // seconds; -1: never expires, https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live
	DeadLetterID string    `json:"letter"`
	Time         sortable  `json:"time"`
	Epoch        int64     `json:"epoch,string"`
	LSN          int64     `json:"lsn,string"`
	Order        int64     `json:"order,string"`
	Parts        *partList `json:"parts,omitempty"`
}

// sortable is a time that is stored as text of fixed length, which queries can
// compare.
type sortable struct{ time.Time }

func (t sortable) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+record.TimeLayout+`"`), nil
}

// UnmarshalJSON rejects any other format, because a query would sort it
// wrongly.
func (t *sortable) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = time.Parse(`"`+record.TimeLayout+`"`, string(b))
	return err
}

// documentID returns the id of the main document of a dead letter. It contains
// neither ".." nor "_", which every lease id and every prefix of lease ids
// contains, so queries for leases never find it.
func documentID(source trigger.DeadLetterSource, letter string) string {
	return "dead-letter:" + record.Digest(source.Function, source.Account, source.Database, source.Container, letter)
}

func (s *Container) newDocument(d trigger.DeadLetter) deadLetterDocument {
	d.Error, d.Stack = shorten(d.Error), shorten(d.Stack)
	ttl := never
	if s.retention > 0 && d.Kind == trigger.RecordDead && !d.Blocked {
		ttl = int(s.retention / time.Second)
	}
	return deadLetterDocument{
		Record: record.New(d), DocumentID: documentID(d.Source(), d.ID), Kind: kindDeadLetter, RecordKind: string(d.Kind), TTL: ttl,
		DeadLetterID: d.ID, Time: sortable{d.Time}, Epoch: d.Epoch, LSN: d.LSN, Order: d.Order,
	}
}

// shorten truncates text to maxTextBytes.
func shorten(text string) string {
	const end = "… (cut)"
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes-len(end)], "") + end
}

// deadLetter returns the dead letter of a document, without the data in its
// parts.
func (d deadLetterDocument) deadLetter() trigger.DeadLetter {
	l := d.Record.Letter()
	l.Kind, l.ID, l.Time, l.Epoch, l.LSN, l.Order = trigger.RecordKind(d.RecordKind), d.DeadLetterID, d.Time.UTC(), d.Epoch, d.LSN, d.Order
	return l
}

// decodeDocument decodes a main document. A form of a later version may have other types.
func decodeDocument(body []byte, doc *deadLetterDocument) error {
	var form struct {
		Version     int
		Key, Record any // texts in all known forms
	}
	if json.Unmarshal(body, &form) == nil && form.Version > trigger.DeadLetterVersion {
		key, _ := form.Key.(string)
		kind, _ := form.Record.(string)
		return trigger.DeadLetter{Version: form.Version, Key: key, Kind: trigger.RecordKind(kind)}.CheckForm()
	}
	if err := json.Unmarshal(body, doc); err != nil {
		return err
	}
	return doc.deadLetter().CheckForm()
}

// keys are the partition key paths of the container.
type keys []string

func (s *Container) keys(ctx context.Context) (keys, error) {
	p, err := s.container.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("read container %s/%s: %w", s.container.Database(), s.container.Name(), err)
	}
	for _, path := range p.PartitionKey.Paths {
		switch path {
		case "/id", "/partitionKey", "/function", "/_partitionKey":
		default:
			return nil, fmt.Errorf("dead letter container %s/%s is partitioned on %s; create it with partition key /function, or use the lease container",
				s.container.Database(), s.container.Name(), strings.Join(p.PartitionKey.Paths, ", "))
		}
	}
	return p.PartitionKey.Paths, nil
}

// partitionKey returns the partition key of a document that belongs to a
// function.
func (k keys) partitionKey(function, id string) cosmos.PartitionKey {
	values := []any{}
	for _, path := range k {
		switch path {
		case "/function":
			values = append(values, function)
		case "/_partitionKey":
			values = append(values, cosmos.Undefined)
		default:
			values = append(values, id)
		}
	}
	if len(values) == 0 {
		values = append(values, cosmos.Undefined)
	}
	return cosmos.NewPartitionKey(values...)
}

// propertyValue returns the value for the property partitionKey of a document,
// or "" if the container does not use it.
func (k keys) propertyValue(id string) string {
	for _, path := range k {
		if path == "/partitionKey" {
			return id
		}
	}
	return ""
}

// queryScope returns the partition key that restricts a query to a function, or
// nil if the function's documents are in several partitions.
func (k keys) queryScope(function string) *cosmos.PartitionKey {
	if len(k) == 1 && k[0] == "/function" {
		key := k.partitionKey(function, "")
		return &key
	}
	return nil
}

// storedDocument is a main document as it was read.
type storedDocument struct {
	deadLetterDocument
	body json.RawMessage
	etag azcore.ETag
}
