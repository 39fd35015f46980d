package sql

import (
	"testing"
)

// ascending are values of every type in the order of ORDER BY; the values of one
// line are equal.
var ascending = [][]string{
	{``},
	{`null`},
	{`false`},
	{`true`},
	{`-1e308`},
	{`-9007199254740993`},
	{`-9007199254740992`},
	{`-1.5`, `-1.50`, `-15e-1`},
	{`0`, `-0`, `0.0`, `0e9`},
	{`5e-324`},
	{`1`, `1.0`, `1e0`, `10e-1`},
	{`9007199254740992`},
	{`9007199254740993`},
	{`1e308`},
	{`""`},
	{`"A"`, `"\u0041"`},
	{`"a"`},
	{`"a\u0000"`},
	{`"aa"`},
	{`"é"`, `"\u00e9"`},
	{`[]`, `[ ]`},
	{`[null]`},
	{`[1]`, `[1.0]`, "[\n1 ]"},
	{`[1,2]`, `[1, 2]`},
	{`[2]`},
	{`["a"]`},
	{`[[]]`},
	{`{"a":1,"b":2}`, `{"b":2,"a":1}`}, // objects are in the order of their canonical text
	{`{"a":1}`, `{ "a" : 1.0 }`, `{"\u0061":1}`},
	{`{"b":[]}`},
}

func TestCompare(t *testing.T) {
	run := newTestRun(t)
	for i, line := range ascending {
		for j, other := range ascending {
			for _, a := range line {
				for _, b := range other {
					x, y := parseValue([]byte(a)), parseValue([]byte(b))
					if got := sign(float64(run.compare(x, y))); got != sign(float64(i-j)) {
						t.Errorf("compare(%s, %s) is %v, want the sign of %d", a, b, got, i-j)
					}
					if run.equal(x, y) != (i == j) {
						t.Errorf("equal(%s, %s) is %t", a, b, run.equal(x, y))
					}
					if same := string(run.canonical(nil, x)) == string(run.canonical(nil, y)); same != (i == j) {
						t.Errorf("%s and %s are %s and %s", a, b, run.canonical(nil, x), run.canonical(nil, y))
					}
				}
			}
		}
	}
}

func TestIntegerOfNumber(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
		ok   bool
	}{
		{`0`, 0, true},
		{`-0`, 0, true},
		{`7`, 7, true},
		{`7.0`, 7, true},
		{`7e2`, 700, true},
		{`-12`, -12, true},
		{`9007199254740993`, 9007199254740993, true},
		{`9223372036854775807`, 9223372036854775807, true},
		{`-9223372036854775808`, -9223372036854775808, true},
		{`9223372036854775808`, 0, false},
		{`1e19`, 0, false},
		{`0.5`, 0, false},
		{`"7"`, 0, false},
		{`null`, 0, false},
		{`true`, 0, false},
		{`[7]`, 0, false},
		{`{}`, 0, false},
		{``, 0, false},
	} {
		if got, ok := parseValue([]byte(c.text)).integer(); got != c.want || ok != c.ok {
			t.Errorf("the integer of %s is %d, %t, want %d, %t", c.text, got, ok, c.want, c.ok)
		}
	}
}

// TestValuesKeepTheirText checks that a value is written as in its document if the
// query does not change it.
func TestValuesKeepTheirText(t *testing.T) {
	for _, text := range []string{
		`1.50`, `1e2`, `-0`, `12345678901234567890`, `1E+400`, `"\u0041"`, `"\/"`, `[1, 2]`, `{ "b":1,"a":2 }`, `{"a":1,"a":2}`, `null`, `true`, `""`,
	} {
		checkQueries(t, []string{`{"v":` + text + `}`}, []queryCase{
			{`SELECT VALUE c.v FROM c`, []string{text}},
			{`SELECT c.v FROM c`, []string{`{"v":` + text + `}`}},
			{`SELECT VALUE [c.v] FROM c`, []string{`[` + text + `]`}},
			{`SELECT VALUE c.v ?? 1 FROM c ORDER BY c.v`, []string{text}},
			{`SELECT DISTINCT VALUE c.v FROM c`, []string{text}},
		})
	}
}

func TestNumbersThatQueriesMake(t *testing.T) {
	for expr, want := range map[string]string{
		`1.50 + 0`:               `1.5`,
		`1e2 + 0`:                `100`,
		`0.1 * 3`:                `0.30000000000000004`,
		`1e15 + 1`:               `1000000000000001`,
		`1e21 * 10`:              `1e+22`,
		`1 / 1e7`:                `1e-07`,
		`-1 * 0`:                 `0`,
		`2 * 4503599627370496`:   `9007199254740992`,
		`12345678901234567890.0`: `12345678901234567890.0`,
	} {
		checkExpression(t, expr, want)
	}
}

func TestArraysLeaveOutUndefined(t *testing.T) {
	b := arrayBuilder{run: newTestRun(t)}
	for _, v := range []value{undefined, number(1), undefined, text("x"), null} {
		b.add(v)
	}
	got := b.value()
	if want := `[1,"x",null]`; string(got.json()) != want || got.length() != 3 {
		t.Errorf("got %s of %d elements, want %s", got.json(), got.length(), want)
	}
}
