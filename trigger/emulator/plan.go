package emulator

import "net/http"

// queryPlan tells a client how to run a query over several ranges: the
// PartitionedQueryExecutionInfo of azure-cosmos-dotnet-v3.
type queryPlan struct {
	Version int          `json:"partitionedQueryExecutionInfoVersion"`
	Query   queryInfo    `json:"queryInfo"`
	Ranges  []queryRange `json:"queryRanges"`
}

type queryInfo struct {
	DistinctType       string            `json:"distinctType"`
	Top                *int              `json:"top"`
	Offset             *int              `json:"offset"`
	Limit              *int              `json:"limit"`
	OrderBy            []string          `json:"orderBy"`
	OrderByExpressions []string          `json:"orderByExpressions"`
	GroupBy            []string          `json:"groupByExpressions"`
	GroupByAliases     []string          `json:"groupByAliases"`
	Aggregates         []string          `json:"aggregates"`
	AliasAggregates    map[string]string `json:"groupByAliasToAggregateType"`
	Rewritten          string            `json:"rewrittenQuery"` // "" = the query itself goes to each range
	SelectValue        bool              `json:"hasSelectValue"`
	NonStreaming       bool              `json:"hasNonStreamingOrderBy"`
}

type queryRange struct {
	Min          string `json:"min"`
	Max          string `json:"max"`
	MinInclusive bool   `json:"isMinInclusive"`
	MaxInclusive bool   `json:"isMaxInclusive"`
}

// planQuery answers how to run a query range by range. Only queries whose results
// of all ranges, one after the other, are the result are planned.
func (c *call) planQuery() (*response, error) {
	q, err := parseQuery(c.body)
	if err != nil {
		return nil, err
	}
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	s, err := c.span(o)
	if err != nil {
		return nil, err
	}
	plan, err := q.plan(s)
	if err != nil {
		return nil, err
	}
	return reply(http.StatusOK, encode(plan)).charge(readUnits), nil
}

func (q queryText) plan(s span) (queryPlan, error) {
	p := q.Properties()
	if !p.Streams || p.OffsetLimit {
		return queryPlan{}, badRequest("This account does not plan queries with ORDER BY, OFFSET LIMIT, DISTINCT, GROUP BY or aggregates over several ranges. Send a partition key, or leave these to the client.")
	}
	info := queryInfo{
		DistinctType: "None", SelectValue: p.SelectValue,
		OrderBy: []string{}, OrderByExpressions: []string{}, GroupBy: []string{}, GroupByAliases: []string{}, Aggregates: []string{}, AliasAggregates: map[string]string{},
	}
	window, err := q.Limits(q.parameters)
	if err != nil {
		return queryPlan{}, refused(err)
	}
	if p.Top {
		info.Top = &window.Limit
	}
	return queryPlan{Version: 2, Query: info, Ranges: []queryRange{{Min: s.min, Max: s.max, MinInclusive: true}}}, nil
}
