package sql

import (
	"slices"
	"strconv"
)

// resolver binds the names of a query to slots of its rows and checks the rules that
// the grammar does not express. Every source of the query and its subqueries has a
// slot of its own.
type resolver struct {
	width     int // slots given out
	container Container
	documents int // slot of the container's documents
}

// noSlot is the slot of the documents as long as no alias stands for them.
const noSlot = -2

// binding is an alias that expressions may name.
type binding struct {
	alias string
	slot  int
}

// statement resolves s. Its sources see outer's aliases and the ones before
// them; the first source of the whole query is the container.
func (r *resolver) statement(s *statement, outer []binding, outermost bool) {
	scope := slices.Clip(outer)
	for i := range s.from {
		src := &s.from[i]
		r.source(src, scope, outermost && i == 0)
		if src.alias != "" && slices.ContainsFunc(scope[len(outer):], func(b binding) bool { return b.alias == src.alias }) {
			panic(src.span.errorf(codeSelect, "The input alias '%s' is specified more than once in the FROM clause.", src.alias))
		}
		src.slot = r.width
		r.width++
		if outermost && i == 0 && src.query == nil && !src.iterate && len(src.path) == 0 {
			r.documents = src.slot
		}
		scope = append(scope, binding{src.alias, src.slot})
	}
	if s.where != nil {
		r.expr(s.where, scope, "WHERE")
	}
	for _, e := range s.groupBy {
		r.expr(e, scope, "GROUP BY")
	}
	for i := range s.orderBy {
		r.expr(s.orderBy[i].expr, scope, "ORDER BY")
		r.container.vectorOrder(&s.orderBy[i], r.documents)
	}
	s.undefined = s.orderBy != nil && r.container.keepsUndefined(s, r.documents)
	r.selection(s, scope)
}

// container is the slot of a path that begins at the documents themselves.
const container = -1

func (r *resolver) source(src *source, scope []binding, outermost bool) {
	switch {
	case src.query != nil:
		r.statement(src.query, scope, outermost)
	case outermost:
		src.root.slot = container
	default:
		r.name(src.root, scope)
	}
	if len(src.path) > 0 && (outermost || src.root.slot == r.documents) {
		src.computed = r.container.definition(src.path[0].(*literal).value.text)
	}
	for _, step := range src.path {
		v := step.(*literal).value
		if n, ok := v.integer(); v.kind == kindNumber && (!ok || n < 0) {
			panic(src.span.errorf(codeSyntax, "Syntax error, an index of the FROM clause is not a non-negative integer."))
		}
	}
}

// name binds n to the innermost alias of that text. It panics if there is none.
func (r *resolver) name(n *name, scope []binding) {
	for _, b := range slices.Backward(scope) {
		if b.alias == n.text {
			n.slot = b.slot
			return
		}
	}
	panic(n.span.errorf(codeIdentifier, "Identifier '%s' could not be resolved.", n.text))
}

// expr resolves an expression of a clause that takes no aggregates.
func (r *resolver) expr(e expr, scope []binding, clause string) {
	switch e := e.(type) {
	case *name:
		r.name(e, scope)
	case *subquery:
		r.statement(e.query, scope, false)
	case *call:
		if e.aggregate {
			panic(e.span.errorf(codeSelect, "The aggregate function %s is not allowed in %s.", e.name, clause))
		}
	}
	for _, x := range e.operands() {
		r.expr(x, scope, clause)
	}
	r.define(e)
}

// define gives e what depends on the container's definition.
func (r *resolver) define(e expr) {
	switch e := e.(type) {
	case *property:
		if parent, ok := e.of.(*name); ok && parent.slot == r.documents {
			e.computed = r.container.definition(e.name)
		}
	case *call:
		switch {
		case e.name == vectorDistance:
			e.bound = []value{text(r.container.distanceName(e, r.documents))}
		case spatialFunctions[e.name] != nil:
			e.bound = []value{boolean(r.container.Planar)}
		}
	}
}

func (r *resolver) selection(s *statement, scope []binding) {
	for i := range s.items {
		r.selected(s, s.items[i].expr, scope)
	}
	if s.value != nil {
		r.selected(s, s.value, scope)
	}
	nameItems(s.items)
	if s.star {
		checkStar(s)
	}
	if s.grouped() {
		checkGrouped(s)
	}
	if s.top != nil && s.limit != nil {
		panic(s.span.errorf(codeLimit, "TOP and OFFSET LIMIT cannot be used together."))
	}
}

// selected resolves an expression of the select list and collects aggregates.
func (r *resolver) selected(s *statement, e expr, scope []binding) {
	if c, ok := e.(*call); ok && c.aggregate {
		c.slot = len(s.aggregates)
		s.aggregates = append(s.aggregates, c)
		r.expr(c.arguments[0], scope, "an aggregate function")
		return
	}
	switch e := e.(type) {
	case *name:
		r.name(e, scope)
	case *subquery:
		r.statement(e.query, scope, false)
	}
	for _, x := range e.operands() {
		r.selected(s, x, scope)
	}
	r.define(e)
}

// grouped reports whether a row of the result stands for several of the input.
func (s *statement) grouped() bool { return s.groupBy != nil || s.aggregates != nil }

// nameItems gives each item the property that it becomes.
func nameItems(items []item) {
	unnamed := 0
	taken := make(map[string]bool)
	for i := range items {
		it := &items[i]
		if it.name = it.alias; it.name == "" {
			it.name = inferName(it.expr)
		}
		if it.name == "" {
			unnamed++
			it.name = "$" + strconv.Itoa(unnamed)
		}
		if taken[it.name] {
			panic(it.named.errorf(codeDuplicate, "Object creation error, property name '%s' specified more than once.", it.name))
		}
		taken[it.name] = true
	}
}

// inferName returns the last name of a path, "" if e is another expression.
func inferName(e expr) string {
	switch e := e.(type) {
	case *name:
		return e.text
	case *property:
		return e.name
	}
	return ""
}

func checkStar(s *statement) {
	switch {
	case len(s.from) == 0:
		panic(s.span.errorf(codeSelect, "'SELECT *' is not valid if FROM clause is omitted."))
	case len(s.from) > 1:
		panic(s.span.errorf(codeSelect, "'SELECT *' is only valid with a single input set."))
	case s.groupBy != nil:
		panic(s.span.errorf(codeSelect, "'SELECT *' is not valid with GROUP BY."))
	}
}

// checkGrouped panics if an expression of the select list contains anything other
// than grouping expressions, aggregates and constants.
func checkGrouped(s *statement) {
	if s.orderBy != nil && s.groupBy != nil {
		panic(s.span.errorf(codeSelect, "ORDER BY is not supported together with GROUP BY."))
	}
	s.orderBy = nil // a single result has an order; Spring Data counts with the ORDER BY of a page
	g := groupCheck{keys: make(map[string]bool), counts: make(map[int]bool), nodes: make(map[expr]int)}
	for _, e := range s.groupBy {
		g.keys[printed(e)] = true
		g.counts[g.count(e)] = true
	}
	for _, it := range s.items {
		g.count(it.expr)
		g.check(it.expr, it.span)
	}
	if s.value != nil {
		g.count(s.value)
		g.check(s.value, s.span)
	}
}

// groupCheck compares expressions with those of GROUP BY. It prints only expressions
// of as many nodes as one of them: printing each part of a long chain of operators
// would take time quadratic in its length.
type groupCheck struct {
	keys   map[string]bool // expressions of GROUP BY, printed
	counts map[int]bool    // nodes of these expressions
	nodes  map[expr]int    // nodes of every expression
}

func (g *groupCheck) count(e expr) int {
	n := 1
	for _, x := range e.operands() {
		n += g.count(x)
	}
	g.nodes[e] = n
	return n
}

func (g *groupCheck) check(e expr, itemSpan span) {
	if g.counts[g.nodes[e]] && g.keys[printed(e)] {
		return
	}
	switch e := e.(type) {
	case *call:
		if e.aggregate {
			return
		}
	case *name, *property, *index, *subquery:
		panic(itemSpan.errorf(codeSelect, "'%s' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause.", printed(e)))
	}
	for _, x := range e.operands() {
		g.check(x, itemSpan)
	}
}
