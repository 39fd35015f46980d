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
)

// partList is what a letter's document says of its parts.
type partList struct {
	Count  int    `json:"count"`
	Digest string `json:"digest"` // of the letter: parts of two attempts never mix
	SHA256 string `json:"sha256"` // of all parts together, in hex
}

// partDocument is a piece of what pack gives, compressed by itself.
type partDocument struct {
	DocumentID   string `json:"id"`
	PartitionKey string `json:"partitionKey,omitempty"`
	Kind         string `json:"kind"`
	TTL          int    `json:"ttl"`
	Function     string `json:"function"`
	Of           string `json:"of"` // id of the letter's document
	Digest       string `json:"digest"`
	Gzip         []byte `json:"gzip"`
}

func partID(of, digest string, i int) string { return fmt.Sprintf("%s:%s:%d", of, digest, i) }

// images is what may be too large for one document.
type images struct {
	Document image `json:"document,omitzero"`
	Previous image `json:"previous,omitzero"`
}

func pack(r record) ([]byte, error) { return marshal(images{r.Document, r.Previous}) }

// divide cuts the packed images of a letter into parts.
func (s *Container) divide(doc letterDocument, whole []byte, k keys) (*partList, []partDocument, error) {
	head, err := marshal(doc)
	if err != nil {
		return nil, nil, err
	}
	list := &partList{Digest: digest(string(head)), SHA256: sum(whole)}
	var parts []partDocument
	for piece := range slices.Chunk(whole, s.partBytes) {
		id := partID(doc.DocumentID, list.Digest, list.Count)
		list.Count++
		packed, err := compress(piece)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, partDocument{
			DocumentID: id, PartitionKey: k.property(id), Kind: kindPart, TTL: -1,
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

// maxPart bounds what a part may unpack to.
const maxPart = 4 << 20

func expand(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, maxPart+1))
	if err == nil && len(out) > maxPart {
		err = errors.New("too large")
	}
	return out, err
}

// join puts the parts of a letter together.
func (s *Container) join(ctx context.Context, k keys, doc letterDocument) (images, error) {
	var whole []byte
	for i := range doc.Parts.Count {
		piece, err := s.readPart(ctx, k, doc.Function, partID(doc.DocumentID, doc.Parts.Digest, i))
		if err != nil {
			return images{}, err
		}
		whole = append(whole, piece...)
	}
	var r images
	err := json.Unmarshal(whole, &r)
	if err == nil && sum(whole) != doc.Parts.SHA256 {
		err = errors.New("its parts are not those that were written")
	}
	if err != nil {
		return images{}, &DamageError{Where: "document " + doc.DocumentID, Err: err}
	}
	return r, nil
}

func (s *Container) readPart(ctx context.Context, k keys, function, id string) ([]byte, error) {
	resp, err := s.container.Read(ctx, id, k.of(function, id))
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

func (s *Container) deleteParts(ctx context.Context, k keys, doc letterDocument) error {
	for i := range doc.Parts.Count {
		id := partID(doc.DocumentID, doc.Parts.Digest, i)
		if err := s.delete(ctx, k.of(doc.Function, id), id); err != nil {
			return err
		}
	}
	return nil
}

// leftBehind is the age from which parts without a letter are no longer taken
// for those of a Put that is under way.
const leftBehind = time.Hour

// sweep deletes parts of a deleted letter that a Put or a Delete left behind.
func (s *Container) sweep(ctx context.Context, k keys, function, id string) error {
	q := cosmos.Query{
		Text: `SELECT c.id FROM c WHERE c.kind = @kind AND c["of"] = @of AND c._ts < @before`,
		Parameters: []cosmos.Parameter{{Name: "@kind", Value: kindPart}, {Name: "@of", Value: id},
			{Name: "@before", Value: s.container.Client().Now().Add(-leftBehind).Unix()}},
		PartitionKey: k.scope(function),
	}
	for page, err := range s.container.Query(ctx, q) {
		if err != nil {
			return err
		}
		for _, raw := range page.Items {
			var part partDocument
			if err := json.Unmarshal(raw, &part); err != nil {
				return fmt.Errorf("answer to the query of parts: %w", err)
			}
			if err := s.delete(ctx, k.of(function, part.DocumentID), part.DocumentID); err != nil {
				return err
			}
		}
	}
	return nil
}
