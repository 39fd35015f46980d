package emulator

import (
	"net/http"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/sql"
)

// queryPlan tells a client how to run a query over several ranges: the
// PartitionedQueryExecutionInfo of azure-cosmos-dotnet-v3.
type queryPlan struct {
	Version int          `json:"partitionedQueryExecutionInfoVersion"`
	Query   sql.Plan     `json:"queryInfo"`
	Ranges  []queryRange `json:"queryRanges"`
}

type queryRange struct {
	Min          string `json:"min"`
	Max          string `json:"max"`
	MinInclusive bool   `json:"isMinInclusive"`
	MaxInclusive bool   `json:"isMaxInclusive"`
}

// planQuery answers how to run a query range by range.
func (c *call) planQuery() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	q, err := c.parseQuery(o.queryDefinition())
	if err != nil {
		return nil, err
	}
	s, err := c.querySpan(q, o)
	if err != nil {
		return nil, err
	}
	plan, err := q.plan(s)
	if err != nil {
		return nil, err
	}
	if err := c.checkFeatures(plan.Query.Features()); err != nil {
		return nil, err
	}
	return reply(http.StatusOK, encode(plan)), nil
}

func (q queryText) plan(s span) (queryPlan, error) {
	plan, err := q.Plan(q.parameters)
	if s.key != "" {
		plan, err = q.PlanOfKey(q.parameters)
	}
	if err != nil {
		return queryPlan{}, queryFailure(err)
	}
	r := queryRange{Min: s.min, Max: s.max, MinInclusive: true}
	if s.key != "" || q.Properties().Constant { // one key: a point, as the service says it
		r.Max, r.MaxInclusive = s.min, true
	}
	return queryPlan{Version: 2, Query: plan, Ranges: []queryRange{r}}, nil
}

// querySpan returns the keys that a query reads: the key or bounds of the request,
// or if there are none the key that the query itself demands.
func (c *call) querySpan(q queryText, o *container) (span, error) {
	s, err := c.span(o)
	if err != nil || s.prefix || s.min != epk.Min || s.max != epk.Max {
		return s, err
	}
	values, err := q.Requires(o.keyDefinition.Segments(), q.parameters)
	if err != nil || len(values) == 0 {
		return s, queryFailure(err)
	}
	key, err := epk.ParseKey(string(encode(values)))
	if err != nil {
		return s, badRequest("The partition key %s in the query cannot be read: %v.", encode(values), err)
	}
	s.narrow(o.keyDefinition, key)
	return s, nil
}

// narrow restricts s to the items under a key.
func (s *span) narrow(d epk.Definition, key epk.Key) {
	s.prefix = len(key) > 0
	s.min, s.max = d.Span(key)
	if len(key) == len(d.Paths) {
		s.key = key.String()
	}
}
