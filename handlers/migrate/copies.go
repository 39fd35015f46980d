package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
)

// targetCopy is a document of the target with the id of a source document.
type targetCopy struct {
	id       string
	key      targetKey
	etag     azcore.ETag
	guard    *guard          // nil if the migration did not write it
	document json.RawMessage // if it was asked for
}

// own reports whether the copy, or tombstone, is one of the source document.
func (c *targetCopy) own(source string) bool { return c.guard != nil && c.guard.Key == source }

// idsPerQuery bounds the text of a query: an id has at most 1,023 bytes.
const idsPerQuery = 100

// findCopies reads all documents of the target with some ids, in all partitions: copies,
// tombstones and documents of others. If withContent is set, it also reads their content.
func (m *Migration) findCopies(ctx context.Context, ids []string, withContent bool) (map[string][]*targetCopy, error) {
	paths, err := m.targetPaths(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string][]*targetCopy{}
	for begin := 0; begin < len(ids); begin += idsPerQuery {
		q := m.copiesQuery(ids[begin:min(begin+idsPerQuery, len(ids))], paths, withContent)
		err := m.queryAll(ctx, m.target, q, func(row json.RawMessage) error {
			c, err := m.parseCopy(row, paths, withContent)
			if err != nil {
				return err
			}
			found[c.id] = append(found[c.id], c)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for copies: %w", err)
		}
	}
	return found, nil
}

// copiesQuery selects documents by their ids.
func (m *Migration) copiesQuery(ids []string, paths keyPaths, withContent bool) cosmos.Query {
	var text strings.Builder
	text.WriteString("SELECT ")
	if withContent {
		text.WriteString("*")
	} else {
		text.WriteString(`c.id, c._etag, c[` + strconv.Quote(m.options.GuardProperty) + `] AS guard`)
		for i, path := range paths {
			fmt.Fprintf(&text, ", c%s AS k%d", selector(path), i)
		}
	}
	text.WriteString(" FROM c WHERE ")
	q := cosmos.Query{MaxItems: 2 * idsPerQuery}
	q.Parameters = appendIDs(&text, ids)
	q.Text = text.String()
	return q
}

// appendIDs writes the condition that an id is one of ids.
func appendIDs(text *strings.Builder, ids []string) (parameters []cosmos.Parameter) {
	text.WriteString("c.id IN (")
	for i, id := range ids {
		name := "@id" + strconv.Itoa(i)
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(name)
		parameters = append(parameters, cosmos.Parameter{Name: name, Value: id})
	}
	text.WriteString(")")
	return parameters
}

// selector is a path in the syntax of queries.
func selector(path []string) string {
	var text strings.Builder
	for _, name := range path {
		text.WriteString("[" + strconv.Quote(name) + "]")
	}
	return text.String()
}

// parseCopy reads a row of copiesQuery, or a whole document of the target.
func (m *Migration) parseCopy(row json.RawMessage, paths keyPaths, withContent bool) (*targetCopy, error) {
	var fields properties
	if err := json.Unmarshal(row, &fields); err != nil {
		return nil, fmt.Errorf("row of the target: %w", err)
	}
	c := &targetCopy{}
	if err := json.Unmarshal(fields["id"], &c.id); err != nil {
		return nil, fmt.Errorf("id in a row of the target: %w", err)
	}
	if err := json.Unmarshal(fields["_etag"], &c.etag); err != nil {
		return nil, fmt.Errorf("etag of %q in the target: %w", c.id, err)
	}
	rawGuard := fields["guard"]
	var err error
	if withContent {
		c.document, rawGuard = row, fields[m.options.GuardProperty]
		c.key, err = paths.keyOf(fields)
	} else {
		c.key, err = rowKey(fields, len(paths))
	}
	if err != nil {
		return nil, fmt.Errorf("document %q in the target: %w", c.id, err)
	}
	c.guard = parseGuard(rawGuard)
	return c, nil
}

func rowKey(fields properties, n int) (targetKey, error) {
	values := make([]any, n)
	for i := range values {
		var err error
		if values[i], err = keyValue(fields["k"+strconv.Itoa(i)]); err != nil {
			return targetKey{}, err
		}
	}
	return newTargetKey(values), nil
}

// parseGuard returns nil if the property is missing or not a guard.
func parseGuard(raw json.RawMessage) *guard {
	var g guard
	if raw == nil || json.Unmarshal(raw, &g) != nil || g.Key == "" {
		return nil
	}
	return &g
}

// queryAll calls each with the rows of a query, within the budget.
func (m *Migration) queryAll(ctx context.Context, in *cosmos.Container, q cosmos.Query, each func(json.RawMessage) error) error {
	for {
		page, err := m.queryPage(ctx, in, q)
		if err != nil {
			return err
		}
		for _, row := range page.Items {
			if err := each(row); err != nil {
				return err
			}
		}
		if q.Continuation = page.Continuation; q.Continuation == "" {
			return nil
		}
	}
}

func (m *Migration) queryPage(ctx context.Context, in *cosmos.Container, q cosmos.Query) (page *cosmos.QueryPage, err error) {
	err = m.budget.send(ctx, func(ctx context.Context) (float64, error) {
		for page, err = range in.Query(ctx, q) {
			break // the caller asks for the next page
		}
		if err != nil {
			return 0, err
		}
		return page.Charge, nil
	})
	return page, err
}
