package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/record"
)

// ContainerOptions are the options of [NewContainer]. The zero value of each
// field means its default.
type ContainerOptions struct {
	// Window is how many dead letters List sorts in memory at a time; if there
	// are more, it queries the container again for each further window. The
	// default is 10,000, about 2 MB.
	Window int
}

// Container stores dead letters as documents of a Cosmos DB container. This may
// be the lease container, with any partition key that leases may have (/id,
// /partitionKey or none), or a separate one, preferably with partition key
// /function. It must not be a monitored container, because dead letters would
// be reported as changes.
//
// A dead letter is one document, which Data Explorer can show. If the data from
// the feed is too large for it, Container compresses that data into part
// documents, which it writes before the main document and deletes after it. It
// truncates Error and Stack to 64 KiB. Dead letters never expire, whatever the
// container's time to live.
//
// If a host is killed during Put, part documents can remain. They are not
// visible. Deleting the dead letter of the same change deletes them if they are
// at least an hour old.
//
// If the kind or source of a document is edited, the document is not a dead
// letter of the source any more. Any other difference from the document that
// was written is damage, which List reports.
type Container struct {
	container *cosmos.Container
	window    int
	partBytes int
}

// NewContainer returns a store in a Cosmos DB container. It does no I/O.
func NewContainer(c *cosmos.Container, opts *ContainerOptions) (*Container, error) {
	if c == nil {
		return nil, errors.New("dead letter container: no container given")
	}
	s := &Container{container: c, window: record.DefaultWindow, partBytes: 1 << 20}
	if opts != nil && opts.Window != 0 {
		s.window = opts.Window
	}
	if s.window < 0 {
		return nil, errors.New("dead letter container: option Window is negative")
	}
	return s, nil
}

// Values of the property kind.
const (
	kindDeadLetter = "halley dead letter"
	kindPart       = "halley dead letter part"
)

// maxTextBytes is the limit of an error or a stack; the rest is cut off.
const maxTextBytes = 64 << 10

// deadLetterDocument is the main document of a dead letter. Integers of 64 bits
// are stored as text, because Cosmos DB stores numbers with 53 bits.
type deadLetterDocument struct {
	record.Record
	DocumentID   string    `json:"id"`
	PartitionKey string    `json:"partitionKey,omitempty"`
	Kind         string    `json:"kind"`
	TTL          int       `json:"ttl"` // -1: never expires, https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live
	DeadLetterID string    `json:"letter"`
	Time         sortable  `json:"time"`
	Epoch        int64     `json:"epoch,string"`
	LSN          int64     `json:"lsn,string"`
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
func documentID(of trigger.DeadLetterSource, letter string) string {
	return "dead-letter:" + record.Digest(of.Function, of.Account, of.Database, of.Container, letter)
}

func (s *Container) newDocument(d trigger.DeadLetter) deadLetterDocument {
	d.Error, d.Stack = shorten(d.Error), shorten(d.Stack)
	return deadLetterDocument{
		Record: record.New(d), DocumentID: documentID(d.Source(), d.ID), Kind: kindDeadLetter, TTL: -1,
		DeadLetterID: d.ID, Time: sortable{d.Time}, Epoch: d.Epoch, LSN: d.LSN,
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
	l.ID, l.Time, l.Epoch, l.LSN = d.DeadLetterID, d.Time.UTC(), d.Epoch, d.LSN
	return l
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

// Put creates the part documents of the dead letter, if any, and then its main
// document.
func (s *Container) Put(ctx context.Context, d trigger.DeadLetter) error {
	err := record.Check(d)
	if err == nil {
		err = s.put(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("store dead letter %q: %w", d.ID, err)
	}
	return nil
}

func (s *Container) put(ctx context.Context, d trigger.DeadLetter) error {
	k, err := s.keys(ctx)
	if err != nil {
		return err
	}
	doc := s.newDocument(d)
	doc.PartitionKey = k.propertyValue(doc.DocumentID)
	packed, err := pack(doc.Record)
	if err != nil {
		return err
	}
	var parts []partDocument
	if len(packed) > s.partBytes {
		if doc.Parts, parts, err = s.splitParts(doc, packed, k); err != nil {
			return err
		}
		doc.Document, doc.Previous = nil, nil
	}
	for _, p := range parts {
		if _, err := s.create(ctx, k, p.Function, p.DocumentID, p); err != nil {
			return err
		}
	}
	created, err := s.create(ctx, k, d.Function, doc.DocumentID, doc)
	if err != nil || created {
		return err
	}
	return s.resolveConflict(ctx, k, doc)
}

// resolveConflict completes a Put whose main document exists already, written
// by another Put or by an earlier attempt of this one. If it has other parts,
// the parts of this Put are deleted.
//
// A read may return an older state: no document, or one that has been deleted
// since. If it returns none, resolveConflict fails, so that the caller repeats
// the Put. Before it deletes parts, it replaces the document with itself under
// the etag that it read, which proves that this version is current.
func (s *Container) resolveConflict(ctx context.Context, k keys, doc deadLetterDocument) error {
	stored, err := s.read(ctx, k, doc.Source(), doc.DocumentID)
	if err != nil {
		return err
	}
	if stored == nil {
		return fmt.Errorf("document %s exists according to the create, but not according to the read", doc.DocumentID)
	}
	if doc.Parts == nil || stored.Parts != nil && stored.Parts.Digest == doc.Parts.Digest {
		return nil
	}
	if _, err := s.container.Replace(ctx, doc.DocumentID, k.partitionKey(doc.Function, doc.DocumentID), stored.body, stored.etag); err != nil {
		return err
	}
	return s.deleteParts(ctx, k, doc)
}

// maxAttempts is the limit of attempts of a write with an unknown outcome. All
// writes here are creates or deletes, so the answer to the next attempt shows
// whether the last one was applied.
const maxAttempts = 3

// create creates a document; false means that it exists already.
func (s *Container) create(ctx context.Context, k keys, function, id string, doc any) (bool, error) {
	body, err := record.Marshal(doc)
	if err != nil {
		return false, err
	}
	for try := 1; ; try++ {
		_, err := s.container.Create(ctx, k.partitionKey(function, id), body)
		switch {
		case err == nil:
			return true, nil
		case cosmos.IsConflict(err):
			return false, nil
		case !errors.Is(err, cosmos.ErrOutcomeUnknown) || try == maxAttempts || ctx.Err() != nil:
			return false, err
		}
	}
}

// delete deletes a document. If it does not exist, that is not an error.
func (s *Container) delete(ctx context.Context, key cosmos.PartitionKey, id string) error {
	for try := 1; ; try++ {
		_, err := s.container.Delete(ctx, id, key, "")
		switch {
		case err == nil, cosmos.IsDocumentNotFound(err):
			return nil
		case !errors.Is(err, cosmos.ErrOutcomeUnknown) || try == maxAttempts || ctx.Err() != nil:
			return err
		}
	}
}

// storedDocument is a main document as it was read.
type storedDocument struct {
	deadLetterDocument
	body json.RawMessage
	etag azcore.ETag
}

// read reads a main document; nil if it does not exist. The result may be older
// than the current state.
func (s *Container) read(ctx context.Context, k keys, of trigger.DeadLetterSource, id string) (*storedDocument, error) {
	resp, err := s.container.Read(ctx, id, k.partitionKey(of.Function, id))
	if cosmos.IsDocumentNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc deadLetterDocument
	if err := json.Unmarshal(resp.Body, &doc); err != nil {
		return nil, &DamageError{Where: "document " + id, Err: err}
	}
	if doc.Kind != kindDeadLetter || documentID(of, doc.DeadLetterID) != id || doc.Source() != of {
		return nil, &DamageError{Where: "document " + id, Err: errors.New("its kind, source or dead letter ID has been changed")}
	}
	return &storedDocument{doc, resp.Body, resp.ETag}, nil
}

// Delete deletes the main document of the dead letter and then its part
// documents.
func (s *Container) Delete(ctx context.Context, d trigger.DeadLetter) error {
	if err := s.remove(ctx, d); err != nil {
		return fmt.Errorf("delete dead letter %q: %w", d.ID, err)
	}
	return nil
}

func (s *Container) remove(ctx context.Context, d trigger.DeadLetter) error {
	k, err := s.keys(ctx)
	if err != nil {
		return err
	}
	id := documentID(d.Source(), d.ID)
	if packed, err := pack(record.New(d)); err != nil || len(packed) <= s.partBytes {
		return s.delete(ctx, k.partitionKey(d.Function, id), id)
	}
	doc, err := s.read(ctx, k, d.Source(), id)
	if err != nil && !isDamage(err) {
		return err
	}
	if err := s.delete(ctx, k.partitionKey(d.Function, id), id); err != nil {
		return err
	}
	if doc != nil && doc.Parts != nil {
		if err := s.deleteParts(ctx, k, doc.deadLetterDocument); err != nil {
			return err
		}
	}
	return s.deleteOrphanParts(ctx, k, d.Function, id)
}

// List queries the sort order of the dead letters and reads them one by one.
func (s *Container) List(ctx context.Context, of trigger.DeadLetterSource) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		k, err := s.keys(ctx)
		if err != nil {
			yield(trigger.DeadLetter{}, fmt.Errorf("list dead letters of %v: %w", of, err))
			return
		}
		sorted := record.OldestFirst(s.window, func(from time.Time) iter.Seq2[record.Position, error] { return s.positions(ctx, k, of, from) })
		for d, err := range record.ReadInOrder(sorted, func(p record.Position) (trigger.DeadLetter, bool, error) { return s.load(ctx, k, of, p.At) }) {
			if err != nil {
				err = fmt.Errorf("list dead letters of %v: %w", of, err)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// positions yields the positions of all dead letters of the given time or
// later. If a result cannot be decoded, its time is zero, so that document is
// read first and reported as damaged.
func (s *Container) positions(ctx context.Context, k keys, of trigger.DeadLetterSource, from time.Time) iter.Seq2[record.Position, error] {
	q := k.query(`c.id, c.time, c.range, c.lsn`, of)
	if !from.IsZero() { // the comparison would drop documents whose time is not text
		q.Text += ` AND c.time >= @from`
		q.Parameters = append(q.Parameters, cosmos.Parameter{Name: "@from", Value: sortable{from}})
	}
	return func(yield func(record.Position, error) bool) {
		for page, err := range s.container.Query(ctx, q) {
			if err != nil {
				yield(record.Position{}, err)
				return
			}
			for _, raw := range page.Items {
				p, err := rowPosition(raw)
				if err != nil {
					yield(record.Position{}, fmt.Errorf("result of the query of dead letters: %w", err))
					return
				}
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

func rowPosition(raw json.RawMessage) (record.Position, error) {
	var name struct {
		DocumentID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &name); err != nil {
		return record.Position{}, err
	}
	var doc deadLetterDocument
	if json.Unmarshal(raw, &doc) != nil {
		return record.Position{At: name.DocumentID}, nil
	}
	return record.Position{Time: doc.Time.UTC(), Token: doc.Range, LSN: doc.LSN, At: doc.DocumentID}, nil
}

// query returns a query of the dead letters of a source.
func (k keys) query(columns string, of trigger.DeadLetterSource) cosmos.Query {
	return cosmos.Query{
		Text: `SELECT ` + columns + ` FROM c WHERE c.kind = @kind AND c["function"] = @function` +
			` AND c["account"] = @account AND c["database"] = @database AND c["container"] = @container`,
		Parameters: []cosmos.Parameter{{Name: "@kind", Value: kindDeadLetter}, {Name: "@function", Value: of.Function},
			{Name: "@account", Value: of.Account}, {Name: "@database", Value: of.Database}, {Name: "@container", Value: of.Container}},
		PartitionKey: k.queryScope(of.Function),
	}
}

// load reads a dead letter with its parts.
func (s *Container) load(ctx context.Context, k keys, of trigger.DeadLetterSource, id string) (d trigger.DeadLetter, found bool, err error) {
	doc, err := s.read(ctx, k, of, id)
	if err != nil {
		return trigger.DeadLetter{}, false, err
	}
	if doc == nil {
		return trigger.DeadLetter{}, false, s.confirmDeleted(ctx, k, of, id)
	}
	d = doc.deadLetter()
	if doc.Parts == nil {
		return d, true, nil
	}
	r, damage := s.joinParts(ctx, k, doc.deadLetterDocument)
	if isDamage(damage) { // or another host is deleting it
		doc, err := s.read(ctx, k, of, id)
		if err != nil {
			return trigger.DeadLetter{}, false, err
		}
		if doc == nil {
			return trigger.DeadLetter{}, false, s.confirmDeleted(ctx, k, of, id)
		}
	}
	d.Document, d.Previous = json.RawMessage(r.Document), json.RawMessage(r.Previous)
	return d, damage == nil, damage
}

// confirmDeleted is called if a query has shown a dead letter that a read does
// not find. It returns nil if a second query does not show it either: it was
// deleted. Otherwise the read is outdated or the document has a partition key
// that does not belong to its id; the error is damage, because nothing can read
// it now.
func (s *Container) confirmDeleted(ctx context.Context, k keys, of trigger.DeadLetterSource, id string) error {
	shown, err := s.anyMatch(ctx, k, of, ` AND c.id = @id`, cosmos.Parameter{Name: "@id", Value: id})
	if err != nil || !shown {
		return err
	}
	return &DamageError{Where: "document " + id, Err: errors.New("a query shows it, but a read does not find it; if this persists, its partition key is not the one that its id requires")}
}

// Holds queries one dead letter with the key. A damaged dead letter counts for
// the key that its document has now: if the key was edited, it does not count
// for its original key any more.
func (s *Container) Holds(ctx context.Context, of trigger.DeadLetterSource, key string) (holds bool, err error) {
	k, err := s.keys(ctx)
	if err == nil {
		holds, err = s.anyMatch(ctx, k, of, ` AND c["key"] = @key`, cosmos.Parameter{Name: "@key", Value: key})
	}
	if err != nil {
		return false, fmt.Errorf("look for dead letters of key %s: %w", key, err)
	}
	return holds, nil
}

// anyMatch reports whether a query finds a dead letter of the source that
// meets a further condition.
func (s *Container) anyMatch(ctx context.Context, k keys, of trigger.DeadLetterSource, condition string, p cosmos.Parameter) (bool, error) {
	q := k.query(`c.id`, of)
	q.Text, q.Parameters, q.MaxItems = q.Text+condition, append(q.Parameters, p), 1
	for page, err := range s.container.Query(ctx, q) {
		if err != nil {
			return false, err
		}
		if len(page.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}
