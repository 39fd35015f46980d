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
	"net/http"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// partList is what a letter's document says of the parts of its document.
type partList struct {
	Count    int    `json:"count"`
	Digest   string `json:"digest"`   // of the letter: parts of two attempts never mix
	Document string `json:"document"` // SHA-256 in hex
}

// partDocument is a piece of a document, compressed by itself.
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

// divide cuts the document of a letter into parts.
func (s *Container) divide(d trigger.DeadLetter, k keys) (*partList, []partDocument, error) {
	whole, err := encode(d)
	if err != nil {
		return nil, nil, err
	}
	list := &partList{Digest: digest(string(whole)), Document: sum(d.Document)}
	of := documentID(d.Function, d.ID)
	var parts []partDocument
	for rest := []byte(d.Document); len(rest) > 0; list.Count++ {
		piece := rest[:min(s.partBytes, len(rest))]
		rest = rest[len(piece):]
		id := partID(of, list.Digest, list.Count)
		packed, err := compress(piece)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, partDocument{
			DocumentID: id, PartitionKey: k.property(id), Kind: kindPart, TTL: -1,
			Function: d.Function, Of: of, Digest: list.Digest, Gzip: packed,
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

// join puts the parts of a document together.
func (s *Container) join(ctx context.Context, k keys, doc letterDocument) ([]byte, error) {
	var whole []byte
	for i := range doc.Parts.Count {
		piece, err := s.readPart(ctx, k, doc.Function, partID(doc.DocumentID, doc.Parts.Digest, i))
		if err != nil {
			return nil, err
		}
		whole = append(whole, piece...)
	}
	if sum(whole) != doc.Parts.Document {
		return nil, &DamageError{Where: "document " + doc.DocumentID, Err: errors.New("its parts are not those that were written")}
	}
	return whole, nil
}

func (s *Container) readPart(ctx context.Context, k keys, function, id string) ([]byte, error) {
	resp, err := s.container.Read(ctx, id, k.of(function, id))
	if cosmos.IsStatus(err, http.StatusNotFound, 0) {
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
