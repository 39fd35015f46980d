package sql

// distinctCount is a query whose result is the number of distinct results of another
// one. Ranges cannot add up such numbers: they answer the other query.
type distinctCount struct {
	statement *statement
	info      DistinctCount
}

// distinctCount returns the distinct results that s counts, nil if s is another query:
//
//	SELECT COUNT(1) FROM (SELECT DISTINCT …)
//	SELECT COUNT(DISTINCT x) FROM c
func (s *statement) distinctCount() *distinctCount {
	count, alias := s.onlyAggregate()
	if count == nil || count.name != "COUNT" || s.groupBy != nil || s.distinct || s.isCut() {
		return nil
	}
	info := DistinctCount{Alias: alias}
	if count.distinct {
		inner := *s
		inner.items, inner.aggregates = nil, nil
		inner.distinct, inner.value = true, count.arguments[0]
		return &distinctCount{&inner, info}
	}
	inner := s.countedQuery(count)
	if inner == nil || !inner.distinct || inner.grouped() || inner.isCut() || inner.orderBy != nil {
		return nil
	}
	return &distinctCount{inner, info}
}

// isCut reports whether TOP or OFFSET LIMIT takes only a part of the results.
func (s *statement) isCut() bool { return s.top != nil || s.limit != nil }

// countedQuery returns the subquery all of whose results are counted, as COUNT(1) does,
// nil if there is none.
func (s *statement) countedQuery(count *call) *statement {
	l, constant := count.arguments[0].(*literal)
	if !constant || !l.value.defined() || len(s.from) != 1 || s.where != nil {
		return nil
	}
	return s.from[0].query
}

// onlyAggregate returns the aggregate that s selects and its property, nil if s selects
// more or something else. The property is "" with SELECT VALUE.
func (s *statement) onlyAggregate() (*call, string) {
	e, alias := s.value, ""
	if len(s.items) == 1 {
		e, alias = s.items[0].expr, s.items[0].name
	}
	c, ok := e.(*call)
	if !ok || !c.aggregate {
		return nil, ""
	}
	return c, alias
}
