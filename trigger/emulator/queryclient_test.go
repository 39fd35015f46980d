package emulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// planned runs a query as SDKs do: by a plan, range by range. It puts the results
// together by the plan's own words. between is called between any two pages.
func (c *client) planned(query string, limit int, betweenPages func()) []any {
	c.t.Helper()
	var plan struct {
		QueryInfo struct {
			DistinctType                string
			Top, Offset, Limit          *int
			OrderBy, Aggregates         []string
			GroupByExpressions          []string
			GroupByAliases              []string
			GroupByAliasToAggregateType map[string]*string
			RewrittenQuery              string
			DCountInfo                  *struct{ DCountAlias string }
		}
	}
	a := c.expect("200", "POST", items, ask(query), planHeader...)
	if err := json.Unmarshal([]byte(a.body), &plan); err != nil {
		c.t.Fatal(err)
	}
	info, text := plan.QueryInfo, query
	if info.RewrittenQuery != "" {
		text = strings.ReplaceAll(info.RewrittenQuery, "{documentdb-formattableorderbyquery-filter}", "true")
	}
	results := c.everyRange(text, limit, betweenPages)
	if len(info.OrderBy) > 0 {
		results = mergeOrdered(results, info.OrderBy)
	}
	switch {
	case len(info.GroupByExpressions) > 0 || len(info.GroupByAliases) > 0:
		results = combineGroups(results, info.GroupByAliasToAggregateType, info.Aggregates)
	case len(info.Aggregates) > 0:
		total := combiner{operator: info.Aggregates[0]}
		for _, r := range results {
			total.add(r.([]any)[0])
		}
		results = total.results()
	}
	if info.DistinctType != "None" {
		results = distinctOf(results)
	}
	if d := info.DCountInfo; d != nil {
		results = []any{float64(len(results))}
		if d.DCountAlias != "" {
			results = []any{map[string]any{d.DCountAlias: results[0]}}
		}
	}
	if info.Limit != nil {
		begin := min(*info.Offset, len(results))
		return results[begin:min(begin+*info.Limit, len(results))]
	}
	if info.Top != nil {
		return results[:min(*info.Top, len(results))]
	}
	return results
}

// part is a part of the keys that is being read, the range that holds it, and where to
// continue.
type part struct{ id, min, max, continuation string }

// everyRange reads all pages of all ranges. When a range has split or merged, it
// continues in those that took its place.
func (c *client) everyRange(text string, limit int, betweenPages func()) []any {
	c.t.Helper()
	results, parts := []any{}, []part{}
	for _, r := range c.ranges() {
		parts = append(parts, part{r.ID, r.MinInclusive, r.MaxExclusive, ""})
	}
	for len(parts) > 0 {
		p := parts[0]
		parts = parts[1:]
		for {
			a := c.send("POST", items, ask(text), with(crossHeader, "x-ms-documentdb-partitionkeyrangeid", p.id, "x-ms-start-epk", p.min, "x-ms-end-epk", p.max, "x-ms-max-item-count", fmt.Sprint(limit), "x-ms-continuation", p.continuation)...)
			if a.status == 410 {
				for _, r := range c.ranges() {
					if r.MinInclusive < p.max && p.min < r.MaxExclusive {
						parts = append(parts, part{r.ID, max(p.min, r.MinInclusive), min(p.max, r.MaxExclusive), p.continuation})
					}
				}
				break
			}
			var page struct{ Documents []any }
			if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
				c.t.Fatalf("%s on range %s: %d %s", text, p.id, a.status, a.body)
			}
			results = append(results, page.Documents...)
			if p.continuation = a.header.Get("x-ms-continuation"); p.continuation == "" {
				break
			}
			betweenPages()
		}
	}
	return results
}

// mergeOrdered puts the results of ranges in order.
func mergeOrdered(results []any, directions []string) []any {
	slices.SortStableFunc(results, func(a, b any) int {
		x, y := a.(map[string]any)["orderByItems"].([]any), b.(map[string]any)["orderByItems"].([]any)
		for i, direction := range directions {
			u, okU := x[i].(map[string]any)["item"]
			v, okV := y[i].(map[string]any)["item"]
			n := cmp.Or(rankOf(okU)-rankOf(okV), compareAny(u, v))
			if direction == "Descending" {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	})
	payloads := []any{}
	for _, r := range results {
		payloads = append(payloads, r.(map[string]any)["payload"])
	}
	return payloads
}

// combiner adds up the parts of an aggregate.
type combiner struct {
	operator   string // "" = any value of the group
	value      any
	sum, count float64
	list       []any
	undefined  bool
}

func (t *combiner) add(part any) {
	parts, _ := part.(map[string]any)
	item, defined := parts["item"]
	switch t.operator {
	case "":
		t.value = part
		return
	case "Count", "CountIf":
		t.sum += item.(float64)
	case "Sum":
		n, ok := item.(float64)
		t.sum, t.undefined = t.sum+n, t.undefined || !ok
	case "Average":
		n, ok := item.(map[string]any)["sum"].(float64)
		t.sum, t.undefined = t.sum+n, t.undefined || !ok
		t.count += item.(map[string]any)["count"].(float64)
	case "MakeList", "MakeSet":
		t.list = append(t.list, item.([]any)...)
	case "Min", "Max":
		n := parts["item2"].(map[string]any)["count"].(float64)
		if n == 0 {
			return
		}
		better := t.count == 0 || compareAny(item, t.value) < 0 == (t.operator == "Min")
		if t.undefined = t.undefined || !defined; better {
			t.value = item
		}
		t.count += n
	}
}

// results has no value if the aggregate is undefined.
func (t *combiner) results() []any {
	switch {
	case t.undefined, (t.operator == "Average" || t.operator == "Min" || t.operator == "Max") && t.count == 0:
		return []any{}
	case t.operator == "Average":
		return []any{t.sum / t.count}
	case t.operator == "MakeList":
		return []any{t.list}
	case t.operator == "MakeSet":
		return []any{distinctOf(t.list)}
	case t.operator == "Min" || t.operator == "Max" || t.operator == "":
		return []any{t.value}
	}
	return []any{t.sum}
}

func combineGroups(parts []any, operators map[string]*string, values []string) []any {
	groups, keys := map[string][]any{}, []string{}
	for _, p := range parts {
		key := string(encode(p.(map[string]any)["groupByItems"]))
		if groups[key] == nil {
			keys = append(keys, key)
		}
		groups[key] = append(groups[key], p.(map[string]any)["payload"])
	}
	results := []any{}
	for _, key := range keys {
		if len(values) > 0 {
			total := combiner{operator: values[0]}
			for _, payload := range groups[key] {
				total.add(payload.([]any)[0])
			}
			results = append(results, total.results()...)
			continue
		}
		row := map[string]any{}
		for alias, operator := range operators {
			var total combiner
			if operator != nil {
				total.operator = *operator
			}
			present := false
			for _, payload := range groups[key] {
				if part, ok := payload.(map[string]any)[alias]; ok {
					total.add(part)
					present = true
				}
			}
			if found := total.results(); present && len(found) > 0 {
				row[alias] = found[0]
			}
		}
		results = append(results, row)
	}
	return results
}

func distinctOf(list []any) []any {
	seen, kept := map[string]bool{}, []any{}
	for _, v := range list {
		if key := string(encode(v)); !seen[key] {
			seen[key] = true
			kept = append(kept, v)
		}
	}
	return kept
}

// compareAny orders values as ORDER BY does: null, booleans, numbers, strings.
func compareAny(a, b any) int {
	rank := func(v any) int {
		switch v.(type) {
		case nil:
			return 0
		case bool:
			return 1
		case float64:
			return 2
		case string:
			return 3
		}
		return 4
	}
	if n := rank(a) - rank(b); n != 0 {
		return n
	}
	switch a := a.(type) {
	case bool:
		return rankOf(a) - rankOf(b.(bool))
	case float64:
		return int(max(-1, min(1, 1e9*(a-b.(float64)))))
	case string:
		return strings.Compare(a, b.(string))
	}
	return 0
}

func rankOf(b bool) int {
	if b {
		return 1
	}
	return 0
}
