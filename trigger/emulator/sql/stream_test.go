package sql

import (
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
		rest := documents
		if q.Properties().Streams {
			rest = documents[min(from.Document, len(documents)):]
		}
		page := 0
		for r, err := range q.Stream(sequence(rest), nil, testEnv, from) {
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
	}
}

func TestPagesAreTheWhole(t *testing.T) {
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

// TestStreamReadsNoFurther counts the documents that a page takes.
func TestStreamReadsNoFurther(t *testing.T) {
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
