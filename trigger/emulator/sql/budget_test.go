package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Limits of the tests on the queries that they run.
const (
	testWork   = maxWork / 200    // about a twentieth of a second
	mostTime   = 10 * time.Second // with the race detector on a busy machine
	mostMemory = 512 << 20
)

// nested is f(f(…f(inner)…)), depth times.
func nested(depth int, opening, inner, closing string) string {
	return strings.Repeat(opening, depth) + inner + strings.Repeat(closing, depth)
}

// largeDocument has large values of every type, in about a megabyte.
func largeDocument() string {
	numbers := strings.TrimSuffix(strings.Repeat("1,", 100_000), ",")
	var distinct, objects []string
	for i := range 10_000 {
		distinct = append(distinct, fmt.Sprintf(`"%d"`, i))
		objects = append(objects, fmt.Sprintf(`{"p%d":%d}`, i, i))
	}
	var properties []string
	for i := range 10_000 {
		properties = append(properties, fmt.Sprintf(`"k%d":%d`, i, i))
	}
	return fmt.Sprintf(`{"id":"1","s":%q,"a":[%s],"d":[%s],"o":[%s],"w":{%s}}`,
		strings.Repeat("x", 500_000), numbers, strings.Join(distinct, ","), strings.Join(objects, ","), strings.Join(properties, ","))
}

// costlyQueries would take gigabytes or minutes if nothing bounded them.
var costlyQueries = map[string]string{
	"nested replace":        `SELECT VALUE ` + nested(4, `REPLACE(`, `REPLICATE("x", 10000)`, `, "x", REPLICATE("x", 10000))`),
	"nested concat":         `SELECT VALUE ` + doubled(30, `"0123456789"`),
	"nested operator":       `SELECT VALUE ` + strings.Repeat(`(c.s || `, 100) + `""` + strings.Repeat(`)`, 100) + ` FROM c`,
	"wide operators":        `SELECT VALUE ` + strings.Repeat(`LENGTH(c.s) + `, 300) + `1 FROM c`,
	"wide array":            `SELECT VALUE [` + strings.Repeat(`c.s, `, 1000) + `1] FROM c`,
	"wide call":             `SELECT VALUE CONCAT(` + strings.Repeat(`c.s, `, 1000) + `"") FROM c`,
	"nested arrays":         `SELECT VALUE ` + nested(30, `(SELECT VALUE ARRAY_CONCAT(x, x) FROM (SELECT VALUE `, `c.a`, `) AS x)`) + ` FROM c`,
	"nested objects":        `SELECT VALUE ` + nested(30, `(SELECT VALUE {a: x, b: x} FROM (SELECT VALUE `, `c.s`, `) AS x)`) + ` FROM c`,
	"subquery arrays":       `SELECT VALUE ` + nested(30, `ARRAY(SELECT VALUE [x, c.s] FROM x IN (SELECT VALUE `, `c.a`, `))`) + ` FROM c`,
	"object to array":       `SELECT VALUE OBJECTTOARRAY(c.w, c.s) FROM c`,
	"join with separator":   `SELECT VALUE StringJoin(c.d, c.s) FROM c`,
	"split to characters":   `SELECT VALUE StringSplit(REPLACE(c.s, "x", "xyyyyyyy"), "y") FROM c`,
	"trim":                  `SELECT VALUE TRIM(c.s, CONCAT("é", REPLACE(c.s, "x", "y"), "x")) FROM c`,
	"intersection":          `SELECT VALUE SetIntersect(c.o, c.o) FROM c`,
	"union":                 `SELECT VALUE SetUnion(c.d, c.o) FROM c`,
	"contains in subquery":  `SELECT VALUE COUNT(1) FROM c JOIN d IN c.d WHERE ARRAY_CONTAINS(c.o, {p: d})`,
	"contains any":          `SELECT VALUE COUNT(1) FROM c JOIN d IN c.d WHERE ARRAY_CONTAINS_ANY(c.o, d, d, d)`,
	"cross join":            `SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a`,
	"nested exists":         `SELECT VALUE COUNT(1) FROM c WHERE ` + nested(8, `NOT EXISTS(SELECT VALUE 1 FROM x IN c.a WHERE `, `x != 1`, `)`),
	"index of a list":       `SELECT VALUE COUNT(1) FROM c JOIN a IN c.a WHERE c.a[99999] = a`,
	"path of an object":     `SELECT VALUE COUNT(1) FROM c JOIN a IN c.a WHERE c.w.k9999 = a`,
	"equal objects":         `SELECT VALUE COUNT(1) FROM c JOIN a IN c.a WHERE c.w = c.w`,
	"order of arrays":       `SELECT VALUE a FROM c JOIN a IN c.a ORDER BY [c.a, a]`,
	"order of large values": `SELECT VALUE [c.s, a] FROM c JOIN a IN c.a ORDER BY a`,
	"groups":                `SELECT MAX(c.s) AS m, d FROM c JOIN d IN c.d GROUP BY d`,
	"group keys":            `SELECT COUNT(1) AS n FROM c JOIN d IN c.d GROUP BY [c.s, d]`,
	"distinct":              `SELECT DISTINCT VALUE [c.s, d] FROM c JOIN d IN c.d`,
	"long sum":              `SELECT VALUE COUNT(1) FROM c JOIN a IN c.a WHERE ` + strings.Repeat(`1+`, 1500) + `1 = a`,
	"in list":               `SELECT VALUE COUNT(1) FROM c JOIN d IN c.d WHERE c.w IN (` + strings.Repeat(`c.w, `, 500) + `d)`,
	"large pattern":         `SELECT VALUE RegexMatch(c.s, "(` + strings.Repeat("x?", 1000) + `){1000}")  FROM c`,
	"slow pattern":          `SELECT VALUE RegexMatch(c.s, "` + strings.Repeat("x?", 1500) + `y") FROM c`,
	"many patterns":         `SELECT VALUE COUNT(1) FROM c JOIN d IN c.d WHERE RegexMatch("x", CONCAT(d, "` + strings.Repeat("[a-z]?", 500) + `"))`,
	"like":                  `SELECT VALUE c.s LIKE "` + strings.Repeat("%x_", 600) + `y" FROM c`,
}

// doubled is CONCAT(x, x) of CONCAT(x, x) and so on, each level named by a subquery.
func doubled(depth int, inner string) string {
	return nested(depth, `(SELECT VALUE CONCAT(x, x) FROM (SELECT VALUE `, inner, `) AS x)`)
}

// TestCostlyQueriesAreBounded runs each query over a few large documents. It must be
// answered, or refused with an error that names a limit, soon and in little memory.
func TestCostlyQueriesAreBounded(t *testing.T) {
	large := largeDocument()
	for name, text := range costlyQueries {
		t.Run(name, func(t *testing.T) {
			err := runBounded(t, text, []string{large, large, large}, testWork)
			var e *Error
			if err != nil && !errors.As(err, &e) {
				t.Fatal(err)
			}
			t.Logf("%v", err)
		})
	}
}

// runBounded fails the test if the query takes too long or too much memory.
func runBounded(t *testing.T, text string, documents []string, work int64) error {
	t.Helper()
	stop := make(chan struct{})
	peak := make(chan uint64)
	go watchHeap(stop, peak)
	oldBytes, began := heapBytes(), time.Now()
	_, err := answersTo(text, documents, work)
	took := time.Since(began)
	close(stop)
	if grown := int64(<-peak) - int64(oldBytes); grown > mostMemory {
		t.Errorf("%.200s: the heap grew by %d MB, %v", text, grown>>20, err)
	}
	if took > mostTime {
		t.Errorf("%.200s: took %v, %v", text, took, err)
	}
	return err
}

func answersTo(text string, documents []string, work int64) (n int, err error) {
	q, err := Parse(text)
	if err != nil {
		return 0, err
	}
	env := testEnv
	env.Work = work
	results, err := q.Run(sequence(documents), nil, env)
	return len(results), err
}

// watchHeap sends the greatest size of the heap when stop is closed.
func watchHeap(stop <-chan struct{}, peak chan<- uint64) {
	greatest := heapBytes()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			greatest = max(greatest, heapBytes())
		case <-stop:
			peak <- max(greatest, heapBytes())
			return
		}
	}
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestErrorsNameTheLimit(t *testing.T) {
	large := largeDocument()
	for text, want := range map[string]string{
		costlyQueries["wide operators"]:                                   "more than 67108864 bytes for one row",
		costlyQueries["nested replace"]:                                   "a value of more than 4194304 bytes",
		costlyQueries["nested concat"]:                                    "a value of more than 4194304 bytes",
		costlyQueries["wide array"]:                                       "a value of more than 4194304 bytes",
		costlyQueries["equal objects"]:                                    "more than 250000000 units of work",
		costlyQueries["large pattern"]:                                    "more than 8192 instructions",
		`SELECT VALUE 1 FROM c ` + strings.Repeat(`JOIN (SELECT 1) `, 11): "more than 10 JOINs",
	} {
		_, err := answersTo(text, []string{large}, maxWork/20)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Message, want) {
			t.Errorf("%.100s: %v, want an error with %q", text, err, want)
		}
	}
}

func TestRowsInMemoryAreBounded(t *testing.T) {
	documents := make([]string, 140)
	large := strings.Repeat("x", 1<<20)
	for i := range documents {
		documents[i] = fmt.Sprintf(`{"n":%d,"s":"%s"}`, i, large)
	}
	for _, text := range []string{
		`SELECT VALUE [c.s] FROM c ORDER BY c.s`,
		`SELECT DISTINCT VALUE [c.s, c.n] FROM c`,
		`SELECT VALUE d FROM (SELECT VALUE [c.s] FROM c ORDER BY c.s) AS d`,
		`SELECT MAX(c.s) AS m, c.n FROM c GROUP BY c.n`,
	} {
		var e *Error
		if err := runBounded(t, text, documents, maxWork); !errors.As(err, &e) || !strings.Contains(e.Message, "more than 134217728 bytes of results in memory") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if n, err := answersTo(`SELECT * FROM c ORDER BY c.s`, documents[:100], maxWork); err != nil || n != 100 {
		t.Errorf("%d documents in order, %v", n, err)
	}
}

// TestManyRowsOfOneDocument has rows that together make far more than one row may.
func TestManyRowsOfOneDocument(t *testing.T) {
	document := fmt.Sprintf(`{"s":%q,"a":[%s1]}`, strings.Repeat("x", 28_000), strings.Repeat("1,", 2_499))
	for _, text := range []string{
		`SELECT VALUE COUNT(1) FROM c JOIN a IN c.a WHERE LENGTH(UPPER(c.s)) > a`,
		`SELECT VALUE COUNT(1) FROM c JOIN (SELECT VALUE CONCAT(c.s, "x") FROM a IN c.a) AS b WHERE IS_STRING(b)`,
		`SELECT VALUE n FROM c JOIN (SELECT VALUE COUNT(1) FROM a IN c.a WHERE (SELECT VALUE CONCAT(c.s, "x")) != a) AS n`,
		`SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE [LENGTH(c.s), EXISTS(SELECT DISTINCT VALUE c.s FROM x IN c.a)] FROM a IN c.a)) FROM c`,
	} {
		if got, err := query(text, []string{document}); err != nil || len(got) != 1 || got[0] != "2500" {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// TestRunEndsWithItsContext ends the context while a query reads documents, joins,
// sorts or groups without an end.
func TestRunEndsWithItsContext(t *testing.T) {
	gone := errors.New("the client went away")
	for _, text := range []string{
		`SELECT * FROM c WHERE c.none`,
		`SELECT VALUE COUNT(1) FROM c`,
		`SELECT VALUE c.id FROM c ORDER BY c.id`,
		`SELECT DISTINCT VALUE c.id FROM c`,
		`SELECT c.id, COUNT(1) AS n FROM c GROUP BY c.id`,
		`SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a WHERE a != b`,
		`SELECT VALUE COUNT(1) FROM (SELECT VALUE c.a FROM c) AS d`,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		read := 0
		endless := func(yield func([]byte) bool) {
			for yield([]byte(`{"id":"1","a":[1,2,3,4,5,6,7,8]}`)) {
				if read++; read == 1000 {
					cancel(gone)
				}
				if read == 100_000 {
					t.Fatalf("%s reads on", text)
				}
			}
		}
		env := testEnv
		env.Context = ctx
		if _, err := q.Run(endless, nil, env); !errors.Is(err, gone) {
			t.Errorf("%s: %v, want the cause of the context", text, err)
		}
	}
}

func TestDeepParametersAreRefused(t *testing.T) {
	q, err := Parse(`SELECT VALUE @p`)
	if err != nil {
		t.Fatal(err)
	}
	for depth, ok := range map[int]bool{maxNesting: true, maxNesting + 1: false, 9000: false} {
		parameters := map[string]json.RawMessage{"@p": json.RawMessage(nested(depth, "[", "", "]"))}
		if _, err := q.Run(sequence(nil), parameters, testEnv); (err == nil) != ok {
			t.Errorf("parameter of %d levels: %v", depth, err)
		}
	}
	checkExpression(t, `StringToArray(`+quoted(nested(129, "[", "", "]"))+`)`, ``)
	checkExpression(t, `StringToArray(`+quoted(nested(128, "[", "", "]"))+`)`, nested(128, "[", "", "]"))
}

// TestLongQueriesParseQuickly has constructs whose checks once took time quadratic in
// the length of the query.
func TestLongQueriesParseQuickly(t *testing.T) {
	var parameters, properties strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&parameters, "@p%d,", i)
		fmt.Fprintf(&properties, "p%d:1,", i)
	}
	for name, text := range map[string]string{
		"parameters": `SELECT VALUE [` + parameters.String() + `1]`,
		"properties": `SELECT VALUE {` + properties.String() + `p:1}`,
		"grouped":    `SELECT VALUE ` + strings.Repeat(`1+`, 20_000) + `1 FROM c GROUP BY c.a`,
	} {
		began := time.Now()
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

// FuzzCost wants every query of up to 4 KB to end soon and in little memory.
func FuzzCost(f *testing.F) {
	for _, text := range costlyQueries {
		if len(text) < 100 { // the others are tests of their own
			f.Add(text)
		}
	}
	large := largeDocument()
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		var e *Error
		if err := runBounded(t, text, []string{large, large}, testWork); err != nil && !errors.As(err, &e) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
