package sql

import "slices"

// Container is the part of a container's definition on which the results of queries
// depend. The zero value is a container that has none of it.
type Container struct {
	// Computed are the computed properties. Queries read them like properties of a
	// document; SELECT * leaves them out.
	Computed []Computed

	// Indexed are the property names of the paths that the indexing policy includes
	// by name. ORDER BY on one of them keeps documents without the property,
	// https://learn.microsoft.com/azure/cosmos-db/nosql/query/order-by.
	Indexed [][]string

	// Vectors are the paths of the vectorEmbeddingPolicy.
	Vectors []Vector

	// Planar is true if coordinates lie in a plane, and false if on the globe.
	Planar bool
}

// Computed is a computed property of a container,
// https://learn.microsoft.com/azure/cosmos-db/nosql/query/computed-properties.
type Computed struct {
	name  string
	query *Query
}

// ParseComputed reads the definition of a computed property. It returns an [*Error]
// if the query is not of the form SELECT VALUE expression FROM container, or if the
// expression depends on more than the document.
func ParseComputed(name, text string) (Computed, error) {
	q, err := Parse(text)
	if err != nil {
		return Computed{}, err
	}
	s := q.statement
	plain := s.value != nil && len(s.from) == 1 && s.from[0].query == nil && !s.from[0].iterate && len(s.from[0].path) == 0 &&
		!s.distinct && s.top == nil && s.where == nil && !s.grouped() && s.orderBy == nil && s.limit == nil && q.parameters == nil
	if !plain {
		return Computed{}, s.span.errorf(codeSelect, "The query of a computed property must be SELECT VALUE expression FROM c, without other clauses and parameters.")
	}
	return Computed{name, q}, checkComputed(s.value, s.span)
}

// checkComputed fails if an expression depends on more than a document.
func checkComputed(e expr, querySpan span) error {
	switch e := e.(type) {
	case *subquery:
		return querySpan.errorf(codeSelect, "The query of a computed property cannot contain subqueries.")
	case *call:
		if changing[e.name] || spatialFunctions[e.name] != nil {
			return e.span.errorf(codeFunction, "The function %s is not allowed in the query of a computed property.", e.name)
		}
	}
	for _, x := range e.operands() {
		if err := checkComputed(x, querySpan); err != nil {
			return err
		}
	}
	return nil
}

// changing are the functions whose value does not depend on their arguments alone.
var changing = wordSet(`GETCURRENTDATETIME GETCURRENTDATETIMESTATIC GETCURRENTTIMESTAMP GETCURRENTTIMESTAMPSTATIC
	GETCURRENTTICKS GETCURRENTTICKSSTATIC RAND`)

// Parse reads a query over the container. It returns an [*Error] if the service would
// refuse the query.
func (c Container) Parse(text string) (q *Query, err error) {
	defer recoverError(&err)
	p := newParser(text)
	s := p.statement()
	p.needEnd()
	return newQuery(p, s, c), nil
}

// definition returns the query of a computed property, nil if there is none of that
// name.
func (c Container) definition(name string) *Query {
	for _, property := range c.Computed {
		if property.name == name {
			return property.query
		}
	}
	return nil
}

// evaluate returns the value of a computed property for a document.
func (q *Query) evaluate(r *run, document value) value {
	return q.statement.value.eval(&row{run: r, slots: []value{document}})
}

// pathFrom returns the property names of a path that begins at a slot, nil if e is
// another expression.
func pathFrom(slot int, e expr) []string {
	var names []string
	for {
		switch x := e.(type) {
		case *property:
			names, e = append(names, x.name), x.of
		case *name:
			slices.Reverse(names)
			if x.slot != slot {
				return nil
			}
			return names
		default:
			return nil
		}
	}
}

// keepsUndefined reports whether ORDER BY keeps rows whose values are undefined: if
// it has several expressions, or one that is indexed by name.
func (c Container) keepsUndefined(s *statement, documents int) bool {
	if len(s.orderBy) != 1 {
		return true
	}
	path := pathFrom(documents, s.orderBy[0].expr)
	return path != nil && slices.ContainsFunc(c.Indexed, func(indexed []string) bool { return slices.Equal(indexed, path) })
}
