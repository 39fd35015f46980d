package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// people are the documents of most tables.
var people = []string{
	`{"id":"a","name":"Ann","age":30,"city":"Oslo","tags":["x","y"],"pets":[{"n":"Rex","kind":"dog"},{"n":"Tom","kind":"cat"}]}`,
	`{"id":"b","name":"Bob","age":25.50,"city":"Bern","tags":[],"active":true}`,
	`{"id":"c","name":"Cyd","city":"Oslo","tags":["y"],"pets":[{"n":"Kit","kind":"cat"}]}`,
	`{"id":"d","name":"Dan","age":"old","city":null,"active":false}`,
	`{"id":"e","name":"Eve","age":null,"city":"Bern"}`,
}

func TestQueries(t *testing.T) {
	checkQueries(t, people, []queryCase{
		// Projections.
		{`SELECT * FROM c WHERE c.id = "b"`, []string{people[1]}},
		{`select * from c where c.id = 'b'`, []string{people[1]}},
		{`SELECT * FROM root AS r WHERE r.id = "b"`, []string{people[1]}},
		{`SELECT c.id, c.age FROM c`, []string{`{"id":"a","age":30}`, `{"id":"b","age":25.50}`, `{"id":"c"}`, `{"id":"d","age":"old"}`, `{"id":"e","age":null}`}},
		{`SELECT VALUE c.age FROM c`, []string{`30`, `25.50`, `"old"`, `null`}},
		{`SELECT c.id AS key, c["name"] "full name", c.age + 1 older FROM c WHERE c.id IN ("a", "c")`,
			[]string{`{"key":"a","full name":"Ann","older":31}`, `{"key":"c","full name":"Cyd"}`}},
		{`SELECT c.age + 1, 5, c.id, "x" FROM c WHERE c.id = "a"`, []string{`{"$1":31,"$2":5,"id":"a","$3":"x"}`}},
		{`SELECT c FROM c WHERE c.id = "e"`, []string{`{"c":` + people[4] + `}`}},
		{`SELECT c.tags[0], c["tags"]["1"], {"n": c.name} AS o FROM c WHERE c.id = "a"`, []string{`{"$1":"x","o":{"n":"Ann"}}`}},
		{`SELECT VALUE {"id": c.id, "none": c.none} FROM c WHERE c.id = "a"`, []string{`{"id":"a"}`}},
		{`SELECT c.none FROM c WHERE c.id = "a"`, []string{`{}`}},
		{`SELECT 1`, []string{`{"$1":1}`}},
		{`SELECT VALUE 1 + 1`, []string{`2`}},

		// Filters.
		{`SELECT VALUE c.id FROM c WHERE c.age > 20`, []string{`"a"`, `"b"`}},
		{`SELECT VALUE c.id FROM c WHERE c.age != 30`, []string{`"b"`, `"d"`, `"e"`}},
		{`SELECT VALUE c.id FROM c WHERE NOT (c.age = 30)`, []string{`"b"`, `"d"`, `"e"`}},
		{`SELECT VALUE c.id FROM c WHERE NOT (c.age > 20)`, nil},
		{`SELECT VALUE c.id FROM c WHERE c.age = null`, []string{`"e"`}},
		{`SELECT VALUE c.id FROM c WHERE IS_NULL(c.age) OR NOT IS_DEFINED(c.age)`, []string{`"c"`, `"e"`}},
		{`SELECT VALUE c.id FROM c WHERE c.active`, []string{`"b"`}},
		{`SELECT VALUE c.id FROM c WHERE NOT c.active`, []string{`"d"`}},
		{`SELECT VALUE c.id FROM c WHERE c.name`, nil},
		{`SELECT VALUE c.id FROM c WHERE 1`, nil},
		{`SELECT VALUE c.id FROM c WHERE c.active ?? true`, []string{`"a"`, `"b"`, `"c"`, `"e"`}},
		{`SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(c.tags, "y") AND c.city = "Oslo"`, []string{`"a"`, `"c"`}},
		{`SELECT VALUE c.id FROM c WHERE c.name LIKE "%n"`, []string{`"a"`, `"d"`}},
		{`SELECT VALUE c.id -- which
			FROM c -- the container
			WHERE c.id = "a"`, []string{`"a"`}},

		// Inputs.
		{`SELECT VALUE t FROM t IN c.tags`, []string{`"x"`, `"y"`, `"y"`}},
		{`SELECT c.id, t FROM c JOIN t IN c.tags`, []string{`{"id":"a","t":"x"}`, `{"id":"a","t":"y"}`, `{"id":"c","t":"y"}`}},
		{`SELECT VALUE {"t": t, "p": p.n} FROM c JOIN t IN c.tags JOIN p IN c.pets WHERE p.kind = "cat"`,
			[]string{`{"t":"x","p":"Tom"}`, `{"t":"y","p":"Tom"}`, `{"t":"y","p":"Kit"}`}},
		{`SELECT VALUE p.n FROM c JOIN (SELECT VALUE q FROM q IN c.pets WHERE q.kind = "cat") AS p`, []string{`"Tom"`, `"Kit"`}},
		{`SELECT VALUE COUNT(1) FROM c JOIN (SELECT VALUE t FROM t IN c.tags) JOIN (SELECT VALUE p FROM p IN c.pets)`, []string{`5`}},
		{`SELECT VALUE {"id": c.id, "u": u.name} FROM c JOIN u IN (SELECT VALUE [{"of": "Oslo", "name": "no"}, {"of": "Bern", "name": "ch"}]) WHERE u.of = c.city AND c.id < "c"`,
			[]string{`{"id":"a","u":"no"}`, `{"id":"b","u":"ch"}`}},
		{`SELECT VALUE [p, q] FROM c JOIN (SELECT VALUE x.n FROM x IN c.pets) AS p JOIN (SELECT VALUE y FROM y IN c.tags) AS q WHERE c.id = "a"`,
			[]string{`["Rex","x"]`, `["Rex","y"]`, `["Tom","x"]`, `["Tom","y"]`}},
		{`SELECT VALUE n FROM c JOIN (SELECT COUNT(1) AS k FROM x IN c.pets) AS n WHERE c.id IN ("a", "b")`, []string{`{"k":2}`, `{"k":0}`}},
		{`SELECT * FROM c.pets`, []string{`[{"n":"Rex","kind":"dog"},{"n":"Tom","kind":"cat"}]`, `[{"n":"Kit","kind":"cat"}]`}},
		{`SELECT VALUE pets[0].n FROM c.pets`, []string{`"Rex"`, `"Kit"`}},
		{`SELECT VALUE p.n FROM c.pets[0] AS p`, []string{`"Rex"`, `"Kit"`}},
		{`SELECT VALUE n FROM c["pets"][1].n`, []string{`"Tom"`}},
		{`SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE p FROM p IN c.pets WHERE p.kind = "dog")`, []string{`"a"`}},
		{`SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.city FROM c)`, []string{`3`}},
		{`SELECT VALUE d.id FROM (SELECT TOP 2 c.id FROM c ORDER BY c.name DESC) AS d`, []string{`"e"`, `"d"`}},

		// Order.
		{`SELECT VALUE c.id FROM c ORDER BY c.name DESC`, []string{`"e"`, `"d"`, `"c"`, `"b"`, `"a"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.age`, []string{`"e"`, `"b"`, `"a"`, `"d"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.age DESC`, []string{`"d"`, `"a"`, `"b"`, `"e"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.city ASC, c.name DESC`, []string{`"d"`, `"e"`, `"b"`, `"c"`, `"a"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.active, c.id`, []string{`"a"`, `"c"`, `"e"`, `"d"`, `"b"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.city`, []string{`"d"`, `"b"`, `"e"`, `"a"`, `"c"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.city DESC`, []string{`"c"`, `"a"`, `"e"`, `"b"`, `"d"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.none`, nil},
		{`SELECT VALUE x FROM x IN c.mixed ORDER BY x`, nil},
		{`SELECT VALUE c.id FROM c ORDER BY LENGTH(c.city) + 1, c.id DESC`, []string{`"d"`, `"e"`, `"c"`, `"b"`, `"a"`}},

		// TOP, OFFSET, DISTINCT.
		{`SELECT TOP 2 VALUE c.id FROM c`, []string{`"a"`, `"b"`}},
		{`SELECT TOP 0 VALUE c.id FROM c`, nil},
		{`SELECT VALUE c.id FROM c OFFSET 1 LIMIT 2`, []string{`"b"`, `"c"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.id DESC OFFSET 3 LIMIT 9`, []string{`"b"`, `"a"`}},
		{`SELECT VALUE c.id FROM c OFFSET 9 LIMIT 1`, nil},
		{`SELECT VALUE c.id FROM c OFFSET 0 LIMIT 0`, nil},
		{`SELECT DISTINCT VALUE c.city FROM c`, []string{`"Oslo"`, `"Bern"`, `null`}},
		{`SELECT DISTINCT c.city FROM c WHERE c.city != null`, []string{`{"city":"Oslo"}`, `{"city":"Bern"}`}},
		{`SELECT DISTINCT TOP 1 VALUE c.city FROM c ORDER BY c.city DESC`, []string{`"Oslo"`}},

		// Aggregates.
		{`SELECT VALUE COUNT(1) FROM c`, []string{`5`}},
		{`SELECT VALUE COUNT(c.age) FROM c`, []string{`4`}},
		{`SELECT VALUE COUNT(1) FROM c WHERE false`, []string{`0`}},
		{`SELECT COUNT(1) AS n, MAX(c.name) AS last, MIN(c.name) AS first FROM c`, []string{`{"n":5,"last":"Eve","first":"Ann"}`}},
		{`SELECT VALUE SUM(c.age) FROM c`, nil},
		{`SELECT SUM(c.age) AS s FROM c`, []string{`{}`}},
		{`SELECT VALUE SUM(c.age) FROM c WHERE IS_NUMBER(c.age)`, []string{`55.5`}},
		{`SELECT VALUE AVG(c.age) FROM c WHERE IS_NUMBER(c.age)`, []string{`27.75`}},
		{`SELECT VALUE AVG(c.age) FROM c WHERE c.id IN ("a", "c")`, []string{`30`}},
		{`SELECT SUM(c.none) AS s, AVG(c.none) AS a, MIN(c.none) AS l, MAX(c.none) AS h, COUNT(c.none) AS n FROM c`, []string{`{"s":0,"n":0}`}},
		{`SELECT VALUE MAX(c.age) FROM c`, []string{`"old"`}},
		{`SELECT VALUE MIN(c.age) FROM c`, []string{`null`}},
		{`SELECT VALUE MIN(c.age) FROM c WHERE c.age != null`, []string{`25.50`}},
		{`SELECT VALUE MAX(c.tags) FROM c`, nil},
		{`SELECT VALUE ROUND(AVG(c.age) * 2) FROM c WHERE IS_NUMBER(c.age)`, []string{`56`}},
		{`SELECT VALUE [{"item": COUNT(1)}, {"item": {"sum": SUM(1), "count": COUNT(1)}}] FROM c`, []string{`[{"item":5},{"item":{"sum":5,"count":5}}]`}},
		{`SELECT VALUE COUNT(1) FROM t IN c.tags`, []string{`3`}},

		// Groups, in the order of their first documents.
		{`SELECT c.city, COUNT(1) AS n FROM c GROUP BY c.city`, []string{`{"city":"Oslo","n":2}`, `{"city":"Bern","n":2}`, `{"city":null,"n":1}`}},
		{`SELECT c.active, COUNT(1) AS n FROM c GROUP BY c.active`, []string{`{"n":3}`, `{"active":true,"n":1}`, `{"active":false,"n":1}`}},
		{`SELECT VALUE c.city FROM c GROUP BY c.city`, []string{`"Oslo"`, `"Bern"`, `null`}},
		{`SELECT UPPER(c.city) AS u, c.active, MAX(c.id) AS m FROM c WHERE c.city != null GROUP BY c.city, c.active`,
			[]string{`{"u":"OSLO","m":"c"}`, `{"u":"BERN","active":true,"m":"b"}`, `{"u":"BERN","m":"e"}`}},
		{`SELECT COUNT(1) AS n FROM c GROUP BY LENGTH(c.city)`, []string{`{"n":4}`, `{"n":1}`}},
		{`SELECT c.city FROM c WHERE false GROUP BY c.city`, nil},
		{`SELECT TOP 1 c.city, COUNT(1) AS n FROM c GROUP BY c.city`, []string{`{"city":"Oslo","n":2}`}},
		{`SELECT [{"item": c.city}] AS groupByItems, {"n": {"item": COUNT(1)}} AS payload FROM c WHERE c.city = "Bern" GROUP BY c.city`,
			[]string{`{"groupByItems":[{"item":"Bern"}],"payload":{"n":{"item":2}}}`}},

		// The rewritten query of JavaScript's client for ORDER BY over several ranges.
		{`SELECT c._rid, [{"item": c.name}] AS orderByItems, c.id AS payload FROM c WHERE (true) AND c.name < "C" ORDER BY c.name DESC`,
			[]string{`{"orderByItems":[{"item":"Bob"}],"payload":"b"}`, `{"orderByItems":[{"item":"Ann"}],"payload":"a"}`}},
	})
}

func TestOrderOfTypes(t *testing.T) {
	documents := []string{
		`{"v":{"b":1}}`, `{"v":[2]}`, `{"v":"z"}`, `{"v":[1,9]}`, `{"v":"a"}`, `{"v":10}`, `{"v":{"a":2}}`,
		`{"v":2}`, `{"v":true}`, `{"v":null}`, `{"v":false}`, `{}`, `{"v":-1.5}`,
	}
	want := []string{`null`, `false`, `true`, `-1.5`, `2`, `10`, `"a"`, `"z"`, `[1,9]`, `[2]`, `{"a":2}`, `{"b":1}`}
	got, err := query(`SELECT VALUE c.v FROM c ORDER BY c.v`, documents)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	slices.Reverse(want)
	got, err = query(`SELECT VALUE c.v FROM c ORDER BY c.v DESC`, documents)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("descending: got %s, %v, want %s", got, err, want)
	}
}

// TestLeaseQueries runs the queries that other change feed processors send to a lease
// container.
func TestLeaseQueries(t *testing.T) {
	leases := []string{
		`{"id":"p_acct_db_c..0","LeaseToken":"0","ContinuationToken":"\"12\"","Owner":"h1"}`,
		`{"id":"p_acct_db_c..1","LeaseToken":"1","ContinuationToken":null,"Owner":null}`,
		`{"id":"p_acct_db_c.info"}`,
		`{"id":"q_acct_db_c..0","LeaseToken":"0","ContinuationToken":null}`,
	}
	for _, c := range []struct {
		query      string
		parameters []string
		want       []int
	}{
		{`SELECT * FROM c WHERE STARTSWITH(c.id, 'p_acct_db_c.')`, nil, []int{0, 1, 2}},
		{`SELECT * FROM c WHERE STARTSWITH(c.id, "p_acct_db_c..")`, nil, []int{0, 1}},
		{`SELECT * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix)`, []string{"@PartitionLeasePrefix", `"p_acct_db_c.."`}, []int{0, 1}},
		{`SELECT TOP 1 * FROM c WHERE STARTSWITH(c.id, @PartitionLeasePrefix) AND c.ContinuationToken != null`, []string{"@PartitionLeasePrefix", `"p_"`}, []int{0}},
		{`SELECT TOP @top * FROM c WHERE STARTSWITH(c.id, @p) AND c.ContinuationToken = null`, []string{"@p", `"p_"`, "@top", `5`}, []int{1}},
		{`select * from c where startswith(c.id, @prefix)`, []string{"@prefix", `"q_"`}, []int{3}},
		{`SELECT * FROM c where c.id LIKE @prefix`, []string{"@prefix", `"p_acct%.info"`}, []int{2}},
	} {
		var want []string
		for _, i := range c.want {
			want = append(want, leases[i])
		}
		got, err := query(c.query, leases, c.parameters...)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %s, %v\nwant %s", c.query, got, err, want)
		}
	}
}

func TestParameters(t *testing.T) {
	parameters := []string{"@n", `25.50`, "@N", `"upper"`, "@list", `["a", "b"]`, "@o", `{"k": [1]}`, "@null", `null`, "@_x1", `true`, "@skip", `1`, "@take", `2`}
	for q, want := range map[string][]string{
		`SELECT VALUE c.id FROM c WHERE c.age = @n`:                                  {`"b"`},
		`SELECT VALUE [@n, @N, @null, @_x1]`:                                         {`[25.50,"upper",null,true]`},
		`SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@list, c.id)`:                 {`"a"`, `"b"`},
		`SELECT VALUE @o.k[0]`:                                                       {`1`},
		`SELECT VALUE c.id FROM c WHERE c.city = @null`:                              {`"d"`},
		`SELECT VALUE c.id FROM c ORDER BY c.id OFFSET @skip LIMIT @take`:            {`"b"`, `"c"`},
		`SELECT VALUE c[@list[0]] FROM c`:                                            nil,
		`SELECT COUNT(1) AS n, @N AS p FROM c GROUP BY @n`:                           {`{"n":5,"p":"upper"}`},
		`SELECT VALUE (SELECT VALUE COUNT(1) FROM t IN c.tags WHERE t != @N) FROM c`: {`2`, `0`, `1`, `0`, `0`},
	} {
		got, err := query(q, people, parameters...)
		if err != nil || !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("%s: got %s, %v, want %s", q, got, err, want)
		}
	}
}

func TestRunReportsErrors(t *testing.T) {
	for _, c := range []struct {
		query      string
		parameters []string
		want       string
	}{
		{`SELECT TOP @n * FROM c`, nil, `'@n' in TOP, OFFSET or LIMIT is not an integer`},
		{`SELECT * FROM c WHERE c.id = @id`, []string{"@id", `{`}, `parameter '@id' is not JSON`},
		{`SELECT TOP @n * FROM c`, []string{"@n", `-1`}, `'@n' in TOP, OFFSET or LIMIT is not an integer`},
		{`SELECT * FROM c OFFSET @n LIMIT 1`, []string{"@n", `"1"`}, `'@n' in TOP, OFFSET or LIMIT`},
		{`SELECT * FROM c OFFSET 1 LIMIT @n`, []string{"@n", `1e10`}, `'@n' in TOP, OFFSET or LIMIT`},
		{`SELECT VALUE ARRAY(SELECT TOP @n VALUE t FROM t IN c.tags) FROM c`, []string{"@n", `0.5`}, `'@n' in TOP, OFFSET or LIMIT`},
		{`SELECT VALUE (SELECT VALUE t FROM t IN c.tags) FROM c`, nil, `scalar subquery result set cannot be greater than one`},
		{`SELECT * FROM c WHERE RegexMatch(c.name, "(")`, nil, `pattern of RegexMatch is not supported`},
		{`SELECT * FROM c WHERE RegexMatch(c.name, "(?=x)")`, nil, `pattern of RegexMatch is not supported`},
		{`SELECT * FROM c WHERE RegexMatch(c.name, "a", "x")`, nil, `modifiers "x" of RegexMatch are not supported`},
		{`SELECT * FROM c WHERE RegexMatch(c.name, REPLICATE("a", 5000))`, nil, `pattern of RegexMatch is longer than 4096`},
		{`SELECT * FROM c WHERE c.name LIKE "[z-a]"`, nil, `pattern of LIKE is not supported`},
		{`SELECT VALUE COUNT(1) FROM c WHERE c.name LIKE "[z-a]"`, nil, `pattern of LIKE is not supported`},
		{`SELECT VALUE c.id FROM c ORDER BY RegexMatch(c.name, "(")`, nil, `pattern of RegexMatch is not supported`},
		{`SELECT VALUE MAX(RegexMatch(c.name, "(")) FROM c`, nil, `pattern of RegexMatch is not supported`},
	} {
		got, err := query(c.query, people, c.parameters...)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, c.want) || len(got) > 0 {
			t.Errorf("%s: got %s, error %v, want one with %q", c.query, got, err, c.want)
		}
	}
}

func TestJoinsAreBounded(t *testing.T) {
	list := "[0" + strings.Repeat(",0", 299) + "]"
	document := `{"a":` + list + `}`
	for q, want := range map[string]string{
		`SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a`:                              "",
		`SELECT VALUE COUNT(1) FROM c JOIN x IN c.a JOIN y IN c.a JOIN z IN c.a`:                "combine more than 1000000 values",
		`SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.a JOIN y IN c.a JOIN z IN c.a) FROM c`: "combine more than 1000000 values",
	} {
		got, err := query(q, []string{document, document})
		if want == "" && (err != nil || !slices.Equal(got, []string{"180000"})) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %s, %v", q, got, err)
		}
	}
}

func TestManyPatterns(t *testing.T) {
	var documents []string
	for i := range 3 * maxPatterns {
		documents = append(documents, fmt.Sprintf(`{"p":"%d%%","s":"%d!"}`, i, i))
	}
	got, err := query(`SELECT VALUE COUNT(1) FROM c WHERE c.s LIKE c.p`, documents)
	if err != nil || !slices.Equal(got, []string{fmt.Sprint(len(documents))}) {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestProperties(t *testing.T) {
	for q, want := range map[string]Properties{
		`SELECT * FROM c`: {Streams: true, SelectStar: true},
		`SELECT TOP 1 VALUE c.x FROM c WHERE c.y = @y`: {Streams: true, Top: true, Filtered: true, SelectValue: true, Parameters: []string{"@y"}},
		`SELECT c.x, c.y AS z, 1 FROM c JOIN t IN c.t OFFSET 0 LIMIT @n`: {Streams: true, Join: true, OffsetLimit: true,
			Aliases: []string{"x", "z", "$1"}, Parameters: []string{"@n"}},
		`SELECT DISTINCT VALUE c.x FROM c`:                       {Distinct: true, SelectValue: true},
		`SELECT * FROM c ORDER BY c.x, LOWER(c["a b"]) DESC`:     {Ordered: true, SelectStar: true, OrderBy: []Order{{"c.x", false}, {`LOWER(c["a b"])`, true}}},
		`SELECT VALUE {"s": sum(c.x), "n": COUNT(1)} FROM c`:     {Composed: true, SelectValue: true, Aggregates: []string{"SUM", "COUNT"}},
		`SELECT c.x, MAX(c.y) AS m FROM c GROUP BY c.x, c.z + 1`: {Composed: true, GroupBy: []string{"c.x", "c.z + 1"}, Aggregates: []string{"MAX"}, Aliases: []string{"x", "m"}},
		`SELECT * FROM (SELECT c.x FROM c)`:                      {SelectStar: true, Streams: true},
		`SELECT 1`:                                               {Constant: true, Aliases: []string{"$1"}},
		`SELECT VALUE x FROM x IN (SELECT VALUE [1, 2])`:         {Constant: true, SelectValue: true},
		`SELECT VALUE COUNT(1) FROM c`:                           {SelectValue: true, Aggregates: []string{"COUNT"}},
		`SELECT COUNT(1) AS n FROM c`:                            {Composed: true, Aggregates: []string{"COUNT"}, Aliases: []string{"n"}},
		`SELECT c.x FROM c GROUP BY c.x`:                         {Composed: true, GroupBy: []string{"c.x"}, Aliases: []string{"x"}},
	} {
		parsed, err := Parse(q)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := parsed.Properties(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", q, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	parameters := map[string]json.RawMessage{"@n": json.RawMessage(`7`)}
	for q, want := range map[string]Limits{
		`SELECT * FROM c`:                   {0, -1},
		`SELECT TOP 5 * FROM c`:             {0, 5},
		`SELECT TOP @n * FROM c`:            {0, 7},
		`SELECT * FROM c OFFSET 2 LIMIT @n`: {2, 7},
		`SELECT * FROM c OFFSET @n LIMIT 3`: {7, 3},
	} {
		parsed, err := Parse(q)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := parsed.Limits(parameters); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", q, got, err, want)
		}
	}
}

func TestCondition(t *testing.T) {
	for _, c := range []struct {
		condition string
		want      bool
	}{
		{`from c where c.n = 1`, true},
		{`FROM c WHERE c.n > 1`, false},
		{`FROM root r WHERE r.none = 1`, false},
		{`FROM c WHERE NOT IS_DEFINED(c.none) AND c["n"] < 2`, true},
		{`FROM c JOIN t IN c.t WHERE t = 2`, true},
	} {
		parsed, err := ParseCondition(c.condition)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := parsed.Match([]byte(`{"n":1,"t":[1,2,2]}`), testEnv); err != nil || got != c.want {
			t.Errorf("%s: %t, %v", c.condition, got, err)
		}
	}
	for condition, want := range map[string]string{
		``:                                  "ends too early",
		`c.n = 1`:                           "near 'c'",
		`FROM c`:                            "ends too early",
		`FROM c WHERE c.n = 1 ORDER BY c.n`: "near 'ORDER'",
		`FROM c WHERE d.n = 1`:              "'d' could not be resolved",
	} {
		if _, err := ParseCondition(condition); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseCondition(%q): error %v, want one with %q", condition, err, want)
		}
	}
	if _, err := ParseCondition(`FROM c WHERE c.n = @n`); err == nil || !strings.Contains(err.Error(), "'@n' is not supplied") {
		t.Errorf("a condition with a parameter: error %v", err)
	}
}
