package sql

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse checks that Parse does not panic, that errors are an *Error, that the
// canonical form of a query parses to itself, and that results are valid JSON.
func FuzzParse(f *testing.F) {
	for _, c := range allExpressions() {
		f.Add("SELECT VALUE " + c.expr + " FROM c")
	}
	for _, c := range allCalls() {
		f.Add("SELECT VALUE " + c.expr + " FROM c")
	}
	f.Add(`SELECT DISTINCT TOP @n c.a AS x, c["b"] "y z" FROM root AS c JOIN t IN c.t[0].u JOIN (SELECT 1) WHERE c.a NOT IN (1, @p) ORDER BY c.a DESC, c.b`)
	f.Add(`SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a OFFSET 1 LIMIT 2`)
	f.Add(`SELECT VALUE {a: - -1, "b": NOT NOT true ? 1 : 2 ?? 3} -- end`)
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || e.Start > e.End {
				t.Fatalf("Parse(%q): %v", text, err)
			}
			return
		}
		reparsed, err := Parse(q.String())
		if err != nil || reparsed.String() != q.String() {
			t.Fatalf("%q prints as %q, which prints as %v, %v", text, q, reparsed, err)
		}
		q.Properties()
		results, err := q.Run(sequence([]string{exprDocument, `{"id":"2"}`}), nil, testEnv)
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("Run(%q): %v", text, err)
		}
		for _, r := range results {
			if !json.Valid(r) || !utf8.Valid(r) {
				t.Fatalf("%q answers %q", text, r)
			}
		}
	})
}

// FuzzDocument wants a query over any valid document to answer valid JSON, and
// reading it apart to agree with encoding/json.
func FuzzDocument(f *testing.F) {
	f.Add(exprDocument, "n")
	f.Add(`{"a":{"\"":[{},[],"\\\"",1e5]} , "b" : -0.0}`, "b")
	f.Add("{\"\\u0061\":\"\xff\"}", "a")
	f.Add(` {"a":"","":0}`, "a")
	f.Fuzz(func(t *testing.T, document, name string) {
		var members map[string]json.RawMessage
		if json.Unmarshal([]byte(document), &members) != nil || len(members) == 0 {
			return
		}
		document = strings.TrimSpace(document) // as the account stores it
		run := newTestRun(t)
		for range members {
			v := run.property(parseValue([]byte(document)), name)
			if _, ok := members[name]; ok != v.defined() && utf8.ValidString(document) {
				t.Fatalf("%s in %s is %q", name, document, v.raw)
			}
		}
		for _, r := range []value{parseValue([]byte(document)), toString(parseValue([]byte(document)))} {
			if !json.Valid(r.append(nil)) || !run.equal(r, r) || run.compare(r, r) != 0 {
				t.Fatalf("%s is %s", document, r.append(nil))
			}
		}
	})
}
