package opensearch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"halley/trigger"
)

// metadataField is the property of indexed documents that holds their metadata. Content of the
// container has none of this name, see package search.
const metadataField = "_halley"

// metadata is what an indexed document has in addition, if its function starts from a snapshot: so
// the index can tell which documents a later snapshot has not shown.
type metadata struct {
	Generation   int64  `json:"generation"`
	EffectiveKey string `json:"effectiveKey,omitempty"` // missing in a dead letter that is replayed
	Key          string `json:"key"`                    // partition key, a JSON array
	Source       string `json:"source"`                 // database and name of the container: others may have documents in the index
}

// mapping are the types of the metadata. Without it, a cluster would take keys apart into words.
const mapping = `{"properties":{"_halley":{"properties":{"generation":{"type":"long"},"effectiveKey":{"type":"keyword"},"key":{"type":"keyword"},"source":{"type":"keyword"}}}}}`

// addMetadata adds the metadata of a change to the content of its document.
func (x *Index) addMetadata(content map[string]json.RawMessage, c trigger.Change) error {
	if c.Generation() == 0 {
		return nil
	}
	text, err := json.Marshal(metadata{c.Generation(), c.EffectiveKey(), string(c.PartitionKey()), x.source})
	content[metadataField] = text
	return err
}

// putMapping adds the mapping of the metadata to the index, once for each process.
func (x *Index) putMapping(ctx context.Context) error {
	if x.isMapped.Load() {
		return nil
	}
	var answer struct{ Acknowledged bool }
	if _, err := x.request(ctx, http.MethodPut, "/"+x.settings.Index+"/_mapping", "application/json", []byte(mapping), &answer); err != nil {
		return fmt.Errorf("add the mapping %s, for which the user needs indices:admin/mapping/put: %w", mapping, err)
	}
	x.isMapped.Store(true)
	return nil
}

const (
	removeStep = 1000   // documents that one request removes at most
	mostTerms  = 65_536 // keys in one clause of a query, by default (index.max_terms_count)
)

// RemoveUnshown is the SnapshotRead of a function that starts from a snapshot. It removes the
// documents of the range that neither this snapshot nor a later change has shown, except those of
// the kept keys, by queries of at most removeStep documents. A document that is indexed meanwhile
// is a conflict of versions, and is looked at again. Documents without metadata stay: their range
// is not known.
func (x *Index) RemoveUnshown(ctx context.Context, end trigger.SnapshotEnd) error {
	if err := x.putMapping(ctx); err != nil {
		return err
	}
	query, err := x.unshownQuery(end)
	if err != nil {
		return err
	}
	for {
		// Without the refresh, the search would find again the documents that were conflicts before.
		var refreshed struct{}
		if _, err := x.request(ctx, http.MethodPost, "/"+x.settings.Index+"/_refresh", "", nil, &refreshed); err != nil {
			return fmt.Errorf("refresh the index: %w", err)
		}
		var answer struct {
			Deleted   int               `json:"deleted"`
			Conflicts int               `json:"version_conflicts"`
			Failures  []json.RawMessage `json:"failures"`
		}
		path := fmt.Sprintf("/%s/_delete_by_query?conflicts=proceed&max_docs=%d", x.settings.Index, removeStep)
		if _, err := x.request(ctx, http.MethodPost, path, "application/json", query, &answer); err != nil {
			return fmt.Errorf("remove documents that the snapshot has not shown: %w", err)
		}
		switch {
		case len(answer.Failures) > 0:
			return fmt.Errorf("remove documents that the snapshot has not shown: %d failures, the first is %.300s", len(answer.Failures), answer.Failures[0])
		case answer.Deleted == 0 && answer.Conflicts == 0:
			return nil
		}
	}
}

// unshownQuery returns the query for the documents that RemoveUnshown removes.
func (x *Index) unshownQuery(end trigger.SnapshotEnd) ([]byte, error) {
	limits := map[string]string{"lt": end.Range.Max}
	if end.Range.Min != "" {
		limits["gte"] = end.Range.Min
	}
	kept := []any{}
	for keys := range slices.Chunk(end.KeptKeys, mostTerms) {
		kept = append(kept, map[string]any{"terms": map[string]any{"_halley.key": keys}})
	}
	return json.Marshal(map[string]any{"query": map[string]any{"bool": map[string]any{
		"filter": []any{
			map[string]any{"term": map[string]string{"_halley.source": x.source}},
			map[string]any{"range": map[string]any{"_halley.effectiveKey": limits}},
			map[string]any{"range": map[string]any{"_halley.generation": map[string]int64{"lt": end.Generation}}},
		},
		"must_not": kept,
	}}})
}
