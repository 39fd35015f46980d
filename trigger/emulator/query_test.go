package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// planHeader asks for a query plan as a client that has all abilities.
var planHeader = []string{"Content-Type", "application/query+json", "x-ms-cosmos-is-query-plan-request", "True", "x-ms-cosmos-supported-query-features",
	"Aggregate, NonValueAggregate, MultipleAggregates, CountIf, ListAndSetAggregate, DCount, GroupBy, Distinct, OrderBy, MultipleOrderBy, NonStreamingOrderBy, OffsetAndLimit, Top"}

var crossHeader = []string{"Content-Type", "application/query+json", "x-ms-documentdb-query-enablecrosspartition", "True"}

func ask(query string, parameters ...any) string {
	list := []map[string]any{}
	for i := 0; i < len(parameters); i += 2 {
		list = append(list, map[string]any{"name": parameters[i], "value": parameters[i+1]})
	}
	return string(encode(map[string]any{"query": query, "parameters": list}))
}

// query reads all pages and returns each page's documents as text.
func (c *client) query(text string, h ...string) (pages [][]string) {
	c.t.Helper()
	for continuation := ""; ; {
		a := c.expect("200", "POST", items, text, with(crossHeader, append(h, "x-ms-continuation", continuation, "x-ms-documentdb-populatequerymetrics", "True")...)...)
		var v struct {
			Documents []json.RawMessage
			Count     int    `json:"_count"`
			RID       string `json:"_rid"`
		}
		if err := json.Unmarshal([]byte(a.body), &v); err != nil || v.Count != len(v.Documents) || v.RID == "" {
			c.t.Fatalf("body %s: %v", a.body, err)
		}
		if a.header.Get("x-ms-documentdb-query-metrics") == "" || a.header.Get("x-ms-item-count") != strconv.Itoa(v.Count) {
			c.t.Errorf("headers %v lack metrics or the item count", a.header)
		}
		page := []string{}
		for _, d := range v.Documents {
			page = append(page, string(d))
		}
		pages = append(pages, page)
		if continuation = a.header.Get("x-ms-continuation"); continuation == "" {
			return pages
		}
	}
}

func ofValues(pages [][]string) []string {
	var all []string
	for _, v := range slices.Concat(pages...) {
		all = append(all, strings.Trim(v, `"`))
	}
	return all
}

// twenty has the items of createSampleItems in emulator_cosmos_query_test.go of
// azcosmos: ids 0 to 9 under key 1 and 10 to 19 under key 2, written alternately.
func twenty(t *testing.T, ranges int) *client {
	c, _ := newItems(t, ranges, nil)
	for i := range 10 {
		for p := range 2 {
			id, key := strconv.Itoa(i+10*p), strconv.Itoa(p+1)
			c.expect("201", "POST", items, fmt.Sprintf(`{"id":%q,"pk":%q,"n":%d,"tags":["a","b"]}`, id, key, i+10*p), pk(key)...)
		}
	}
	return c
}

func TestQueryPages(t *testing.T) {
	c := twenty(t, 3)
	inOrder := strings.Fields("0 10 1 11 2 12 3 13 4 14 5 15 6 16 7 17 8 18 9 19")
	first := strings.Fields("0 1 2 3 4 5 6 7 8 9")
	for _, tt := range []struct {
		name, query string
		header      []string
		pages       int // of five
		want        []string
	}{
		{"all, in the order of creation", "SELECT VALUE c.id FROM c", nil, 5, inOrder},
		{"under an alias", "select value c.id from docs c where c.n < 3", nil, 1, strings.Fields("0 1 2")},
		{"one key", "SELECT VALUE c.id FROM c", pk("1"), 3, first},
		{"one key in order", "SELECT VALUE c.id FROM c ORDER BY c.id", pk("1"), 2, first},
		{"one key in reverse", "SELECT VALUE c.id FROM c ORDER BY c.n DESC", pk("2"), 2, strings.Fields("19 18 17 16 15 14 13 12 11 10")},
		{"top", "SELECT TOP 7 VALUE c.id FROM c", pk("1"), 2, first[:7]},
		{"top of a whole page", "SELECT TOP 5 VALUE c.id FROM c", pk("1"), 1, first[:5]},
		{"offset and limit", "SELECT VALUE c.id FROM c OFFSET 2 LIMIT 6", pk("1"), 2, first[2:8]},
		{"join", "SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n < 4", pk("1"), 2, strings.Fields("a b a b a b a b")},
		{"count", "SELECT VALUE COUNT(1) FROM c", pk("1"), 1, []string{"10"}},
		{"count of a sorted page", "SELECT VALUE COUNT(1) FROM c ORDER BY c.n DESC, c.id", pk("1"), 1, []string{"10"}},
		{"sum and average", "SELECT VALUE SUM(c.n) / AVG(c.n) FROM c", pk("1"), 1, []string{"10"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			pages := c.query(ask(tt.query), append(tt.header, "x-ms-max-item-count", "5")...)
			if got := ofValues(pages); !slices.Equal(got, tt.want) || len(pages) != tt.pages {
				t.Errorf("%d pages %v, want %d with %v", len(pages), pages, tt.pages, tt.want)
			}
		})
	}
}

func TestQueryRangeByRange(t *testing.T) {
	c := twenty(t, 4)
	var all []string
	for _, r := range c.ranges() {
		h := []string{"x-ms-documentdb-isquery", "true", "x-ms-documentdb-partitionkeyrangeid", r.ID}
		a := c.expect("200", "POST", items, ask("SELECT VALUE c.id FROM c ORDER BY c.n"), h...)
		var v struct{ Documents []string }
		if err := json.Unmarshal([]byte(a.body), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v.Documents...)
	}
	if len(all) != 20 {
		t.Errorf("the ranges have %v", all)
	}
	c.expect("410/1002", "POST", items, ask("SELECT * FROM c"), with(crossHeader, rangeID("9")...)...)
}

func TestQueryContinuesAcrossSplits(t *testing.T) {
	c, a := newItems(t, 1, nil)
	for _, k := range keys(30) {
		c.create("id-"+k, k)
	}
	seen := map[string]int{}
	for continuation, step := "", 0; ; step++ {
		got := c.expect("200", "POST", items, ask("SELECT * FROM c"), with(crossHeader, "x-ms-max-item-count", "7", "x-ms-continuation", continuation)...)
		for _, id := range got.ids(t) {
			seen[id]++
		}
		if continuation = got.header.Get("x-ms-continuation"); continuation == "" {
			break
		}
		if step < 2 {
			if _, err := a.Split("db", "c", strconv.Itoa(step)); err != nil {
				t.Fatal(err)
			}
		}
		c.expect("204", "DELETE", items+"/id-key"+strconv.Itoa(step*7+6), "", pk("key"+strconv.Itoa(step*7+6))...) // where the page ended
	}
	for _, k := range keys(30) {
		if seen["id-"+k] != 1 {
			t.Errorf("id-%s was seen %d times", k, seen["id-"+k])
		}
	}
}

func TestLeaseQueries(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	prefix := "orders.documents.azure.com_bf8uAA==_bf8uALgoqxk="
	for _, id := range []string{prefix + "..0", prefix + "..1", prefix + ".info", "other..0"} {
		c.expect("201", "POST", items, fmt.Sprintf(`{"id":%q,"pk":"k","ContinuationToken":%s}`, id, map[bool]string{true: "null", false: `"\"7\""`}[strings.HasSuffix(id, "0")]), pk("k")...)
	}
	for _, tt := range []struct {
		text   string
		header []string
		want   int
	}{
		{ask("SELECT * FROM c WHERE STARTSWITH(c.id, '" + prefix + "..')"), nil, 2},
		{ask("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)", "@prefix", prefix), nil, 3},
		{ask("SELECT TOP 1 * FROM c WHERE STARTSWITH(c.id, @p) AND c.ContinuationToken = null", "@p", prefix), pk("k"), 1},
	} {
		if got := c.query(tt.text, tt.header...); len(slices.Concat(got...)) != tt.want {
			t.Errorf("%s found %v, want %d", tt.text, got, tt.want)
		}
	}
}

func TestQueryRefuses(t *testing.T) {
	c := twenty(t, 1)
	for _, tt := range []struct {
		name, want, body string
		header           []string
		says             string
	}{
		{"order across partitions", "400/1004", ask("SELECT * FROM c ORDER BY c.id"), crossHeader, "cross partition query can not be directly served by the gateway"},
		{"count across partitions", "400/1004", ask("SELECT VALUE COUNT(1) FROM c"), crossHeader, "gateway"},
		{"top across partitions", "400/1004", ask("SELECT TOP 1 * FROM c"), crossHeader, "gateway"},
		{"cross partition unasked", "400/", ask("SELECT * FROM c"), crossHeader[:2], "specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception."},
		{"syntax", "400/", ask("SELECT FROM WHERE"), crossHeader, "SC1001"},
		{"unknown function", "400/", ask("SELECT VALUE UDF.f(c) FROM c"), crossHeader, "errors"},
		{"body", "400/", "SELECT * FROM c", crossHeader, "JSON"},
		{"continuation", "400/", ask("SELECT * FROM c"), with(crossHeader, "x-ms-continuation", "next"), "Invalid Continuation Token"},
		{"key", "400/", ask("SELECT * FROM c"), with(crossHeader, "x-ms-documentdb-partitionkey", "x"), "partitionkey"},
		{"page size", "400/", ask("SELECT * FROM c"), with(crossHeader, "x-ms-max-item-count", "many"), "PageSize many"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			a := c.expect(tt.want, "POST", items, tt.body, tt.header...)
			if d := a.decode(t); d["code"] != "BadRequest" || !strings.Contains(d["message"].(string), tt.says) {
				t.Errorf("error %s does not say %q", a.body, tt.says)
			}
		})
	}
}

func TestIndexMetricsOnlyWhenAsked(t *testing.T) {
	c := twenty(t, 1)
	if a := c.expect("200", "POST", items, ask("SELECT * FROM c"), crossHeader...); a.header.Get("x-ms-cosmos-index-utilization") != "" {
		t.Error("index metrics came unasked")
	}
	if a := c.expect("200", "POST", items, ask("SELECT * FROM c"), with(crossHeader, "x-ms-cosmos-populateindexmetrics", "true")...); a.header.Get("x-ms-cosmos-index-utilization") == "" {
		t.Error("index metrics did not come")
	}
}

func TestListItems(t *testing.T) {
	c := twenty(t, 2)
	a := c.expect("200", "GET", items, "", "x-ms-max-item-count", "15")
	b := c.expect("200", "GET", items, "", "x-ms-continuation", a.header.Get("x-ms-continuation"))
	if got := append(a.ids(t), b.ids(t)...); len(got) != 20 {
		t.Errorf("listed %v", got)
	}
}

func TestQueryPlan(t *testing.T) {
	c := twenty(t, 3)
	plan := planHeader
	for query, want := range map[string]string{
		"SELECT * FROM c WHERE STARTSWITH(c.id, '1')": `"hasSelectValue":false`,
		"SELECT VALUE c.id FROM c":                    `"hasSelectValue":true`,
		"SELECT TOP 7 * FROM c":                       `"top":7`,
		"SELECT * FROM c ORDER BY c.id":               `"orderByExpressions":["c.id"]`,
		"SELECT VALUE COUNT(1) FROM c ORDER BY c.id":  `"orderBy":[],"orderByExpressions":[],"groupByExpressions":[],"groupByAliases":[],"aggregates":["Count"]`,
	} {
		a := c.expect("200", "POST", items, ask(query), plan...)
		if !strings.Contains(a.body, want) || !strings.Contains(a.body, `"queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]`) {
			t.Errorf("%s has the plan %s", query, a.body)
		}
	}
	c.expect("400", "POST", items, ask("SELECT VALUE ABS(COUNT(1)) FROM c"), plan...)
	c.expect("400", "POST", items, ask("SELECT FROM"), plan...)
	c.expect("400", "POST", items, ask("SELECT TOP @n * FROM c", "@n", "many"), plan...)
	refused := c.expect("400/1004", "POST", items, ask("SELECT TOP 7 * FROM c"), crossHeader...)
	if info, _ := refused.decode(t)["additionalErrorInfo"].(string); !strings.Contains(info, `"top":7`) {
		t.Errorf("the refusal %s lacks the plan", refused.body)
	}
}

// A query that demands one partition key is served by the gateway and planned
// for that key alone (TestSinglePartitionQueryInline in azcosmos, PointRange in
// QueryPlanBaselineTests of azure-cosmos-dotnet-v3).
func TestQueryWithKeyConditionNeedsNoKeyHeader(t *testing.T) {
	c := twenty(t, 3)
	for _, query := range []string{
		"SELECT VALUE c.id FROM c WHERE c.pk = '2' ORDER BY c.n DESC OFFSET 1 LIMIT 2",
		"SELECT VALUE c.id FROM c WHERE c.n > 0 AND @key = c.pk ORDER BY c.n DESC OFFSET 1 LIMIT 2",
	} {
		if got := ofValues(c.query(ask(query, "@key", "2"), crossHeader...)); !slices.Equal(got, []string{"18", "17"}) {
			t.Errorf("%s found %v", query, got)
		}
	}
	if got := ofValues(c.query(ask("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'none'"))); !slices.Equal(got, []string{"0"}) {
		t.Errorf("a key without items counts %v", got)
	}
	c.expect("400/1004", "POST", items, ask("SELECT * FROM c WHERE c.pk = '1' OR c.n = 2 ORDER BY c.n"), crossHeader...)

	a := c.expect("200", "POST", items, ask("SELECT * FROM c WHERE c.pk = '2'"), "Content-Type", "application/query+json", "x-ms-cosmos-is-query-plan-request", "True")
	var plan struct{ QueryRanges []queryRange }
	if err := json.Unmarshal([]byte(a.body), &plan); err != nil {
		t.Fatal(err)
	}
	if r := plan.QueryRanges[0]; r.Min == "" || r.Min != r.Max || !r.MinInclusive || !r.MaxInclusive {
		t.Errorf("the plan is for %+v, want a point", r)
	}
}

// Node.js reads headers as Latin-1: a continuation in UTF-8 would come back changed.
func TestOrderedContinuationIsASCII(t *testing.T) {
	c := twenty(t, 1)
	for i, name := range []string{"ü", "ü", "ü", "ü", "z", "z", "a", "😀"} {
		c.upsert(fmt.Sprintf(`{"id":"name%d","pk":"names","name":%q}`, i, name), "names")
	}
	ordered := ask("SELECT VALUE c.name FROM c ORDER BY c.name")
	for _, size := range []string{"1", "3"} {
		h := append(pk("names"), "x-ms-max-item-count", size)
		if got := ofValues(c.query(ordered, h...)); !slices.Equal(got, strings.Fields("a z z ü ü ü ü 😀")) {
			t.Errorf("pages of %s: %v", size, got)
		}
	}
	h := with(crossHeader, append(pk("names"), "x-ms-max-item-count", "4")...)
	next := c.expect("200", "POST", items, ordered, h...).header.Get("x-ms-continuation")
	if i := strings.IndexFunc(next, func(r rune) bool { return r > '~' }); i >= 0 || !strings.Contains(next, `\u00fc`) {
		t.Errorf("continuation %s", next)
	}
	changed := strings.Replace(next, `\u00fc`, "Ã¼", 1)
	c.expect("400", "POST", items, ordered, with(h, "x-ms-continuation", changed)...)
}

// Clients resume a query in the middle of a range with a token and a filter of
// their own, under which there are fewer results before it (ORDER BY with
// enableQueryControl in @azure/cosmos 4.10.1).
func TestOrderedContinuationSurvivesDeletedItem(t *testing.T) {
	c := twenty(t, 1)
	for _, tt := range []struct {
		name, first, then string
		gone              string
		want              []string
	}{
		{"ascending", "SELECT VALUE c.n FROM c ORDER BY c.n", "SELECT VALUE c.n FROM c WHERE c.n >= 2 ORDER BY c.n", "", strings.Fields("3 4 5")},
		{"the last is gone", "SELECT VALUE c.n FROM c ORDER BY c.n", "SELECT VALUE c.n FROM c ORDER BY c.n", "2", strings.Fields("3 4 5")},
		{"descending ties", "SELECT VALUE c.n FROM c ORDER BY c.tags[0] DESC", "SELECT VALUE c.n FROM c WHERE c.n != 18 ORDER BY c.tags[0] DESC", "", strings.Fields("8 17 7")},
		{"descending ties, the last is gone", "SELECT VALUE c.n FROM c ORDER BY c.tags[0] DESC", "SELECT VALUE c.n FROM c ORDER BY c.tags[0] DESC", "18", strings.Fields("8 17 7")},
		{"rows of one item", "SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n > 10 ORDER BY c.n", "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.n", "", strings.Fields("b a b")},
		{"a limit", "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4", "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4", "", []string{"6"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c.t = t
			h := with(crossHeader, rangeID("0")...)
			a := c.expect("200", "POST", items, ask(tt.first), with(h, "x-ms-max-item-count", "3")...)
			if tt.gone != "" {
				key := map[bool]string{true: "1", false: "2"}[len(tt.gone) == 1]
				c.expect("204", "DELETE", items+"/"+tt.gone, "", pk(key)...)
				defer c.upsert(fmt.Sprintf(`{"id":%q,"pk":%q,"n":%s,"tags":["a","b"]}`, tt.gone, key, tt.gone), key)
			}
			a = c.expect("200", "POST", items, ask(tt.then), with(h, "x-ms-max-item-count", "3", "x-ms-continuation", a.header.Get("x-ms-continuation"))...)
			var v struct{ Documents []any }
			if err := json.Unmarshal([]byte(a.body), &v); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(v.Documents); got != fmt.Sprint(tt.want) {
				t.Errorf("went on with %s, want %v", got, tt.want)
			}
		})
	}
	c.t = t
	withoutDocuments := "SELECT VALUE t FROM (SELECT VALUE 1) AS one JOIN t IN (SELECT VALUE [3, 1, 2]) ORDER BY t"
	if got := ofValues(c.query(ask(withoutDocuments), with(pk("1"), "x-ms-max-item-count", "1")...)); !slices.Equal(got, []string{"1", "2", "3"}) {
		t.Errorf("%s gives %v", withoutDocuments, got)
	}
	c.expect("400", "POST", items, ask("SELECT * FROM c ORDER BY c.n"), with(crossHeader, "x-ms-documentdb-partitionkeyrangeid", "0", "x-ms-continuation", `{"item":1,"keys":[[1],[2]]}`)...)
}

// Some drivers learn from the text of a 404 which resource is missing.
func TestMissingResourcesNameTheirType(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for path, resourceType := range map[string]string{
		"/dbs/none":                   "Database",
		"/dbs/db/colls/none":          "Collection",
		"/dbs/none/colls/c":           "Database",
		"/dbs/db/colls/none/docs/1":   "Collection",
		"/dbs/db/colls/c/docs/none":   "Document",
		"/offers/none":                "Offer",
		"/dbs/db/colls/none/pkranges": "Collection",
	} {
		if a := c.expect("404", "GET", path, "", pk("k")...); !strings.Contains(a.decode(t)["message"].(string), "ResourceType: "+resourceType+",") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

// A client that merges the groups of ranges gets them in pages. If a range splits between two of
// them, one child continues with the groups of both, and the other has no more.
func TestGroupsOfARangeComeInPages(t *testing.T) {
	c, a := newItems(t, 1, nil)
	for i, k := range keys(30) {
		c.upsert(fmt.Sprintf(`{"id":%q,"pk":%q,"n":%d}`, k, k, i/3), k)
	}
	page := func(id, query, token string) answer {
		return c.expect("200", "POST", items, ask(query), with(crossHeader, append(rangeID(id), "x-ms-max-item-count", "4", "x-ms-continuation", token)...)...)
	}
	queries := []string{"SELECT DISTINCT VALUE c.n FROM c", "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n"}
	tokens := make([]string, len(queries))
	for i, query := range queries {
		first := page("0", query, "")
		if tokens[i] = first.header.Get("x-ms-continuation"); tokens[i] == "" || first.header.Get("x-ms-item-count") != "4" {
			t.Fatalf("%s: the first page is %s", query, first.body)
		}
	}
	if _, err := a.Split("db", "c", "0"); err != nil {
		t.Fatal(err)
	}
	for i, query := range queries {
		counts := []string{}
		for _, r := range c.ranges() {
			for token := tokens[i]; ; {
				next := page(r.ID, query, token)
				counts = append(counts, next.header.Get("x-ms-item-count"))
				if token = next.header.Get("x-ms-continuation"); token == "" {
					break
				}
			}
		}
		if !slices.Equal(counts, []string{"4", "2", "0"}) {
			t.Errorf("%s: after the split, pages have %v results", query, counts)
		}
		c.expect("410/1002", "POST", items, ask(query), with(crossHeader, append(rangeID("0"), "x-ms-continuation", tokens[i])...)...)
		other := c.expect("400", "POST", items, ask(query), with(crossHeader, append(pk("key1"), "x-ms-continuation", tokens[i])...)...)
		if !strings.Contains(other.body, "another query") {
			t.Errorf("%s", other.body)
		}
	}
}
