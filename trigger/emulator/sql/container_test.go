package sql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func computed(t *testing.T, pairs ...string) Container {
	t.Helper()
	var c Container
	for i := 0; i < len(pairs); i += 2 {
		property, err := ParseComputed(pairs[i], pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		c.Computed = append(c.Computed, property)
	}
	return c
}

func listed(results []json.RawMessage) string { return fmt.Sprintf("%s", results) }

func TestComputedProperties(t *testing.T) {
	c := computed(t, "cp_lower", "SELECT VALUE LOWER(r.name) FROM root r", "cp_list", "SELECT VALUE [c.n, c.n * 2] FROM c", "n2", "SELECT VALUE c.n + c.n2 FROM c")
	documents := []string{`{"name":"BO","n":2,"n2":1}`, `{"name":"Al","n":1,"n2":5}`, `{"n":3}`}
	for text, want := range map[string]string{
		`SELECT VALUE c.cp_lower FROM c`:                                       `["bo" "al"]`,
		`SELECT VALUE d["cp_lower"] FROM c AS d`:                               `["bo" "al"]`,
		`SELECT c.cp_lower FROM c WHERE c.cp_lower = "al"`:                     `[{"cp_lower":"al"}]`,
		`SELECT VALUE c.n FROM c WHERE NOT IS_DEFINED(c.cp_lower)`:             `[3]`,
		`SELECT VALUE c.cp_lower FROM c ORDER BY c.cp_lower`:                   `["al" "bo"]`,
		`SELECT c.cp_lower, COUNT(1) AS k FROM c GROUP BY c.cp_lower`:          `[{"cp_lower":"bo","k":1} {"cp_lower":"al","k":1} {"k":1}]`,
		`SELECT VALUE MAX(c.cp_list[1]) FROM c`:                                `[6]`,
		`SELECT VALUE v FROM c JOIN v IN c.cp_list WHERE c.n < 3`:              `[2 4 1 2]`,
		`SELECT VALUE v FROM v IN c.cp_list`:                                   `[2 4 1 2 3 6]`,
		`SELECT VALUE (SELECT VALUE c.cp_lower) FROM c`:                        `["bo" "al"]`,
		`SELECT VALUE c.n2 FROM c`:                                             `[3 6]`, // not the stored value
		`SELECT * FROM c WHERE c.n < 3`:                                        `[{"name":"BO","n":2,"n2":1} {"name":"Al","n":1,"n2":5}]`,
		`SELECT VALUE x.cp_lower FROM (SELECT VALUE {"cp_lower": 1} FROM c) x`: `[1 1 1]`,
	} {
		q, err := c.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Run(sequence(documents), nil, testEnv); listed(got) != want || err != nil {
			t.Errorf("%s gives %s, %v; want %s", text, listed(got), err, want)
		}
	}
}

// A computed property takes the place of a stored one, so that its value says nothing
// about the partition key.
func TestComputedPropertyIsNoPartitionKey(t *testing.T) {
	q, err := computed(t, "pk", "SELECT VALUE 1 FROM c").Parse(`SELECT * FROM c WHERE c.pk = 1`)
	if err != nil {
		t.Fatal(err)
	}
	if values, err := q.Requires([][]string{{"pk"}}, nil); len(values) > 0 || err != nil {
		t.Errorf("it requires %s, %v", values, err)
	}
}

func TestComputedPropertiesDependOnTheDocumentOnly(t *testing.T) {
	for text, says := range map[string]string{
		`SELECT c.a FROM c`:                          "SELECT VALUE",
		`SELECT VALUE 1`:                             "SELECT VALUE",
		`SELECT DISTINCT VALUE c.a FROM c`:           "SELECT VALUE",
		`SELECT TOP 1 VALUE c.a FROM c`:              "SELECT VALUE",
		`SELECT VALUE c.a FROM c WHERE c.b`:          "SELECT VALUE",
		`SELECT VALUE c.a FROM c ORDER BY c.a`:       "SELECT VALUE",
		`SELECT VALUE c.a FROM c GROUP BY c.a`:       "SELECT VALUE",
		`SELECT VALUE COUNT(c.a) FROM c`:             "SELECT VALUE",
		`SELECT VALUE c.a FROM c OFFSET 0 LIMIT 1`:   "SELECT VALUE",
		`SELECT VALUE t FROM c JOIN t IN c.t`:        "SELECT VALUE",
		`SELECT VALUE t FROM t IN c.t`:               "SELECT VALUE",
		`SELECT VALUE c.a + @p FROM c`:               "parameters",
		`SELECT VALUE EXISTS(SELECT 1) FROM c`:       "subqueries",
		`SELECT VALUE [1, {"a": (SELECT 1)}] FROM c`: "subqueries",
		`SELECT VALUE 1 + GetCurrentTicks() FROM c`:  "GETCURRENTTICKS",
		`SELECT VALUE ST_ISVALID(c.a) FROM c`:        "ST_ISVALID",
		`SELECT VALUE`:                               "ends too early",
	} {
		if _, err := ParseComputed("p", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v does not say %q", text, err, says)
		}
	}
}

func TestOrderKeepsUndefinedIfTheIndexNamesThePath(t *testing.T) {
	documents := []string{`{"id":1,"a":{"b":2}}`, `{"id":2}`, `{"id":3,"a":{"b":1}}`, `{"id":4,"a":{}}`}
	c := Container{Indexed: [][]string{{"a", "b"}}}
	for text, want := range map[string]string{
		`SELECT VALUE c.id FROM c ORDER BY c.a.b`:             `[2 4 3 1]`,
		`SELECT VALUE c.id FROM c ORDER BY c["a"]["b"] DESC`:  `[1 3 4 2]`,
		`SELECT VALUE c.id FROM c ORDER BY c.a`:               `[3 1 4]`,
		`SELECT VALUE c.id FROM c ORDER BY c.a.b + 0`:         `[3 1]`,
		`SELECT VALUE x.id FROM c.a AS x ORDER BY x.b`:        `[]`,
		`SELECT TOP 3 VALUE c.id FROM c ORDER BY c.a.b, c.id`: `[2 4 3]`,
	} {
		q, err := c.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := q.Run(sequence(documents), nil, testEnv); listed(got) != want || err != nil {
			t.Errorf("%s gives %s, %v; want %s", text, listed(got), err, want)
		}
		if text[7:10] == "TOP" {
			continue
		}
		var paged []json.RawMessage
		for position := (Position{}); ; {
			n := len(paged)
			for r, err := range q.Stream(sequence(documents), nil, testEnv, position) {
				if err != nil {
					t.Fatal(err)
				}
				paged, position = append(paged, r.Value), r.After
				break
			}
			if len(paged) == n {
				break
			}
		}
		if listed(paged) != want {
			t.Errorf("%s gives %s one by one, want %s", text, listed(paged), want)
		}
	}
}
