package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"halley/trigger/cosmos"
)

// VerifyOptions are the options of [Migration.Verify]. The zero value of a field means
// its default.
type VerifyOptions struct {
	// Parallel is the number of ranges that are read at a time: 4.
	Parallel int
	// Settle is how long a difference must last: 10 s, and no time if it is negative. While clients write to the source,
	// and until the migration has copied that, the containers differ; a document that
	// is equal within this time is not reported.
	Settle time.Duration
	// MaxDifferences bounds the differences in the result: 1,000. Verify ends when there
	// are more.
	MaxDifferences int
}

func (o *VerifyOptions) withDefaults() VerifyOptions {
	var d VerifyOptions
	if o != nil {
		d = *o
	}
	if d.Parallel <= 0 {
		d.Parallel = 4
	}
	if d.Settle == 0 {
		d.Settle = 10 * time.Second
	}
	if d.MaxDifferences <= 0 {
		d.MaxDifferences = 1000
	}
	return d
}

// Verification is the result of a comparison.
type Verification struct {
	Source      int64        `json:"source"`     // documents that were read
	LeftOut     int64        `json:"leftOut"`    // of these: without a copy, as the transform asks
	Target      int64        `json:"target"`     // documents that were read, without tombstones
	Tombstones  int64        `json:"tombstones"` // of deleted and moved copies, which expire
	LastWrite   time.Time    `json:"lastWrite,omitzero"`
	Differences []Difference `json:"differences"` // none if the containers are equal
	More        bool         `json:"more,omitempty"`
}

// Equal reports whether the target holds exactly the copies that the source asks for.
func (v *Verification) Equal() bool { return len(v.Differences) == 0 && !v.More }

// Difference is a document in which source and target differ.
type Difference struct {
	ID        string          `json:"id"`
	SourceKey json.RawMessage `json:"sourceKey,omitempty"` // partition key in the source
	TargetKey json.RawMessage `json:"targetKey,omitempty"` // partition key in the target
	Text      string          `json:"text"`
}

func (d Difference) String() string {
	text := fmt.Sprintf("document %q", d.ID)
	if d.SourceKey != nil {
		text += fmt.Sprintf(", key %s in the source", d.SourceKey)
	}
	if d.TargetKey != nil {
		text += fmt.Sprintf(", key %s in the target", d.TargetKey)
	}
	return text + ": " + d.Text
}

// Verify compares the source with the target completely. It reads both containers range
// by range, within the request units of the migration, and holds a page for each range
// in memory, and the documents that differ.
func (m *Migration) Verify(ctx context.Context, source *cosmos.Container, opts *VerifyOptions) (*Verification, error) {
	v := &verifier{m: m, source: source, options: opts.withDefaults(), suspects: map[string]bool{}}
	var err error
	if v.targetPaths, err = m.targetPaths(ctx); err != nil {
		return nil, err
	}
	properties, err := source.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the source container: %w", err)
	}
	v.sourcePaths = parseKeyPaths(properties.PartitionKey.Paths)
	if err := m.scan(ctx, source, v.options.Parallel, v.checkSource); err != nil && !errors.Is(err, errTooMany) {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	if err := m.scan(ctx, m.target, v.options.Parallel, v.checkTarget); err != nil && !errors.Is(err, errTooMany) {
		return nil, fmt.Errorf("read the target: %w", err)
	}
	if err := v.settle(ctx); err != nil {
		return nil, err
	}
	return &v.result, nil
}

// verifier is one comparison.
type verifier struct {
	m                        *Migration
	source                   *cosmos.Container
	sourcePaths, targetPaths keyPaths
	options                  VerifyOptions

	mu       sync.Mutex // guards the fields below
	result   Verification
	suspects map[string]bool // ids of documents that differ, or did
}

// errTooMany ends the scans when the result is full.
var errTooMany = errors.New("too many differences")

// suspect remembers ids to compare again at the end.
func (v *verifier) suspect(ids ...string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, id := range ids {
		v.suspects[id] = true
	}
	if len(v.suspects) > v.options.MaxDifferences {
		v.result.More = true
		return errTooMany
	}
	return nil
}

// checkSource compares a page of the source with its copies.
func (v *verifier) checkSource(ctx context.Context, page []json.RawMessage) error {
	ids, last := make([]string, len(page)), time.Time{}
	for i, document := range page {
		ids[i] = textOf(cosmos.Property(document, "id"))
		last = later(last, document)
	}
	differences, leftOut, err := v.compare(ctx, ids, page, false)
	if err != nil {
		return err
	}
	v.mu.Lock()
	v.result.Source += int64(len(page))
	v.result.LeftOut += leftOut
	if last.After(v.result.LastWrite) {
		v.result.LastWrite = last
	}
	v.mu.Unlock()
	for _, d := range differences {
		if err := v.suspect(d.ID); err != nil {
			return err
		}
	}
	return nil
}

// checkTarget looks for copies whose document does not exist. A copy whose document
// exists was compared with it.
func (v *verifier) checkTarget(ctx context.Context, page []json.RawMessage) error {
	var live, tombstones int64
	wanted := map[[2]string]bool{} // source key and id
	var ids []string
	for _, document := range page {
		id := textOf(cosmos.Property(document, "id"))
		g := parseGuard(cosmos.Property(document, v.m.options.GuardProperty))
		switch {
		case g != nil && g.Deleted:
			tombstones++
			continue
		case g == nil:
			if err := v.suspect(id); err != nil {
				return err
			}
		default:
			wanted[[2]string{g.Key, id}] = true
			ids = append(ids, id)
		}
		live++
	}
	v.mu.Lock()
	v.result.Target += live
	v.result.Tombstones += tombstones
	v.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	existing, err := v.sourceDocuments(ctx, ids, false)
	if err != nil {
		return err
	}
	for _, document := range existing {
		key, err := rowKey(document, len(v.sourcePaths))
		if err != nil {
			return err
		}
		delete(wanted, [2]string{key.text, textOf(document["id"])})
	}
	for document := range wanted {
		if err := v.suspect(document[1]); err != nil {
			return err
		}
	}
	return nil
}

// sourceDocuments reads the documents of the source with some ids: their keys, as k0 and
// so on, or all of them.
func (v *verifier) sourceDocuments(ctx context.Context, ids []string, withContent bool) (documents []properties, err error) {
	for begin := 0; begin < len(ids); begin += idsPerQuery {
		var text strings.Builder
		text.WriteString("SELECT ")
		if withContent {
			text.WriteString("*")
		} else {
			text.WriteString("c.id")
			for i, path := range v.sourcePaths {
				fmt.Fprintf(&text, ", c%s AS k%d", selector(path), i)
			}
		}
		text.WriteString(" FROM c WHERE ")
		q := cosmos.Query{Parameters: appendIDs(&text, ids[begin:min(begin+idsPerQuery, len(ids))]), MaxItems: 2 * idsPerQuery}
		q.Text = text.String()
		err := v.m.queryAll(ctx, v.source, q, func(row json.RawMessage) error {
			var document properties
			if err := json.Unmarshal(row, &document); err != nil {
				return fmt.Errorf("row of the source: %w", err)
			}
			documents = append(documents, document)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for documents of the source: %w", err)
		}
	}
	return documents, nil
}

func textOf(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s) // an id is a text
	return s
}

// later returns the later of a time and a document's.
func later(t time.Time, document json.RawMessage) time.Time {
	var seconds int64
	if json.Unmarshal(cosmos.Property(document, "_ts"), &seconds) != nil {
		return t
	}
	if written := time.Unix(seconds, 0).UTC(); written.After(t) {
		return written
	}
	return t
}
