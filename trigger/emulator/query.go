package emulator

import (
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"halley/trigger/emulator/jsonform"
	"halley/trigger/emulator/sql"
)

// queryText is a query as clients post it.
type queryText struct {
	*sql.Query
	parameters map[string]json.RawMessage
}

// sqlType is the content type of a query without parameters, the text of which is the
// body.
const sqlType = "application/sql"

// parseQuery reads the body of a query request over a container, or over other
// resources if its definition is the zero value. A parameter without a value is undefined.
func (c *call) parseQuery(definition sql.Container) (queryText, error) {
	body := c.body
	if strings.HasPrefix(c.header.Get("Content-Type"), sqlType) && !json.Valid(body) {
		body = encode(map[string]string{"query": string(body)})
	}
	var posted struct {
		Query      string
		Parameters []struct {
			Name  string
			Value json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &posted); err != nil {
		return queryText{}, badRequest("The query is not a JSON object with \"query\" and \"parameters\": %v.", err)
	}
	if err := checkQueryBody(body); err != nil {
		return queryText{}, err
	}
	q := queryText{parameters: make(map[string]json.RawMessage)}
	names := make(map[string]bool)
	for _, p := range posted.Parameters {
		if names[p.Name] {
			return queryText{}, badRequest("%s", errorList("Invalid query. Specified duplicate parameter name '"+shortened(p.Name, maxName)+"'."))
		}
		if names[p.Name] = true; p.Value != nil {
			q.parameters[p.Name] = p.Value
		}
	}
	var err error
	q.Query, err = definition.Parse(posted.Query)
	return q, queryFailure(err)
}

// checkQueryBody fails if the body asks for more than a query with parameters.
func checkQueryBody(body []byte) error {
	var properties map[string]json.RawMessage
	_ = json.Unmarshal(body, &properties) // the caller has read it
	for name := range properties {
		if !strings.EqualFold(name, "query") && !strings.EqualFold(name, "parameters") {
			return unsupported("The property "+shortened(name, maxName)+" of a query", "send query and parameters")
		}
	}
	return nil
}

// queryDefinition is the part of the container's definition that queries depend on.
func (o *container) queryDefinition() sql.Container {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.query
}

// queryFailure makes a bad request of an error in a query, in the words of the service.
func queryFailure(err error) error {
	var e *sql.Error
	if !errors.As(err, &e) {
		return err
	}
	type location struct {
		Start int `json:"start"`
		End   int `json:"end"`
	}
	type queryError struct {
		Severity string   `json:"severity"`
		Location location `json:"location"`
		Code     string   `json:"code"`
		Message  string   `json:"message"`
	}
	text := encode(map[string][]queryError{"errors": {{"Error", location{e.Start, e.End}, e.Code, shortened(e.Message, maxMessage/8)}}})
	return badRequest("Message: %s", text)
}

// queryItems answers a query over the items of a container.
func (c *call) queryItems() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	q, err := c.parseQuery(o.queryDefinition())
	if err != nil {
		return nil, err
	}
	return c.runQuery(o, q)
}

// listItems answers a read of all items.
func (c *call) listItems() (*response, error) {
	all, err := sql.Parse("SELECT * FROM c")
	if err != nil {
		return nil, err
	}
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	return c.runQuery(o, queryText{Query: all})
}

// runQuery answers one page.
func (c *call) runQuery(o *container, q queryText) (*response, error) {
	s, err := c.scan(q, o)
	if err != nil {
		return nil, err
	}
	if err := c.checkCrossPartition(q, s); err != nil {
		return nil, err
	}
	limit, err := c.pageLimit()
	if err != nil {
		return nil, err
	}
	from, err := c.continuation()
	if err != nil {
		return nil, err
	}
	if err := c.catalog.queries.Acquire(c.ctx, 1); err != nil {
		c.ended = err
		return nil, err
	}
	defer c.catalog.queries.Release(1)
	found, err := q.page(s, from, limit)
	if err != nil {
		return nil, err
	}
	return c.finishQuery(s, found, q.Properties())
}

// checkCrossPartition fails if the service's gateway could not answer by itself:
// https://learn.microsoft.com/rest/api/cosmos-db/querying-cosmosdb-resources-using-the-rest-api.
// From the text of the refusal of groups and composed aggregates, @azure/cosmos learns that
// it has to ask for a plan. The texts are those of recorded answers of a hosted account,
// October 2026.
func (c *call) checkCrossPartition(q queryText, s *scan) error {
	p := q.Properties()
	if p.Constant || s.prefix || s.rangeID != "" || c.method == http.MethodGet {
		return nil
	}
	if !strings.EqualFold(c.header.Get("X-Ms-Documentdb-Query-Enablecrosspartition"), "true") {
		return badRequest("Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception.")
	}
	switch {
	case p.Streams && !p.Top && !p.OffsetLimit:
		return nil
	case p.Composed:
		return badRequest("%s", errorList("Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates."))
	}
	f := fail(http.StatusBadRequest, subCrossPartition, "The provided cross partition query can not be directly served by the gateway. This is a first chance (internal) exception that all newer clients will know how to handle gracefully. This exception is traced, but unless you see it bubble up as an exception (which only happens on older SDK clients), then you can safely ignore this message.")
	if plan, err := q.plan(s.span); err == nil {
		f.info = string(encode(plan)) // if it is there, @azure/cosmos runs the plan itself
	}
	return f
}

// bookmark is the continuation of a query, x-ms-continuation. It names an item and
// not a range, so it stays valid when ranges split or merge.
type bookmark struct {
	Item  int64 `json:"item,omitempty"`  // sequence number of the item that may be half used
	Value int   `json:"value,omitempty"` // values taken from it
	Count int   `json:"count,omitempty"` // values taken in all

	// Keys are the ORDER BY values of the last result, whose item and row Item and
	// Value then name. Clients may continue with another filter.
	Keys json.RawMessage `json:"keys,omitempty"`

	// Min and Max bound the keys whose results Count counts, if a client puts the results of
	// ranges together and the query combines documents. When their range has split, the
	// child with the first of these keys continues for all of them.
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`
}

func (c *call) continuation() (bookmark, error) {
	var b bookmark
	text := c.header.Get("X-Ms-Continuation")
	if text == "" {
		return b, nil
	}
	if err := unmarshalStrict([]byte(text), &b); err != nil || b.Item < 0 || b.Value < 0 || b.Count < 0 {
		return b, badRequest("Invalid Continuation Token")
	}
	return b, nil
}

// queryBytes bounds the values of a page, which its head and end follow.
const queryBytes = pageBytes - 256

// results are one page of a query.
type results struct {
	values [][]byte
	size   int
	next   *bookmark // nil at the end
}

// full reports whether the page is full, or has no room for a next value of so many bytes.
func (r *results) full(limit, next int) bool {
	return len(r.values) >= limit || len(r.values) > 0 && r.size+len(r.values)+next > queryBytes
}

// page runs the query from a bookmark until a page is full. If the query streams, a
// full page always has a next one, which may be empty, as on the service.
func (q queryText) page(s *scan, from bookmark, limit int) (results, error) {
	window, err := q.Limits(q.parameters)
	if err != nil {
		return results{}, queryFailure(err)
	}
	properties := q.Properties()
	combines := !properties.Streams && !properties.Ordered
	next := bookmark{}
	if combines && s.rangeID != "" && s.key == "" {
		continues, err := s.bound(from)
		if err != nil || !continues {
			return results{}, err
		}
		next.Min, next.Max = s.min, s.max
	}
	if from.Count > 0 && (from.Max == "") != (next.Max == "") {
		return results{}, badRequest("The continuation is one of another query: run the query again.")
	}
	documents, position, err := s.input(properties, from)
	if err != nil {
		return results{}, err
	}
	var found results
	for r, err := range q.Stream(documents, q.parameters, s.env, position) {
		if err != nil {
			return results{}, queryFailure(err)
		}
		if !properties.SelectStar {
			r.Value = jsonform.Projected(r.Value)
		}
		if found.full(limit, len(r.Value)) { // there are more results
			next.Count = position.Count
			found.next = &next
			if !combines {
				found.next = s.bookmark(position, window)
			}
			break
		}
		found.values = append(found.values, r.Value)
		found.size += len(r.Value)
		position = r.After
		if properties.Streams && found.full(limit, 0) {
			found.next = s.bookmark(r.After, window)
			break
		}
	}
	return found, s.err
}

// input returns the documents for a query that continues at a bookmark, and the position
// of the bookmark among them.
func (s *scan) input(properties sql.Properties, from bookmark) (iter.Seq[[]byte], sql.Position, error) {
	position := sql.Position{Count: from.Count}
	switch {
	case properties.Streams:
		var err error
		position.Value, err = s.begin(from)
		return s.documents(), position, err
	case properties.Ordered:
		all, position := s.resume(from)
		return slices.Values(all), position, nil
	}
	return s.documents(), position, nil
}

// queryBodies answers a query over resources other than items.
func (c *call) queryBodies(rid, name string, bodies [][]byte) (*response, error) {
	q, err := c.parseQuery(sql.Container{})
	if err != nil {
		return nil, err
	}
	if err := c.catalog.queries.Acquire(c.ctx, 1); err != nil {
		c.ended = err
		return nil, err
	}
	defer c.catalog.queries.Release(1)
	found, err := q.Run(slices.Values(bodies), q.parameters, c.env())
	if err != nil {
		return nil, queryFailure(err)
	}
	members := make([][]byte, len(found))
	for i, member := range found {
		members[i] = member
	}
	return list(rid, name, members), nil
}

func (c *call) queryDatabases() (*response, error) {
	return c.queryBodies("", "Databases", c.databaseBodies())
}

func (c *call) queryContainers() (*response, error) {
	rid, bodies, err := c.containerBodies()
	if err != nil {
		return nil, err
	}
	return c.queryBodies(rid, "DocumentCollections", bodies)
}

func (c *call) queryOffers() (*response, error) {
	return c.queryBodies("", "Offers", c.offerBodies())
}

// env is the environment of the call's queries.
func (c *call) env() sql.Env { return sql.Env{Now: c.now, Context: c.ctx} }

// conditionWork bounds the condition of a patch, which is evaluated under the lock of
// the container: about 50 milliseconds, see sql.Env.
const conditionWork = 25_000_000

// matches reports whether a document meets the condition of a patch.
func matches(condition string, document []byte, now time.Time) (bool, error) {
	parsed, err := sql.ParseCondition(condition)
	if err != nil {
		return false, queryFailure(err)
	}
	ok, err := parsed.Match(document, sql.Env{Now: now, Work: conditionWork})
	return ok, queryFailure(err)
}
