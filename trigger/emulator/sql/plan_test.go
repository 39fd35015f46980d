package sql

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The plans of QueryPlanBaselineTests in azure-cosmos-dotnet-v3 (OrderBy,
// MultiOrderBy, Aggregates, NonValueAggregates, GroupBy, Distinct, Top and
// OffsetLimit), with rewritten queries in this package's canonical form.
func TestPlan(t *testing.T) {
	const filter = `({documentdb-formattableorderbyquery-filter})`
	for _, c := range []struct {
		query, rewritten string
		plan             Plan
	}{
		{`SELECT * FROM c`, ``, Plan{}},
		{`SELECT VALUE c.a FROM c WHERE c.b > 1`, ``, Plan{SelectValue: true}},
		{`SELECT VALUE t FROM c JOIN t IN c.tags`, ``, Plan{SelectValue: true}},

		{`SELECT TOP 5 * FROM c`, ``, Plan{Top: new(5)}},
		{`SELECT TOP @n * FROM c`, ``, Plan{Top: new(3)}},
		{`SELECT TOP 0 * FROM c`, ``, Plan{Top: new(0)}},
		{`SELECT * FROM c OFFSET 1 LIMIT 2`, `SELECT * FROM c OFFSET 0 LIMIT 3`, Plan{Offset: new(1), Limit: new(2)}},
		{`SELECT * FROM c WHERE c.a = 5 OFFSET @n LIMIT 0`, `SELECT * FROM c WHERE c.a = 5 OFFSET 0 LIMIT 3`, Plan{Offset: new(3), Limit: new(0)}},

		{`SELECT DISTINCT c.blah FROM c`, ``, Plan{Distinct: "Unordered"}},
		{`SELECT DISTINCT TOP 5 VALUE c.name FROM c`, `SELECT DISTINCT VALUE c.name FROM c`, Plan{Distinct: "Unordered", Top: new(5), SelectValue: true}},
		{`SELECT DISTINCT * FROM c WHERE c.key = 5 OFFSET 1 LIMIT 2`, `SELECT DISTINCT * FROM c WHERE c.key = 5`, Plan{Distinct: "Unordered", Offset: new(1), Limit: new(2)}},
		{`SELECT DISTINCT VALUE c.blah FROM c ORDER BY c.blah`,
			`SELECT c._rid, [{"item": c.blah}] AS orderByItems, c.blah AS payload FROM c WHERE ` + filter + ` AND IS_DEFINED(c.blah) ORDER BY c.blah`,
			Plan{Distinct: "Ordered", OrderBy: []string{"Ascending"}, OrderByExpressions: []string{"c.blah"}, SelectValue: true}},
		{`SELECT DISTINCT c.a FROM c ORDER BY c.b`,
			`SELECT c._rid, [{"item": c.b}] AS orderByItems, {"a": c.a} AS payload FROM c WHERE ` + filter + ` ORDER BY c.b`,
			Plan{Distinct: "Unordered", OrderBy: []string{"Ascending"}, OrderByExpressions: []string{"c.b"}}},

		{`SELECT * FROM c ORDER BY c.id`, `SELECT c._rid, [{"item": c.id}] AS orderByItems, c AS payload FROM c WHERE ` + filter + ` ORDER BY c.id`,
			Plan{OrderBy: []string{"Ascending"}, OrderByExpressions: []string{"c.id"}}},
		{`SELECT TOP 10 r.p, r.q + 1 FROM r WHERE r.x = 'asdf' OR r.y ORDER BY r.f DESC, r.g`,
			`SELECT TOP 10 r._rid, [{"item": r.f}, {"item": r.g}] AS orderByItems, {"p": r.p, "$1": r.q + 1} AS payload FROM r WHERE (r.x = "asdf" OR r.y) AND ` + filter + ` ORDER BY r.f DESC, r.g`,
			Plan{Top: new(10), OrderBy: []string{"Descending", "Ascending"}, OrderByExpressions: []string{"r.f", "r.g"}}},
		{`SELECT * FROM c ORDER BY c.a OFFSET 2 LIMIT 3`,
			`SELECT c._rid, [{"item": c.a}] AS orderByItems, c AS payload FROM c WHERE ` + filter + ` ORDER BY c.a OFFSET 0 LIMIT 5`,
			Plan{Offset: new(2), Limit: new(3), OrderBy: []string{"Ascending"}, OrderByExpressions: []string{"c.a"}}},

		{`SELECT VALUE c.a FROM c WHERE c.b = 1 ORDER BY c.d DESC`,
			`SELECT c._rid, [{"item": c.d}] AS orderByItems, c.a AS payload FROM c WHERE c.b = 1 AND ` + filter + ` AND IS_DEFINED(c.a) ORDER BY c.d DESC`,
			Plan{OrderBy: []string{"Descending"}, OrderByExpressions: []string{"c.d"}, SelectValue: true}},
		{`SELECT c.id, t AS tag FROM c JOIN t IN c.tags ORDER BY c.id`,
			`SELECT c._rid, [{"item": c.id}] AS orderByItems, {"id": c.id, "tag": t} AS payload FROM c JOIN t IN c.tags WHERE ` + filter + ` ORDER BY c.id`,
			Plan{OrderBy: []string{"Ascending"}, OrderByExpressions: []string{"c.id"}}},
		{`SELECT DISTINCT TOP 2 c.a FROM c ORDER BY c.a`,
			`SELECT c._rid, [{"item": c.a}] AS orderByItems, {"a": c.a} AS payload FROM c WHERE ` + filter + ` ORDER BY c.a`,
			Plan{Distinct: "Unordered", Top: new(2), OrderBy: []string{"Ascending"}, OrderByExpressions: []string{"c.a"}}},
		{`SELECT * FROM c ORDER BY LOWER(c["a b"])`,
			`SELECT c._rid, [{"item": LOWER(c["a b"])}] AS orderByItems, c AS payload FROM c WHERE ` + filter + ` ORDER BY LOWER(c["a b"])`,
			Plan{OrderBy: []string{"Ascending"}, OrderByExpressions: []string{`LOWER(c["a b"])`}}},

		{`SELECT VALUE COUNT(1) FROM c`, `SELECT VALUE [{"item": COUNT(1)}] FROM c`, Plan{Aggregates: []string{"Count"}, SelectValue: true}},
		{`SELECT VALUE SUM(c.a) FROM c`, `SELECT VALUE [{"item": SUM(c.a)}] FROM c`, Plan{Aggregates: []string{"Sum"}, SelectValue: true}},
		{`SELECT VALUE MIN(c.a + 1) FROM c`, `SELECT VALUE [{"item": MIN(c.a + 1), "item2": {"min": MIN(c.a + 1), "count": COUNT(c.a + 1)}}] FROM c`,
			Plan{Aggregates: []string{"Min"}, SelectValue: true}},
		{`SELECT VALUE MAX(c.a) FROM c`, `SELECT VALUE [{"item": MAX(c.a), "item2": {"max": MAX(c.a), "count": COUNT(c.a)}}] FROM c`,
			Plan{Aggregates: []string{"Max"}, SelectValue: true}},
		{`SELECT TOP 5 VALUE AVG(c.a) FROM c`, `SELECT VALUE [{"item": {"sum": SUM(c.a), "count": COUNT(c.a)}}] FROM c`,
			Plan{Top: new(5), Aggregates: []string{"Average"}, SelectValue: true}},
		{`SELECT AVG(c.a), COUNT(c.b) AS n FROM c WHERE c.d`,
			`SELECT {"$1": {"item": {"sum": SUM(c.a), "count": COUNT(c.a)}}, "n": {"item": COUNT(c.b)}} AS payload FROM c WHERE c.d`,
			Plan{GroupByAliases: []string{"$1", "n"}, AliasAggregates: map[string]*string{"$1": new("Average"), "n": new("Count")}}},

		{`SELECT COUNTIF(c.a > 1) AS n, MAKELIST(c.b) AS list, MAKESET(c.b) AS found FROM c`,
			`SELECT {"n": {"item": COUNTIF(c.a > 1)}, "list": {"item": MAKELIST(c.b)}, "found": {"item": MAKESET(c.b)}} AS payload FROM c`,
			Plan{GroupByAliases: []string{"n", "list", "found"}, AliasAggregates: map[string]*string{"n": new("CountIf"), "list": new("MakeList"), "found": new("MakeSet")}}},

		{`SELECT VALUE s.x FROM (SELECT VALUE c.a FROM c WHERE c.b) AS s`, ``, Plan{SelectValue: true}},
		{`SELECT VALUE COUNT(1) FROM (SELECT VALUE t FROM c JOIN t IN c.tags) AS s`, `SELECT VALUE [{"item": COUNT(1)}] FROM (SELECT VALUE t FROM c JOIN t IN c.tags) AS s`,
			Plan{Aggregates: []string{"Count"}, SelectValue: true}},
		{`SELECT COUNT(1) FROM (SELECT DISTINCT VALUE c.blah FROM c)`, `SELECT DISTINCT VALUE c.blah FROM c`,
			Plan{Distinct: "Unordered", SelectValue: true, DistinctCount: &DistinctCount{"$1"}}},
		{`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a, c.b FROM c WHERE c.d)`, `SELECT DISTINCT c.a, c.b FROM c WHERE c.d`,
			Plan{Distinct: "Unordered", DistinctCount: &DistinctCount{""}}},
		{`SELECT COUNT(DISTINCT c.a) AS n FROM c WHERE c.b`, `SELECT DISTINCT VALUE c.a FROM c WHERE c.b`,
			Plan{Distinct: "Unordered", SelectValue: true, DistinctCount: &DistinctCount{"n"}}},

		{`SELECT c.id FROM c GROUP BY c.id`, `SELECT [{"item": c.id}] AS groupByItems, {"id": c.id} AS payload FROM c GROUP BY c.id`,
			Plan{GroupByExpressions: []string{"c.id"}, GroupByAliases: []string{"id"}, AliasAggregates: map[string]*string{"id": nil}}},
		{`SELECT TOP 5 VALUE c.name FROM c GROUP BY c.name`, `SELECT [{"item": c.name}] AS groupByItems, c.name AS payload FROM c GROUP BY c.name`,
			Plan{Top: new(5), GroupByExpressions: []string{"c.name"}, SelectValue: true}},
		{`SELECT VALUE COUNT(1) FROM c GROUP BY c.name`, `SELECT [{"item": c.name}] AS groupByItems, [{"item": COUNT(1)}] AS payload FROM c GROUP BY c.name`,
			Plan{Aggregates: []string{"Count"}, GroupByExpressions: []string{"c.name"}, SelectValue: true}},
		{`SELECT UPPER(c.a) AS a, MAX(c.n) AS n FROM c GROUP BY UPPER(c.a), c.b OFFSET 1 LIMIT 2`,
			`SELECT [{"item": UPPER(c.a)}, {"item": c.b}] AS groupByItems, {"a": UPPER(c.a), "n": {"item": MAX(c.n), "item2": {"max": MAX(c.n), "count": COUNT(c.n)}}} AS payload FROM c GROUP BY UPPER(c.a), c.b`,
			Plan{Offset: new(1), Limit: new(2), GroupByExpressions: []string{"UPPER(c.a)", "c.b"}, GroupByAliases: []string{"a", "n"},
				AliasAggregates: map[string]*string{"a": nil, "n": new("Max")}}},
	} {
		t.Run(c.query, func(t *testing.T) {
			got := planOf(t, c.query)
			want := c.plan
			want.Rewritten = c.rewritten
			fill(&want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("the plan is\n%s, want\n%s", asJSON(t, got), asJSON(t, want))
			}
		})
	}
}

var planParameters = map[string]json.RawMessage{"@n": json.RawMessage("3"), "@s": json.RawMessage(`"x"`)}

func asJSON(t *testing.T, p Plan) []byte {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func mustParse(t *testing.T, query string) *Query {
	t.Helper()
	q, err := Parse(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return q
}

func planOf(t *testing.T, query string) Plan {
	t.Helper()
	p, err := mustParse(t, query).Plan(planParameters)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fill sets what a plan always has: clients do not expect null.
func fill(p *Plan) {
	if p.Distinct == "" {
		p.Distinct = "None"
	}
	for _, list := range []*[]string{&p.OrderBy, &p.OrderByExpressions, &p.GroupByExpressions, &p.GroupByAliases, &p.Aggregates} {
		if *list == nil {
			*list = []string{}
		}
	}
	if p.AliasAggregates == nil {
		p.AliasAggregates = map[string]*string{}
	}
}

func TestPlanRefusesQueriesThatClientsCannotCombine(t *testing.T) {
	for query, says := range map[string]string{
		`SELECT * FROM (SELECT TOP 5 * FROM c)`:                         "combines its documents",
		`SELECT VALUE COUNT(x) FROM (SELECT DISTINCT c.a FROM c) x`:     "combines its documents",
		`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT TOP 5 c.a FROM c)`: "combines its documents",
		`SELECT * FROM (SELECT c.a FROM c) d ORDER BY d.a`:              "part of the documents",
		`SELECT c.a, COUNT(DISTINCT c.b) AS n FROM c GROUP BY c.a`:      "COUNT(DISTINCT",
		`SELECT VALUE ABS(AVG(c.a)) FROM c`:                             "Compositions of aggregates",
		`SELECT {"n": COUNT(1)} AS o FROM c`:                            "Compositions of aggregates",
		`SELECT * FROM t IN c.tags ORDER BY t.name`:                     "part of the documents",
		`SELECT TOP @s * FROM c`:                                        "TOP",
		`SELECT VALUE MAX(c.a) - MIN(c.a) FROM c`:                       "Compositions of aggregates",
		`SELECT c.a, COUNT(1) + 1 AS n FROM c GROUP BY c.a`:             "Compositions of aggregates",
		`SELECT VALUE a FROM c.a ORDER BY a.b`:                          "part of the documents",
		`SELECT * FROM c OFFSET @s LIMIT 1`:                             "OFFSET",
	} {
		if _, err := mustParse(t, query).Plan(planParameters); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v does not say %q", query, err, says)
		}
	}
}

// TestRewrittenQueriesAnswerWhatClientsCombine runs rewritten queries as each range
// does.
func TestRewrittenQueriesAnswerWhatClientsCombine(t *testing.T) {
	for query, want := range map[string][]string{
		`SELECT c.name FROM c WHERE c.id < "d" ORDER BY c.age DESC`: {
			`{"orderByItems":[{"item":30}],"payload":{"name":"Ann"}}`,
			`{"orderByItems":[{"item":25.50}],"payload":{"name":"Bob"}}`,
		},
		`SELECT VALUE AVG(c.age) FROM c WHERE c.id < "d"`: {`[{"item":{"sum":55.5,"count":2}}]`},
		`SELECT VALUE MIN(c.none) FROM c`:                 {`[{"item2":{"count":0}}]`},
		`SELECT c.city, COUNT(1) AS n FROM c GROUP BY c.city`: {
			`{"groupByItems":[{"item":"Oslo"}],"payload":{"city":"Oslo","n":{"item":2}}}`,
			`{"groupByItems":[{"item":"Bern"}],"payload":{"city":"Bern","n":{"item":2}}}`,
			`{"groupByItems":[{"item":null}],"payload":{"city":null,"n":{"item":1}}}`,
		},
		`SELECT VALUE c.age FROM c ORDER BY c.name DESC OFFSET 1 LIMIT 1`: {
			`{"orderByItems":[{"item":"Eve"}],"payload":null}`,
			`{"orderByItems":[{"item":"Dan"}],"payload":"old"}`,
		},
	} {
		rewritten := planOf(t, query).Rewritten
		q := mustParse(t, strings.Replace(rewritten, "{documentdb-formattableorderbyquery-filter}", "true", 1))
		results, err := q.Run(sequence(people), planParameters, Env{})
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%s", results); got != fmt.Sprint(want) {
			t.Errorf("%s gives\n%s, want\n%s", rewritten, got, want)
		}
	}
}

func TestRequires(t *testing.T) {
	paths := [][]string{{"tenant"}, {"user", "id"}}
	for query, want := range map[string]string{
		`SELECT * FROM c`:                                               ``,
		`SELECT * FROM c WHERE c.tenant = "a"`:                          `"a"`,
		`SELECT * FROM c WHERE @n = c.tenant ORDER BY c.x`:              `3`,
		`SELECT * FROM c WHERE c.user.id = 1 AND c.tenant = @s`:         `"x" 1`,
		`SELECT * FROM c WHERE c["user"]["id"] = null AND c.tenant = 1`: `1 null`,
		`SELECT * FROM c WHERE c.x > 1 AND (c.tenant = true AND c.y)`:   `true`,
		`SELECT * FROM c WHERE c.user.id = 1`:                           ``,
		`SELECT * FROM c WHERE c.tenant = "a" OR c.x`:                   ``,
		`SELECT * FROM c WHERE NOT (c.tenant = "a")`:                    ``,
		`SELECT * FROM c WHERE c.tenant != "a"`:                         ``,
		`SELECT * FROM c WHERE c.tenant = c.x`:                          ``,
		`SELECT * FROM c WHERE c.tenant = [1]`:                          ``,
		`SELECT * FROM c WHERE c.x.tenant = 1`:                          ``,
		`SELECT VALUE c FROM c JOIN d IN c.list WHERE d.tenant = 1`:     ``,
		`SELECT * FROM t IN c.list WHERE t.tenant = 1`:                  ``,
		`SELECT 1`:                               ``,
		`SELECT * FROM c WHERE c.tenant = @none`: ``,
	} {
		values, err := mustParse(t, query).Requires(paths, planParameters)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, v := range values {
			got = append(got, string(v))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s requires %v, want %s", query, got, want)
		}
	}
}

// TestPlanOfAConstantQuery: a query that reads no document goes to one range as it is.
func TestPlanOfAConstantQuery(t *testing.T) {
	for _, query := range []string{
		`SELECT 1`, `SELECT VALUE @none`, `SELECT DISTINCT TOP 1 VALUE 1 ORDER BY 1`,
		`SELECT VALUE COUNT(1) FROM x IN (SELECT VALUE [1, 2])`, `SELECT VALUE x FROM x IN (SELECT VALUE [1, 2]) ORDER BY x OFFSET 1 LIMIT 1`,
	} {
		p, err := mustParse(t, query).Plan(nil)
		if err != nil || p.Rewritten != "" || len(p.Features()) > 0 {
			t.Errorf("%s has the plan %+v, %v", query, p, err)
		}
	}
}
