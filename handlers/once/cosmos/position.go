package cosmos

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/handlers/once"
	"halley/trigger/cosmos"
)

// stored is the document of a position.
type stored struct {
	ID       string      `json:"id"`
	Epoch    int64       `json:"epoch"`
	LSN      int64       `json:"lsn"`
	Time     int64       `json:"time"`
	Versions []string    `json:"versions"`
	TTL      int64       `json:"ttl,omitempty"`   // seconds
	ETag     azcore.ETag `json:"_etag,omitempty"` // of the service
}

func (s stored) position() once.Position {
	return once.Position{Epoch: s.Epoch, LSN: s.LSN, Time: s.Time, Versions: s.Versions}
}

func (s *Store) id(document once.Document) string {
	return s.name + "-position-" + hex.EncodeToString(document[:])
}

// positions reads the positions of documents in the partition, in one request.
func (t *attempt) positions(ctx context.Context, documents []once.Document) (map[once.Document]stored, error) {
	key := cosmos.NewPartitionKey(t.values...)
	found := make(map[once.Document]stored, len(documents))
	if len(documents) == 1 { // a point read costs less than a query
		resp, err := t.container.Read(ctx, t.id(documents[0]), key)
		if cosmos.IsDocumentNotFound(err) {
			return found, nil
		}
		if err == nil {
			found[documents[0]], err = decode(resp.Body)
		}
		if err != nil {
			return nil, fmt.Errorf("read a position: %w", err)
		}
		return found, nil
	}
	ids, byID := make([]string, len(documents)), make(map[string]once.Document, len(documents))
	for i, d := range documents {
		ids[i] = t.id(d)
		byID[ids[i]] = d
	}
	query := cosmos.Query{
		Text:         "SELECT * FROM c WHERE ARRAY_CONTAINS(@ids, c.id)",
		Parameters:   []cosmos.Parameter{{Name: "@ids", Value: ids}},
		PartitionKey: &key,
	}
	for page, err := range t.container.Query(ctx, query) {
		if err != nil {
			return nil, fmt.Errorf("read %d positions: %w", len(documents), err)
		}
		for _, item := range page.Items {
			p, err := decode(item)
			if err != nil {
				return nil, err
			}
			found[byID[p.ID]] = p
		}
	}
	return found, nil
}

func decode(document json.RawMessage) (p stored, err error) {
	if err := json.Unmarshal(document, &p); err != nil {
		return p, fmt.Errorf("decode a position: %w", err)
	}
	if len(p.Versions) == 0 || p.ETag == "" {
		return p, fmt.Errorf("document %q is not a position", p.ID)
	}
	return p, nil
}

// move adds the write of a position. etag is that of the position that was read; if it is
// empty, there was none.
func (t *attempt) move(tx *cosmos.Transaction, document once.Document, p once.Position, etag azcore.ETag) error {
	body, err := t.document(stored{
		ID: t.id(document), Epoch: p.Epoch, LSN: p.LSN, Time: p.Time, Versions: p.Versions, TTL: int64(t.Keep.Seconds()),
	})
	switch {
	case err != nil:
		return err
	case etag == "":
		tx.Create(body)
	default:
		tx.Replace(t.id(document), body, etag)
	}
	return nil
}

// document returns a position as a document of the partition.
func (t *attempt) document(p stored) (map[string]any, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	var body map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		return nil, err
	}
	if len(t.values) != len(t.paths) {
		return nil, fmt.Errorf("the partition has %d values, and the partition key of the sink %d paths: %q", len(t.values), len(t.paths), t.paths)
	}
	for i, path := range t.paths {
		if err := setProperty(body, strings.Split(strings.TrimPrefix(path, "/"), "/"), t.values[i]); err != nil {
			return nil, fmt.Errorf("partition key %s of the sink: %w", path, err)
		}
	}
	return body, nil
}

// setProperty sets a value of the partition key. /id cannot be one: a position has an id
// of its own.
func setProperty(body map[string]any, names []string, value any) error {
	if len(names) == 1 && names[0] == "id" {
		return errors.New("a sink with partition key /id has one document in each partition, and no place for a position")
	}
	for _, name := range names[:len(names)-1] {
		inner, ok := body[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			body[name] = inner
		}
		body = inner
	}
	if value != cosmos.Undefined {
		body[names[len(names)-1]] = value
	}
	return nil
}
