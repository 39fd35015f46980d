package sql

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

var testEnv = Env{Now: time.Date(2026, 11, 20, 6, 7, 8, 123456700, time.UTC)}

// query runs a query over documents, and its canonical form, which must answer
// the same. Parameters are pairs of name and JSON.
func query(text string, documents []string, parameters ...string) ([]string, error) {
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	again, err := Parse(q.String())
	if err != nil || again.String() != q.String() {
		return nil, fmt.Errorf("%s prints as %s, which prints as %v, %w", text, q, again, err)
	}
	first, err := answers(q, documents, parameters)
	second, _ := answers(again, documents, parameters)
	if !slices.Equal(first, second) {
		return nil, fmt.Errorf("%s answers %s, its canonical form %s answers %s", text, first, q, second)
	}
	return first, err
}

func answers(q *Query, documents, parameters []string) ([]string, error) {
	byName := make(map[string]json.RawMessage)
	for i := 0; i < len(parameters); i += 2 {
		byName[parameters[i]] = json.RawMessage(parameters[i+1])
	}
	raw, err := q.Run(sequence(documents), byName, testEnv)
	results := make([]string, len(raw))
	for i, r := range raw {
		results[i] = string(r)
	}
	return results, err
}

func sequence(documents []string) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, d := range documents {
			if !yield([]byte(d)) {
				return
			}
		}
	}
}

const exprDocument = `{"id":"1","n":1.50,"big":9007199254740993,"s":"text","t":true,"f":false,"z":null,
	"o":{"x":1,"y z":2,"deep":{"k":[10,20,30]}},"a":[1,"two",null,{"k":3}],"caf\u00e9":"é","A":"upper", "neg":-2e0}`

// expressions are evaluated for exprDocument; "" wants undefined.
var expressions = []struct{ expr, want string }{
	// Literals keep their text where JSON allows it.
	{`1`, `1`}, {`1.50`, `1.50`}, {`.5`, `0.5`}, {`1.`, `1`}, {`1e2`, `1e2`}, {`007`, `7`}, {`0x1F`, `31`}, {`-0Xa`, `-10`}, {`-3`, `-3`},
	{`9007199254740993`, `9007199254740993`}, {`-9007199254740993`, `-9007199254740993`},
	{`"a\"b'c"`, `"a\"b'c"`}, {`'it\'s "x"'`, `"it's \"x\""`}, {`"\u0041\n\t\\\/"`, `"A\n\t\\/"`},
	{`"\ud83d\ude00"`, `"😀"`}, {`"é"`, `"é"`}, {`"\u0001"`, `"\u0001"`},
	{`true`, `true`}, {`FALSE`, `false`}, {`null`, `null`}, {`undefined`, ``},
	{`[]`, `[]`}, {`[1, undefined, c.none, "x"]`, `[1,"x"]`}, {`{}`, `{}`},
	{`{"a": 1, b: c.s, 'c d': c.none}`, `{"a":1,"b":"text"}`},

	// Properties and elements.
	{`c.n`, `1.50`}, {`c["n"]`, `1.50`}, {`c['o']['y z']`, `2`}, {`c.o.deep.k[1]`, `20`}, {`c["o"].deep["k"][2]`, `30`},
	{`c.big`, `9007199254740993`}, {`c.A`, `"upper"`}, {`c["café"]`, `"é"`}, {`c.z`, `null`},
	{`c.a[c.o.x]`, `"two"`}, {`c.a[3].k`, `3`}, {`c["o"][c.none]`, ``}, {`c[CONCAT("i","d")]`, `"1"`},
	{`c.none`, ``}, {`c.none.deeper`, ``}, {`c.s.x`, ``}, {`c.s[0]`, ``}, {`c.z.x`, ``}, {`c.a[4]`, ``}, {`c.a[-1]`, ``},
	{`c.a[0.5]`, ``}, {`c.a["0"]`, ``}, {`c.a.x`, ``}, {`c.o[0]`, ``}, {`c.a[null]`, ``},

	// Arithmetic is on doubles; a wrong type or no finite result is undefined.
	{`1 + 2`, `3`}, {`1 - 2`, `-1`}, {`c.n * 2`, `3`}, {`7 / 2`, `3.5`}, {`7 % 4`, `3`}, {`-7 % 4`, `-3`}, {`0.1 + 0.2`, `0.30000000000000004`},
	{`1 / 0`, ``}, {`0 / 0`, ``}, {`1 % 0`, ``}, {`1e308 * 10`, ``}, {`2e20 + 1`, `2e+20`},
	{`1 + "1"`, ``}, {`c.none + 1`, ``}, {`null + 1`, ``}, {`true * 2`, ``}, {`c.a - 1`, ``},
	{`- c.n`, `-1.50`}, {`- c.neg`, `2e0`}, {`+c.n`, `1.50`}, {`-"x"`, ``}, {`+true`, ``}, {`- -1`, `1`}, {`-(1 + 1)`, `-2`},
	{`2 + 3 * 4`, `14`}, {`(2 + 3) * 4`, `20`}, {`10 - 4 - 3`, `3`}, {`100 / 10 / 5`, `2`},

	// Bit operators keep 32 bits, as in JavaScript.
	{`6 & 3`, `2`}, {`6 | 3`, `7`}, {`6 ^ 3`, `5`}, {`~5`, `-6`}, {`~ "x"`, ``}, {`1 << 4`, `16`}, {`-16 >> 2`, `-4`}, {`-1 >>> 28`, `15`},
	{`1 << 33`, `2`}, {`2147483648 | 0`, `-2147483648`}, {`6442450944 | 0`, `-2147483648`}, {`3.9 & 7`, `3`}, {`-3.9 | 0`, `-3`},
	{`"x" & 1`, ``}, {`c.none | 1`, ``}, {`1 | 2 + 3`, `6`},

	// Equality of defined values is a boolean, whatever their types.
	{`1 = 1.0`, `true`}, {`1 = 2`, `false`}, {`1 = "1"`, `false`}, {`1 != "1"`, `true`}, {`1 <> 1`, `false`},
	{`null = null`, `true`}, {`c.z = null`, `true`}, {`c.s = null`, `false`}, {`c.s != null`, `true`},
	{`c.none = null`, ``}, {`c.none != null`, ``}, {`undefined = undefined`, ``}, {`NOT (c.none = 1)`, ``},
	{`[1, {"a": 2}] = [1.0, {"a": 2}]`, `true`}, {`{"a": 1, "b": 2} = {"b": 2, "a": 1}`, `true`}, {`{"a": 1} = {"a": 2}`, `false`},
	{`[1] = [1, 2]`, `false`}, {`c.big = 9007199254740993`, `true`}, {`c.big = 9007199254740992`, `false`},
	{`"a" = "A"`, `false`}, {`true = 1`, `false`},

	// Order needs primitive values of one type.
	{`1 < 2`, `true`}, {`2 <= 2.0`, `true`}, {`"a" < "b"`, `true`}, {`"Z" < "a"`, `true`}, {`"" < "a"`, `true`}, {`false < true`, `true`},
	{`null <= null`, `true`}, {`null < null`, `false`}, {`3 > 2`, `true`}, {`3 >= 4`, `false`},
	{`1 < "2"`, ``}, {`"2" > 1`, ``}, {`null < 1`, ``}, {`c.none < 1`, ``}, {`[1] < [2]`, ``}, {`{} >= {}`, ``}, {`true > 0`, ``},
	{`9007199254740992 < c.big`, `true`},
	{`1 = 1 = true`, `true`}, {`1 < 2 = true`, `true`},

	// Logic has three values.
	{`true AND true`, `true`}, {`true AND false`, `false`}, {`false AND c.none`, `false`}, {`c.none AND false`, `false`},
	{`true AND c.none`, ``}, {`c.none AND true`, ``}, {`c.none AND c.none`, ``}, {`1 AND true`, ``}, {`1 AND false`, `false`},
	{`true OR c.none`, `true`}, {`c.none OR true`, `true`}, {`false OR c.none`, ``}, {`c.none OR false`, ``}, {`false OR false`, `false`},
	{`"x" OR true`, `true`}, {`null OR false`, ``}, {`NOT true`, `false`}, {`NOT false`, `true`}, {`NOT c.none`, ``}, {`NOT 1`, ``}, {`NOT null`, ``},
	{`true OR false AND false`, `true`}, {`NOT false = true`, `true`}, {`NOT NOT true`, `true`},

	// BETWEEN, IN, LIKE.
	{`2 BETWEEN 1 AND 3`, `true`}, {`1 BETWEEN 1 AND 1`, `true`}, {`4 BETWEEN 1 AND 3`, `false`}, {`4 NOT BETWEEN 1 AND 3`, `true`},
	{`"b" BETWEEN "a" AND "c"`, `true`}, {`"b" BETWEEN 1 AND "c"`, ``}, {`c.none BETWEEN 1 AND 2`, ``}, {`5 BETWEEN "x" AND 1`, `false`},
	{`2 BETWEEN 1 AND 3 AND false`, `false`},
	{`1 IN (1, 2)`, `true`}, {`3 IN (1, 2)`, `false`}, {`3 NOT IN (1, 2)`, `true`}, {`"1" IN (1)`, `false`}, {`c.none IN (1)`, ``},
	{`c.none NOT IN (1)`, ``}, {`1 IN (c.none, 1)`, `true`}, {`1 IN (c.none)`, `false`}, {`null IN (null)`, `true`}, {`[1] IN ([1], 2)`, `true`},
	{`"abc" LIKE "a%"`, `true`}, {`"abc" LIKE "%b%"`, `true`}, {`"abc" LIKE "A%"`, `false`}, {`"abc" LIKE "a_c"`, `true`}, {`"abc" LIKE "a"`, `false`},
	{`"abc" NOT LIKE "a%"`, `false`}, {`"" LIKE "%"`, `true`}, {`"a\nb" LIKE "a%b"`, `true`}, {`"a.c" LIKE "a.c"`, `true`}, {`"abc" LIKE "a.c"`, `false`},
	{`"bat" LIKE "[a-c]at"`, `true`}, {`"hat" LIKE "[a-c]at"`, `false`}, {`"hat" LIKE "[^a-c]at"`, `true`}, {`"[x" LIKE "[x"`, `true`}, {`"[]" LIKE "[]"`, `true`},
	{`"20%" LIKE "20!%" ESCAPE "!"`, `true`}, {`"20x" LIKE "20!%" ESCAPE "!"`, `false`}, {`"a!" LIKE "a!" ESCAPE "!"`, `true`}, {`"a\\" LIKE "a\\"`, `true`},
	{`"é" LIKE "_"`, `true`}, {`"ab" LIKE "a" || "%"`, `true`}, {`1 LIKE "1"`, ``}, {`"1" LIKE 1`, ``}, {`c.none LIKE "%"`, ``}, {`"^" LIKE "[^^]"`, `false`},

	// Coalesce asks for undefined, not for null; the ternary for true.
	{`c.none ?? 1`, `1`}, {`c.z ?? 1`, `null`}, {`c.none ?? c.nil ?? 2`, `2`}, {`c.n ?? 1`, `1.50`}, {`undefined ?? undefined`, ``},
	{`true ? 1 : 2`, `1`}, {`false ? 1 : 2`, `2`}, {`c.none ? 1 : 2`, `2`}, {`1 ? 1 : 2`, `2`}, {`true ? c.none : 2`, ``},
	{`false ? 1 : true ? 2 : 3`, `2`}, {`c.none ?? false ? 1 : 2`, `2`},
	{`"a" || "b" || "c"`, `"abc"`}, {`"a" || 1`, ``}, {`c.none || "a"`, ``}, {`"a" || "b" = "ab"`, `true`},

	// Subqueries.
	{`EXISTS(SELECT VALUE x FROM x IN c.a WHERE x = "two")`, `true`}, {`EXISTS(SELECT VALUE x FROM x IN c.a WHERE x = "six")`, `false`},
	{`NOT EXISTS(SELECT VALUE x FROM x IN c.none)`, `true`}, {`EXISTS(SELECT VALUE c.none FROM x IN c.a)`, `false`},
	{`ARRAY(SELECT VALUE x FROM x IN c.a WHERE IS_PRIMITIVE(x))`, `[1,"two",null]`}, {`ARRAY(SELECT VALUE x FROM x IN c.none)`, `[]`},
	{`(SELECT VALUE COUNT(1) FROM x IN c.a)`, `4`}, {`(SELECT VALUE x FROM x IN c.a WHERE x = "six")`, ``}, {`(SELECT 1 AS a)`, `{"a":1}`},
	{`(SELECT VALUE MAX(x) FROM x IN c.o.deep.k)`, `30`}, {`ARRAY(SELECT TOP 2 VALUE x FROM x IN c.o.deep.k ORDER BY x DESC)`, `[30,20]`},
	{`ARRAY(SELECT VALUE [x, y] FROM x IN c.o.deep.k JOIN y IN c.o.deep.k WHERE y < x)`, `[[20,10],[30,10],[30,20]]`},
	{`ARRAY(SELECT VALUE ARRAY(SELECT VALUE x + y FROM y IN c.o.deep.k) FROM x IN c.o.deep.k OFFSET 1 LIMIT 1)`, `[[30,40,50]]`},
	{`ARRAY(SELECT VALUE x.k FROM c.a[3] AS x)`, `[3]`}, {`ARRAY(SELECT VALUE k[0] FROM c.o.deep.k)`, `[10]`},
}

func TestExpressions(t *testing.T) {
	for _, c := range expressions {
		checkExpression(t, c.expr, c.want)
	}
}

func checkExpression(t *testing.T, expr, want string) {
	t.Helper()
	wants := []string{want}
	if want == "" {
		wants = nil
	}
	got, err := query("SELECT VALUE "+expr+" FROM c", []string{exprDocument})
	if err != nil || !slices.Equal(got, wants) {
		t.Errorf("%s is %q, %v; want %q", expr, got, err, wants)
	}
}
