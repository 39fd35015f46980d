package sql

import (
	"encoding/json"
	"slices"
)

// Plan says how a client answers a query over several ranges: it sends Rewritten
// to each of them and puts the results together. It is the queryInfo of a
// PartitionedQueryExecutionInfo, as the baselines of QueryPlanBaselineTests in
// azure-cosmos-dotnet-v3 show it.
type Plan struct {
	Distinct           string             `json:"distinctType"` // None, Ordered (equal results follow each other) or Unordered
	Top                *int               `json:"top"`
	Offset             *int               `json:"offset"`
	Limit              *int               `json:"limit"`
	OrderBy            []string           `json:"orderBy"` // Ascending or Descending
	OrderByExpressions []string           `json:"orderByExpressions"`
	GroupByExpressions []string           `json:"groupByExpressions"`
	GroupByAliases     []string           `json:"groupByAliases"`
	Aggregates         []string           `json:"aggregates"`                  // the one of SELECT VALUE
	AliasAggregates    map[string]*string `json:"groupByAliasToAggregateType"` // of a select list; null = no aggregate
	Rewritten          string             `json:"rewrittenQuery"`              // "" = the query as it is
	SelectValue        bool               `json:"hasSelectValue"`
	NonStreaming       bool               `json:"hasNonStreamingOrderBy"`
	DistinctCount      *DistinctCount     `json:"dCountInfo,omitempty"` // the result is the number of distinct results
}

// DistinctCount says how a client answers with the number of distinct results.
type DistinctCount struct {
	Alias string `json:"dCountAlias"` // the property of the result; "" = the result is the number itself
}

// orderFilter is a placeholder in rewritten queries with ORDER BY. When clients
// resume in the middle of a range, they put a condition in its place, else true.
const orderFilter = "({documentdb-formattableorderbyquery-filter})"

// aggregateOperators are the names of the aggregate functions in plans.
var aggregateOperators = map[string]string{
	"AVG": "Average", "COUNT": "Count", "COUNTIF": "CountIf", "MAKELIST": "MakeList", "MAKESET": "MakeSet", "MAX": "Max", "MIN": "Min", "SUM": "Sum",
}

// Plan plans the query. It returns an [*Error] if clients cannot combine the results
// of several ranges, or if a parameter is invalid. A query that is [Properties].Constant
// goes as it is to one range.
func (q *Query) Plan(parameters map[string]json.RawMessage) (Plan, error) {
	window, err := q.Limits(parameters)
	if err != nil {
		return Plan{}, err
	}
	return q.combined(window)
}

// PlanOfKey plans the query for one partition key. One range holds its documents, so a
// query whose results clients could not combine goes to this range as it is.
func (q *Query) PlanOfKey(parameters map[string]json.RawMessage) (Plan, error) {
	window, err := q.Limits(parameters)
	if err != nil {
		return Plan{}, err
	}
	if p, err := q.combined(window); err == nil {
		return p, nil
	}
	return emptyPlan(q.statement), nil
}

// combined is the plan by which a client puts the results of several ranges together.
func (q *Query) combined(window Limits) (p Plan, err error) {
	defer recoverError(&err)
	s := *q.statement
	counted := s.distinctCount()
	if counted != nil {
		s = *counted.statement
	}
	if s.constant() {
		return emptyPlan(&s), nil
	}
	if !s.byDocument() {
		panic(s.span.errorf(codeSelect, "A query whose input is not the container, but combines its documents, is not run over several partitions. Send a partition key."))
	}
	p = emptyPlan(&s)
	if counted != nil {
		p.DistinctCount = &counted.info
	}
	p.distinct(&s)
	p.window(&s, window)
	p.group(&s)
	p.order(&s)
	if s.grouped() || s.orderBy != nil || counted != nil || p.Limit != nil || p.Top != nil && p.Distinct != "None" {
		var text printer
		s.print(&text)
		p.Rewritten = text.String()
	}
	return p, nil
}

// emptyPlan is the plan of a statement whose results a client takes as they come.
func emptyPlan(s *statement) Plan {
	return Plan{
		Distinct: "None",
		OrderBy:  []string{}, OrderByExpressions: []string{}, GroupByExpressions: []string{}, GroupByAliases: []string{},
		Aggregates: []string{}, AliasAggregates: map[string]*string{}, SelectValue: s.value != nil,
	}
}

// Features are the abilities that a client needs to follow the plan, by their names in
// x-ms-cosmos-supported-query-features (QueryFeatures in azure-cosmos-dotnet-v3).
func (p *Plan) Features() []string {
	aggregates := len(p.Aggregates)
	for _, operator := range p.AliasAggregates {
		aggregates += rank(operator != nil)
	}
	var features []string
	for _, f := range []struct {
		name string
		need bool
	}{
		{"Aggregate", aggregates > 0},
		{"NonValueAggregate", aggregates > len(p.Aggregates)},
		{"MultipleAggregates", aggregates > 1},
		{"GroupBy", len(p.GroupByExpressions) > 0},
		{"CountIf", p.uses("CountIf")},
		{"ListAndSetAggregate", p.uses("MakeList") || p.uses("MakeSet")},
		{"DCount", p.DistinctCount != nil},
		{"Distinct", p.Distinct != "None"},
		{"OrderBy", len(p.OrderBy) > 0},
		{"MultipleOrderBy", len(p.OrderBy) > 1},
		{"OffsetAndLimit", p.Limit != nil},
		{"Top", p.Top != nil},
		{"NonStreamingOrderBy", p.NonStreaming},
	} {
		if f.need {
			features = append(features, f.name)
		}
	}
	return features
}

// uses reports whether an aggregate of the plan has this name.
func (p *Plan) uses(operator string) bool {
	for _, used := range p.AliasAggregates {
		if used != nil && *used == operator {
			return true
		}
	}
	return slices.Contains(p.Aggregates, operator)
}

// distinct keeps DISTINCT in the query of the ranges, unless ORDER BY or an aggregate
// wraps their results.
func (p *Plan) distinct(s *statement) {
	switch {
	case !s.distinct:
		p.Distinct = "None"
	case s.value != nil && len(s.orderBy) == 1 && printed(s.value) == printed(s.orderBy[0].expr):
		p.Distinct = "Ordered"
	default:
		p.Distinct = "Unordered"
	}
	s.distinct = s.distinct && !s.grouped() && s.orderBy == nil
}

// window lets each range answer as many results as the client may need: all of them
// if it combines results of several ranges into one.
func (p *Plan) window(s *statement, l Limits) {
	switch {
	case s.top != nil:
		p.Top = &l.Limit
	case s.limit != nil:
		p.Offset, p.Limit = &l.Offset, &l.Limit
		s.offset, s.limit = &count{}, &count{number: l.Offset + l.Limit}
	}
	if s.grouped() || p.Distinct != "None" {
		s.top, s.offset, s.limit = nil, nil, nil
	}
}

// group lets each range answer groupByItems, which name the group, and a payload
// with parts of aggregates.
func (p *Plan) group(s *statement) {
	if !s.grouped() {
		return
	}
	payload := p.groupPayload(s)
	if s.groupBy == nil && s.value != nil {
		s.value = payload
		return
	}
	s.value, s.items = nil, nil
	if s.groupBy != nil {
		for _, e := range s.groupBy {
			p.GroupByExpressions = append(p.GroupByExpressions, printed(e))
		}
		s.items = append(s.items, item{expr: wrapped(s.groupBy), alias: "groupByItems"})
	}
	s.items = append(s.items, item{expr: payload, alias: "payload"})
}

func (p *Plan) groupPayload(s *statement) expr {
	if s.value != nil {
		part, operator := partial(s, s.value)
		if operator == nil {
			return part
		}
		p.Aggregates = append(p.Aggregates, *operator)
		return &arrayLiteral{items: []expr{part}}
	}
	payload := &objectLiteral{}
	for _, it := range s.items {
		part, operator := partial(s, it.expr)
		p.GroupByAliases = append(p.GroupByAliases, it.name)
		p.AliasAggregates[it.name] = operator
		payload.names, payload.values = append(payload.names, it.name), append(payload.values, part)
	}
	return payload
}

// partial returns the expression that a range evaluates for a selected expression.
// If e is an aggregate, operator is its name in plans, else nil.
func partial(s *statement, e expr) (part expr, operator *string) {
	c, ok := e.(*call)
	if !ok || !c.aggregate {
		if holdsAggregate(e) {
			panic(s.span.errorf(codeSelect, "Compositions of aggregates and other expressions are not allowed."))
		}
		return e, nil
	}
	if c.distinct {
		panic(c.span.errorf(codeSelect, "COUNT(DISTINCT …) together with groups or other results is not run over several partitions. Send a partition key."))
	}
	name := aggregateOperators[c.name]
	aggregate := func(function string) expr { return &call{name: function, arguments: c.arguments} }
	switch c.name {
	case "AVG":
		return object("item", object("sum", aggregate("SUM"), "count", aggregate("COUNT"))), &name
	case "MIN":
		return object("item", e, "item2", object("min", e, "count", aggregate("COUNT"))), &name
	case "MAX":
		return object("item", e, "item2", object("max", e, "count", aggregate("COUNT"))), &name
	}
	return object("item", e), &name
}

func holdsAggregate(e expr) bool {
	c, ok := e.(*call)
	return ok && c.aggregate || slices.ContainsFunc(e.operands(), holdsAggregate)
}

// order lets each range answer orderByItems, by which clients merge, a payload, and
// the _rid, which clients need when they resume in the middle of a range.
func (p *Plan) order(s *statement) {
	if s.orderBy == nil {
		return
	}
	if root := s.from[0]; root.query != nil || root.iterate || len(root.path) > 0 {
		panic(s.span.errorf(codeSelect, "ORDER BY over a part of the documents is not run over several partitions. Send a partition key."))
	}
	var keys []expr
	for _, o := range s.orderBy {
		if c, ok := o.expr.(*call); ok && c.name == vectorDistance {
			p.NonStreaming = true
		}
		keys = append(keys, o.expr)
		p.OrderBy = append(p.OrderBy, []string{"Ascending", "Descending"}[rank(o.descending)])
		p.OrderByExpressions = append(p.OrderByExpressions, printed(o.expr))
	}
	s.where = conjunction(s.where, &name{text: orderFilter})
	if s.value != nil {
		s.where = conjunction(s.where, &call{name: "IS_DEFINED", arguments: []expr{s.value}})
	}
	root := &name{text: s.from[0].alias}
	s.items = []item{
		{expr: &property{of: root, name: "_rid"}},
		{expr: wrapped(keys), alias: "orderByItems"},
		{expr: orderPayload(s, root), alias: "payload"},
	}
	s.star, s.value = false, nil
}

func orderPayload(s *statement, root expr) expr {
	switch {
	case s.star:
		return root
	case s.value != nil:
		return s.value
	}
	payload := &objectLiteral{}
	for _, it := range s.items {
		payload.names, payload.values = append(payload.names, it.name), append(payload.values, it.expr)
	}
	return payload
}

func conjunction(x, y expr) expr {
	if x == nil {
		return y
	}
	return &binary{op: opAnd, x: x, y: y}
}

// wrapped is [{"item": e}, …]. If an expression is undefined, its object is empty,
// and the others keep their places.
func wrapped(list []expr) expr {
	a := &arrayLiteral{}
	for _, e := range list {
		a.items = append(a.items, object("item", e))
	}
	return a
}

// object is {name: e, …}.
func object(pairs ...any) expr {
	o := &objectLiteral{}
	for i := 0; i < len(pairs); i += 2 {
		o.names, o.values = append(o.names, pairs[i].(string)), append(o.values, pairs[i+1].(expr))
	}
	return o
}

// Requires returns the values that documents must have at paths if they are to meet
// the condition of the query. It stops at the first path for which the condition
// demands no value. It returns an [*Error] if a parameter is invalid.
func (q *Query) Requires(paths [][]string, parameters map[string]json.RawMessage) ([]json.RawMessage, error) {
	run, err := q.newRun(parameters, Env{})
	if err != nil {
		return nil, err
	}
	s := q.statement
	if len(s.from) == 0 || s.from[0].query != nil || s.from[0].iterate || len(s.from[0].path) > 0 {
		return nil, nil
	}
	var demanded []json.RawMessage
	for _, path := range paths {
		v := demand(s.where, s.from[0].slot, path, &row{run: run})
		if !v.primitive() {
			break
		}
		demanded = append(demanded, v.json())
	}
	return demanded, nil
}

// demand returns the value that e demands of the property at path, undefined if it
// demands none.
func demand(e expr, slot int, path []string, r *row) value {
	b, ok := e.(*binary)
	switch {
	case !ok:
	case b.op == opAnd:
		if v := demand(b.x, slot, path, r); v.defined() {
			return v
		}
		return demand(b.y, slot, path, r)
	case b.op.text == "=" && isPath(b.x, slot, path):
		return constant(b.y, r)
	case b.op.text == "=" && isPath(b.y, slot, path):
		return constant(b.x, r)
	}
	return undefined
}

func isPath(e expr, slot int, path []string) bool {
	if len(path) == 0 {
		n, ok := e.(*name)
		return ok && n.slot == slot
	}
	p, ok := e.(*property)
	last := len(path) - 1
	return ok && p.computed == nil && p.name == path[last] && isPath(p.of, slot, path[:last])
}

func constant(e expr, r *row) value {
	switch e.(type) {
	case *literal, *parameter:
		return e.eval(r)
	}
	return undefined
}
