package sql

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pages runs a query in pages of size results, going on each time from the last
// position of the page before in a new stream.
func pages(t *testing.T, text string, documents []string, size int) []string {
	t.Helper()
	q, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	var from Position
	for {
		remainder := documents
		if q.Properties().Streams {
			remainder = documents[min(from.Document, len(documents)):]
		}
		page := 0
		for r, err := range q.Stream(sequence(remainder), nil, testEnv, from) {
			if err != nil {
				t.Fatal(err)
			}
			all, from, page = append(all, string(r.Value)), r.After, page+1
			if page == size {
				break
			}
		}
		if page < size {
			return all
		}
		if len(all) > 10_000 {
			t.Fatalf("%s in pages of %d does not end", text, size)
		}
	}
}

func TestPagesTogetherEqualTheWholeResult(t *testing.T) {
	var documents []string
	for i := range 23 {
		documents = append(documents, fmt.Sprintf(`{"id":"%d","n":%d,"t":[%s]}`, i, i%5, strings.Trim(strings.Repeat(fmt.Sprint(i)+",", i%4), ",")))
	}
	for _, text := range []string{
		`SELECT * FROM c`,
		`SELECT VALUE c.id FROM c WHERE c.n != 2`,
		`SELECT VALUE [c.id, t] FROM c JOIN t IN c.t`,
		`SELECT VALUE [t, u] FROM c JOIN t IN c.t JOIN u IN c.t WHERE t % 3 != 0`,
		`SELECT TOP 7 VALUE c.id FROM c`,
		`SELECT TOP 7 VALUE t FROM t IN c.t`,
		`SELECT VALUE t FROM t IN c.t OFFSET 5 LIMIT 9`,
		`SELECT VALUE c.id FROM c OFFSET 20 LIMIT 9`,
		`SELECT VALUE c.id FROM c ORDER BY c.n DESC`,
		`SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 3 LIMIT 11`,
		`SELECT VALUE c.id FROM c ORDER BY c.none, c.n`,
		`SELECT VALUE c.id FROM c ORDER BY c.n, c.none DESC`,
		`SELECT DISTINCT VALUE c.n FROM c`,
		`SELECT DISTINCT TOP 3 VALUE c.n FROM c`,
		`SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n`,
		`SELECT VALUE COUNT(1) FROM c`,
		`SELECT VALUE d FROM (SELECT DISTINCT VALUE c.n FROM c) AS d`,
		`SELECT VALUE c.id FROM c WHERE false`,
		`SELECT 1`,
	} {
		want, err := query(text, documents)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, size := range []int{1, 2, 3, 10, 100} {
			if got := pages(t, text, documents, size); !slices.Equal(got, want) {
				t.Errorf("%s in pages of %d\ngot  %s\nwant %s", text, size, got, want)
			}
		}
	}
}

// TestStreamReadsOnlyTheDocumentsItNeeds counts the documents that a page takes.
func TestStreamReadsOnlyTheDocumentsItNeeds(t *testing.T) {
	for text, want := range map[string]int{
		`SELECT * FROM c`:                      2,
		`SELECT TOP 1 * FROM c`:                1,
		`SELECT TOP 0 * FROM c`:                0,
		`SELECT * FROM c OFFSET 3 LIMIT 5`:     5,
		`SELECT * FROM c WHERE c.n > 5`:        8,
		`SELECT VALUE x FROM x IN c.xs`:        1,
		`SELECT DISTINCT VALUE c.n % 2 FROM c`: 2,
		`SELECT 1`:                             0,
		`SELECT VALUE c.n FROM c ORDER BY c.n`: 100,
	} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		read, results := 0, 0
		documents := func(yield func([]byte) bool) {
			for i := range 100 {
				read++
				if !yield(fmt.Appendf(nil, `{"n":%d,"xs":[1,2,3]}`, i)) {
					return
				}
			}
		}
		for _, err := range q.Stream(documents, nil, testEnv, Position{}) {
			if err != nil {
				t.Fatal(err)
			}
			if results++; results == 2 {
				break
			}
		}
		if read != want {
			t.Errorf("%s took %d documents for 2 results, want %d", text, read, want)
		}
	}
}

// TestPositions checks the position after each result, which is a client's
// continuation once it is encoded as JSON.
func TestPositions(t *testing.T) {
	documents := []string{
		`{"id":"a","n":2,"t":[1,2]}`,
		`{"id":"b","n":1,"t":[]}`,
		`{"id":"c","t":[3]}`,
		`{"id":"d","n":2,"t":[4,5]}`,
	}
	for query, want := range map[string][]string{
		`SELECT VALUE c.id FROM c`:                      {`"a" {"v":1,"n":1}`, `"b" {"d":1,"v":1,"n":2}`, `"c" {"d":2,"v":1,"n":3}`, `"d" {"d":3,"v":1,"n":4}`},
		`SELECT VALUE c.id FROM c WHERE c.n = 2`:        {`"a" {"v":1,"n":1}`, `"d" {"d":3,"v":1,"n":2}`},
		`SELECT VALUE t FROM t IN c.t`:                  {`1 {"v":1,"n":1}`, `2 {"v":2,"n":2}`, `3 {"d":2,"v":1,"n":3}`, `4 {"d":3,"v":1,"n":4}`, `5 {"d":3,"v":2,"n":5}`},
		`SELECT VALUE t FROM t IN c.t OFFSET 1 LIMIT 2`: {`2 {"v":2,"n":2}`, `3 {"d":2,"v":1,"n":3}`},
		`SELECT TOP 1 VALUE c.id FROM c`:                {`"a" {"v":1,"n":1}`},
		`SELECT VALUE c.id FROM c ORDER BY c.n`:         {`"b" {"d":1,"n":1,"k":[[1]]}`, `"a" {"n":2,"k":[[2]]}`, `"d" {"d":3,"n":3,"k":[[2]]}`},
		`SELECT VALUE c.id FROM c ORDER BY c.n DESC`:    {`"d" {"d":3,"n":1,"k":[[2]]}`, `"a" {"n":2,"k":[[2]]}`, `"b" {"d":1,"n":3,"k":[[1]]}`},
		`SELECT VALUE c.id FROM c ORDER BY c.n, c.id`:   {`"c" {"d":2,"n":1,"k":[[],["c"]]}`, `"b" {"d":1,"n":2,"k":[[1],["b"]]}`, `"a" {"n":3,"k":[[2],["a"]]}`, `"d" {"d":3,"n":4,"k":[[2],["d"]]}`},
		`SELECT VALUE t FROM t IN c.t ORDER BY t DESC`:  {`5 {"d":3,"v":1,"n":1,"k":[[5]]}`, `4 {"d":3,"n":2,"k":[[4]]}`, `3 {"d":2,"n":3,"k":[[3]]}`, `2 {"v":1,"n":4,"k":[[2]]}`, `1 {"n":5,"k":[[1]]}`},
		`SELECT DISTINCT VALUE c.n FROM c`:              {`2 {"n":1}`, `1 {"n":2}`},
		`SELECT VALUE COUNT(1) FROM c`:                  {`4 {"n":1}`},
		`SELECT c.n FROM c GROUP BY c.n`:                {`{"n":2} {"n":1}`, `{"n":1} {"n":2}`, `{} {"n":3}`},
	} {
		var got []string
		for r, err := range mustParse(t, query).Stream(sequence(documents), nil, testEnv, Position{}) {
			if err != nil {
				t.Fatal(err)
			}
			position, err := json.Marshal(r.After)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %s", r.Value, position))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s\ngot  %s\nwant %s", query, got, want)
		}
	}
}

// TestOrderedStreamResumesAfterItsDocumentIsGone deletes the document of the last
// result before the next page is read: no result is skipped or repeated.
func TestOrderedStreamResumesAfterItsDocumentIsGone(t *testing.T) {
	oldDocuments := []string{`{"id":"a","n":1}`, `{"id":"b","n":1}`, `{"id":"c","n":1}`, `{"id":"d","n":2}`}
	for _, c := range []struct {
		query string
		gone  int
		want  []string
	}{
		{`SELECT VALUE c.id FROM c ORDER BY c.n`, 1, []string{`"c"`, `"d"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.n`, 2, []string{`"d"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.n`, 3, nil},
		{`SELECT VALUE c.id FROM c ORDER BY c.n DESC`, 2, []string{`"b"`, `"a"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.n DESC`, 0, nil},
		{`SELECT VALUE c.id FROM c ORDER BY c.n, c.id`, 1, []string{`"c"`, `"d"`}},
		{`SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 1 LIMIT 2`, 1, []string{`"c"`}},
	} {
		q := mustParse(t, c.query)
		var from Position
		for r, err := range q.Stream(sequence(oldDocuments), nil, testEnv, Position{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.After.Document == c.gone {
				from = r.After
				break
			}
		}
		from.Value = -1 // the first document after one that is gone
		newDocuments := slices.Delete(slices.Clone(oldDocuments), c.gone, c.gone+1)
		var got []string
		for r, err := range q.Stream(sequence(newDocuments), nil, testEnv, from) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(r.Value))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s without document %d continues with %s, want %s", c.query, c.gone, got, c.want)
		}
	}
}

func TestStreamRefusesAPositionOfAnotherQuery(t *testing.T) {
	q := mustParse(t, `SELECT VALUE c.id FROM c ORDER BY c.name`)
	for _, keys := range []string{`[]`, `[[1],[2]]`, `{}`, `1`, `[`, `null`} {
		var failed error
		for _, err := range q.Stream(sequence(people), nil, testEnv, Position{Keys: json.RawMessage(keys)}) {
			failed = err
		}
		if failed == nil || failed.Error() != "The position is not one of this query." {
			t.Errorf("a position with the keys %s: error %v", keys, failed)
		}
	}
}

func TestStreamAfterTheEnd(t *testing.T) {
	q, err := Parse(`SELECT TOP 2 * FROM c`)
	if err != nil {
		t.Fatal(err)
	}
	for r := range q.Stream(sequence(people), nil, testEnv, Position{Document: 1, Value: 1, Count: 2}) {
		t.Errorf("a result after TOP was reached: %s", r.Value)
	}
}

// TestConcurrentRuns shares one query between goroutines; the race detector
// watches.
func TestConcurrentRuns(t *testing.T) {
	q, err := Parse(`SELECT c.city, COUNT(1) AS n FROM c WHERE c.name LIKE "%" AND EXISTS(SELECT VALUE t FROM t IN c.tags) GROUP BY c.city`)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	for range 8 {
		go func() {
			results, err := q.Run(sequence(people), nil, testEnv)
			done <- fmt.Sprintf("%s %v", results, err)
		}()
	}
	for range 8 {
		if got, want := <-done, `[{"city":"Oslo","n":2}] <nil>`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func BenchmarkLeaseQuery(b *testing.B) {
	var leases []string
	for i := range 1000 {
		leases = append(leases, fmt.Sprintf(`{"_rid":"x","LeaseToken":"%d","Owner":"host","properties":{},"timestamp":"2026-11-20T06:07:08Z","id":"p_acct_db_c..%d"}`, i, i))
	}
	q, err := Parse(`SELECT * FROM c WHERE STARTSWITH(c.id, "p_acct_db_c..99")`)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if results, err := q.Run(sequence(leases), nil, testEnv); err != nil || len(results) != 11 {
			b.Fatal(len(results), err)
		}
	}
}
