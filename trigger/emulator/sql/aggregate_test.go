package sql

import (
	"fmt"
	"testing"
)

// TestAggregates runs every aggregate over a list of values. If a result is "", it
// must be undefined.
func TestAggregates(t *testing.T) {
	checkQueries(t, []string{`{"a":1,"g":"x"}`, `{"a":1.0,"g":"y"}`, `{"a":"1","g":"x"}`, `{"g":"x"}`, `{"a":{"k":[1]},"g":"y"}`}, []queryCase{
		{`SELECT VALUE COUNT(DISTINCT c.a) FROM c`, []string{`3`}},
		{`SELECT c.g, COUNT(DISTINCT c.a) AS n FROM c GROUP BY c.g`, []string{`{"g":"x","n":2}`, `{"g":"y","n":2}`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.a FROM c)`, []string{`3`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a FROM c)`, []string{`4`}},
		{`SELECT VALUE COUNTIF(c.g = "x") FROM c`, []string{`3`}},
		{`SELECT VALUE COUNTIF(c.a) FROM c`, []string{`0`}},
		{`SELECT VALUE MAKELIST(c.a) FROM c`, []string{`[1,1.0,"1",{"k":[1]}]`}},
		{`SELECT VALUE MAKESET(c.a) FROM c`, []string{`[1,"1",{"k":[1]}]`}},
		{`SELECT VALUE MAKELIST(c.none) FROM c`, []string{`[]`}},
		{`SELECT c.g, MAKELIST(c.a) AS list FROM c GROUP BY c.g`, []string{`{"g":"x","list":[1,"1"]}`, `{"g":"y","list":[1.0,{"k":[1]}]}`}},
		{`SELECT VALUE (SELECT VALUE MAKESET(x) FROM x IN (SELECT VALUE [3, 3, 4])) FROM c WHERE NOT IS_DEFINED(c.a)`, []string{`[3,4]`}},
	})
	for _, c := range []struct{ list, count, sum, avg, least, most string }{
		{`[]`, `0`, `0`, ``, ``, ``},
		{`[1]`, `1`, `1`, `1`, `1`, `1`},
		{`[1, 2, 3, 4]`, `4`, `10`, `2.5`, `1`, `4`},
		{`[-1.5, 1.5]`, `2`, `0`, `0`, `-1.5`, `1.5`},
		{`[0.1, 0.2]`, `2`, `0.30000000000000004`, `0.15000000000000002`, `0.1`, `0.2`},
		{`[1.50, 1.5]`, `2`, `3`, `1.5`, `1.50`, `1.50`},
		{`["b", "a"]`, `2`, ``, ``, `"a"`, `"b"`},
		{`[true, false]`, `2`, ``, ``, `false`, `true`},
		{`[null]`, `1`, ``, ``, `null`, `null`},
		{`[null, null, 1]`, `3`, ``, ``, `null`, `1`},

		// Types are in the order null, boolean, number, string.
		{`[1, "a"]`, `2`, ``, ``, `1`, `"a"`},
		{`[1, true]`, `2`, ``, ``, `true`, `1`},
		{`[true, null]`, `2`, ``, ``, `null`, `true`},
		{`["", 9, false, null]`, `4`, ``, ``, `null`, `""`},

		// Arrays and objects have a count, and nothing else.
		{`[[1]]`, `1`, ``, ``, ``, ``},
		{`[{}]`, `1`, ``, ``, ``, ``},
		{`[1, [2]]`, `2`, ``, ``, ``, ``},
		{`[{"a": 1}, "a"]`, `2`, ``, ``, ``, ``},

		// A sum that is not finite is undefined.
		{`[1e308, 1e308]`, `2`, ``, ``, `1e308`, `1e308`},
		{`[9007199254740993, 1]`, `2`, `9007199254740992`, `4503599627370496`, `1`, `9007199254740993`},
	} {
		document := []string{`{"list":` + c.list + `}`}
		for function, want := range map[string]string{"COUNT": c.count, "SUM": c.sum, "AVG": c.avg, "MIN": c.least, "MAX": c.most} {
			var wants []string
			if want != "" {
				wants = []string{want}
			}
			checkQueries(t, document, []queryCase{
				{fmt.Sprintf(`SELECT VALUE %s(x) FROM x IN c.list`, function), wants},
				{fmt.Sprintf(`SELECT VALUE (SELECT VALUE %s(x) FROM x IN c.list) FROM c`, function), wants},
			})
		}
	}
}

func TestAggregatesLeaveOutUndefined(t *testing.T) {
	checkQueries(t, []string{`{"n":1}`, `{}`, `{"n":3}`, `{"m":"x"}`}, []queryCase{
		{`SELECT VALUE COUNT(c.n) FROM c`, []string{`2`}},
		{`SELECT VALUE COUNT(1) FROM c`, []string{`4`}},
		{`SELECT VALUE COUNT(undefined) FROM c`, []string{`0`}},
		{`SELECT VALUE COUNT(c) FROM c`, []string{`4`}},
		{`SELECT VALUE SUM(c.n) FROM c`, []string{`4`}},
		{`SELECT VALUE AVG(c.n) FROM c`, []string{`2`}},
		{`SELECT VALUE MIN(c.n) FROM c`, []string{`1`}},
		{`SELECT VALUE MAX(c.n) FROM c`, []string{`3`}},
		{`SELECT VALUE SUM(c.none) FROM c`, []string{`0`}},
		{`SELECT VALUE AVG(c.none) FROM c`, nil},
		{`SELECT VALUE MIN(c.none) FROM c`, nil},
		{`SELECT VALUE MAX(c.none) FROM c`, nil},
		{`SELECT VALUE SUM(c.n * 10) FROM c`, []string{`40`}},
		{`SELECT VALUE SUM(c.n) FROM c WHERE c.n > 1`, []string{`3`}},
		{`SELECT VALUE COUNT(1) FROM c WHERE c.n > 9`, []string{`0`}},
		{`SELECT VALUE MIN(c.n) FROM c WHERE c.n > 9`, nil},
		{`SELECT COUNT(1) AS all, COUNT(c.n) AS some, SUM(c.m) AS s FROM c`, []string{`{"all":4,"some":2}`}},
		{`SELECT VALUE {"n": {"sum": SUM(c.n)}, "list": [COUNT(c.n), MAX(c.n)]} FROM c`, []string{`{"n":{"sum":4},"list":[2,3]}`}},
		{`SELECT VALUE MAX(c.n) - MIN(c.n) FROM c`, []string{`2`}},
		{`SELECT VALUE COUNT(1) > 3 ? "many" : "few" FROM c`, []string{`"many"`}},
		{`SELECT VALUE MAX(c.n) + "x" FROM c`, nil},
		{`SELECT VALUE COUNT(1) + 1`, []string{`2`}},
	})
}
