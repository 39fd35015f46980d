package sql

import (
	"reflect"
	"testing"
)

// TestScopes reads names through the aliases around them.
func TestScopes(t *testing.T) {
	checkQueries(t, []string{`{"id":"1","a":[1,2],"b":{"a":[3]},"x":"outer"}`}, []queryCase{
		{`SELECT VALUE anything.id FROM anything`, []string{`"1"`}},
		{`SELECT VALUE c.id FROM root c`, []string{`"1"`}},
		{`SELECT VALUE C.id FROM c AS C`, []string{`"1"`}},
		{`SELECT VALUE [c.id, C] FROM c JOIN C IN c.a`, []string{`["1",1]`, `["1",2]`}},
		{`SELECT VALUE a FROM c.b.a`, []string{`[3]`}},
		{`SELECT VALUE b.a FROM c["b"]`, []string{`[3]`}},
		{`SELECT VALUE y FROM c JOIN x IN c.a JOIN y IN c.b.a WHERE x = 1`, []string{`3`}},
		{`SELECT VALUE ARRAY(SELECT VALUE [x, c.x] FROM x IN c.a) FROM c`, []string{`[[1,"outer"],[2,"outer"]]`}},
		{`SELECT VALUE ARRAY(SELECT VALUE y FROM y IN x.a) FROM x`, []string{`[1,2]`}},
		{`SELECT VALUE ARRAY(SELECT VALUE x FROM x IN x.a) FROM x`, []string{`[1,2]`}},
		{`SELECT VALUE [x, (SELECT VALUE MAX(x) FROM x IN c.b.a)] FROM c JOIN x IN c.a`, []string{`[1,3]`, `[2,3]`}},
		{`SELECT VALUE (SELECT VALUE (SELECT VALUE c.id)) FROM c`, []string{`"1"`}},
		{`SELECT VALUE EXISTS(SELECT VALUE y FROM y IN c.a WHERE y = x) FROM c JOIN x IN c.b.a`, []string{`false`}},
		{`SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE c FROM c IN c.a WHERE c = 2)`, []string{`"1"`}},
		{`SELECT VALUE s FROM c JOIN (SELECT VALUE x FROM x IN c.a WHERE x > 1) AS s`, []string{`2`}},
	})
}

func TestNamesOutOfScope(t *testing.T) {
	checkRefused(t, []refusedCase{
		{`SELECT VALUE C.id FROM c`, codeIdentifier, "Identifier 'C' could not be resolved.", "C"},
		{`SELECT VALUE id FROM c`, codeIdentifier, "Identifier 'id' could not be resolved.", "id"},
		{`SELECT VALUE root.id FROM root AS c`, codeIdentifier, "Identifier 'root' could not be resolved.", "root"},
		{`SELECT VALUE c.id FROM c.b`, codeIdentifier, "Identifier 'c' could not be resolved.", "c"},
		{`SELECT VALUE c.id FROM x IN c.a`, codeIdentifier, "Identifier 'c' could not be resolved.", "c"},
		{`SELECT VALUE x FROM c JOIN x IN y.a JOIN y IN c.a`, codeIdentifier, "Identifier 'y' could not be resolved.", "y"},
		{`SELECT VALUE x FROM c JOIN x IN x.a`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE x FROM c JOIN (SELECT VALUE x FROM x IN c.a)`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE 1 FROM c GROUP BY n`, codeIdentifier, "Identifier 'n' could not be resolved.", "n"},
		{`SELECT VALUE COUNT(x) FROM c`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE LOWER(x.a) FROM c`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE {"a": x} FROM c`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE 1 FROM c WHERE c.a IN (x)`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE 1 FROM c WHERE c.a[x] = 1`, codeIdentifier, "Identifier 'x' could not be resolved.", "x"},
		{`SELECT VALUE 1 FROM a.b JOIN b IN b.c`, codeSelect, "The input alias 'b' is specified more than once in the FROM clause.", ""},
	})
}

// TestResultNames checks the properties that the results of a select list have.
func TestResultNames(t *testing.T) {
	for query, want := range map[string][]string{
		`SELECT c.a, c.b FROM c`:                      {"a", "b"},
		`SELECT c.a.b FROM c`:                         {"b"},
		`SELECT c["a b"] FROM c`:                      {"a b"},
		`SELECT c FROM c`:                             {"c"},
		`SELECT c.a[0], c.a[1] FROM c`:                {"$1", "$2"},
		`SELECT c.a + 1, c.a, 2 FROM c`:               {"$1", "a", "$2"},
		`SELECT c.a AS x, c.b y, c.c AS "z z" FROM c`: {"x", "y", "z z"},
		`SELECT COUNT(1), MAX(c.a) AS m FROM c`:       {"$1", "m"},
		`SELECT (SELECT VALUE 1), LOWER("A") FROM c`:  {"$1", "$2"},
		`SELECT [1], {"a": 1}, -c.a FROM c`:           {"$1", "$2", "$3"},
		`SELECT * FROM c`:                             nil,
		`SELECT VALUE c.a FROM c`:                     nil,
	} {
		q, err := Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Properties().Aliases; !reflect.DeepEqual(got, want) {
			t.Errorf("%s selects %q, want %q", query, got, want)
		}
	}
}

func TestGroupedSelections(t *testing.T) {
	checkRefused(t, []refusedCase{
		{`SELECT c.a, MAX(c.b) AS m FROM c`, codeSelect, "'c.a' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause.", "c.a"},
		{`SELECT c FROM c GROUP BY c.a`, codeSelect, "'c' is invalid in the select list", "c"},
		{`SELECT c.a.b FROM c GROUP BY c.b`, codeSelect, "'c.a.b' is invalid in the select list", "c.a.b"},
		{`SELECT c.a + 1 AS n FROM c GROUP BY c.b`, codeSelect, "'c.a' is invalid in the select list", ""},
		{`SELECT LOWER(c.a) AS n FROM c GROUP BY UPPER(c.a)`, codeSelect, "'c.a' is invalid in the select list", ""},
		{`SELECT VALUE [c.a, COUNT(1)] FROM c`, codeSelect, "'c.a' is invalid in the select list", ""},
		{`SELECT c.a[0] FROM c GROUP BY c.b`, codeSelect, "'c.a[0]' is invalid in the select list", ""},
		{`SELECT (SELECT VALUE c.a) AS s FROM c GROUP BY c.b`, codeSelect, "'(SELECT VALUE c.a)' is invalid in the select list", ""},
		{`SELECT VALUE SUM(COUNT(1)) FROM c`, codeSelect, "The aggregate function COUNT is not allowed in an aggregate function.", "COUNT"},
		{`SELECT VALUE 1 FROM c WHERE MIN(c.a) = 1`, codeSelect, "The aggregate function MIN is not allowed in WHERE.", "MIN"},
		{`SELECT VALUE 1 FROM c GROUP BY AVG(c.a)`, codeSelect, "The aggregate function AVG is not allowed in GROUP BY.", "AVG"},
		{`SELECT VALUE 1 FROM c ORDER BY SUM(c.a) + 1`, codeSelect, "The aggregate function SUM is not allowed in ORDER BY.", "SUM"},
	})
	documents := []string{`{"a":"x","b":{"c":1}}`, `{"a":"X","b":{"c":1}}`}
	checkQueries(t, documents, []queryCase{
		{`SELECT c["a"], COUNT(1) AS n FROM c GROUP BY c.a`, []string{`{"a":"x","n":1}`, `{"a":"X","n":1}`}},
		{`SELECT VALUE LOWER(c.a) FROM c GROUP BY LOWER(c.a)`, []string{`"x"`}},
		{`SELECT VALUE CONCAT(LOWER(c.a), "!") FROM c GROUP BY LOWER(c.a)`, []string{`"x!"`}},
		{`SELECT VALUE {"k": c.b.c, "n": [COUNT(1)]} FROM c GROUP BY c.b.c`, []string{`{"k":1,"n":[2]}`}},
		{`SELECT VALUE c.b FROM c GROUP BY c.b`, []string{`{"c":1}`}},
		{`SELECT VALUE 7 FROM c GROUP BY c.b`, []string{`7`}},
	})
}
