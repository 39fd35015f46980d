package bleve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	blevesearch "github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/keyword"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"

	"halley/handlers"
	"halley/handlers/position"
	"halley/handlers/search"
	"halley/trigger"
)

// The fields of an entry besides the words of its document.
const (
	entryField    = "_halley"          // the object that holds them
	positionField = "_halley.position" // as JSON; stored
	sourceField   = "_halley.source"   // the document; stored
	keyField      = "_halley.key"      // its partition key; stored
	idField       = "_halley.id"       // its id; stored
	stateField    = "_halley.state"    // live or deleted; indexed
	live          = "live"
	deleted       = "deleted"
)

// newMapping indexes all properties of documents by their types, and keeps their text
// only in sourceField.
func newMapping() *mapping.IndexMappingImpl {
	entry := blevesearch.NewDocumentStaticMapping()
	for _, name := range []string{"position", "source", "key", "id"} {
		f := blevesearch.NewTextFieldMapping()
		f.Index, f.DocValues, f.IncludeInAll, f.IncludeTermVectors, f.Store = false, false, false, false, true
		entry.AddFieldMappingsAt(name, f)
	}
	state := blevesearch.NewTextFieldMapping()
	state.Analyzer, state.IncludeInAll, state.Store, state.DocValues = keyword.Name, false, false, false
	entry.AddFieldMappingsAt("state", state)
	m := blevesearch.NewIndexMapping()
	m.StoreDynamic, m.DocValuesDynamic = false, false
	m.DefaultMapping.AddSubDocumentMapping(entryField, entry)
	return m
}

// shared is an index that this process has open. Bleve locks its directory, so all
// Indexes of one directory share it.
type shared struct {
	index blevesearch.Index
	users int
	slot  chan struct{} // held by the one batch that is being written
}

// registry has the indexes that are open, by directory. Its slot guards all, the users of
// each index, and the field used of each Index; it is held while an index opens or closes.
var registry = struct {
	slot chan struct{}
	all  map[string]*shared
}{make(chan struct{}, 1), map[string]*shared{}}

// lockTime is how long to wait for an index that another process has open.
const lockTime = "1s"

// use opens the index of a directory, or shares it. The caller holds the slot.
func use(directory string) (*shared, error) {
	if s := registry.all[directory]; s != nil {
		s.users++
		return s, nil
	}
	config := map[string]any{"bolt_timeout": lockTime}
	x, err := blevesearch.OpenUsing(directory, config)
	if errors.Is(err, blevesearch.ErrorIndexPathDoesNotExist) || errors.Is(err, blevesearch.ErrorIndexMetaMissing) && isEmpty(directory) {
		x, err = blevesearch.NewUsing(directory, newMapping(), blevesearch.Config.DefaultIndexType, blevesearch.Config.DefaultKVStore, config)
	}
	if err != nil && strings.Contains(err.Error(), "timeout") { // of bbolt; Bleve does not wrap it
		err = errors.New("another process has it open: an index in a directory is for one process, and OpenSearch for several")
	}
	if err != nil {
		return nil, fmt.Errorf("open the index %s: %w", directory, err)
	}
	s := &shared{index: x, users: 1, slot: make(chan struct{}, 1)}
	registry.all[directory] = s
	return s, nil
}

func isEmpty(directory string) bool {
	entries, err := os.ReadDir(directory)
	return err == nil && len(entries) == 0
}

// release closes the index of a directory when its last user is gone. The caller holds
// the slot.
func release(directory string) error {
	s := registry.all[directory]
	if s.users--; s.users > 0 {
		return nil
	}
	delete(registry.all, directory)
	return s.index.Close()
}

// Index is a full-text index in a directory. It is safe for concurrent use.
type Index struct {
	directory string
	fields    []string
	queryTime time.Duration // that a query may take
	meter     *handlers.Meter
	used      *shared // nil before the first use, and after Close
}

// New returns the index in a directory, without opening it. fields are the properties
// that are indexed; all if there is none.
func New(directory string, fields []string) *Index {
	if absolute, err := filepath.Abs(directory); err == nil {
		directory = absolute
	}
	return &Index{directory: directory, fields: fields, queryTime: queryTime}
}

func (x *Index) open() (*shared, error) {
	registry.slot <- struct{}{}
	defer func() { <-registry.slot }()
	if x.used != nil {
		return x.used, nil
	}
	s, err := use(x.directory)
	x.used = s
	return s, err
}

// Close closes the index, if it is open. No other method may be running.
func (x *Index) Close() error {
	registry.slot <- struct{}{}
	defer func() { <-registry.slot }()
	if x.used == nil {
		return nil
	}
	x.used = nil
	return release(x.directory)
}

// Handle is the handler: it writes a batch to the index.
func (x *Index) Handle(ctx context.Context, b trigger.Batch) error {
	s, err := x.open()
	if err != nil {
		return err
	}
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	refused, err := x.write(s.index, b)
	if err != nil {
		return fmt.Errorf("index %d changes: %w", len(b.Changes), err)
	}
	if len(refused) > 0 {
		return trigger.Skip(errors.Join(refused...))
	}
	return nil
}

// write writes the changes that are not older than the index.
func (x *Index) write(to blevesearch.Index, b trigger.Batch) (refused []error, err error) {
	stored, err := positionsOf(to, b.Changes)
	if err != nil {
		return nil, err
	}
	batch := to.NewBatch()
	for _, c := range b.Changes {
		entry, err := x.entryOf(c, position.Of(b, c))
		if err != nil {
			refused = append(refused, trigger.Failed(err, c))
			continue
		}
		name, place := search.DocumentKey(c), position.Of(b, c)
		if indexed, ok := stored[name]; ok && indexed.Compare(place) > 0 {
			continue
		}
		stored[name] = place
		if err := batch.Index(name, entry); err != nil {
			return nil, err
		}
	}
	if batch.Size() == 0 {
		return refused, nil
	}
	began := time.Now()
	err = to.Batch(batch)
	x.meter.Ended(began, err)
	if err == nil {
		x.meter.Wrote(batch.Size())
	}
	return refused, err
}

// entryOf returns the entry of a change. An error means that the document can never be
// indexed.
func (x *Index) entryOf(c trigger.Change, changePosition position.Position) (map[string]any, error) {
	place, err := json.Marshal(changePosition)
	if err != nil {
		return nil, err
	}
	system := map[string]any{"position": string(place), "key": string(c.PartitionKey()), "id": c.ID(), "state": deleted}
	entry := map[string]any{entryField: system}
	if search.Deleted(c) {
		return entry, nil
	}
	content, err := search.Content(c.Document, x.fields)
	if err != nil {
		return nil, err
	}
	source, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	var words map[string]any
	if err := json.Unmarshal(source, &words); err != nil {
		return nil, err
	}
	system["state"], system["source"] = live, string(source)
	maps.Copy(entry, words)
	return entry, nil
}

// positionsOf reads the positions that the index has for the documents of changes.
func positionsOf(documents blevesearch.Index, changes []trigger.Change) (found map[string]position.Position, err error) {
	low, err := documents.Advanced()
	if err != nil {
		return nil, err
	}
	reader, err := low.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	found = map[string]position.Position{}
	for _, c := range changes {
		name := search.DocumentKey(c)
		document, err := reader.Document(name)
		if err != nil {
			return nil, fmt.Errorf("read entry %s: %w", name, err)
		}
		if document == nil {
			continue
		}
		text := storedField(document, positionField)
		var stored position.Position
		if err := json.Unmarshal([]byte(text), &stored); err != nil {
			return nil, fmt.Errorf("position of entry %s: %w", name, err)
		}
		found[name] = stored
	}
	return found, nil
}

func storedField(document index.Document, name string) (text string) {
	document.VisitFields(func(f index.Field) {
		if f.Name() == name {
			text = string(f.Value())
		}
	})
	return text
}

// Limits of a query.
const (
	queryTime      = 5 * time.Second
	queryBytes     = 512
	queryWildcards = 4
)

// checkQuery refuses a query that could take a processor for minutes: Bleve makes an
// automaton of each word with wildcards, and one of a hundred stars does not end when the
// query's context does.
func checkQuery(text string) error {
	if len(text) > queryBytes {
		return fmt.Errorf("the query has %d bytes; shorten it to %d", len(text), queryBytes)
	}
	wildcards := 0
	for _, r := range text {
		if strings.ContainsRune("*?~/", r) {
			wildcards++
		}
	}
	if wildcards > queryWildcards {
		return fmt.Errorf("the query has %d of the characters * ? ~ /; use %d at most", wildcards, queryWildcards)
	}
	return nil
}

// Search looks for a text, in the query string syntax of Bleve: words, "a phrase",
// +name:tea -green. https://blevesearch.com/docs/Query-String-Query/
// A query has 512 bytes and 4 wildcards at most. It ends after 5 s, or with ctx.
func (x *Index) Search(ctx context.Context, text string, limit int) ([]search.Hit, error) {
	if err := checkQuery(text); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.queryTime, fmt.Errorf("not finished within %v; make the query narrower", x.queryTime))
	defer cancel()
	s, err := x.open()
	if err != nil {
		return nil, err
	}
	alive := blevesearch.NewTermQuery(live)
	alive.SetField(stateField)
	alive.SetBoost(0)
	request := blevesearch.NewSearchRequestOptions(blevesearch.NewConjunctionQuery(blevesearch.NewQueryStringQuery(text), alive), limit, 0, false)
	request.Fields = []string{sourceField, keyField, idField}
	result, err := s.index.SearchInContext(ctx, request)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("search for %q: %w", text, err)
	}
	hits := []search.Hit{}
	for _, h := range result.Hits {
		field := func(name string) string { s, _ := h.Fields[name].(string); return s }
		hits = append(hits, search.Hit{ID: field(idField), Key: field(keyField), Score: h.Score, Document: json.RawMessage(field(sourceField))})
	}
	return hits, nil
}
