package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// Query is a query in the SQL dialect of Cosmos DB.
type Query struct {
	Text       string
	Parameters []Parameter

	// PartitionKey restricts the query to one logical partition. If it is nil,
	// the gateway queries all partitions; it then rejects queries whose partial
	// results must be merged (ORDER BY, aggregates) with 400/1004.
	PartitionKey *PartitionKey

	MaxItems     int    // hint; 0 means the service's own page size
	Continuation string // [QueryPage].Continuation of the page before, to resume a query

	within Range // asks only this physical range; without an id all that the query is for
}

// Parameter is a named value in the text of a query.
type Parameter struct {
	Name  string `json:"name"` // with its @
	Value any    `json:"value"`
}

// QueryPage is one page of a query's results.
type QueryPage struct {
	Items        []json.RawMessage // may be empty, also before the last page
	Continuation string            // of the next page; empty on the last
	Date         time.Time
	Charge       float64
	ActivityID   string
}

// Query runs q and yields its pages. An error ends the sequence.
func (c *Container) Query(ctx context.Context, q Query) iter.Seq2[*QueryPage, error] {
	return func(yield func(*QueryPage, error) bool) {
		parts, err := c.partsOf(ctx, q)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, part := range parts {
			for hasNext := true; hasNext; hasNext = part.Continuation != "" {
				page, err := c.queryPage(ctx, part)
				if err != nil {
					yield(nil, err)
					return
				}
				if !yield(page, nil) {
					return
				}
				part.Continuation = page.Continuation
			}
		}
	}
}

// partsOf returns the queries to run for q: one for each physical range if some of them may be in
// another region than the others, else q.
func (c *Container) partsOf(ctx context.Context, q Query) ([]Query, error) {
	if c.pinnedFor.Load() == 0 || q.PartitionKey != nil || q.Continuation != "" || !c.placements.inUse.Load() {
		return []Query{q}, nil
	}
	ranges, err := c.Ranges(ctx)
	if err != nil {
		return nil, err
	}
	parts := make([]Query, len(ranges))
	for i, r := range ranges {
		parts[i] = q
		parts[i].within = r
	}
	return parts, nil
}

func (c *Container) queryPage(ctx context.Context, q Query) (*QueryPage, error) {
	op, err := c.queryOperation(q)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.do(ctx, op)
	if IsBehindSession(err) && q.within.ID != "" { // a failover has lost the session
		c.sessions.forget(q.within)
		return c.queryPage(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	items, err := scanDocuments(op.answer.bytes, nil, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	page := &QueryPage{
		Items:        make([]json.RawMessage, len(items)),
		Continuation: resp.Header.Get(headerContinuation),
		Date:         op.date,
		Charge:       op.charge,
		ActivityID:   resp.Header.Get(headerActivityID),
	}
	for i, item := range items {
		page.Items[i] = item.Document
	}
	return page, nil
}

func (c *Container) queryOperation(q Query) (*operation, error) {
	if q.Parameters == nil {
		q.Parameters = []Parameter{}
	}
	op := &operation{
		name: "query", kind: "docs", parent: c.link, link: c.link, container: c,
		method: http.MethodPost, path: c.path + "/docs", header: newHeader(),
	}
	var err error
	op.body, err = json.Marshal(struct {
		Query      string      `json:"query"`
		Parameters []Parameter `json:"parameters"`
	}{q.Text, q.Parameters})
	if err != nil {
		return nil, fmt.Errorf("%s: parameters: %w", op, err)
	}
	h := op.header
	h.Set("Content-Type", "application/query+json")
	h.Set(headerIsQuery, "true")
	h.Set(headerMaxItems, strconv.Itoa(pageHint(q.MaxItems)))
	if q.Continuation != "" {
		h.Set(headerContinuation, q.Continuation)
	}
	if q.PartitionKey == nil {
		h.Set(headerCrossPartition, "true")
		if q.within.ID != "" {
			h.Set(headerPartitionRangeID, q.within.ID)
			if token := c.sessions.token(q.within); token != "" { // the region may lack the newest writes
				h.Set(headerSessionToken, token)
			}
		}
		return op, nil
	}
	if err := q.PartitionKey.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	h.Set(headerPartitionKey, q.PartitionKey.header)
	return op, nil
}

// pageHint returns n, or -1, the service's own page size, if n is not positive.
func pageHint(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}
