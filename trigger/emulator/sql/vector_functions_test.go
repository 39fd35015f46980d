package sql

import "testing"

// vectorCalls are calls of the functions in vector_functions.go.
var vectorCalls = []expressionCase{
	{`VectorDistance([1, 0], [0, 1])`, `0`},
	{`VectorDistance([3, 4], [6, 8])`, `1`},
	{`VectorDistance([1, 2], [3, 4], true)`, `0.98386991009990743`},
	{`VectorDistance([1, 2], [3, 4], false, {"distanceFunction": "dotproduct", "dataType": "float32"})`, `11`},
	{`VectorDistance([0, 0], [3, 4], true, {"distanceFunction": "Euclidean"})`, `5`},
	{`VectorDistance(c.o.deep.k, [10, 20, 30], true, {"distanceFunction": "euclidean"})`, `0`},
	{`VectorDistance([0, 0], [3, 4])`, ``},
	{`VectorDistance([1], [3, 4])`, ``},
	{`VectorDistance([[1]], [[3]])`, ``},
	{`VectorDistance([], [])`, ``},
	{`VectorDistance("ab", [1, 2])`, ``},
}

func TestVectorFunctions(t *testing.T) { checkExpressions(t, vectorCalls) }

var vectors = []string{
	`{"id":"far","v":[10,0],"w":[10,0]}`, `{"id":"near","v":[1,1],"w":[1,1]}`, `{"id":"mid","v":[4,3],"w":[4,3]}`, `{"id":"none"}`,
}

func TestVectorsAreOrderedFromTheMostSimilar(t *testing.T) {
	c := Container{Vectors: []Vector{{[]string{"v"}, "euclidean"}, {[]string{"w"}, "dotproduct"}}}
	for text, want := range map[string]string{
		`SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1, 1])`:                                             `["near" "mid" "far"]`,
		`SELECT VALUE c.id FROM c ORDER BY VectorDistance([1, 1], c.w)`:                                             `["far" "mid" "near"]`,
		`SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1, 0.1], true, {"distanceFunction": "cosine"})`:     `["far" "mid" "near"]`,
		`SELECT TOP 1 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1, 1]) DESC`:                                  `["far"]`,
		`SELECT VALUE c.id FROM c ORDER BY VectorDistance(c["v"], [1, 1], true, {"distanceFunction": "euclidean"})`: `["near" "mid" "far"]`,
	} {
		q, err := c.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		reparsed, err := c.Parse(q.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []*Query{q, reparsed} {
			if got, err := q.Run(sequence(vectors), nil, testEnv); listed(got) != want || err != nil {
				t.Errorf("%s: %s, %v; want %s", q, listed(got), err, want)
			}
		}
		if p, err := q.Plan(nil); err != nil || !p.NonStreaming {
			t.Errorf("the plan of %s streams: %v", text, err)
		}
	}
}
