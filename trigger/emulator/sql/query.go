// Package sql parses and runs the query language of Azure Cosmos DB for NoSQL
// over the documents of one container.
//
// The grammar follows the service's own, as sql.g4 of azure-cosmos-dotnet-v3
// and SqlParser.ts of microsoft/vscode-cosmosdb repeat it, and the meaning of
// expressions the offline query engine in the tests of azure-cosmos-dotnet-v3:
// a missing property is undefined, an operator or function given a wrong type
// is undefined, and what is undefined is left out of results.
//
// Left out, each refused with an [Error]: user-defined, spatial, vector and
// full-text functions, RAND, ORDER BY RANK, LET, ALL, FIRST and LAST, ORDER BY
// together with GROUP BY or aggregates, TOP together with OFFSET LIMIT.
// ORDER BY with several expressions asks for no composite index. Numbers are
// doubles; those that a query takes from a document unchanged keep their text.
package sql

import (
	"encoding/json"
	"iter"
)

// Query is a parsed query. It may be run by several goroutines at once.
type Query struct {
	statement  *statement
	width      int      // slots of a row
	parameters []string // names with their @, by slot
}

// Parse reads a query. The error is an [*Error].
func Parse(text string) (q *Query, err error) {
	defer recoverError(&err)
	p := newParser(text)
	s := p.statement()
	p.needEnd()
	return newQuery(p, s), nil
}

func newQuery(p *parser, s *statement) *Query {
	var r resolver
	r.statement(s, nil, true)
	return &Query{statement: s, width: r.width, parameters: p.parameters}
}

// String is the query in its canonical form, which parses to the same query.
func (q *Query) String() string {
	var p printer
	q.statement.print(&p)
	return p.String()
}

// Properties are what an account must know of a query to route and plan it.
type Properties struct {
	// Streams says that each document gives its results by itself. The results
	// of other queries need all documents, of every range: such a query has
	// ORDER BY, GROUP BY, an aggregate, DISTINCT or a subquery as its input.
	Streams bool

	// Ordered says that each result comes from one document and stands where ORDER BY
	// puts it. A stream goes on behind the place of a result, whatever has become of
	// those before it.
	Ordered bool

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
	whole := s.grouped() || s.orderBy != nil || s.distinct
	return !whole && len(s.from) > 0 && s.from[0].query == nil
}

func (q *Query) ordered() bool {
	s := q.statement
	return s.orderBy != nil && !s.distinct && len(s.from) > 0 && s.from[0].query == nil
}

// Limits are the numbers of TOP and OFFSET LIMIT. Limit is -1 without either.
type Limits struct{ Offset, Limit int }

// Limits reads the numbers of TOP and OFFSET LIMIT, from the parameters where
// the query names some. The error is an [*Error].
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

// Position says where a stream stood after a result, so that another stream can
// go on there. The zero Position is the start.
type Position struct {
	Document int `json:"d,omitempty"` // documents used up; the next one may be half used
	Value    int `json:"v,omitempty"` // values taken from that next one
	Count    int `json:"n,omitempty"` // values taken in all, those that OFFSET skipped included

	// Of a query that is [Properties.Ordered], Document and Value are the last
	// result's own document and row, or -1 as the row where Document is the first
	// behind one that is gone. Keys are the values of ORDER BY.
	Keys json.RawMessage `json:"k,omitempty"`
}

// Result is one value of the answer. Value may share memory with the document
// that it came from.
type Result struct {
	Value json.RawMessage
	After Position
}

// Run returns all results of the query over the documents, which must be valid
// JSON objects in an order that is the same in every run. The error is an
// [*Error]: a parameter that is missing, or data that the query cannot be
// applied to.
func (q *Query) Run(documents iter.Seq[[]byte], parameters map[string]json.RawMessage, env Env) ([]json.RawMessage, error) {
	results := []json.RawMessage{}
	for r, err := range q.Stream(documents, parameters, env, Position{}) {
		if err != nil {
			return nil, err
		}
		results = append(results, r.Value)
	}
	return results, nil
}

// Stream yields the results that follow from. A query that [Properties.Streams]
// takes documents only as its results are asked for, beginning at number
// from.Document of the order: the caller seeks there. Any other query is given
// all documents again. An error, as of [Query.Run], is the last thing yielded.
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

// streamOrdered streams the places behind from.
func (q *Query) streamOrdered(run *run, documents iter.Seq[[]byte], from Position, skip, end int, yield func(Result, error) bool) {
	s, last, err := q.statement, place{document: -1}, error(nil)
	if from.Keys != nil {
		if last, err = from.place(len(s.orderBy)); err != nil {
			yield(Result{}, err)
			return
		}
	}
	if from.Count >= end {
		return
	}
	count := from.Count
	places := s.ordered(&row{run: run, slots: make([]value, q.width)}, new(cursor).read(run, documents))
	if run.err != nil {
		yield(Result{}, run.err)
		return
	}
	for _, p := range places {
		if from.Keys != nil && s.compare(p, last) <= 0 {
			continue
		}
		count++
		if count > skip && !yield(Result{p.result.json(), p.position(count)}, nil) || count >= end {
			return
		}
	}
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

// place reads a position of a query with n keys. A key that is undefined is an
// empty array.
func (p Position) place(n int) (place, error) {
	v, ok := parseText(string(p.Keys))
	list := v.items()
	if !ok || len(list) != n {
		return place{}, &Error{Code: codeValue, Message: "The position is not one of this query."}
	}
	last := place{document: p.Document + 1, row: p.Value}
	for _, key := range list {
		last.keys = append(last.keys, key.element(0))
	}
	return last, nil
}

// cursor keeps the position of a stream.
type cursor struct {
	streams  bool
	from, at Position
}

// read passes documents on, counting them where the query streams.
func (c *cursor) read(run *run, documents iter.Seq[[]byte]) iter.Seq[value] {
	return func(yield func(value) bool) {
		first := true
		for d := range documents {
			if c.streams && !first {
				c.at.Document, c.at.Value = c.at.Document+1, 0
			}
			first, run.combined = false, 0
			run.document++
			if !yield(parseValue(d)) {
				return
			}
		}
	}
}

// next counts a value. It reports whether the value is new, not one that the
// stream before had taken.
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
	return &Condition{newQuery(p, s)}, nil
}

// Match reports whether a document meets the condition. The error is an
// [*Error], of a condition that cannot be applied to the document.
func (c *Condition) Match(document []byte, env Env) (bool, error) {
	only := func(yield func([]byte) bool) { yield(document) }
	results, err := c.query.Run(only, nil, env)
	return len(results) > 0, err
}
