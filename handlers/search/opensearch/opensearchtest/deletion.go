// Package opensearchtest has the part of a stand-in for an OpenSearch cluster that removes
// documents by a query, and indexes of a real node. Only tests import this package.
package opensearchtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// Deletion is a request of the handler opensearch at the end of a snapshot, as it is documented:
// https://docs.opensearch.org/latest/api-reference/document-apis/delete-by-query/
type Deletion struct {
	Limit int // documents that it removes at most
	query query
}

// mostTerms is the number of terms that a cluster takes in one clause, unless index.max_terms_count
// of the index says otherwise.
const mostTerms = 65_536

type query struct {
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

// ParseDeletion reads a request. If the handler makes none of its form, it returns an error.
func ParseDeletion(r *http.Request) (Deletion, error) {
	var d Deletion
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d.query); err != nil {
		return d, fmt.Errorf("delete by query: %w", err)
	}
	parameters := r.URL.Query()
	limit, err := strconv.Atoi(parameters.Get("max_docs"))
	if err != nil || parameters.Get("conflicts") != "proceed" || len(d.query.Query.Bool.Filter) != 3 {
		return d, fmt.Errorf("delete by query: parameters %v, query %+v", parameters, d.query)
	}
	for _, not := range d.query.Query.Bool.MustNot {
		if n := len(not.Terms["_halley.key"]); n == 0 || n > mostTerms {
			return d, fmt.Errorf("delete by query: a clause of %d terms", n)
		}
	}
	d.Limit = limit
	return d, nil
}

// Matches carries out the query on the metadata of a document, given its source. A missing field
// matches no range.
func (d Deletion) Matches(source json.RawMessage) bool {
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
	for _, filter := range d.query.Query.Bool.Filter {
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
	for _, not := range d.query.Query.Bool.MustNot {
		if slices.Contains(not.Terms["_halley.key"], document.Metadata.Key) {
			return false
		}
	}
	return true
}
