package sql

import "testing"

// arithmeticExpressions calculate with doubles. An operand of another type, and a result that
// is not finite, is undefined.
var arithmeticExpressions = []expressionCase{
	{`1 + 2`, `3`},
	{`1 - 2`, `-1`},
	{`c.n * 2`, `3`},
	{`7 / 2`, `3.5`},
	{`7 % 4`, `3`},
	{`-7 % 4`, `-3`},
	{`0.1 + 0.2`, `0.30000000000000004`},
	{`1 / 0`, ``},
	{`0 / 0`, ``},
	{`1 % 0`, ``},
	{`1e308 * 10`, ``},
	{`2e20 + 1`, `2e+20`},
	{`1 + "1"`, ``},
	{`c.none + 1`, ``},
	{`null + 1`, ``},
	{`true * 2`, ``},
	{`c.a - 1`, ``},
	{`- c.n`, `-1.50`},
	{`- c.neg`, `2e0`},
	{`+c.n`, `1.50`},
	{`-"x"`, ``},
	{`+true`, ``},
	{`- -1`, `1`},
	{`-(1 + 1)`, `-2`},
	{`2 + 3 * 4`, `14`},
	{`(2 + 3) * 4`, `20`},
	{`10 - 4 - 3`, `3`},
	{`100 / 10 / 5`, `2`},
	{`0 - 0`, `0`},
	{`5 - -5`, `10`},
	{`3 * -2`, `-6`},
	{`1 / 3`, `0.33333333333333331`},
	{`6 / 3`, `2`},
	{`5.5 % 2`, `1.5`},
	{`7 % -4`, `3`},
	{`0 % 5`, `0`},
	{`1 + 2 - 3 * 4 / 5`, `0.60000000000000009`},
	{`2 * (3 + 4)`, `14`},
	{`-(-5)`, `5`},
	{`- "5"`, ``},
	{`- null`, ``},
	{`+ "5"`, ``},
	{`-c.none`, ``},
	{`1 + null`, ``},
	{`"a" + "b"`, ``},
	{`[] + 1`, ``},
	{`{} * 2`, ``},
	{`false - 1`, ``},
	{`1 - undefined`, ``},
	{`9007199254740992 + 1`, `9007199254740992`},
	{`1e308 + 1e308`, ``},
	{`-1e308 - 1e308`, ``},
	{`1e-320 / 1e10`, `0`},
}

func TestArithmeticExpressions(t *testing.T) { checkExpressions(t, arithmeticExpressions) }

// bitwiseExpressions keep 32 bits, as in JavaScript.
var bitwiseExpressions = []expressionCase{
	{`6 & 3`, `2`},
	{`6 | 3`, `7`},
	{`6 ^ 3`, `5`},
	{`~5`, `-6`},
	{`~ "x"`, ``},
	{`1 << 4`, `16`},
	{`-16 >> 2`, `-4`},
	{`-1 >>> 28`, `15`},
	{`1 << 33`, `2`},
	{`2147483648 | 0`, `-2147483648`},
	{`6442450944 | 0`, `-2147483648`},
	{`3.9 & 7`, `3`},
	{`-3.9 | 0`, `-3`},
	{`"x" & 1`, ``},
	{`c.none | 1`, ``},
	{`1 | 2 + 3`, `6`},
	{`0 & 0`, `0`},
	{`5 | 0`, `5`},
	{`5 ^ 5`, `0`},
	{`~0`, `-1`},
	{`~~7`, `7`},
	{`~2147483647`, `-2147483648`},
	{`1 << 31`, `-2147483648`},
	{`1 << 32`, `1`},
	{`8 >> 1`, `4`},
	{`-8 >> 1`, `-4`},
	{`-8 >>> 1`, `2147483644`},
	{`1 >>> 32`, `1`},
	{`4294967295 | 0`, `-1`},
	{`4294967296 | 0`, `0`},
	{`2.7 | 0`, `2`},
	{`1 << null`, ``},
	{`"1" | 1`, ``},
	{`true & true`, ``},
	{`~true`, ``},
	{`~c.none`, ``},
}

func TestBitwiseExpressions(t *testing.T) { checkExpressions(t, bitwiseExpressions) }

// equalityExpressions compare two defined values of any types to a boolean.
var equalityExpressions = []expressionCase{
	{`1 = 1.0`, `true`},
	{`1 = 2`, `false`},
	{`1 = "1"`, `false`},
	{`1 != "1"`, `true`},
	{`1 <> 1`, `false`},
	{`null = null`, `true`},
	{`c.z = null`, `true`},
	{`c.s = null`, `false`},
	{`c.s != null`, `true`},
	{`c.none = null`, ``},
	{`c.none != null`, ``},
	{`undefined = undefined`, ``},
	{`NOT (c.none = 1)`, ``},
	{`[1, {"a": 2}] = [1.0, {"a": 2}]`, `true`},
	{`{"a": 1, "b": 2} = {"b": 2, "a": 1}`, `true`},
	{`{"a": 1} = {"a": 2}`, `false`},
	{`[1] = [1, 2]`, `false`},
	{`c.big = 9007199254740993`, `true`},
	{`c.big = 9007199254740992`, `false`},
	{`"a" = "A"`, `false`},
	{`true = 1`, `false`},
	{`true = true`, `true`},
	{`false = true`, `false`},
	{`"" = ""`, `true`},
	{`"a" != "b"`, `true`},
	{`0 = -0`, `true`},
	{`1e2 = 100`, `true`},
	{`[] = []`, `true`},
	{`{} = {}`, `true`},
	{`[1, 2] = [2, 1]`, `false`},
	{`[1, 2] != [2, 1]`, `true`},
	{`{"a": 1} = {"a": 1.0}`, `true`},
	{`{"a": 1} != {"a": 1, "b": 1}`, `true`},
	{`{"a": [1]} = {"a": [1]}`, `true`},
	{`null != null`, `false`},
	{`1 <> 2`, `true`},
	{`undefined != 1`, ``},
	{`c.a = c.a`, `true`},
	{`c.o = {"deep": {"k": [10, 20, 30]}, "y z": 2, "x": 1}`, `true`},
	{`"é" = "\u00e9"`, `true`},
	{`"e\u0301" = "é"`, `false`},
}

func TestEqualityExpressions(t *testing.T) { checkExpressions(t, equalityExpressions) }

// orderExpressions compare two primitive values of one type.
var orderExpressions = []expressionCase{
	{`1 < 2`, `true`},
	{`2 <= 2.0`, `true`},
	{`"a" < "b"`, `true`},
	{`"Z" < "a"`, `true`},
	{`"" < "a"`, `true`},
	{`false < true`, `true`},
	{`null <= null`, `true`},
	{`null < null`, `false`},
	{`3 > 2`, `true`},
	{`3 >= 4`, `false`},
	{`1 < "2"`, ``},
	{`"2" > 1`, ``},
	{`null < 1`, ``},
	{`c.none < 1`, ``},
	{`[1] < [2]`, ``},
	{`{} >= {}`, ``},
	{`true > 0`, ``},
	{`9007199254740992 < c.big`, `true`},
	{`1 = 1 = true`, `true`},
	{`1 < 2 = true`, `true`},
	{`"a" < "a"`, `false`},
	{`"a" <= "a"`, `true`},
	{`"a" > "A"`, `true`},
	{`"10" < "9"`, `true`},
	{`"a" < "ab"`, `true`},
	{`-1 < 0`, `true`},
	{`0.1 < 0.2`, `true`},
	{`1 >= 1`, `true`},
	{`true > false`, `true`},
	{`true >= true`, `true`},
	{`null >= null`, `true`},
	{`null > null`, `false`},
	{`1 > null`, ``},
	{`"a" > 1`, ``},
	{`true < "a"`, ``},
	{`[] < []`, ``},
	{`{} > {}`, ``},
	{`undefined < 1`, ``},
	{`1 <= undefined`, ``},
	{`1 < c.none`, ``},
	{`9007199254740993 > 9007199254740992`, `true`},
	{`9007199254740993 >= c.big`, `true`},
}

func TestOrderExpressions(t *testing.T) { checkExpressions(t, orderExpressions) }

// logicExpressions use three values: true, false and undefined.
var logicExpressions = []expressionCase{
	{`true AND true`, `true`},
	{`true AND false`, `false`},
	{`false AND c.none`, `false`},
	{`c.none AND false`, `false`},
	{`true AND c.none`, ``},
	{`c.none AND true`, ``},
	{`c.none AND c.none`, ``},
	{`1 AND true`, ``},
	{`1 AND false`, `false`},
	{`true OR c.none`, `true`},
	{`c.none OR true`, `true`},
	{`false OR c.none`, ``},
	{`c.none OR false`, ``},
	{`false OR false`, `false`},
	{`"x" OR true`, `true`},
	{`null OR false`, ``},
	{`NOT true`, `false`},
	{`NOT false`, `true`},
	{`NOT c.none`, ``},
	{`NOT 1`, ``},
	{`NOT null`, ``},
	{`true OR false AND false`, `true`},
	{`NOT false = true`, `true`},
	{`NOT NOT true`, `true`},
	{`true OR true`, `true`},
	{`false OR true`, `true`},
	{`true AND NOT false`, `true`},
	{`undefined AND undefined`, ``},
	{`undefined OR undefined`, ``},
	{`NOT undefined`, ``},
	{`NOT "true"`, ``},
	{`NOT []`, ``},
	{`true AND 1`, ``},
	{`false AND 1`, `false`},
	{`true OR 1`, `true`},
	{`false OR 1`, ``},
	{`null AND true`, ``},
	{`null AND false`, `false`},
	{`{} OR true`, `true`},
	{`NOT (true AND false)`, `true`},
	{`NOT (false OR c.none)`, ``},
	{`true AND true OR false`, `true`},
	{`false AND false OR true`, `true`},
	{`false AND (false OR true)`, `false`},
	{`1 = 1 AND 2 = 2`, `true`},
	{`1 < 2 OR 1 < "2"`, `true`},
	{`not true or true`, `true`},
}

func TestLogicExpressions(t *testing.T) { checkExpressions(t, logicExpressions) }

// TestOperandTypes applies every infix operator to a value of each type on both
// sides. A row says for each right side t (true), f (false), n (a number), s (a
// string) or . (undefined).
func TestOperandTypes(t *testing.T) {
	types := []string{"undefined", "null", "true", "2", `"a"`, "[1]", "{}"}
	equality := []string{".......", ".tfffff", ".ftffff", ".fftfff", ".ffftff", ".fffftf", ".ffffft"}
	unequal := []string{".......", ".fttttt", ".tftttt", ".ttfttt", ".tttftt", ".ttttft", ".tttttf"}
	below := []string{".......", ".f.....", "..f....", "...f...", "....f..", ".......", "......."}
	notAbove := []string{".......", ".t.....", "..t....", "...t...", "....t..", ".......", "......."}
	numeric := []string{".......", ".......", ".......", "...n...", ".......", ".......", "......."}
	text := []string{".......", ".......", ".......", ".......", "....s..", ".......", "......."}
	for operator, rows := range map[string][]string{
		"=": equality, "!=": unequal, "<>": unequal,
		"<": below, ">": below, "<=": notAbove, ">=": notAbove,
		"+": numeric, "-": numeric, "*": numeric, "/": numeric, "%": numeric,
		"&": numeric, "|": numeric, "^": numeric, "<<": numeric, ">>": numeric, ">>>": numeric,
		"||":  text,
		"AND": {".......", ".......", "..t....", ".......", ".......", ".......", "......."},
		"OR":  {"..t....", "..t....", "ttttttt", "..t....", "..t....", "..t....", "..t...."},
		"??":  {".?tns??", "???????", "ttttttt", "nnnnnnn", "sssssss", "???????", "???????"},
	} {
		for i, left := range types {
			for j, right := range types {
				expr := left + " " + operator + " " + right
				got, err := query("SELECT VALUE "+expr, nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := rows[i][j : j+1]; want != "?" && kindLetter(got) != want {
					t.Errorf("%s is %s, want %s", expr, got, want)
				}
			}
		}
	}
}

// kindLetter is the letter of TestOperandTypes for the values of a query.
func kindLetter(values []string) string {
	if len(values) == 0 {
		return "."
	}
	switch values[0][0] {
	case 't', 'f', '[', '{':
		return values[0][:1]
	case '"':
		return "s"
	}
	return "n"
}
