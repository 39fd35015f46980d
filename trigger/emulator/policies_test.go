package emulator

import (
	"slices"
	"strings"
	"testing"
)

func TestPoliciesAreChecked(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	for property, says := range map[string]string{
		`"computedProperties":[{"name":"p","query":"SELECT c.a FROM c"}]`:                                                  "SELECT VALUE",
		`"computedProperties":[{"name":"id","query":"SELECT VALUE c.a FROM c"}]`:                                           "reserved",
		`"computedProperties":[{"name":"p","query":"SELECT VALUE 1 FROM c"},{"name":"p","query":"SELECT VALUE 2 FROM c"}]`: "taken",
		`"computedProperties":{}`: "computedProperties",
		`"computedProperties":[` + strings.TrimSuffix(strings.Repeat(`{},`, 21), ",") + `]`:                                            "at most 20",
		`"indexingPolicy":{"indexingMode":"lazy"}`:                                                                                     "lazy",
		`"indexingPolicy":{"indexingMode":"eager"}`:                                                                                    "eager",
		`"indexingPolicy":{"includedPaths":[{"path":"a/?"}]}`:                                                                          "includedPaths",
		`"indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"flat"}]}`:                                                             "vectorEmbeddingPolicy",
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float64","distanceFunction":"cosine","dimensions":3}]}`: "dataType",
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"int8","distanceFunction":"manhattan","dimensions":3}]}`: "distanceFunction",
		`"vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"int8","distanceFunction":"cosine"}]}`:                   "dimensions",
		`"geospatialConfig":{"type":"Sphere"}`:                                                                                         "geospatialConfig",
		`"conflictResolutionPolicy":{"mode":"FirstWriterWins"}`:                                                                        "FirstWriterWins",
		`"conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"x"}`:                                            "conflictResolutionPolicy",
		`"fullTextPolicy":{"fullTextPaths":[{"path":"x"}]}`:                                                                            "fullTextPolicy",
	} {
		a := c.expect("400", "POST", "/dbs/db/colls", `{"id":"x","partitionKey":{"paths":["/pk"]},`+property+`}`)
		if !strings.Contains(a.body, says) {
			t.Errorf("%s: %s does not say %q", property, a.body, says)
		}
	}
}

func TestDefinitionCanBeSentBackAsItWasRead(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	read := c.expect("200", "GET", "/dbs/db/colls/c", "")
	for _, says := range []string{`"conflictResolutionPolicy":{"mode":"LastWriterWins"`, `"geospatialConfig":{"type":"Geography"}`} {
		if !strings.Contains(read.body, says) {
			t.Errorf("%s lacks %s", read.body, says)
		}
	}
	c.expect("412", "DELETE", "/dbs/db/colls/c", "", "If-Match", `"stale"`)
	c.expect("412", "DELETE", "/dbs/db", "", "If-Match", `"stale"`)
	c.expect("200", "PUT", "/dbs/db/colls/c", read.body, "If-Match", read.header.Get("etag"))
	automatic := c.expect("201", "POST", "/dbs/db/colls", `{"id":"chosen","partitionKey":{"paths":["/pk"]},"indexingPolicy":{"indexingMode":"consistent","automatic":false}}`)
	if !strings.Contains(automatic.body, `"automatic":false`) {
		t.Errorf("the policy is read as %s", automatic.body)
	}
	c.expect("201", "POST", "/dbs/db/colls", `{"id":"plain","partitionKey":{"paths":["/pk"]},"analyticalStorageTtl":0,"uniqueKeyPolicy":null,"indexingPolicy":{"indexingMode":"none","automatic":false}}`)
}

// The definition counts after a restart and when it is replaced.
func TestQueriesFollowTheDefinition(t *testing.T) {
	opts := &Options{Data: t.TempDir()}
	c, a := newClient(t, opts)
	definition := func(extra string) string {
		return `{"id":"c","partitionKey":{"paths":["/pk"],"version":2}` + extra + `}`
	}
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", definition(``))
	c.upsert(`{"id":"1","pk":"k","name":"Bo"}`, "k")
	c.upsert(`{"id":"2","pk":"k"}`, "k")
	c.upsert(`{"id":"3","pk":"k","name":"AL"}`, "k")
	check := func(query string, want ...string) {
		t.Helper()
		for _, size := range []string{"1", "9"} {
			if got := ofValues(c.query(ask(query), append(pk("k"), "x-ms-max-item-count", size)...)); !slices.Equal(got, want) {
				t.Errorf("%s in pages of %s gives %v, want %v", query, size, got, want)
			}
		}
	}
	check("SELECT VALUE c.low FROM c")
	check("SELECT VALUE c.id FROM c ORDER BY c.name DESC", "1", "3")
	c.expect("200", "PUT", "/dbs/db/colls/c", definition(`,"computedProperties":[{"name":"low","query":"SELECT VALUE LOWER(c.name) FROM c"}],
		"indexingPolicy":{"includedPaths":[{"path":"/*"},{"path":"/name/?"}]}`))
	for range 2 {
		check("SELECT VALUE c.low FROM c WHERE c.low > 'a'", "bo", "al")
		check("SELECT VALUE c.id FROM c ORDER BY c.name DESC", "1", "3", "2")
		check("SELECT VALUE c.id FROM c ORDER BY c.name", "2", "3", "1")
		check("SELECT VALUE c.id FROM c ORDER BY c.low", "3", "1")
		c, a = reopen(t, a, opts)
	}
}

func TestPlansNeedWhatTheClientAnnounced(t *testing.T) {
	c := twenty(t, 2)
	plan := []string{"Content-Type", "application/query+json", "x-ms-cosmos-is-query-plan-request", "True"}
	for query, needed := range map[string]string{
		"SELECT * FROM c WHERE c.n > 1":                             "",
		"SELECT VALUE COUNT(1) FROM c":                              "Aggregate",
		"SELECT COUNT(1) AS n FROM c":                               "Aggregate,NonValueAggregate",
		"SELECT MIN(c.n) AS a, MAX(c.n) AS b FROM c":                "Aggregate,NonValueAggregate,MultipleAggregates",
		"SELECT c.pk FROM c GROUP BY c.pk":                          "GroupBy",
		"SELECT VALUE SUM(c.n) FROM c GROUP BY c.pk":                "Aggregate,GroupBy",
		"SELECT DISTINCT c.pk FROM c":                               "Distinct",
		"SELECT TOP 1 * FROM c ORDER BY c.n":                        "OrderBy,Top",
		"SELECT * FROM c ORDER BY c.n, c.id OFFSET 1 LIMIT 2":       "OrderBy,MultipleOrderBy,OffsetAndLimit",
		"SELECT TOP 1 * FROM c ORDER BY VectorDistance([c.n], [1])": "OrderBy,Top,NonStreamingOrderBy",
	} {
		names := strings.Split(needed, ",")
		c.expect("200", "POST", items, ask(query), with(plan, "x-ms-cosmos-supported-query-features", strings.Join(names, ", "))...)
		for i, name := range names {
			if name == "" {
				continue
			}
			others := slices.Delete(slices.Clone(names), i, i+1)
			a := c.expect("400", "POST", items, ask(query), with(plan, "x-ms-cosmos-supported-query-features", strings.Join(others, ", "))...)
			if !strings.Contains(a.body, "Query contained "+name+",") || strings.Count(a.body, "Query contained") != 1 {
				t.Errorf("%s without %s: %s", query, name, a.body)
			}
		}
	}
}

func TestBinaryBatchIsNamed(t *testing.T) {
	c := twenty(t, 1)
	if a := c.expect("400", "POST", items, "\x81\x01", with(pk("1"), "x-ms-cosmos-is-batch-request", "true")...); !strings.Contains(a.body, "HybridRow") {
		t.Errorf("%s", a.body)
	}
}
