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
)

// ContainerOptions are the options of [NewContainer]; the zero value of each
// field means the default that it names.
type ContainerOptions struct {
	// Window bounds the memory of List: that many letters are put in order at a
	// time, and where there are more the container is queried again for each
	// further window. By default 10,000, about 2 MB.
	Window int
}

// Container keeps letters as documents of a Cosmos DB container. That may be
// the lease container, with any partition key that leases may have (/id,
// /partitionKey or none), or one of its own, for which /function is a good key.
// It must not be a monitored container, as letters would be changes then.
//
// A letter is one document that Data Explorer shows, unless what came from the
// feed is too large: then that is in further documents, compressed, written
// before the letter's own and deleted after it. An Error or Stack of more than
// 64 KiB is cut. Letters never expire, whatever the container's time to live.
//
// What a Put leaves behind that never came to its end, as when the process is
// killed, is invisible, and deleted with the letter of the same change once it
// is an hour old.
//
// A document that was edited so that its kind or function is another one is no
// letter of the function any more. Any other that does not read as it was
// written is damage, which List reports.
type Container struct {
	container *cosmos.Container
	window    int
	partBytes int
}

// NewContainer makes a store of a container. It does no I/O.
func NewContainer(c *cosmos.Container, opts *ContainerOptions) (*Container, error) {
	if c == nil {
		return nil, errors.New("dead letter container: none given")
	}
	s := &Container{container: c, window: defaultWindow, partBytes: 1 << 20}
	if opts != nil && opts.Window != 0 {
		s.window = opts.Window
	}
	if s.window < 0 {
		return nil, errors.New("dead letter container: option Window is negative")
	}
	return s, nil
}

// Kinds of documents.
const (
	kindLetter = "halley dead letter"
	kindPart   = "halley dead letter part"
)

// maxText is how much of an error or a stack is kept.
const maxText = 64 << 10

// letterDocument is the document of a letter. Numbers of 64 bits are text, as
// Cosmos DB keeps numbers with 53.
type letterDocument struct {
	record
	DocumentID   string    `json:"id"`
	PartitionKey string    `json:"partitionKey,omitempty"`
	Kind         string    `json:"kind"`
	TTL          int       `json:"ttl"` // -1: never expires, https://learn.microsoft.com/azure/cosmos-db/nosql/time-to-live
	LetterID     string    `json:"letter"`
	Time         sortable  `json:"time"`
	Epoch        int64     `json:"epoch,string"`
	LSN          int64     `json:"lsn,string"`
	Parts        *partList `json:"parts,omitempty"`
}

// sortable is a time as text of fixed length.
type sortable struct{ time.Time }

func (t sortable) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"`+timeLayout+`"`), nil
}

// UnmarshalJSON refuses what queries would not sort as the time that it is.
func (t *sortable) UnmarshalJSON(b []byte) (err error) {
	t.Time, err = time.Parse(`"`+timeLayout+`"`, string(b))
	return err
}

// documentID is the id of the letter's document. It holds neither ".." nor "_",
// which every lease id and every prefix of lease ids does.
func documentID(function, letter string) string {
	return "dead-letter:" + digest(function, letter)
}

func (s *Container) newDocument(d trigger.DeadLetter) letterDocument {
	d.Error, d.Stack = shorten(d.Error), shorten(d.Stack)
	return letterDocument{
		record: newRecord(d), DocumentID: documentID(d.Function, d.ID), Kind: kindLetter, TTL: -1,
		LetterID: d.ID, Time: sortable{d.Time}, Epoch: d.Epoch, LSN: d.LSN,
	}
}

// shorten cuts a text that does not fit.
func shorten(text string) string {
	const end = "… (cut)"
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len(end)], "") + end
}

// letter is the letter of a document, without what is in parts.
func (d letterDocument) letter() trigger.DeadLetter {
	l := d.record.letter()
	l.ID, l.Time, l.Epoch, l.LSN = d.LetterID, d.Time.UTC(), d.Epoch, d.LSN
	return l
}

// keys says how the container is partitioned, and so where documents go.
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

// of is the partition key of a document that belongs to a function.
func (k keys) of(function, id string) cosmos.PartitionKey {
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

// property is the value of partitionKey in a document, where it must have one.
func (k keys) property(id string) string {
	for _, path := range k {
		if path == "/partitionKey" {
			return id
		}
	}
	return ""
}

// scope restricts a query to a function's partition, where it has one.
func (k keys) scope(function string) *cosmos.PartitionKey {
	if len(k) == 1 && k[0] == "/function" {
		key := k.of(function, "")
		return &key
	}
	return nil
}

// Put creates the letter's document, and before it those of its parts.
func (s *Container) Put(ctx context.Context, d trigger.DeadLetter) error {
	err := check(d)
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
	doc.PartitionKey = k.property(doc.DocumentID)
	whole, err := pack(doc.record)
	if err != nil {
		return err
	}
	var parts []partDocument
	if len(whole) > s.partBytes {
		if doc.Parts, parts, err = s.divide(doc, whole, k); err != nil {
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
	return s.settle(ctx, k, doc)
}

// settle ends the Put of a letter whose document was refused with 409: there is
// one already, of another Put or of an earlier attempt of this one. In the first
// case the parts of this Put are deleted.
//
// A read may be behind, and show none or one that was deleted since. None is an
// error, so that Put is repeated. Ahead of deleting parts a write that demands
// what was read makes sure that it is what is there.
func (s *Container) settle(ctx context.Context, k keys, doc letterDocument) error {
	stored, err := s.read(ctx, k, doc.Function, doc.DocumentID)
	if err != nil {
		return err
	}
	if stored == nil {
		return fmt.Errorf("creating document %s says that it is there, and reading it that it is not", doc.DocumentID)
	}
	if doc.Parts == nil || stored.Parts != nil && stored.Parts.Digest == doc.Parts.Digest {
		return nil
	}
	if _, err := s.container.Replace(ctx, doc.DocumentID, k.of(doc.Function, doc.DocumentID), stored.body, stored.etag); err != nil {
		return err
	}
	return s.deleteParts(ctx, k, doc)
}

// tries is how often a write whose outcome is unknown is repeated. As writes
// here are create-only or deletes, the answer to the next one settles it.
const tries = 3

// create writes a document; false says that it is there already.
func (s *Container) create(ctx context.Context, k keys, function, id string, doc any) (bool, error) {
	body, err := marshal(doc)
	if err != nil {
		return false, err
	}
	for try := 1; ; try++ {
		_, err := s.container.Create(ctx, k.of(function, id), body)
		switch {
		case err == nil:
			return true, nil
		case cosmos.IsConflict(err):
			return false, nil
		case !errors.Is(err, cosmos.ErrOutcomeUnknown) || try == tries || ctx.Err() != nil:
			return false, err
		}
	}
}

// delete removes a document; one that is not there is as good.
func (s *Container) delete(ctx context.Context, key cosmos.PartitionKey, id string) error {
	for try := 1; ; try++ {
		_, err := s.container.Delete(ctx, id, key, "")
		switch {
		case err == nil, cosmos.IsDocumentNotFound(err):
			return nil
		case !errors.Is(err, cosmos.ErrOutcomeUnknown) || try == tries || ctx.Err() != nil:
			return err
		}
	}
}

// storedLetter is a letter's document as it was read.
type storedLetter struct {
	letterDocument
	body json.RawMessage
	etag azcore.ETag
}

// read returns nil where there is no such letter. It may be behind what is
// stored.
func (s *Container) read(ctx context.Context, k keys, function, id string) (*storedLetter, error) {
	resp, err := s.container.Read(ctx, id, k.of(function, id))
	if cosmos.IsDocumentNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc letterDocument
	if err := json.Unmarshal(resp.Body, &doc); err != nil {
		return nil, &DamageError{Where: "document " + id, Err: err}
	}
	if doc.Kind != kindLetter || documentID(function, doc.LetterID) != id || doc.Function != function {
		return nil, &DamageError{Where: "document " + id, Err: errors.New("it is not the letter that was written")}
	}
	return &storedLetter{doc, resp.Body, resp.ETag}, nil
}

// Delete removes the letter's document, and then those of its parts.
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
	id := documentID(d.Function, d.ID)
	if whole, err := pack(newRecord(d)); err != nil || len(whole) <= s.partBytes {
		return s.delete(ctx, k.of(d.Function, id), id)
	}
	doc, err := s.read(ctx, k, d.Function, id)
	if err != nil && !isDamage(err) {
		return err
	}
	if err := s.delete(ctx, k.of(d.Function, id), id); err != nil {
		return err
	}
	if doc != nil && doc.Parts != nil {
		if err := s.deleteParts(ctx, k, doc.letterDocument); err != nil {
			return err
		}
	}
	return s.sweep(ctx, k, d.Function, id)
}

// List queries what letters are sorted by, and reads them one by one.
func (s *Container) List(ctx context.Context, function string) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		k, err := s.keys(ctx)
		if err != nil {
			yield(trigger.DeadLetter{}, fmt.Errorf("list dead letters of function %q: %w", function, err))
			return
		}
		sorted := oldestFirst(s.window, func(from time.Time) iter.Seq2[position, error] { return s.positions(ctx, k, function, from) })
		for d, err := range letters(sorted, func(p position) (trigger.DeadLetter, bool, error) { return s.load(ctx, k, function, p.at) }) {
			if err != nil {
				err = fmt.Errorf("list dead letters of function %q: %w", function, err)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// positions are those of all letters of the time or later. A letter whose row
// does not decode has one of the zero time, so it is read first, and found to be
// damaged.
func (s *Container) positions(ctx context.Context, k keys, function string, from time.Time) iter.Seq2[position, error] {
	q := k.query(`c.id, c.time, c.range, c.lsn`, function)
	if !from.IsZero() { // what is no text at all compares with none
		q.Text += ` AND c.time >= @from`
		q.Parameters = append(q.Parameters, cosmos.Parameter{Name: "@from", Value: sortable{from}})
	}
	return func(yield func(position, error) bool) {
		for page, err := range s.container.Query(ctx, q) {
			if err != nil {
				yield(position{}, err)
				return
			}
			for _, raw := range page.Items {
				p, err := rowPosition(raw)
				if err != nil {
					yield(position{}, fmt.Errorf("answer to the query of letters: %w", err))
					return
				}
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

func rowPosition(raw json.RawMessage) (position, error) {
	var name struct {
		DocumentID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &name); err != nil {
		return position{}, err
	}
	var doc letterDocument
	if json.Unmarshal(raw, &doc) != nil {
		return position{at: name.DocumentID}, nil
	}
	return position{doc.Time.UTC(), doc.Range, doc.LSN, doc.DocumentID}, nil
}

// query selects from the letters of a function.
func (k keys) query(columns, function string) cosmos.Query {
	return cosmos.Query{
		Text:         `SELECT ` + columns + ` FROM c WHERE c.kind = @kind AND c["function"] = @function`,
		Parameters:   []cosmos.Parameter{{Name: "@kind", Value: kindLetter}, {Name: "@function", Value: function}},
		PartitionKey: k.scope(function),
	}
}

// load reads a whole letter.
func (s *Container) load(ctx context.Context, k keys, function, id string) (d trigger.DeadLetter, there bool, err error) {
	doc, err := s.read(ctx, k, function, id)
	if err != nil {
		return trigger.DeadLetter{}, false, err
	}
	if doc == nil {
		return trigger.DeadLetter{}, false, s.gone(ctx, k, function, id)
	}
	d = doc.letter()
	if doc.Parts == nil {
		return d, true, nil
	}
	r, damage := s.join(ctx, k, doc.letterDocument)
	if isDamage(damage) { // unless it is being deleted
		doc, err := s.read(ctx, k, function, id)
		if err != nil {
			return trigger.DeadLetter{}, false, err
		}
		if doc == nil {
			return trigger.DeadLetter{}, false, s.gone(ctx, k, function, id)
		}
	}
	d.Document, d.Previous = json.RawMessage(r.Document), json.RawMessage(r.Previous)
	return d, damage == nil, damage
}

// gone makes sure that a letter which a query showed, and a read did not find,
// is deleted. If it is not, the read is behind, or the document is not where its
// id belongs: an error that is damage, for no one gets to read it now.
func (s *Container) gone(ctx context.Context, k keys, function, id string) error {
	shown, err := s.any(ctx, k, function, ` AND c.id = @id`, cosmos.Parameter{Name: "@id", Value: id})
	if err != nil || !shown {
		return err
	}
	return &DamageError{Where: "document " + id, Err: errors.New("a query shows it, and reading it says that it is not there; if that stays so, its partition key is not that of a letter")}
}

// Holds asks for one letter with the key. A damaged letter counts by what its
// document still has as its key: where that was edited, the letter no longer
// counts for its own key.
func (s *Container) Holds(ctx context.Context, function, key string) (holds bool, err error) {
	k, err := s.keys(ctx)
	if err == nil {
		holds, err = s.any(ctx, k, function, ` AND c["key"] = @key`, cosmos.Parameter{Name: "@key", Value: key})
	}
	if err != nil {
		return false, fmt.Errorf("look for dead letters of key %s: %w", key, err)
	}
	return holds, nil
}

// any reports whether a query shows some letter of the function for which a
// further condition holds.
func (s *Container) any(ctx context.Context, k keys, function, condition string, p cosmos.Parameter) (bool, error) {
	q := k.query(`c.id`, function)
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
