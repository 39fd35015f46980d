package deadletter

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/deadletter/internal/record"
)

// partList describes the parts of a dead letter in its main document.
type partList struct {
	Count  int    `json:"count"`
	Digest string `json:"digest"` // of the main document: keeps the parts of two Puts apart
	SHA256 string `json:"sha256"` // of all parts together, in hex
}

// partDocument is one piece of the data that pack returns, compressed
// separately.
type partDocument struct {
	DocumentID   string `json:"id"`
	PartitionKey string `json:"partitionKey,omitempty"`
	Kind         string `json:"kind"`
	TTL          int    `json:"ttl"`
	Function     string `json:"function"`
	Of           string `json:"of"` // id of the main document
	Digest       string `json:"digest"`
	Gzip         []byte `json:"gzip"`
}

func partID(id, digest string, i int) string { return fmt.Sprintf("%s:%s:%d", id, digest, i) }

// images are the fields that may be too large for one document.
type images struct {
	Document record.Image `json:"document,omitzero"`
	Previous record.Image `json:"previous,omitzero"`
}

func pack(r record.Record) ([]byte, error) { return record.Marshal(images{r.Document, r.Previous}) }

// partsLonger is how much longer parts live than their main document, in seconds: a record
// without its parts would be damage.
const partsLonger = 3600

// splitParts splits the packed images of a dead letter into parts.
func (s *Container) splitParts(doc deadLetterDocument, packed []byte, k keys) (*partList, []partDocument, error) {
	head, err := record.Marshal(doc)
	if err != nil {
		return nil, nil, err
	}
	list := &partList{Digest: record.Digest(string(head)), SHA256: sum(packed)}
	ttl := doc.TTL
	if ttl != never {
		ttl += partsLonger
	}
	var parts []partDocument
	for piece := range slices.Chunk(packed, s.partBytes) {
		id := partID(doc.DocumentID, list.Digest, list.Count)
		list.Count++
		packed, err := compress(piece)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, partDocument{
			DocumentID: id, PartitionKey: k.propertyValue(id), Kind: kindPart, TTL: ttl,
			Function: doc.Function, Of: doc.DocumentID, Digest: list.Digest, Gzip: packed,
		})
	}
	return list, parts, nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// maxPartBytes is the limit of an expanded part.
const maxPartBytes = 4 << 20

func expand(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxPartBytes+1))
	if err == nil && len(out) > maxPartBytes {
		err = fmt.Errorf("it expands to more than %d bytes", maxPartBytes)
	}
	return out, err
}

// joinParts reads the parts of a dead letter and restores its images.
func (s *Container) joinParts(ctx context.Context, k keys, doc deadLetterDocument) (images, error) {
	var packed []byte
	for i := range doc.Parts.Count {
		piece, err := s.readPart(ctx, k, doc.Function, partID(doc.DocumentID, doc.Parts.Digest, i))
		if err != nil {
			return images{}, err
		}
		packed = append(packed, piece...)
	}
	var r images
	err := json.Unmarshal(packed, &r)
	if err == nil && sum(packed) != doc.Parts.SHA256 {
		err = errors.New("the checksum of its parts is wrong")
	}
	if err != nil {
		return images{}, &DamageError{Where: "document " + doc.DocumentID, Err: err}
	}
	return r, nil
}

func (s *Container) readPart(ctx context.Context, k keys, function, id string) ([]byte, error) {
	resp, err := s.container.Read(ctx, id, k.partitionKey(function, id))
	if cosmos.IsDocumentNotFound(err) {
		return nil, &DamageError{Where: "document " + id, Err: err}
	}
	if err != nil {
		return nil, err
	}
	var part partDocument
	err = json.Unmarshal(resp.Body, &part)
	if err == nil {
		part.Gzip, err = expand(part.Gzip)
	}
	if err != nil {
		return nil, &DamageError{Where: "document " + id, Err: err}
	}
	return part.Gzip, nil
}

func (s *Container) deleteParts(ctx context.Context, k keys, doc deadLetterDocument) error {
	for i := range doc.Parts.Count {
		id := partID(doc.DocumentID, doc.Parts.Digest, i)
		if err := s.delete(ctx, k.partitionKey(doc.Function, id), id); err != nil {
			return err
		}
	}
	return nil
}

// orphanAge is the age from which parts without a main document are considered
// orphans. Younger ones may belong to a Put that is in progress.
const orphanAge = time.Hour

// deleteOrphanParts deletes the parts of a deleted dead letter that an
// interrupted Put or Delete has left.
func (s *Container) deleteOrphanParts(ctx context.Context, k keys, function, id string) error {
	q := cosmos.Query{
		Text: `SELECT c.id FROM c WHERE c.kind = @kind AND c["of"] = @of AND c._ts < @before`,
		Parameters: []cosmos.Parameter{{Name: "@kind", Value: kindPart}, {Name: "@of", Value: id},
			{Name: "@before", Value: s.container.Client().Now().Add(-orphanAge).Unix()}},
		PartitionKey: k.queryScope(function),
	}
	for page, err := range s.container.Query(ctx, q) {
		if err != nil {
			return err
		}
		for _, raw := range page.Items {
			var part partDocument
			if err := json.Unmarshal(raw, &part); err != nil {
				return fmt.Errorf("result of the query of parts: %w", err)
			}
			if err := s.delete(ctx, k.partitionKey(function, part.DocumentID), part.DocumentID); err != nil {
				return err
			}
		}
	}
	return nil
}
