package sql

import (
	"strings"
	"testing"
)

func TestParseErrors(t *testing.T) {
	checkRefused(t, []refusedCase{
		{``, codeSyntax, "the query ends too early", ""},
		{`SELECT`, codeSyntax, "the query ends too early", ""},
		{`SELEC * FROM c`, codeSyntax, "incorrect syntax near 'SELEC'", "SELEC"},
		{`SELECT * FORM c`, codeSyntax, "incorrect syntax near 'FORM'", "FORM"},
		{`SELECT * FROM`, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c WHERE`, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c WHERE c.a = `, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c WHERE c.a == 1`, codeSyntax, "near '='", "="},
		{`SELECT * FROM c WHERE (c.a = 1`, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c WHERE c.a IN ()`, codeSyntax, "near ')'", ")"},
		{`SELECT * FROM c WHERE c.a NOT = 1`, codeSyntax, "near 'NOT'", "NOT"},
		{`SELECT * FROM c WHERE c.a NOT NULL`, codeSyntax, "near 'NULL'", "NULL"},
		{`SELECT * FROM c WHERE c.a BETWEEN 1`, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c WHERE c.a LIKE "x" ESCAPE "ab"`, codeSyntax, "ESCAPE takes a string of one character", `"ab"`},
		{`SELECT * FROM c WHERE c.a LIKE "x" ESCAPE 1`, codeSyntax, "ESCAPE takes a string", `1`},
		{`SELECT c.value FROM c`, codeSyntax, `It is a keyword; write ["value"]`, "value"},
		{`SELECT c.Order FROM c`, codeSyntax, `It is a keyword; write ["Order"]`, "Order"},
		{`SELECT c. FROM c`, codeSyntax, `near 'FROM'`, "FROM"},
		{`SELECT c.a AS FROM c`, codeSyntax, "near 'FROM'", "FROM"},
		{`SELECT c.a AS "" FROM c`, codeSyntax, `near '""'`, `""`},
		{`SELECT c.a, FROM c`, codeSyntax, "near 'FROM'", "FROM"},
		{`SELECT * FROM c; DROP`, codeToken, "invalid token", ";"},
		{`SELECT * FROM c WHERE c.a = 'x`, codeSyntax, "the string is not closed", "'x"},
		{`SELECT * FROM c WHERE c.a = "\q"`, codeSyntax, "invalid escape sequence", `\`},
		{`SELECT * FROM c WHERE c.a = "\u12"`, codeSyntax, "invalid escape sequence", `\`},
		{`SELECT /* * FROM c`, codeSyntax, "incorrect syntax near '/'", "/"},
		{`SELECT 1 AS a /* one */`, codeSyntax, "incorrect syntax near '/'", "/"},
		{`SELECT 1/* one */`, codeSyntax, "incorrect syntax near '/'", "/"},
		{`SELECT é FROM c`, codeToken, "invalid token", "é"},
		{"SELECT \"\xff\" FROM c", codeSyntax, "not valid UTF-8", ""},
		{`SELECT @ FROM c`, codeToken, "invalid token", "@"},
		{`SELECT 1e999 FROM c`, codeSyntax, "outside the range of a double", "1e999"},
		{`SELECT 0x10000000000000000 FROM c`, codeSyntax, "has more than 64 bits", "0x10000000000000000"},
		{`SELECT {a: 1, "a": 2} FROM c`, codeSyntax, "property 'a' is defined twice", `"a"`},
		{`SELECT {1: 2} FROM c`, codeSyntax, "near '1'", "1"},
		{`SELECT [1, ] FROM c`, codeSyntax, "near ']'", "]"},
		{`SELECT TOP x * FROM c`, codeSyntax, "near 'x'", "x"},
		{`SELECT TOP 1.5 * FROM c`, codeLimit, "not an integer", "1.5"},
		{`SELECT TOP 99999999999 * FROM c`, codeLimit, "not an integer", "99999999999"},
		{`SELECT * FROM c OFFSET 1`, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c LIMIT 1`, codeSyntax, "near 'LIMIT'", "LIMIT"},
		{`SELECT TOP 1 * FROM c OFFSET 1 LIMIT 1`, codeLimit, "cannot be used together", ""},
		{`SELECT * FROM c ORDER c.a`, codeSyntax, "near 'c'", "c"},
		{`SELECT * FROM c ORDER BY RANK c.a`, codeFunction, "ORDER BY RANK is not supported", "RANK"},
		{`SELECT * FROM c GROUP BY`, codeSyntax, "ends too early", ""},
		{`SELECT * FROM c HAVING c.a = 1`, codeSyntax, "near 'c'", "c"},
		{`SELECT * FROM c, d`, codeSyntax, "near ','", ","},
		{`SELECT * FROM c[c.a]`, codeSyntax, "near 'c'", "c"},
		{`SELECT * FROM c[1.5] AS x`, codeSyntax, "index of the FROM clause", ""},
		{`SELECT * FROM (SELECT * FROM c`, codeSyntax, "ends too early", ""},
		{`INSERT INTO c`, codeSyntax, "near 'INSERT'", "INSERT"},

		{`SELECT * FROM c WHERE d.a = 1`, codeIdentifier, "Identifier 'd' could not be resolved", "d"},
		{`SELECT * FROM c AS x WHERE c.a = 1`, codeIdentifier, "Identifier 'c' could not be resolved", "c"},
		{`SELECT a FROM c`, codeIdentifier, "Identifier 'a'", "a"},
		{`SELECT c.a AS x FROM c ORDER BY x`, codeIdentifier, "Identifier 'x'", "x"},
		{`SELECT * FROM c JOIN t IN d.tags`, codeIdentifier, "Identifier 'd'", "d"},
		{`SELECT VALUE (SELECT VALUE x FROM x IN d.a) FROM c`, codeIdentifier, "Identifier 'd'", "d"},
		{`SELECT VALUE x FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.a)`, codeIdentifier, "Identifier 'x'", "x"},
		{`SELECT c.a`, codeIdentifier, "Identifier 'c'", "c"},
		{`SELECT VALUE c FROM c JOIN c IN c.a`, codeSelect, "alias 'c' is specified more than once", ""},

		{`SELECT VALUE FOO(1) FROM c`, codeFunction, "'FOO' is not a recognized built-in function name", "FOO"},
		{`SELECT VALUE ST_AREA(c.a) FROM c`, codeFunction, "ST_AREA is not supported by the Halley emulator", "ST_AREA"},
		{`SELECT VALUE FullTextContains(c.a, "b") FROM c`, codeFunction, "no full-text search", "FullTextContains"},
		{`SELECT VALUE FIRST(SELECT VALUE 1) FROM c`, codeFunction, "FIRST is not supported", "FIRST"},
		{`SELECT VALUE SUM(DISTINCT c.a) FROM c`, codeSyntax, "near 'DISTINCT'", "DISTINCT"},
		{`SELECT VALUE udf.f(c.a) FROM c`, codeFunction, "User-defined functions are not supported", "udf"},
		{`SELECT VALUE LOWER() FROM c`, codeArguments, "LOWER function requires 1 argument(s), not 0", "LOWER"},
		{`SELECT VALUE STARTSWITH("a") FROM c`, codeArguments, "requires 2 to 3 arguments, not 1", "STARTSWITH"},
		{`SELECT VALUE CONCAT("a") FROM c`, codeArguments, "requires at least 2 argument(s), not 1", "CONCAT"},
		{`SELECT VALUE PI(1) FROM c`, codeArguments, "requires 0 argument(s), not 1", "PI"},
		{`SELECT VALUE COUNT() FROM c`, codeArguments, "requires 1 argument(s), not 0", "COUNT"},
		{`SELECT VALUE COUNT(*) FROM c`, codeSyntax, "near '*'", "*"},

		{`SELECT *`, codeSelect, "not valid if FROM clause is omitted", ""},
		{`SELECT * FROM c JOIN t IN c.tags`, codeSelect, "only valid with a single input set", ""},
		{`SELECT * FROM c GROUP BY c.a`, codeSelect, "not valid with GROUP BY", ""},
		{`SELECT c.id, c.id FROM c`, codeDuplicate, "property name 'id' specified more than once", "c.id"},
		{`SELECT c.a AS x, c.b AS x FROM c`, codeDuplicate, "property name 'x' specified more than once", "x"},
		{`SELECT * FROM c WHERE COUNT(1) > 1`, codeSelect, "COUNT is not allowed in WHERE", "COUNT"},
		{`SELECT * FROM c ORDER BY MAX(c.a)`, codeSelect, "MAX is not allowed in ORDER BY", "MAX"},
		{`SELECT VALUE COUNT(SUM(c.a)) FROM c`, codeSelect, "SUM is not allowed in an aggregate function", "SUM"},
		{`SELECT COUNT(1) AS n FROM c GROUP BY MAX(c.a)`, codeSelect, "MAX is not allowed in GROUP BY", "MAX"},
		{`SELECT c.a, COUNT(1) AS n FROM c`, codeSelect, "'c.a' is invalid in the select list", "c.a"},
		{`SELECT c.b, COUNT(1) AS n FROM c GROUP BY c.a`, codeSelect, "'c.b' is invalid in the select list", "c.b"},
		{`SELECT VALUE COUNT(1) + c.a FROM c`, codeSelect, "'c.a' is invalid in the select list", ""},
		{`SELECT c.a FROM c GROUP BY c.a ORDER BY c.a`, codeSelect, "ORDER BY is not supported together with GROUP BY", ""},
	})
}

func TestErrorText(t *testing.T) {
	_, err := Parse(`SELECT * FORM c`)
	if want := "Syntax error, incorrect syntax near 'FORM'. (at position 9)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	invalidText := &Error{Message: "The query is not valid UTF-8."}
	if invalidText.Error() != invalidText.Message {
		t.Errorf("got %s", invalidText)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, query, want string }{
		{"parentheses", "SELECT VALUE " + strings.Repeat("(", maxDepth) + "1" + strings.Repeat(")", maxDepth), "nested more than"},
		{"arrays", "SELECT VALUE " + strings.Repeat("[", 10_000), "nested more than"},
		{"objects", "SELECT VALUE " + strings.Repeat(`{"a":`, 10_000), "nested more than"},
		{"calls", "SELECT VALUE " + strings.Repeat("ABS(", 10_000), "nested more than"},
		{"signs", "SELECT VALUE " + strings.Repeat("- ", 10_000) + "1", "nested more than"},
		{"negations", "SELECT VALUE " + strings.Repeat("NOT ", 10_000) + "true", "nested more than"},
		{"coalesces", "SELECT VALUE 1" + strings.Repeat(" ?? 1", 10_000), "nested more than"},
		{"ternaries", "SELECT VALUE " + strings.Repeat("1 ? 1 : ", 10_000) + "1", "nested more than"},
		{"subqueries", strings.Repeat("SELECT VALUE (", 10_000), "nested more than"},
		{"inputs", "SELECT * FROM " + strings.Repeat("(SELECT * FROM ", 10_000), "nested more than"},
		{"expressions", "SELECT VALUE 1" + strings.Repeat("+1", maxNodes), "more than 50000 expressions"},
		{"text", "SELECT VALUE 1" + strings.Repeat(" ", maxText), "longer than 512 KB"},
	} {
		if _, err := Parse(c.query); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %.200v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestLongQueries checks that queries just inside the bounds run.
func TestLongQueries(t *testing.T) {
	for _, text := range []string{
		"SELECT VALUE 1" + strings.Repeat("+1", maxNodes/3),
		"SELECT VALUE true" + strings.Repeat(" AND true", maxNodes/3),
		"SELECT VALUE c" + strings.Repeat(".x", maxNodes/3) + " FROM c",
		"SELECT VALUE " + strings.Repeat("(", maxDepth/2) + "1" + strings.Repeat(")", maxDepth/2),
	} {
		if _, err := query(text, []string{`{"x":{}}`}); err != nil {
			t.Errorf("%.40s…: %v", text, err)
		}
	}
}
