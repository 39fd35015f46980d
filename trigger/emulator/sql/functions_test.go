package sql

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// calls are evaluated for exprDocument; "" wants undefined. The first call of
// each function has arguments of the right types.
var calls = []struct{ expr, want string }{
	{`IS_DEFINED(c.n)`, `true`}, {`IS_DEFINED(c.z)`, `true`}, {`IS_DEFINED(c.none)`, `false`}, {`IS_DEFINED(1 + "x")`, `false`},
	{`IS_NULL(c.z)`, `true`}, {`IS_NULL(c.n)`, `false`}, {`IS_NULL(c.none)`, `false`},
	{`IS_BOOL(true)`, `true`}, {`IS_BOOL(1)`, `false`}, {`IS_BOOL(c.none)`, `false`},
	{`IS_NUMBER(c.n)`, `true`}, {`IS_NUMBER("1")`, `false`}, {`IS_NUMBER(c.none)`, `false`},
	{`IS_STRING(c.s)`, `true`}, {`IS_STRING(1)`, `false`}, {`IS_STRING(c.none)`, `false`},
	{`IS_ARRAY(c.a)`, `true`}, {`IS_ARRAY(c.o)`, `false`}, {`IS_ARRAY(c.none)`, `false`},
	{`IS_OBJECT(c.o)`, `true`}, {`IS_OBJECT(c.a)`, `false`}, {`IS_OBJECT(c.none)`, `false`},
	{`IS_PRIMITIVE(c.z)`, `true`}, {`IS_PRIMITIVE(c.s)`, `true`}, {`IS_PRIMITIVE(c.a)`, `false`}, {`IS_PRIMITIVE(c.none)`, `false`},
	{`IS_FINITE_NUMBER(1)`, `true`}, {`IS_FINITE_NUMBER("1")`, `false`}, {`IS_FINITE_NUMBER(c.none)`, `false`},
	{`IS_INTEGER(2.0)`, `true`}, {`IS_INTEGER(c.n)`, `false`}, {`IS_INTEGER("1")`, `false`}, {`IS_INTEGER(c.none)`, `false`},
	{`IIF(true, 1, 2)`, `1`}, {`IIF(false, 1, 2)`, `2`}, {`IIF(c.none, 1, 2)`, `2`}, {`IIF(1, 1, 2)`, `2`}, {`IIF(true, c.none, 2)`, ``},
	{`TOSTRING(c.n)`, `"1.50"`}, {`ToString("x")`, `"x"`}, {`TOSTRING(true)`, `"true"`}, {`TOSTRING(null)`, `"null"`}, {`TOSTRING([1,"a"])`, `"[1,\"a\"]"`},
	{`TOSTRING(1 + 1)`, `"2"`}, {`TOSTRING(c.none)`, ``},
	{`StringToArray(" [1, 2] ")`, `[1, 2]`}, {`StringToArray("{}")`, ``}, {`StringToArray("[1")`, ``}, {`StringToArray(1)`, ``},
	{`StringToBoolean(" true ")`, `true`}, {`StringToBoolean("TRUE")`, ``}, {`StringToBoolean("1")`, ``}, {`StringToBoolean(true)`, ``},
	{`StringToNull(" null ")`, `null`}, {`StringToNull("NULL")`, ``}, {`StringToNull(null)`, ``},
	{`StringToNumber(" -1.50e2 ")`, `-1.50e2`}, {`StringToNumber("0x10")`, ``}, {`StringToNumber("")`, ``}, {`StringToNumber("NaN")`, ``}, {`StringToNumber(5)`, ``},
	{`StringToObject("{\"a\": [1]}")`, `{"a": [1]}`}, {`StringToObject("{a:1}")`, ``}, {`StringToObject("[]")`, ``},
	{`OBJECTTOARRAY(c.o.deep)`, `[{"k":"k","v":[10,20,30]}]`}, {`OBJECTTOARRAY({"a": 1}, "name", "value")`, `[{"name":"a","value":1}]`}, {`OBJECTTOARRAY(1)`, ``}, {`OBJECTTOARRAY({}, 1)`, ``},

	{`CONTAINS(c.s, "ex")`, `true`}, {`CONTAINS("abc", "B")`, `false`}, {`CONTAINS("abc", "B", true)`, `true`}, {`CONTAINS("abc", "B", false)`, `false`},
	{`CONTAINS("abc", "")`, `true`}, {`CONTAINS(1, "1")`, ``}, {`CONTAINS("1", 1)`, ``}, {`CONTAINS("a", "a", "true")`, ``},
	{`STARTSWITH(c.s, "te")`, `true`}, {`StartsWith("abc", "AB")`, `false`}, {`STARTSWITH("abc", "AB", true)`, `true`}, {`STARTSWITH(c.n, "1")`, ``},
	{`ENDSWITH(c.s, "xt")`, `true`}, {`ENDSWITH("abc", "BC")`, `false`}, {`ENDSWITH("abc", "BC", true)`, `true`}, {`ENDSWITH(null, "x")`, ``},
	{`StringEquals("abc", "abc")`, `true`}, {`StringEquals("abc", "ABC")`, `false`}, {`StringEquals("abc", "ABC", true)`, `true`}, {`StringEquals("1", 1)`, ``},
	{`RegexMatch("abcd", "^a.*d$")`, `true`}, {`RegexMatch("abcd", "ABC", "i")`, `true`}, {`RegexMatch("abcd", "ABC", "")`, `false`},
	{`RegexMatch("a\nb", "a.b", "s")`, `true`}, {`RegexMatch("a\nb", "^b", "m")`, `true`}, {`RegexMatch(1, "1")`, ``}, {`RegexMatch("1", 1)`, ``}, {`RegexMatch("1", "1", 1)`, ``},
	{`CONCAT("a", "b", c.s)`, `"abtext"`}, {`CONCAT("a", 1)`, ``},
	{`INDEX_OF("abcabc", "c")`, `2`}, {`INDEX_OF("abcabc", "c", 3)`, `5`}, {`INDEX_OF("éa", "a")`, `1`}, {`INDEX_OF("abc", "x")`, `-1`}, {`INDEX_OF("abc", "a", 9)`, `-1`},
	{`INDEX_OF("abc", "a", -1)`, `0`}, {`INDEX_OF(1, "1")`, ``}, {`INDEX_OF("a", "a", 0.5)`, ``},
	{`LENGTH("héé")`, `3`}, {`LENGTH("")`, `0`}, {`LENGTH(1)`, ``}, {`LENGTH([1])`, ``},
	{`LOWER("ÀB")`, `"àb"`}, {`LOWER(1)`, ``}, {`UPPER("àb")`, `"ÀB"`}, {`UPPER(null)`, ``}, {`REVERSE("añb")`, `"bña"`}, {`REVERSE(12)`, ``},
	{`LEFT("abc", 2)`, `"ab"`}, {`LEFT("abc", 9)`, `"abc"`}, {`LEFT("abc", 0)`, `""`}, {`LEFT("abc", -1)`, `""`}, {`LEFT(1, 1)`, ``}, {`LEFT("abc", 1.5)`, ``}, {`LEFT("abc", "1")`, ``},
	{`RIGHT("abc", 2)`, `"bc"`}, {`RIGHT("abc", 9)`, `"abc"`}, {`RIGHT("abc", 0)`, `""`}, {`RIGHT("abc", -1)`, `""`}, {`RIGHT(1, 1)`, ``}, {`RIGHT("abc", 1.5)`, ``},
	{`SUBSTRING("abcdef", 1, 3)`, `"bcd"`}, {`SUBSTRING("äöü", 1, 1)`, `"ö"`}, {`SUBSTRING("abc", 2, 9)`, `"c"`}, {`SUBSTRING("abc", 3, 1)`, `""`}, {`SUBSTRING("abc", -1, 2)`, `""`},
	{`SUBSTRING("abc", 0, 0)`, `""`}, {`SUBSTRING("abc", 0, 1e18)`, `"abc"`}, {`SUBSTRING("abc", 1e18, 1)`, `""`}, {`SUBSTRING("abc", 0.5, 1)`, ``}, {`SUBSTRING(1, 0, 1)`, ``}, {`SUBSTRING("abc", "0", 1)`, ``},
	{`REPLACE("banana", "an", "AN")`, `"bANANa"`}, {`REPLACE("a", "", "b")`, ``}, {`REPLACE("a", "a", 1)`, ``}, {`REPLACE(1, "1", "2")`, ``},
	{`REPLICATE("ab", 3)`, `"ababab"`}, {`REPLICATE("ab", 0)`, `""`}, {`REPLICATE("ab", -1)`, ``}, {`REPLICATE("ab", 5001)`, ``}, {`REPLICATE("", 1e18)`, ``}, {`REPLICATE(1, 2)`, ``}, {`REPLICATE("a", 1.5)`, ``},
	{`TRIM("  a b ")`, `"a b"`}, {`TRIM("-_-a-_-", "-_")`, `"a"`}, {`TRIM("a", "")`, `"a"`}, {`TRIM(1)`, ``}, {`TRIM("a", 1)`, ``},
	{`LTRIM(" a ")`, `"a "`}, {`LTRIM("xxa", "x")`, `"a"`}, {`LTRIM(1)`, ``}, {`RTRIM(" a ")`, `" a"`}, {`RTRIM("axx", "x")`, `"a"`}, {`RTRIM(null)`, ``},
	{`StringJoin(["a", "b"], "-")`, `"a-b"`}, {`StringJoin([], "-")`, `""`}, {`StringJoin([1], "-")`, ``}, {`StringJoin("a", "-")`, ``}, {`StringJoin(["a"], 1)`, ``},
	{`StringSplit("a-b-", "-")`, `["a","b",""]`}, {`StringSplit("a", "")`, ``}, {`StringSplit(1, "-")`, ``},

	{`ARRAY_CONCAT([1], c.o.deep.k, [])`, `[1,10,20,30]`}, {`ARRAY_CONCAT([1], 2)`, ``},
	{`ARRAY_CONTAINS(c.a, "two")`, `true`}, {`ARRAY_CONTAINS(c.a, null)`, `true`}, {`ARRAY_CONTAINS(c.a, {"k": 3})`, `true`}, {`ARRAY_CONTAINS(c.a, 2)`, `false`},
	{`ARRAY_CONTAINS([{"a": 1, "b": 2}], {"a": 1})`, `false`}, {`ARRAY_CONTAINS([{"a": 1, "b": 2}], {"a": 1}, true)`, `true`}, {`ARRAY_CONTAINS([{"a": 1}], {"a": 2}, true)`, `false`},
	{`ARRAY_CONTAINS([1], 1, true)`, `true`}, {`ARRAY_CONTAINS([1, {}], {"a": 1}, true)`, `false`}, {`ARRAY_CONTAINS("a", "a")`, ``}, {`ARRAY_CONTAINS([1], 1, 1)`, ``},
	{`ARRAY_CONTAINS_ANY([1, 2], 3, 2)`, `true`}, {`ARRAY_CONTAINS_ANY([1, 2], 3)`, `false`}, {`ARRAY_CONTAINS_ANY(1, 1)`, ``},
	{`ARRAY_CONTAINS_ALL([1, 2], 2, 1)`, `true`}, {`ARRAY_CONTAINS_ALL([1, 2], 2, 3)`, `false`}, {`ARRAY_CONTAINS_ALL(1, 1)`, ``},
	{`ARRAY_LENGTH(c.a)`, `4`}, {`ARRAY_LENGTH([])`, `0`}, {`ARRAY_LENGTH("abc")`, ``}, {`ARRAY_LENGTH(c.o)`, ``},
	{`ARRAY_SLICE([1, 2, 3], 1)`, `[2,3]`}, {`ARRAY_SLICE([1, 2, 3], 1, 1)`, `[2]`}, {`ARRAY_SLICE([1, 2, 3], -2, 1)`, `[2]`}, {`ARRAY_SLICE([1, 2, 3], -9)`, `[1,2,3]`},
	{`ARRAY_SLICE([1, 2, 3], 9)`, `[]`}, {`ARRAY_SLICE([1, 2, 3], 0, -1)`, `[]`}, {`ARRAY_SLICE([1], 0.5)`, ``}, {`ARRAY_SLICE([1], 0, 0.5)`, ``}, {`ARRAY_SLICE("abc", 1)`, ``},
	{`SetIntersect([1, 2, 2, "a"], [2, "a", 3])`, `[2,"a"]`}, {`SetIntersect([1], 1)`, ``},
	{`SetUnion([1, 2, 2], [2, 3])`, `[1,2,3]`}, {`SetUnion(1, [1])`, ``}, {`SetDifference([1, 2, 2, 3], [3])`, `[1,2]`}, {`SetDifference([1], null)`, ``},
	{`CHOOSE(2, "a", "b")`, `"b"`}, {`CHOOSE(0, "a")`, ``}, {`CHOOSE(3, "a", "b")`, ``}, {`CHOOSE("1", "a")`, ``},

	{`ABS(-1.5)`, `1.5`}, {`ABS("1")`, ``}, {`ACOS(1)`, `0`}, {`ACOS(2)`, ``}, {`ASIN(0)`, `0`}, {`ATAN(0)`, `0`}, {`ATN2(0, 1)`, `0`}, {`ATN2("0", 1)`, ``},
	{`CEILING(1.2)`, `2`}, {`CEILING(-1.2)`, `-1`}, {`FLOOR(1.8)`, `1`}, {`FLOOR(-1.2)`, `-2`}, {`FLOOR("x")`, ``},
	{`COS(0)`, `1`}, {`COT(0)`, ``}, {`COT(PI() / 4)`, `1`}, {`DEGREES(PI())`, `180`}, {`RADIANS(180)`, `3.141592653589793`}, {`SIN(0)`, `0`}, {`TAN(0)`, `0`},
	{`EXP(0)`, `1`}, {`EXP(1000)`, ``}, {`LOG(1)`, `0`}, {`LOG(8, 2)`, `3`}, {`LOG(0)`, ``}, {`LOG(-1)`, ``}, {`LOG(1, "2")`, ``}, {`LOG10(100)`, `2`},
	{`PI()`, `3.141592653589793`}, {`POWER(2, 10)`, `1024`}, {`POWER(2, "1")`, ``}, {`POWER(-1, 0.5)`, ``},
	{`ROUND(2.5)`, `3`}, {`ROUND(-2.5)`, `-3`}, {`ROUND(2.4)`, `2`}, {`ROUND(null)`, ``}, {`SIGN(-9)`, `-1`}, {`SIGN(0)`, `0`}, {`SIGN(9)`, `1`}, {`SIGN("x")`, ``},
	{`SQRT(9)`, `3`}, {`SQRT(-1)`, ``}, {`SQUARE(3)`, `9`}, {`SQUARE([])`, ``}, {`TRUNC(-1.9)`, `-1`}, {`TRUNC(true)`, ``},
	{`NumberBin(37.6, 10)`, `30`}, {`NumberBin(-1.5)`, `-2`}, {`NumberBin(1, 0)`, ``}, {`NumberBin("1")`, ``},
	{`IntAdd(9007199254740993, 1)`, `9007199254740994`}, {`IntAdd(1.5, 1)`, ``}, {`IntAdd("1", 1)`, ``}, {`IntSub(5, 7)`, `-2`}, {`IntMul(6, 7)`, `42`},
	{`IntDiv(7, 2)`, `3`}, {`IntDiv(7, 0)`, ``}, {`IntMod(7, 4)`, `3`}, {`IntMod(7, 0)`, ``},
	{`IntBitAnd(12, 10)`, `8`}, {`IntBitOr(12, 10)`, `14`}, {`IntBitXor(12, 10)`, `6`}, {`IntBitNot(0)`, `-1`}, {`IntBitNot(0.5)`, ``},
	{`IntBitLeftShift(1, 40)`, `1099511627776`}, {`IntBitRightShift(1099511627776, 40)`, `1`},

	{`GetCurrentDateTime()`, `"2026-11-20T06:07:08.1234567Z"`}, {`GetCurrentDateTimeStatic()`, `"2026-11-20T06:07:08.1234567Z"`},
	{`GetCurrentTimestamp()`, `1795154828123`}, {`GetCurrentTimestampStatic()`, `1795154828123`},
	{`GetCurrentTicks()`, `17951548281234567`}, {`GetCurrentTicksStatic()`, `17951548281234567`},
	{`DateTimeToTimestamp("2026-11-20T06:07:08.1234567Z")`, `1795154828123`}, {`DateTimeToTimestamp("1970-01-01")`, `0`}, {`DateTimeToTimestamp("yesterday")`, ``}, {`DateTimeToTimestamp(0)`, ``},
	{`DateTimeToTicks("1970-01-01T00:00:01Z")`, `10000000`}, {`DateTimeToTicks("x")`, ``},
	{`TimestampToDateTime(1795154828123)`, `"2026-11-20T06:07:08.1230000Z"`}, {`TimestampToDateTime(1e18)`, ``}, {`TimestampToDateTime("0")`, ``}, {`TimestampToDateTime(0.5)`, ``},
	{`TicksToDateTime(17951548281234567)`, `"2026-11-20T06:07:08.1234567Z"`}, {`TicksToDateTime(-1)`, `"1969-12-31T23:59:59.9999999Z"`},
	{`DateTimeAdd("yyyy", 1, "2024-02-29T00:00:00Z")`, `"2025-02-28T00:00:00.0000000Z"`}, {`DateTimeAdd("month", -1, "2026-03-31")`, `"2026-02-28T00:00:00.0000000Z"`},
	{`DateTimeAdd("hh", 25, "2026-11-20T06:07:08Z")`, `"2026-11-21T07:07:08.0000000Z"`}, {`DateTimeAdd("ms", -1, "2026-01-01")`, `"2025-12-31T23:59:59.9990000Z"`},
	{`DateTimeAdd("d", 1e12, "2026-01-01")`, ``}, {`DateTimeAdd("mm", 1e6, "2026-01-01")`, ``}, {`DateTimeAdd("fortnight", 1, "2026-01-01")`, ``}, {`DateTimeAdd(1, 1, "2026-01-01")`, ``}, {`DateTimeAdd("d", "1", "2026-01-01")`, ``}, {`DateTimeAdd("w", 1, "2026-01-01")`, ``},
	{`DateTimeBin("2026-11-20T06:07:08.1234567Z", "hh")`, `"2026-11-20T06:00:00.0000000Z"`}, {`DateTimeBin("2026-11-20T06:07:08Z", "d", 7, "2026-11-02")`, `"2026-11-16T00:00:00.0000000Z"`},
	{`DateTimeDiff("d", "2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z")`, `1`}, {`DateTimeDiff("year", "2025-12-31", "2026-01-01")`, `1`}, {`DateTimeDiff("m", "2026-03-01", "2025-12-31")`, `-3`},
	{`DateTimeDiff("ns", "2026-01-01T00:00:00.0000001Z", "2026-01-01T00:00:00Z")`, `-100`}, {`DateTimeDiff("mcs", "2026-01-01", "2026-01-01T00:00:01Z")`, `1000000`}, {`DateTimeDiff("hour", "1969-12-31T22:30:00Z", "1970-01-01")`, `2`},
	{`DateTimeDiff("dw", "2026-01-01", "2026-01-02")`, ``}, {`DateTimeDiff("d", "2026-01-01", "x")`, ``},
	{`DateTimePart("yyyy", "2026-11-20T06:07:08.1234567Z")`, `2026`}, {`DateTimePart("mm", "2026-11-20")`, `11`}, {`DateTimePart("dd", "2026-11-20")`, `20`}, {`DateTimePart("dw", "2026-11-20")`, `6`},
	{`DateTimePart("hh", "2026-11-20T06:07:08Z")`, `6`}, {`DateTimePart("mi", "2026-11-20T06:07:08Z")`, `7`}, {`DateTimePart("ss", "2026-11-20T06:07:08Z")`, `8`},
	{`DateTimePart("ms", "2026-11-20T06:07:08.1234567Z")`, `123`}, {`DateTimePart("mcs", "2026-11-20T06:07:08.1234567Z")`, `123456`}, {`DateTimePart("ns", "2026-11-20T06:07:08.1234567Z")`, `123456700`},
	{`DateTimePart("x", "2026-11-20")`, ``}, {`DateTimePart("d", 1)`, ``},
	{`DateTimeFromParts(2026, 11, 20)`, `"2026-11-20T00:00:00.0000000Z"`}, {`DateTimeFromParts(2026, 11, 20, 6, 7, 8, 1234567)`, `"2026-11-20T06:07:08.1234567Z"`}, {`DateTimeFromParts(2026, 2, 30)`, ``}, {`DateTimeFromParts(2026, 2, -1)`, ``}, {`DateTimeFromParts(2026, "2", 1)`, ``},
}

func TestFunctions(t *testing.T) {
	for _, c := range calls {
		checkExpression(t, c.expr, c.want)
	}
}

// firstCalls are the first call of each function, by name in upper case.
func firstCalls() map[string]string {
	first := make(map[string]string)
	for _, c := range slices.Backward(calls) {
		name, _, _ := strings.Cut(c.expr, "(")
		first[strings.ToUpper(name)] = c.expr
	}
	return first
}

func TestEveryFunctionIsCalled(t *testing.T) {
	first := firstCalls()
	for name := range functions {
		if first[name] == "" {
			t.Errorf("no test calls %s", name)
		}
	}
}

// TestUndefinedArguments replaces each argument of each function by a missing
// property: the result is undefined, except where a function asks about it.
func TestUndefinedArguments(t *testing.T) {
	first := firstCalls()
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		q, err := Parse("SELECT VALUE " + first[name] + " FROM c")
		if err != nil {
			t.Fatal(err)
		}
		c := q.statement.value.(*call)
		for i, was := range c.arguments {
			c.arguments[i] = &property{&name0, "none"}
			got, err := q.Run(sequence([]string{exprDocument}), nil, testEnv)
			if !c.function.total && len(got) > 0 || err != nil {
				t.Errorf("%s with argument %d undefined is %s, %v", first[name], i+1, got, err)
			}
			c.arguments[i] = was
		}
	}
}

// name0 is the first alias of a query.
var name0 = name{text: "c"}
