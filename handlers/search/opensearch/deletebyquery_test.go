package opensearch

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// putMapping takes the mapping of the metadata alone.
func (c *cluster) putMapping(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != mapping {
		c.t.Errorf("mapping %s, %v", body, err)
	}
	c.isMapped = true
	fmt.Fprint(w, `{"acknowledged":true}`)
}

// refresh lets searches see all documents.
func (c *cluster) refresh() { c.visible = maps.Clone(c.documents) }

// deletion is a request as the handler makes it.
type deletion struct {
	Query struct {
		Bool struct {
			Filter []struct {
				Term  map[string]string `json:"term"`
				Range map[string]struct {
					GTE *string         `json:"gte"`
					LT  json.RawMessage `json:"lt"`
				} `json:"range"`
			} `json:"filter"`
			MustNot []struct {
				Terms map[string][]string `json:"terms"`
			} `json:"must_not"`
		} `json:"bool"`
	} `json:"query"`
}

// deleteByQuery removes documents that the last refresh shows: a document that was written since is a
// conflict. https://docs.opensearch.org/latest/api-reference/document-apis/delete-by-query/
func (c *cluster) deleteByQuery(w http.ResponseWriter, r *http.Request) {
	var request deletion
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	query := r.URL.Query()
	if err := decoder.Decode(&request); err != nil || !c.isMapped || query.Get("conflicts") != "proceed" || query.Get("refresh") != "true" {
		c.t.Errorf("delete by query %v, mapped %v: %v", query, c.isMapped, err)
	}
	limit, err := strconv.Atoi(query.Get("max_docs"))
	if err != nil {
		c.t.Error(err)
	}
	var found []string
	for _, id := range slices.Sorted(maps.Keys(c.visible)) {
		if c.visible[id].source != nil && request.matches(c.visible[id].source) && len(found) < limit {
			found = append(found, id)
		}
	}
	if c.onDelete != nil {
		c.onDelete()
	}
	deleted, conflicts := 0, 0
	for _, id := range found {
		if c.documents[id].version != c.visible[id].version || string(c.documents[id].source) != string(c.visible[id].source) {
			conflicts++
			continue
		}
		c.documents[id] = stored{c.documents[id].version + 1, nil}
		deleted++
	}
	c.deletes = append(c.deletes, deleted)
	c.refresh()
	fmt.Fprintf(w, `{"took":3,"timed_out":false,"total":%d,"deleted":%d,"version_conflicts":%d,"failures":[]}`, len(found), deleted, conflicts)
}

// matches carries out the query on the metadata of a document. A missing field matches no range.
func (d deletion) matches(source json.RawMessage) bool {
	var document struct {
		Metadata *struct {
			Generation   int64   `json:"generation"`
			EffectiveKey *string `json:"effectiveKey"`
			Key          string  `json:"key"`
			Source       string  `json:"source"`
		} `json:"_halley"`
	}
	if json.Unmarshal(source, &document) != nil || document.Metadata == nil || document.Metadata.EffectiveKey == nil {
		return false
	}
	for _, filter := range d.Query.Bool.Filter {
		if source, ok := filter.Term["_halley.source"]; ok && source != document.Metadata.Source {
			return false
		}
		if limits, ok := filter.Range["_halley.generation"]; ok {
			below, _ := strconv.ParseInt(string(limits.LT), 10, 64)
			if document.Metadata.Generation >= below {
				return false
			}
		}
		if limits, ok := filter.Range["_halley.effectiveKey"]; ok {
			var below string
			_ = json.Unmarshal(limits.LT, &below)
			if *document.Metadata.EffectiveKey >= below || limits.GTE != nil && *document.Metadata.EffectiveKey < *limits.GTE {
				return false
			}
		}
	}
	for _, not := range d.Query.Bool.MustNot {
		if slices.Contains(not.Terms["_halley.key"], document.Metadata.Key) {
			return false
		}
	}
	return len(d.Query.Bool.Filter) == 3
}
