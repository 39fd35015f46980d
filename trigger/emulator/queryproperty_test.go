package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
)

// term is an expression over a document, as text and as Go. It has no value if ok is
// false.
type term struct {
	text  string
	value func(d map[string]any) (v any, ok bool)
}

func path(names ...string) term {
	return term{"c." + strings.Join(names, "."), func(d map[string]any) (any, bool) {
		var v any = d
		for _, name := range names {
			object, _ := v.(map[string]any)
			var ok bool
			if v, ok = object[name]; !ok {
				return nil, false
			}
		}
		return v, true
	}}
}

var terms = []term{
	path("n"), path("s"), path("b"), path("o", "x"), path("none"), path("mixed"),
	{"c.n + 1", func(d map[string]any) (any, bool) {
		n, ok := d["n"].(float64)
		return n + 1, ok
	}},
	{"UPPER(c.s)", func(d map[string]any) (any, bool) {
		s, ok := d["s"].(string)
		return strings.ToUpper(s), ok
	}},
	{"c.n % 3 = 0 ? 'third' : c.b", func(d map[string]any) (any, bool) {
		if n, ok := d["n"].(float64); ok && int(n)%3 == 0 {
			return "third", true
		}
		v, ok := d["b"]
		return v, ok
	}},
	{"IS_DEFINED(c.o)", func(d map[string]any) (any, bool) { _, ok := d["o"]; return ok, true }},
}

// conditions are true, or false or undefined.
var conditions = []struct {
	text string
	met  func(d map[string]any) bool
}{
	{"true", func(map[string]any) bool { return true }},
	{"c.n > 3", func(d map[string]any) bool { n, ok := d["n"].(float64); return ok && n > 3 }},
	{"NOT c.b", func(d map[string]any) bool { b, ok := d["b"].(bool); return ok && !b }},
	{"c.s IN ('a', 'c') OR c.n <= 2", func(d map[string]any) bool {
		n, ok := d["n"].(float64)
		return d["s"] == "a" || d["s"] == "c" || ok && n <= 2
	}},
	{"ARRAY_CONTAINS(c.t, 'x') AND c.s != 'b'", func(d map[string]any) bool {
		t, _ := d["t"].([]any)
		s, ok := d["s"]
		return slices.Contains(t, any("x")) && ok && s != "b"
	}},
	{"EXISTS(SELECT VALUE t FROM t IN c.t WHERE t = 'y')", func(d map[string]any) bool {
		t, _ := d["t"].([]any)
		return slices.Contains(t, any("y"))
	}},
}

// property holds queries against an evaluation of its own.
type property struct {
	random    *rand.Rand
	documents []map[string]any
}

func pickOf[T any](p *property, list []T) T { return list[p.random.Intn(len(list))] }

// document has each property only sometimes.
func (p *property) document(i int) map[string]any {
	d := map[string]any{"id": fmt.Sprintf("id%03d", i), "pk": fmt.Sprint("key", p.random.Intn(25))}
	maybe := func(name string, v any) {
		if p.random.Intn(5) > 0 {
			d[name] = v
		}
	}
	maybe("n", float64(p.random.Intn(9)))
	maybe("s", pickOf(p, []string{"a", "b", "c", "ü"}))
	maybe("b", p.random.Intn(2) == 0)
	maybe("o", map[string]any{"x": float64(p.random.Intn(3))})
	maybe("mixed", pickOf(p, []any{nil, true, 2.0, "two", 1.0, "one"}))
	maybe("t", pickOf(p, []any{[]any{}, []any{"x"}, []any{"x", "y"}, []any{"y", "y", 3.0}}))
	return d
}

// generated is a query and what it gives; inOrder if the order counts.
type generated struct {
	text    string
	want    []any
	inOrder bool
}

func (p *property) generate() generated {
	condition := pickOf(p, conditions)
	var met []map[string]any
	for _, d := range p.documents {
		if condition.met(d) {
			met = append(met, d)
		}
	}
	clause, a, b := " WHERE "+condition.text, pickOf(p, terms), pickOf(p, terms)
	valuesOf := func(t term) (values []any) {
		for _, d := range met {
			if v, ok := t.value(d); ok {
				values = append(values, v)
			}
		}
		return values
	}
	rows := func(documents []map[string]any) (list []any) {
		for _, d := range documents {
			row := map[string]any{"id": d["id"]}
			for name, t := range map[string]term{"a": a, "b": b} {
				if v, ok := t.value(d); ok {
					row[name] = v
				}
			}
			list = append(list, row)
		}
		return list
	}
	switch p.random.Intn(9) {
	case 0:
		return generated{"SELECT c.id, " + a.text + " AS a, " + b.text + " AS b FROM c" + clause, rows(met), false}
	case 1:
		return generated{"SELECT VALUE v FROM (SELECT VALUE " + a.text + " FROM c" + clause + ") AS v", valuesOf(a), false}
	case 2:
		return generated{"SELECT DISTINCT VALUE " + a.text + " FROM c" + clause, distinctOf(valuesOf(a)), false}
	case 3:
		return p.joined(met, clause)
	case 4, 5:
		return p.sorted(met, clause, a, rows)
	case 6:
		return p.aggregated(valuesOf(a), a.text, clause)
	case 7:
		return p.counted(valuesOf(a), a.text, clause)
	}
	return p.grouped(met, clause, a, b)
}

func (p *property) joined(met []map[string]any, clause string) generated {
	var pairs []any
	for _, d := range met {
		list, _ := d["t"].([]any)
		for _, t := range list {
			pairs = append(pairs, map[string]any{"id": d["id"], "t": t})
		}
	}
	return generated{"SELECT c.id, t FROM c JOIN t IN c.t" + clause, pairs, false}
}

func (p *property) sorted(met []map[string]any, clause string, a term, rows func([]map[string]any) []any) generated {
	descending := p.random.Intn(2) == 0
	list := slices.Clone(met)
	slices.SortFunc(list, func(x, y map[string]any) int {
		u, okU := a.value(x)
		v, okV := a.value(y)
		n := cmp.Or(rankOf(okU)-rankOf(okV), compareAny(u, v))
		if descending {
			n = -n
		}
		if n == 0 {
			n = strings.Compare(x["id"].(string), y["id"].(string))
		}
		return n
	})
	window := ""
	if from, limit := p.random.Intn(6), p.random.Intn(9); p.random.Intn(3) == 0 {
		window = fmt.Sprintf(" OFFSET %d LIMIT %d", from, limit)
		list = list[min(from, len(list)):min(from+limit, len(list))]
	}
	var ids []any
	for _, row := range rows(list) {
		ids = append(ids, row.(map[string]any)["id"])
	}
	direction := map[bool]string{true: " DESC", false: ""}[descending]
	return generated{"SELECT VALUE c.id FROM c" + clause + " ORDER BY " + a.text + direction + ", c.id" + window, ids, true}
}

func (p *property) aggregated(values []any, text, clause string) generated {
	function := pickOf(p, []string{"COUNT", "SUM", "AVG", "MIN", "MAX", "COUNTIF", "MAKESET"})
	return generated{"SELECT VALUE " + function + "(" + text + ") FROM c" + clause, aggregateOf(function, values), false}
}

// aggregateOf has no result if the aggregate is undefined.
func aggregateOf(function string, values []any) []any {
	sum, numbers, hits := 0.0, 0, 0
	for _, v := range values {
		n, ok := v.(float64)
		sum, numbers, hits = sum+n, numbers+rankOf(ok), hits+rankOf(v == any(true))
	}
	sorted := slices.Clone(values)
	slices.SortFunc(sorted, compareAny)
	switch {
	case function == "COUNT":
		return []any{float64(len(values))}
	case function == "COUNTIF":
		return []any{float64(hits)}
	case function == "MAKESET":
		return []any{distinctOf(values)}
	case function == "SUM" && numbers == len(values):
		return []any{sum}
	case function == "AVG" && numbers == len(values) && numbers > 0:
		return []any{sum / float64(numbers)}
	case function == "MIN" && len(values) > 0:
		return sorted[:1]
	case function == "MAX" && len(values) > 0:
		return sorted[len(sorted)-1:]
	}
	return []any{}
}

func (p *property) counted(values []any, text, clause string) generated {
	count := float64(len(distinctOf(values)))
	if p.random.Intn(2) == 0 {
		return generated{"SELECT COUNT(DISTINCT " + text + ") AS n FROM c" + clause, []any{map[string]any{"n": count}}, false}
	}
	return generated{"SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE " + text + " FROM c" + clause + ")", []any{count}, false}
}

func (p *property) grouped(met []map[string]any, clause string, key, operand term) generated {
	function := pickOf(p, []string{"COUNT", "SUM", "AVG", "MIN", "MAX", "COUNTIF"})
	values, rows := map[string][]any{}, map[string]map[string]any{}
	for _, d := range met {
		row := map[string]any{}
		k, ok := key.value(d)
		if ok {
			row["k"] = k
		}
		group := string(encode(row))
		rows[group] = row
		if v, ok := operand.value(d); ok {
			values[group] = append(values[group], v)
		}
	}
	want := []any{}
	for group, row := range rows {
		if found := aggregateOf(function, values[group]); len(found) > 0 {
			row["v"] = found[0]
		}
		want = append(want, row)
	}
	return generated{"SELECT " + key.text + " AS k, " + function + "(" + operand.text + ") AS v FROM c" + clause + " GROUP BY " + key.text, want, false}
}

// texts are results as text, in order of text unless their own order counts.
func texts(results []any, inOrder bool) []string {
	list := []string{}
	for _, r := range results {
		if set, ok := r.([]any); ok && !inOrder { // a set has no order
			list = append(list, strings.Join(texts(set, false), ","))
			continue
		}
		list = append(list, string(encode(r)))
	}
	if !inOrder {
		slices.Sort(list)
	}
	return list
}

// TestQueriesEqualANaiveEvaluation runs random queries by their plans over ranges that
// split and merge between the pages.
func TestQueriesEqualANaiveEvaluation(t *testing.T) {
	for seed := range int64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			c, a := newItems(t, int(seed%3)+1, nil)
			p := &property{random: rand.New(rand.NewSource(seed))}
			for i := range 70 {
				d := p.document(i)
				p.documents = append(p.documents, d)
				c.expect("201", "POST", items, string(encode(d)), pk(d["pk"].(string))...)
			}
			betweenPages := func() {
				if p.random.Intn(6) == 0 {
					(&model{t: t, random: p.random, c: c, account: a}).reshape()
				}
			}
			for range 60 {
				q := p.generate()
				var want []any
				if err := json.Unmarshal(encode(q.want), &want); err != nil {
					t.Fatal(err)
				}
				got := c.planned(q.text, 1+p.random.Intn(9), betweenPages)
				if !slices.Equal(texts(got, q.inOrder), texts(want, q.inOrder)) {
					t.Fatalf("%s gives\n%s, want\n%s", q.text, texts(got, q.inOrder), texts(want, q.inOrder))
				}
			}
		})
	}
}
