// Package search has what the handlers of full-text indexes share: the identity and the
// content of an indexed document. Package [halley/handlers/search/bleve] keeps an index in
// a directory of one process, and package [halley/handlers/search/opensearch] writes to
// a cluster. An app links the library of the one that it lists.
package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Hit is a document that a query found.
type Hit struct {
	ID       string          `json:"id"`  // of the document
	Key      string          `json:"key"` // its partition key, a JSON array; "" if the index does not say
	Score    float64         `json:"score"`
	Document json.RawMessage `json:"document"` // as it was indexed
}

// DocumentKey names a document in an index: its id alone is unique only within its
// partition.
func DocumentKey(c trigger.Change) string { return string(c.PartitionKey()) + "/" + c.ID() }

// systemProperties are no content. The guard of a migrated copy is none, either.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn", "_metadata", "_halley"}

// Content returns the properties of a document that are indexed: those in fields, at its
// first level, or all that are not the service's if fields is empty. An error means that
// the document can never be indexed.
func Content(document json.RawMessage, fields []string) (map[string]json.RawMessage, error) {
	var content map[string]json.RawMessage
	if err := json.Unmarshal(document, &content); err != nil {
		return nil, fmt.Errorf("the document is not a JSON object: %w", err)
	}
	if content == nil {
		return nil, errors.New("the document is null, not a JSON object")
	}
	for name := range content {
		if slices.Contains(systemProperties, name) || len(fields) > 0 && name != "id" && !slices.Contains(fields, name) {
			delete(content, name)
		}
	}
	return content, nil
}

// Deleted reports whether a change takes its document out of the index.
func Deleted(c trigger.Change) bool {
	return c.Operation == cosmos.OperationDelete || c.Operation == cosmos.OperationExpire
}

// Query runs a query with a number of hits at most.
type Query func(ctx context.Context, text string, limit int) ([]Hit, error)

// NewCommand returns a command that prints the hits of a query. open returns the query
// for a function of the app, and closes what it opened.
func NewCommand(open func(ctx context.Context, function string) (Query, func() error, error)) *cobra.Command {
	var function string
	var limit int
	var asJSON bool
	c := &cobra.Command{
		Use:   "search TEXT",
		Short: "Look for documents in the full-text index",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if limit < 1 {
				return fmt.Errorf("--limit %d: must be above 0", limit)
			}
			query, done, err := open(cmd.Context(), function)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			hits, err := query(cmd.Context(), args[0], limit)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(hits)
			}
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "SCORE\tID\tDOCUMENT")
			for _, h := range hits {
				fmt.Fprintf(t, "%.3f\t%q\t%.200q\n", h.Score, h.ID, h.Document)
			}
			return t.Flush()
		},
	}
	c.Flags().StringVar(&function, "function", "search", "name of the function that indexes")
	c.Flags().IntVar(&limit, "limit", 10, "hits at most")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
