package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var testEnv = Env{Now: time.Date(2026, 11, 20, 6, 7, 8, 123456700, time.UTC), Random: func() float64 { return 0.25 }}

// query runs a query over documents, and its canonical form, which must answer
// the same. Parameters are pairs of name and JSON.
func query(text string, documents []string, parameters ...string) ([]string, error) {
	q, err := Parse(text)
	if err != nil {
		return nil, err
	}
	reparsed, err := Parse(q.String())
	if err != nil || reparsed.String() != q.String() {
		return nil, fmt.Errorf("%s prints as %s, which prints as %v, %w", text, q, reparsed, err)
	}
	first, err := answers(q, documents, parameters)
	second, _ := answers(reparsed, documents, parameters)
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

// newTestRun is the run of a query without parameters.
func newTestRun(t *testing.T) *run {
	t.Helper()
	r, err := new(Query).newRun(nil, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return r
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

// expressionCase is an expression over exprDocument and its value as JSON; "" is
// undefined.
type expressionCase struct{ expr, want string }

// allExpressions are the tables of every file of expressions.
func allExpressions() []expressionCase {
	return slices.Concat(literalExpressions, pathExpressions, arithmeticExpressions, bitwiseExpressions, equalityExpressions, orderExpressions, logicExpressions, matchExpressions, choiceExpressions, subqueryExpressions)
}

func checkExpressions(t *testing.T, cases []expressionCase) {
	t.Helper()
	for _, c := range cases {
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

// queryCase is a query and the values that it answers as JSON, in order.
type queryCase struct {
	query string
	want  []string
}

func checkQueries(t *testing.T, documents []string, cases []queryCase) {
	t.Helper()
	for _, c := range cases {
		got, err := query(c.query, documents)
		if err != nil || !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%s\ngot  %s, %v\nwant %s", c.query, got, err, c.want)
		}
	}
}

// checkRefused checks that every query fails with an *Error that has the code,
// contains the message and, if near is not "", points at that text.
func checkRefused(t *testing.T, cases []refusedCase) {
	t.Helper()
	for _, c := range cases {
		_, err := Parse(c.query)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want an *Error", c.query, err)
			continue
		}
		if e.Code != c.code || !strings.Contains(e.Message, c.message) {
			t.Errorf("%s: error %s %q, want %s with %q", c.query, e.Code, e.Message, c.code, c.message)
		}
		if c.near != "" && (e.End > len(c.query) || c.query[e.Start:e.End] != c.near) {
			t.Errorf("%s: the error points at %d to %d, want %q", c.query, e.Start, e.End, c.near)
		}
	}
}

type refusedCase struct{ query, code, message, near string }
