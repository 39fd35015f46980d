// Package sql parses and runs the query language of Azure Cosmos DB for NoSQL
// over the documents of one container.
//
// The grammar follows the service's own, as sql.g4 of azure-cosmos-dotnet-v3
// and SqlParser.ts of microsoft/vscode-cosmosdb repeat it, and the meaning of
// expressions the offline query engine in the tests of azure-cosmos-dotnet-v3:
// a missing property is undefined, an operator or function given a wrong type
// is undefined, and undefined values are left out of results.
//
// Left out, each refused with an [Error]: user-defined functions, those of
// [Unsupported], the modifier x of RegexMatch, ORDER BY RANK, LET, ORDER BY together
// with GROUP BY, TOP together with OFFSET LIMIT.
// ORDER BY with several expressions asks for no composite index. Numbers are
// doubles; those that a query takes from a document unchanged keep their text, and others
// are written by package jsonform.
package sql

import (
	"encoding/json"
	"iter"
	"slices"
)

// Query is a parsed query. It may be run by several goroutines at once.
type Query struct {
	statement  *statement
	width      int      // slots of a row
	parameters []string // names with their @, by slot
}

// Parse reads a query. It returns an [*Error] if the service would refuse the query.
func Parse(text string) (*Query, error) { return Container{}.Parse(text) }

func newQuery(p *parser, s *statement, c Container) *Query {
	r := resolver{container: c, documents: noSlot}
	r.statement(s, nil, true)
	return &Query{statement: s, width: r.width, parameters: p.parameters}
}

// String is the query in its canonical form, which parses to the same query.
func (q *Query) String() string {
	var p printer
	q.statement.print(&p)
	return p.String()
}

// Properties describe a query. An account needs them when it routes and plans it.
type Properties struct {
	// Streams is true if each document gives its results by itself. It is false if
	// the query has ORDER BY, GROUP BY, an aggregate or DISTINCT, or a subquery with
	// one of these as its input: then the results need all documents of all ranges.
	Streams bool

	// Ordered is true if each result comes from one document and ORDER BY alone gives
	// its place. A stream then continues after a result even if documents before it
	// have changed.
	Ordered bool

	// Constant is true if the query reads no document: it has one row.
	Constant bool

	// Composed is true if the results are not those of one aggregate over all documents,
	// but of groups, or of expressions that contain aggregates.
	Composed bool

	Filtered    bool // it has a condition
	Distinct    bool
	Top         bool
	OffsetLimit bool
	Join        bool // more than one input
	SelectStar  bool
	SelectValue bool
	OrderBy     []Order
	GroupBy     []string // expressions
	Aggregates  []string // function names in upper case, in the order of the select list
	Aliases     []string // properties of the results, in order; nil for SELECT * and VALUE
	Parameters  []string // names with their @
}

// Order is one expression of ORDER BY.
type Order struct {
	Expression string
	Descending bool
}

// Properties describes the query.
func (q *Query) Properties() Properties {
	s := q.statement
	p := Properties{
		Streams:     q.streams(),
		Ordered:     q.ordered(),
		Constant:    s.constant(),
		Composed:    s.composed(),
		Filtered:    s.where != nil,
		Distinct:    s.distinct,
		Top:         s.top != nil,
		OffsetLimit: s.limit != nil,
		Join:        len(s.from) > 1,
		SelectStar:  s.star,
		SelectValue: s.value != nil,
		Parameters:  q.parameters,
	}
	for _, o := range s.orderBy {
		p.OrderBy = append(p.OrderBy, Order{printed(o.expr), o.descending})
	}
	for _, e := range s.groupBy {
		p.GroupBy = append(p.GroupBy, printed(e))
	}
	for _, c := range s.aggregates {
		p.Aggregates = append(p.Aggregates, c.name)
	}
	for _, it := range s.items {
		p.Aliases = append(p.Aliases, it.name)
	}
	return p
}

func (q *Query) streams() bool {
	s := q.statement
	combinesDocuments := s.grouped() || s.orderBy != nil || s.distinct
	return !combinesDocuments && s.byDocument()
}

// constant reports whether the input is not the container, nor a subquery over it.
func (s *statement) constant() bool {
	return len(s.from) == 0 || s.from[0].query != nil && s.from[0].query.constant()
}

// composed is [Properties].Composed.
func (s *statement) composed() bool {
	if s.groupBy != nil || s.aggregates == nil {
		return s.groupBy != nil
	}
	c, ok := s.value.(*call)
	return !ok || !c.aggregate
}

// byDocument reports whether each document by itself gives rows of the FROM clause: its
// input is the container, or a subquery over the container that does not combine
// documents.
func (s *statement) byDocument() bool {
	if len(s.from) == 0 {
		return false
	}
	q := s.from[0].query
	return q == nil || !q.distinct && !q.grouped() && q.orderBy == nil && q.top == nil && q.limit == nil && q.byDocument()
}

func (q *Query) ordered() bool {
	s := q.statement
	return s.orderBy != nil && !s.distinct && len(s.from) > 0 && s.from[0].query == nil
}

// Limits are the numbers of TOP and OFFSET LIMIT. Limit is -1 if there is neither.
type Limits struct{ Offset, Limit int }

// Limits returns the numbers of TOP and OFFSET LIMIT, from the parameters if the query
// names some. It returns an [*Error] if a parameter is invalid.
func (q *Query) Limits(parameters map[string]json.RawMessage) (Limits, error) {
	r, err := q.newRun(parameters, Env{})
	if err != nil {
		return Limits{}, err
	}
	skip, end, err := q.statement.window(r)
	if err != nil || q.statement.top == nil && q.statement.limit == nil {
		return Limits{Limit: -1}, err
	}
	return Limits{Offset: skip, Limit: end - skip}, nil
}

// Position is the place of a stream after a result; another stream can continue
// there. The zero Position is the start.
type Position struct {
	Document int `json:"d,omitempty"` // documents used up; the next one may be half used
	Value    int `json:"v,omitempty"` // values taken from that next one
	Count    int `json:"n,omitempty"` // values taken in all, those that OFFSET skipped included

	// If the query is [Properties.Ordered], Document and Value are the document and
	// row of the last result. Value is -1 if that document is gone, and Document is
	// the one after it. Keys are the values of ORDER BY.
	Keys json.RawMessage `json:"k,omitempty"`
}

// Result is one value of the answer. Value may share memory with the document
// that it came from.
type Result struct {
	Value json.RawMessage
	After Position
}

// Run returns all results of the query over the documents, which must be valid
// JSON objects in an order that is the same in every run. A parameter that is missing is
// undefined. It returns an [*Error] if the query cannot be applied to the data.
func (q *Query) Run(documents iter.Seq[[]byte], parameters map[string]json.RawMessage, env Env) ([]json.RawMessage, error) {
	results, size := []json.RawMessage{}, 0
	for r, err := range q.Stream(documents, parameters, env, Position{}) {
		if err != nil {
			return nil, err
		}
		if size += len(r.Value); size > maxHeld {
			return nil, heldTooMuch()
		}
		results = append(results, r.Value)
	}
	return results, nil
}

// Stream yields the results after from. If the query is [Properties.Streams], it takes
// documents only when it needs them for a result, and the caller passes those from
// number from.Document on. If not, the caller passes all documents again. If the
// stream fails, it yields an error as of [Query.Run] and ends.
func (q *Query) Stream(documents iter.Seq[[]byte], parameters map[string]json.RawMessage, env Env, from Position) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		run, err := q.newRun(parameters, env)
		if err != nil {
			yield(Result{}, err)
			return
		}
		skip, end, err := q.statement.window(run)
		if err != nil {
			yield(Result{}, err)
			return
		}
		if q.ordered() {
			q.streamOrdered(run, documents, from, skip, end, yield)
			return
		}
		c := &cursor{streams: q.streams(), from: from}
		if c.streams {
			c.at = Position{Document: from.Document, Count: from.Count}
		}
		if max(c.at.Count, from.Count) >= end {
			return
		}
		r := &row{run: run, slots: make([]value, q.width)}
		for v := range q.statement.unlimited(r, c.read(run, documents)) {
			if !c.next() {
				continue
			}
			if c.at.Count > skip && !yield(Result{v.json(), c.at}, nil) || c.at.Count >= end {
				return
			}
		}
		if run.err != nil {
			yield(Result{}, run.err)
		}
	}
}

// streamOrdered streams the results after from, if the query is Ordered.
func (q *Query) streamOrdered(run *run, documents iter.Seq[[]byte], from Position, skip, end int, yield func(Result, error) bool) {
	last, err := q.lastPlace(from)
	if err != nil {
		yield(Result{}, err)
		return
	}
	if from.Count >= end {
		return
	}
	places, err := q.places(run, documents, last)
	if err != nil {
		yield(Result{}, err)
		return
	}
	count := from.Count
	for _, p := range places {
		if last != nil && q.statement.compare(run, p, *last) <= 0 {
			continue
		}
		count++
		for _, k := range p.keys {
			run.spend(k.size())
		}
		if run.err != nil {
			yield(Result{}, run.err)
			return
		}
		if count > skip && !yield(Result{p.result.json(), p.position(count)}, nil) || count >= end {
			return
		}
	}
}

// lastPlace returns the place of the last result before a position, nil at the beginning.
func (q *Query) lastPlace(from Position) (*place, error) {
	if from.Keys == nil {
		return nil, nil
	}
	last, err := from.place(len(q.statement.orderBy))
	return &last, err
}

// places returns the places of all results, in their order. It fails if last, unless nil,
// has other keys than its document.
func (q *Query) places(run *run, documents iter.Seq[[]byte], last *place) ([]place, error) {
	s := q.statement
	places := s.ordered(&row{run: run, slots: make([]value, q.width)}, new(cursor).read(run, documents))
	if run.err != nil {
		return nil, run.err
	}
	if last != nil && slices.ContainsFunc(places, func(p place) bool {
		return p.document == last.document && p.row == last.row && s.compareKeys(run, p.keys, last.keys) != 0
	}) {
		return nil, errOtherPosition()
	}
	return places, nil
}

func (p place) position(count int) Position {
	var keys []byte
	for _, k := range p.keys {
		keys = append(keys, ",["...)
		if k.defined() {
			keys = k.append(keys)
		}
		keys = append(keys, ']')
	}
	keys[0] = '['
	return Position{Document: p.document - 1, Value: p.row, Count: count, Keys: append(keys, ']')}
}

// place reads a position of a query with n keys. If a key is undefined, it is an
// empty array. place fails if the position is not one of such a query.
func (p Position) place(n int) (place, error) {
	last := place{document: p.Document + 1, row: p.Value}
	v, ok := parseText(string(p.Keys))
	for key := range elements(v.raw) {
		last.keys = append(last.keys, undefined)
		for raw := range elements(key) {
			last.keys[len(last.keys)-1] = parseValue(raw)
			break
		}
	}
	if !ok || v.kind != kindArray || len(last.keys) != n {
		return place{}, errOtherPosition()
	}
	return last, nil
}

// errOtherPosition is the error of a position whose keys are not those of its document.
func errOtherPosition() *Error {
	return &Error{Code: codeValue, Message: "The position is not one of this query."}
}

// cursor keeps the position of a stream.
type cursor struct {
	streams  bool
	from, at Position
}

// read yields the documents as values, and counts them if the query streams.
func (c *cursor) read(run *run, documents iter.Seq[[]byte]) iter.Seq[value] {
	return func(yield func(value) bool) {
		first := true
		for d := range documents {
			if c.streams && !first {
				c.at.Document, c.at.Value = c.at.Document+1, 0
			}
			first, run.combined, run.made, run.kept = false, 0, 0, 0
			run.document++
			if !run.spend(rowWork) || !yield(parseValue(d)) {
				return
			}
		}
	}
}

// next counts a value. It returns false if an earlier stream has yielded the value.
func (c *cursor) next() bool {
	if !c.streams {
		c.at.Count++
		return c.at.Count > c.from.Count
	}
	c.at.Value++
	if c.at.Document == c.from.Document && c.at.Value <= c.from.Value {
		return false
	}
	c.at.Count++
	return true
}

// Condition is the predicate of a conditional patch: "from c where …".
type Condition struct{ query *Query }

// ParseCondition reads a condition. The error is an [*Error].
func ParseCondition(text string) (c *Condition, err error) {
	defer recoverError(&err)
	p := newParser(text)
	p.needKeyword("FROM")
	s := &statement{value: &literal{boolean(true)}, from: p.from()}
	p.needKeyword("WHERE")
	s.where = p.expression()
	p.needEnd()
	if len(p.parameters) > 0 {
		return nil, &Error{Code: codeValue, Message: "The query parameter '" + p.parameters[0] + "' is not supplied."}
	}
	return &Condition{newQuery(p, s, Container{})}, nil
}

// Match reports whether a document meets the condition. It returns an [*Error] if
// the condition cannot be applied to the document.
func (c *Condition) Match(document []byte, env Env) (bool, error) {
	documents := func(yield func([]byte) bool) { yield(document) }
	results, err := c.query.Run(documents, nil, env)
	return len(results) > 0, err
}
