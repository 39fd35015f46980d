package emulator

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"halley/trigger/emulator/sql"
)

var update = flag.Bool("update", false, "write the table of docs/emulator.md again")

// featureTables are the tables of features, by their title in docs/emulator.md.
var featureTables = []struct {
	title    string
	features []feature
	example  func(f feature) example
}{
	{"Resources", resourceFeatures, resourceExample},
	{"Properties of a container", containerFeatures, containerExample},
	{"Headers of requests", headerFeatures, headerExample},
	{"Queries", queryFeatures, queryExample},
}

// example is a request that needs a feature. says is in its answer, whether the
// feature is done, kept or refused.
type example struct {
	method, path, body string
	header             []string
	says               string
}

// emptyBody is what an answer without a body says.
const emptyBody = "an empty body"

// TestEachFeature sends a request for each entry of the tables: what is refused says
// so, and the rest shows in the answer.
func TestEachFeature(t *testing.T) {
	for _, table := range featureTables {
		for _, f := range table.features {
			t.Run(table.title+"/"+f.name, func(t *testing.T) {
				c := twenty(t, 1)
				e := table.example(f)
				if e.path == "" || e.says == "" {
					t.Fatal("there is no example")
				}
				a := c.send(e.method, e.path, e.body, e.header...)
				refusal := strings.Contains(a.body, "not supported") || strings.Contains(a.body, "unsupported features")
				if (f.support == refused) != (a.status == 400 && refusal) || f.support != refused && a.status >= 300 || !strings.Contains(a.body, e.says) && (e.says != emptyBody || a.body != "") {
					t.Errorf("%s %s %s: %d %s; want %s with %q", e.method, e.path, e.body, a.status, a.body, f.support, e.says)
				}
			})
		}
	}
}

func resourceExample(f feature) example {
	get := func(path, says string) example { return example{"GET", path, "", nil, says} }
	switch f.name {
	case kindDatabase:
		return get("/dbs/db", `"_colls"`)
	case kindContainer:
		return get("/dbs/db/colls/c", `"_docs"`)
	case kindItem:
		return get(items, `"Documents"`)
	case kindRange:
		return get("/dbs/db/colls/c/pkranges", `"PartitionKeyRanges"`)
	case kindOffer:
		return get("/offers", `"Offers"`)
	case "operations/partitionkeydelete":
		return example{"POST", "/dbs/db/colls/c/" + f.name, "", pk("1"), emptyBody}
	case kindUser:
		return get("/dbs/db/users", `"Users":[]`)
	case kindConflict:
		return get("/dbs/db/colls/c/conflicts", `"Conflicts":[]`)
	case "clientencryptionkeys":
		return get("/dbs/db/"+f.name, f.note)
	case "attachments":
		return get(items+"/0/attachments", f.note)
	}
	return get("/dbs/db/colls/c/"+f.name, f.note)
}

func containerExample(f feature) example {
	values := map[string]string{
		"id": `"new"`, "partitionKey": `{"paths":["/a","/b"],"kind":"MultiHash","version":2}`, "defaultTtl": `60`,
		"uniqueKeyPolicy": `{"uniqueKeys":[{"paths":["/a"]}]}`, "changeFeedPolicy": `{"retentionDuration":10}`,
		"previousImageRetentionPolicy": `{"supportedFeatures":{"allVersionsAndDeletes":{"mode":3}}}`,
		"computedProperties":           `[{"name":"p","query":"SELECT VALUE c.a FROM c"}]`,
		"geospatialConfig":             `{"type":"Geometry"}`,
		"vectorEmbeddingPolicy":        `{"vectorEmbeddings":[{"path":"/v","dataType":"float32","distanceFunction":"cosine","dimensions":3}]}`,
		"indexingPolicy":               `{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],"excludedPaths":[]}`,
		"conflictResolutionPolicy":     `{"mode":"LastWriterWins","conflictResolutionPath":"/n"}`,
		"fullTextPolicy":               `{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t","language":"en-US"}]}`,
		"analyticalStorageTtl":         `-1`,
	}
	name, value := f.name, values[f.name]
	if value == "" {
		value = `{"any":1}`
	}
	properties := map[string]string{"id": `"new"`, "partitionKey": `{"paths":["/pk"]}`, name: value}
	var members []string
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		members = append(members, fmt.Sprintf("%q:%s", key, properties[key]))
	}
	says := fmt.Sprintf("%q:%s", name, value)
	switch f.support {
	case refused:
		says = name
	case ignored:
		says = `"id":"new"`
	}
	return example{"POST", "/dbs/db/colls", "{" + strings.Join(members, ",") + "}", nil, says}
}

func headerExample(f feature) example {
	value := map[string]string{"x-ms-indexing-directive": "Exclude", "x-ms-cosmos-is-client-encrypted": "true", "x-ms-consistency-level": "Eventual"}[f.name]
	if value == "" {
		value = "Low"
	}
	says := `"_etag"`
	if f.support == refused {
		says = f.name
	}
	return example{"POST", items, doc("new", "1"), with(pk("1"), f.name, value), says}
}

func queryExample(f feature) example {
	e := example{"POST", items, "", with(crossHeader, pk("1")...), ""}
	queries := map[string][2]string{
		"SELECT list, *, VALUE":                 {"SELECT VALUE {n: c.n} FROM c WHERE c.n = 3", `[{"n":3}]`},
		"DISTINCT":                              {"SELECT DISTINCT VALUE c.pk FROM c", `["1"]`},
		"TOP, OFFSET LIMIT":                     {"SELECT VALUE c.n FROM c OFFSET 2 LIMIT 2", `[2,3]`},
		"FROM with paths and IN":                {"SELECT VALUE t FROM t IN c.tags OFFSET 0 LIMIT 2", `["a","b"]`},
		"JOIN":                                  {"SELECT c.n, t FROM c JOIN t IN c.tags WHERE c.n = 3", `[{"n":3,"t":"a"},{"n":3,"t":"b"}]`},
		"scalar subqueries":                     {"SELECT VALUE (SELECT VALUE c.n) FROM c WHERE c.n = 3", `[3]`},
		"EXISTS, ARRAY, and subqueries in FROM": {"SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.tags) FROM c WHERE c.n = 3", `[["a","b"]]`},
		"WHERE":                                 {"SELECT VALUE c.n FROM c WHERE c.n IN (2, 4)", `[2,4]`},
		"GROUP BY":                              {"SELECT c.pk, SUM(c.n) AS sum FROM c GROUP BY c.pk", `[{"pk":"1","sum":45}]`},
		"ORDER BY":                              {"SELECT TOP 2 VALUE c.n FROM c ORDER BY c.pk, c.n DESC", `[9,8]`},
		"parameters":                            {"SELECT VALUE @p FROM c WHERE c.n = 3", `["value"]`},
		"ORDER BY VectorDistance":               {"SELECT TOP 1 VALUE c.n FROM c ORDER BY VectorDistance([c.n, 1], [3, 1])", `[3]`},
		"ORDER BY RANK":                         {"SELECT * FROM c ORDER BY RANK FullTextScore(c.id, 'a')", "RANK"},
		"ORDER BY with GROUP BY or aggregates":  {"SELECT c.pk FROM c GROUP BY c.pk ORDER BY c.pk", "ORDER BY"},
		"LET":                                   {"SELECT VALUE x FROM c LET x = c.n", "LET"},
		"user-defined functions":                {"SELECT VALUE udf.f(c) FROM c", "User-defined"},
	}
	e.body, e.says = ask(queries[f.name][0], "@p", "value"), queries[f.name][1]
	switch f.name {
	case "FROM subqueries over several ranges":
		e.body, e.says = ask("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.n FROM c)"), `"dCountInfo":{"dCountAlias":""}`
		e.header = planHeader
	case "ST_DISTANCE and ST_WITHIN of lines, or of two regions":
		line := `{"type": "LineString", "coordinates": [[0, 0], [1, 1]]}`
		e.body, e.says = ask("SELECT VALUE ST_DISTANCE("+line+", "+line+") FROM c"), "ST_DISTANCE"
	case "properties of the body besides query and parameters":
		e.body, e.says = `{"query":"SELECT * FROM c","language":"x"}`, "language"
	case "plans for clients that did not announce an ability":
		e.body, e.says = ask("SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk"), "Query contained GroupBy, which the calling client does not support."
		e.header = with(crossHeader, "x-ms-cosmos-is-query-plan-request", "True", "x-ms-cosmos-supported-query-features", "Aggregate, NonValueAggregate")
	}
	return e
}

// featureText is the part of docs/emulator.md that the tables give.
func featureText() string {
	var b strings.Builder
	for _, table := range featureTables {
		fmt.Fprintf(&b, "\n| %s | | |\n| --- | --- | --- |\n", table.title)
		for _, f := range table.features {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.name, f.support, f.note)
		}
	}
	proven, others := splitFunctions()
	fmt.Fprintf(&b, "\nFunctions of queries that are done: %s.\n", strings.Join(proven, ", "))
	fmt.Fprintf(&b, "\nFunctions by documentation: %s.\n", strings.Join(others, ", "))
	b.WriteString("\n| Functions of queries that are refused | |\n| --- | --- |\n")
	unsupported := sql.Unsupported()
	for _, name := range slices.Sorted(maps.Keys(unsupported)) {
		fmt.Fprintf(&b, "| %s | %s |\n", name, unsupported[name])
	}
	return b.String() + "\n"
}

// splitFunctions divides the functions of queries by whether a query of another vendor's
// client in tests/outside has them.
func splitFunctions() (proven, others []string) {
	var queries strings.Builder
	for _, pattern := range []string{"javascript/*.mjs", "python/*.py", "java/src/*.java", "java/src/*/*/*.java"} {
		files, _ := filepath.Glob("../../tests/outside/" + pattern) // the pattern is valid
		for _, file := range files {
			text, _ := os.ReadFile(file) // a file that cannot be read proves nothing
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "SELECT") {
					queries.WriteString(strings.ToUpper(line))
				}
			}
		}
	}
	for _, name := range sql.Functions() {
		if strings.Contains(queries.String(), name+"(") {
			proven = append(proven, name)
			continue
		}
		others = append(others, name)
	}
	return proven, others
}

func TestFeaturesAreInTheDocs(t *testing.T) {
	const file, begin, end = "../../docs/emulator.md", "<!-- features -->\n", "<!-- end of features -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, remainder, _ := strings.Cut(string(text), begin)
	_, tail, ok := strings.Cut(remainder, end)
	if !ok {
		t.Fatalf("%s lacks the marks of the table", file)
	}
	want := head + begin + featureText() + end + tail
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("the tables of %s are not those of the code: run go test ./trigger/emulator -run FeaturesAreInTheDocs -update", file)
	}
}

// The service's functions that the account lacks are refused by name.
func TestUnsupportedFunctionsAreNamed(t *testing.T) {
	c := twenty(t, 1)
	for name := range sql.Unsupported() {
		if a := c.expect("400", "POST", items, ask("SELECT VALUE "+name+"(c.a, c.b) FROM c"), crossHeader...); !strings.Contains(a.body, name+" is not supported") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}
