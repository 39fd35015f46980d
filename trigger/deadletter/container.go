package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/record"
)

// ContainerOptions are the options of [NewContainer]. The zero value of each
// field means its default.
type ContainerOptions struct {
	// Window is how many records a query sorts in memory at a time; if there
	// are more, it queries the container again for each further window. The
	// default is 10,000, about 2 MB.
	Window int
	// Retention is how long the service keeps a dead letter after its last write, in whole
	// seconds, if the container has a time to live, such as a defaultTtl of -1. 0 is forever.
	// Records that are postponed, or follow a dead letter of their key, stay.
	Retention time.Duration
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
// truncates Error and Stack to 64 KiB. Records never expire, whatever the container's time to
// live, unless [ContainerOptions.Retention] says so.
//
// If a host is killed during Put, part documents can remain. They are not
// visible. Deleting the dead letter of the same change deletes them if they are
// at least an hour old.
//
// The service filters: a query reads the records of its page alone, at most 1,000 of them, or
// 8 MB, or for 20 seconds.
//
// If the kind or source of a document is edited, the document is not a dead
// letter of the source any more. If another property gets a value that a record cannot
// have, that is damage, which Query reports.
type Container struct {
	container *cosmos.Container
	search    *record.Search
	partBytes int
	retention time.Duration
}

// NewContainer returns a store in a Cosmos DB container. It does no I/O.
func NewContainer(c *cosmos.Container, opts *ContainerOptions) (*Container, error) {
	if c == nil {
		return nil, errors.New("dead letter container: no container given")
	}
	if opts == nil {
		opts = &ContainerOptions{}
	}
	switch {
	case opts.Window < 0:
		return nil, errors.New("dead letter container: option Window is negative")
	case opts.Retention < 0 || opts.Retention%time.Second != 0:
		return nil, fmt.Errorf("dead letter container: option Retention is %v: give whole seconds, or 0 to keep dead letters", opts.Retention)
	}
	search := record.NewSearch(cmp.Or(opts.Window, record.DefaultWindow))
	return &Container{container: c, search: search, partBytes: 1 << 20, retention: opts.Retention}, nil
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

// read reads a main document; nil if it does not exist. The result may be older
// than the current state.
func (s *Container) read(ctx context.Context, k keys, source trigger.DeadLetterSource, id string) (*storedDocument, error) {
	resp, err := s.container.Read(ctx, id, k.partitionKey(source.Function, id))
	if cosmos.IsDocumentNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var doc deadLetterDocument
	if err := decodeDocument(resp.Body, &doc); err != nil {
		return nil, &DamageError{Where: "document " + id, Err: err}
	}
	if doc.Kind != kindDeadLetter || documentID(source, doc.DeadLetterID) != id || doc.Source() != source {
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
