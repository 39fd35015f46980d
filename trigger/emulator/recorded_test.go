package emulator

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The tests of this file hold facts from recorded answers of a hosted account, October
// 2026.

// TestQueriesOfNoDocument: a query that reads no document needs neither a partition key nor
// a plan, and has one row however many ranges there are.
func TestQueriesOfNoDocument(t *testing.T) {
	c := twenty(t, 3)
	parameters := func(list string) string { return `,"parameters":[` + list + `]}` }
	for body, want := range map[string]string{
		`{"query":"SELECT 1 AS a"}`:                                                                               `{"a":1}`,
		`{"query":" \n SELECT\t 1  AS a \r\n"}`:                                                                   `{"a":1}`,
		`{"query":"SELECT 1 AS a -- one"}`:                                                                        `{"a":1}`,
		`{"query":"SELECT VALUE -- one\n1"}`:                                                                      `1`,
		`{"query":"SELECT VALUE x FROM x IN (SELECT VALUE [1]) ORDER BY x"}`:                                      `1`,
		`{"query":"SELECT VALUE COUNT(1)"}`:                                                                       `1`,
		`{"query":"SELECT VALUE @p"` + parameters(`{"name":"@p","value":"s"}`):                                    `"s"`,
		`{"query":"SELECT VALUE @p"` + parameters(`{"name":"@p","value":null}`):                                   `null`,
		`{"query":"SELECT VALUE @p"` + parameters(`{"name":"@p","value":{"a":1.0}}`):                              `{"a":1}`,
		`{"query":"SELECT VALUE @p"` + parameters(`{"name":"@p","value":18446744073709551615}`):                   `1.8446744073709552e+19`,
		`{"query":"SELECT @p AS p"` + parameters(``):                                                              `{}`,
		`{"query":"SELECT @p AS p"` + parameters(`{"name":"@p"}`):                                                 `{}`,
		`{"query":"SELECT @a AS a, @b AS b"` + parameters(`{"name":"@a","value":1},{"name":"@b","value":2}`):      `{"a":1,"b":2}`,
		`{"query":"SELECT 1 AS a"` + parameters(`{"name":"@unused","value":1}`):                                   `{"a":1}`,
		`{"query":"SELECT IS_DEFINED(@p) AS given, @p = 1 AS one, [@p, 2] AS list"` + parameters(`{"name":"@p"}`): `{"given":false,"list":[2]}`,
	} {
		a := c.expect("200", "POST", items, body, crossHeader...)
		var v struct{ Documents []json.RawMessage }
		if err := json.Unmarshal([]byte(a.body), &v); err != nil || len(v.Documents) != 1 || string(v.Documents[0]) != want {
			t.Errorf("%s answers %s, want %s", body, a.body, want)
		}
		checkCharge(t, body, a, 2.25)
		c.expect("200", "POST", items, body, crossHeader[:2]...)
		plan := c.expect("200", "POST", items, body, planHeader...).decode(t)
		if got := fmt.Sprint(plan["queryRanges"]); got != "[map[isMaxInclusive:true isMinInclusive:true max: min:]]" {
			t.Errorf("the plan of %s is for %s, want one range", body, got)
		}
	}
}

// TestUndefinedParameters: a condition on one holds for no document.
func TestUndefinedParameters(t *testing.T) {
	c := twenty(t, 2)
	for _, condition := range []string{"c.id = @x", "c.pk = @x", "c.n > @x", "NOT (c.id = @x)"} {
		if got := c.query(ask("SELECT * FROM c WHERE " + condition)); len(got[0]) != 0 {
			t.Errorf("%s finds %v", condition, got)
		}
	}
	c.expect("400/", "POST", items, ask("SELECT TOP @x * FROM c"), with(crossHeader, pk("1")...)...)
}

func checkCharge(t *testing.T, name string, a answer, want float64) {
	t.Helper()
	got, err := strconv.ParseFloat(a.header.Get("x-ms-request-charge"), 64)
	if err != nil || math.Abs(got-want) > want/10 {
		t.Errorf("%.100s costs %v, %v; want %v within ten percent", name, got, err, want)
	}
}

// TestRefusalsOfQueries have the service's texts, and a substatus and a plan only if a
// client can follow the plan.
func TestRefusalsOfQueries(t *testing.T) {
	c := twenty(t, 2)
	const composed = "Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates."
	const direct = "The provided cross partition query can not be directly served by the gateway. This is a first chance (internal) exception that all newer clients will know how to handle gracefully."
	sqlHeader := with(crossHeader, "Content-Type", "application/sql")
	for _, tt := range []struct {
		want, body string
		header     []string
		says       string
	}{
		{"400/", ask("SELECT COUNT(1) AS n, SUM(c.n) AS total FROM c"), crossHeader, composed},
		{"400/", ask("SELECT MAX(c.n) FROM c WHERE c.n > 1"), crossHeader, composed},
		{"400/", ask("SELECT VALUE COUNT(1) > 0 FROM c"), crossHeader, composed},
		{"400/", ask("SELECT VALUE {n: COUNT(1)} FROM c"), crossHeader, composed},
		{"400/", ask("SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk"), crossHeader, composed},
		{"400/", ask("SELECT VALUE COUNT(1) FROM c GROUP BY c.pk"), crossHeader, composed},
		{"400/", ask("SELECT c.pk FROM c GROUP BY c.pk"), crossHeader, composed},
		{"400/1004", ask("SELECT VALUE COUNT(1) FROM c"), crossHeader, direct},
		{"400/1004", ask("SELECT VALUE MAX(c.n) FROM c"), crossHeader, direct},
		{"400/1004", ask("SELECT DISTINCT VALUE c.pk FROM c"), crossHeader, direct},
		{"400/1004", ask("SELECT * FROM c ORDER BY c.pk, c.n"), crossHeader, direct},
		{"400/1004", ask("SELECT * FROM c OFFSET 1 LIMIT 1"), crossHeader, direct},
		{"400/1004", "SELECT VALUE COUNT(1) FROM c", sqlHeader, direct},
		{"400/1004", ask("SELECT VALUE COUNT(1) FROM c"), sqlHeader, direct},
		{"400/", `{"query":"SELECT VALUE @p","parameters":[{"name":"@p","value":1},{"name":"@p","value":2}]}`, crossHeader, "Invalid query. Specified duplicate parameter name '@p'."},
		{"400/", `{"query":"SELECT * FROM c","parameters":[{"name":"@p"},{"name":"@p"}]}`, crossHeader, "Invalid query. Specified duplicate parameter name '@p'."},
		{"400/", ask("SELECT 1 AS a /* one */"), crossHeader, `{"severity":"Error","location":{"start":14,"end":15},"code":"SC1001","message":"Syntax error, incorrect syntax near '/'."}`},
		{"400/", ask("SELECT 1 AS a; SELECT 2 AS b"), crossHeader, `{"severity":"Error","location":{"start":13,"end":14},"code":"SC1010","message":"Syntax error, invalid token ';'."}`},
		{"400/", ask("SELECT c.id AS a, c.n AS b, 3 AS a FROM c"), crossHeader, `{"severity":"Error","location":{"start":33,"end":34},"code":"SC2022","message":"Object creation error, property name 'a' specified more than once."}`},
		{"400/", ask("SELECT * FROM c"), with(crossHeader, "x-ms-consistency-level", "Strong", "x-ms-session-token", "0:0#1"), "ConsistencyLevel Strong specified in the request is invalid when service is configured with consistency level Session. Ensure the request consistency level is not stronger than the service consistency level."},
		{"400/", ask("SELECT * FROM c"), with(crossHeader, "x-ms-consistency-level", "BoundedStaleness"), "ConsistencyLevel BoundedStaleness specified"},
		{"400/", ask("SELECT * FROM c"), crossHeader[:2], "Cross partition query is required but disabled."},
	} {
		a := c.expect(tt.want, "POST", items, tt.body, tt.header...)
		d := a.decode(t)
		message, _ := d["message"].(string)
		if _, planned := d["additionalErrorInfo"]; planned != (tt.want == "400/1004") || !strings.Contains(message, tt.says) {
			t.Errorf("%s: %s, want %q", tt.body, a.body, tt.says)
		}
	}
	c.expect("200", "POST", items, ask("SELECT * FROM c"), with(crossHeader, "x-ms-consistency-level", "Eventual")...)
	if got := c.query("SELECT VALUE c.id FROM c WHERE c.n = 3", "Content-Type", "application/sql"); !slices.Equal(got[0], []string{`"3"`}) {
		t.Errorf("a query as its text finds %v", got)
	}
}

// TestQueryAsADocument: without the header and the content type of a query, it is a
// document without a partition key.
func TestQueryAsADocument(t *testing.T) {
	c := twenty(t, 1)
	a := c.expect("400", "POST", items, ask("SELECT * FROM c"), "Content-Type", "application/json")
	if !strings.Contains(strings.ToLower(a.body), "partition") {
		t.Errorf("the refusal does not name the partition key: %s", a.body)
	}
}

// TestOrderedPlanKeepsDirections: the rewritten query has ASC only if the query has it.
func TestOrderedPlanKeepsDirections(t *testing.T) {
	c := twenty(t, 1)
	for order, want := range map[string]string{"c.n": "ORDER BY c.n", "c.n ASC": "ORDER BY c.n ASC", "c.n desc, c.id": "ORDER BY c.n DESC, c.id"} {
		plan := c.expect("200", "POST", items, ask("SELECT * FROM c ORDER BY "+order), planHeader...).decode(t)
		if got := plan["queryInfo"].(map[string]any)["rewrittenQuery"].(string); !strings.HasSuffix(got, want) {
			t.Errorf("ORDER BY %s is rewritten as %s", order, got)
		}
	}
}

// TestChargesOfQueries: an index answers a count, whatever it counts.
func TestChargesOfQueries(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for key := range 5 {
		for first := 0; first < 500; first += 100 {
			var operations []string
			for i := range 100 {
				operations = append(operations, fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":"%d","pk":"%d","n":%d}}`, first+i, key, i))
			}
			c.batch("200", "["+strings.Join(operations, ",")+"]", pk(strconv.Itoa(key))...)
		}
	}
	count := ask("SELECT VALUE COUNT(1) FROM c")
	checkCharge(t, "a count of one key", c.expect("200", "POST", items, count, with(crossHeader, pk("1")...)...), 2.99)
	checkCharge(t, "a count of a range", c.expect("200", "POST", items, count, with(crossHeader, rangeID("0")...)...), 2.89)
	checkCharge(t, "a filter", c.expect("200", "POST", items, ask("SELECT * FROM c WHERE c.id = '1' AND c.pk = '1'"), crossHeader...), 2.82)
	checkCharge(t, "nine documents", c.expect("200", "POST", items, ask("SELECT * FROM c"), with(crossHeader, "x-ms-max-item-count", "9")...), 2.38)
}

// TestChargesOfWrites: they depend on the properties of the document that was there and of
// the new one.
func TestChargesOfWrites(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	small := func(id string) string { return `{"id":"` + id + `","pk":"k","n":1,"s":"x"}` }
	big := `{"id":"big","pk":"k"`
	for i := range 17 {
		big += fmt.Sprintf(`,"p%d":%d`, i, i)
	}
	big += "}"
	for _, tt := range []struct {
		name, want, method, path, body string
		charge                         float64
	}{
		{"small create", "201", "POST", "", small("a"), 6.67},
		{"create of three properties", "201", "POST", "", `{"id":"b","pk":"k","s":"x"}`, 6.29},
		{"create of 19 properties", "201", "POST", "", big, 14.29},
		{"small replace", "200", "PUT", "/a", small("a"), 11.05},
		{"replace of a big document by a small one", "200", "PUT", "/big", `{"id":"big","pk":"k","n":1}`, 18.67},
		{"small delete", "204", "DELETE", "/a", "", 6.67},
		{"point read", "200", "GET", "/b", "", 1},
	} {
		checkCharge(t, tt.name, c.expect(tt.want, tt.method, items+tt.path, tt.body, pk("k")...), tt.charge)
	}
	a := c.expect("200", "POST", items, "["+operation("Create", "x")+","+operation("Create", "y")+"]", batchHeader("True")...)
	checkCharge(t, "batch of two creates", a, 12.57)
	checkCharge(t, "failed batch", c.expect("207", "POST", items, "["+operation("Create", "x")+"]", batchHeader("True")...), 1.24)

	c.expect("201", "POST", "/dbs/db/colls", `{"id":"uk","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/email"]}]}}`)
	checkCharge(t, "create under a unique key", c.expect("201", "POST", "/dbs/db/colls/uk/docs", `{"id":"1","pk":"p","email":"x"}`, pk("p")...), 8)
	checkCharge(t, "create under a unique key, with ttl", c.expect("201", "POST", "/dbs/db/colls/uk/docs", `{"id":"2","pk":"p","email":"y","ttl":1}`, pk("p")...), 8)
}

func batchHeader(atomic string) []string {
	return append(pk("k"), "x-ms-cosmos-is-batch-request", "True", "x-ms-cosmos-batch-atomic", atomic, "x-ms-cosmos-batch-continue-on-error", "True")
}

// TestSubstatusOfABatch is in the header of the answer, and not in the result.
func TestSubstatusOfABatch(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	for _, tt := range []struct{ want, operation string }{
		{"207/1001", `{"operationType":"Create","resourceBody":{"id":"b","pk":"other"}}`},
		{"207/1110", `{"operationType":"Patch","id":"a","resourceBody":{"condition":"from c where c.x = 1","operations":[{"op":"set","path":"/v","value":1}]}}`},
		{"207/0", operation("Create", "a")},
		{"207/0", operation("Replace", "none")},
	} {
		a := c.expect(strings.TrimSuffix(tt.want, "/0"), "POST", items, "["+operation("Upsert", "a")+","+tt.operation+"]", batchHeader("True")...)
		if got := a.header.Get("x-ms-substatus"); tt.want == "207/0" && got != "" && got != "0" {
			t.Errorf("%s has the substatus %s", tt.operation, got)
		}
		if strings.Contains(a.body, "subStatusCode") || a.header.Get("x-ms-item-count") != "2" {
			t.Errorf("%s: %v %s", tt.operation, a.header, a.body)
		}
	}
	a := c.expect("200", "POST", items, "["+operation("Create", "c")+","+operation("Create", "d")+","+operation("Create", "e")+"]", batchHeader("True")...)
	if got := a.header.Get("x-ms-item-count"); got != "3" {
		t.Errorf("x-ms-item-count is %q", got)
	}
}

// TestBulkOfOneKey: a batch that is not atomic may name its partition key in the header,
// and has a result for each operation.
func TestBulkOfOneKey(t *testing.T) {
	c, _ := newItems(t, 3, nil)
	c.create("old", "k")
	mixed := "[" + operation("Create", "a") + "," + operation("Create", "old") + "," + operation("Upsert", "b") + "]"
	results := func(want, body string, h ...string) (statuses []int) {
		t.Helper()
		a := c.expect(want, "POST", items, body, with(batchHeader("False"), h...)...)
		var list []batchResult
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.header.Get("x-ms-item-count") != strconv.Itoa(len(list)) || a.header.Get("x-ms-session-token") == "" {
			t.Fatalf("%v %s: %v", a.header, a.body, err)
		}
		for _, r := range list {
			statuses = append(statuses, r.StatusCode)
		}
		return statuses
	}
	if got := results("207", mixed); !slices.Equal(got, []int{201, 409, 201}) {
		t.Errorf("with errors: %v", got)
	}
	if got := results("207", mixed, "x-ms-cosmos-batch-continue-on-error", "False"); !slices.Equal(got, []int{409, 424, 424}) {
		t.Errorf("until the first error: %v", got)
	}
	if got := results("200", "["+operation("Create", "c")+`,{"operationType":"Read","id":"old"},{"operationType":"Delete","id":"a"}]`); !slices.Equal(got, []int{201, 200, 204}) {
		t.Errorf("without errors: %v", got)
	}
	if got := results("207", "["+operation("Create", "d")+`,{"operationType":"Create","resourceBody":{"id":"e","pk":"other"}}]`); !slices.Equal(got, []int{201, 400}) {
		t.Errorf("with another key: %v", got)
	}
	c.expect("400", "POST", items, mixed, with(batchHeader("False"), "x-ms-documentdb-partitionkey", "")...)
	c.expect("405", "POST", items+"/$batch", mixed, batchHeader("True")...)
}

// TestPatchAddsAfterAttachments: the properties that a patch adds stand between
// _attachments and _ts, also after further patches and a restart, and change no etag.
func TestPatchAddsAfterAttachments(t *testing.T) {
	directory := t.TempDir()
	c, account := newItems(t, 1, &Options{Data: directory})
	c.expect("201", "POST", items, `{"id":"a","pk":"k","n":1}`, pk("k")...)
	c.expect("200", "PATCH", items+"/a", `[{"op":"add","path":"/x","value":{"_etag":"e\"","_attachments":"attachments/","_ts":1}}]`, pk("k")...)
	patched := c.expect("200", "PATCH", items+"/a", `[{"op":"set","path":"/n","value":2},{"op":"incr","path":"/y","value":3},{"op":"replace","path":"/x/_ts","value":5}]`, pk("k")...)
	const added = `"_attachments":"attachments/","x":{"_etag":"e\"","_attachments":"attachments/","_ts":5},"y":3,"_ts":`
	check := func(a answer) {
		t.Helper()
		d := a.decode(t)
		if !strings.HasPrefix(a.body, `{"id":"a","pk":"k","n":2,"_rid":`) || !strings.Contains(a.body, added) || d["_etag"] != a.header.Get("etag") || a.body != patched.body {
			t.Errorf("%v %s", a.header, a.body)
		}
	}
	check(patched)
	check(c.expect("200", "GET", items+"/a", "", pk("k")...))
	if got := c.feed("200").body; !strings.Contains(got, added) {
		t.Errorf("the feed gives %s", got)
	}
	if err := account.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := New(&Options{Data: directory})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	c.do = again.Do
	check(c.expect("200", "GET", items+"/a", "", pk("k")...))
	c.expect("200", "PATCH", items+"/a", `[{"op":"remove","path":"/x"}]`, append(pk("k"), "If-Match", patched.header.Get("etag"))...)
	if got := c.expect("200", "GET", items+"/a", "", pk("k")...).body; !strings.Contains(got, `"_attachments":"attachments/","y":3,"_ts":`) {
		t.Errorf("after a removal: %s", got)
	}
	replaced := c.expect("200", "PUT", items+"/a", patched.body, pk("k")...).body
	if !strings.HasPrefix(replaced, `{"id":"a","pk":"k","n":2,"x":{`) || !strings.Contains(replaced, `"_attachments":"attachments/","_ts":`) {
		t.Errorf("a replace stores %s", replaced)
	}
}
