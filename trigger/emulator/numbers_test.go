package emulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// storedForms are values of documents as they are sent, as reads and the feed give them,
// and as a projection does: recorded answers of a hosted account, October 2026, and their
// neighbours.
var storedForms = []struct{ sent, read, projected string }{
	{`1.0`, `1`, `1`},
	{`-0.0`, `0`, `0`},
	{`1e-400`, `0`, `0`},
	{`18446744073709551615`, `18446744073709551615`, `1.8446744073709552e+19`},
	{`18446744073709551616`, `1.8446744073709552e+019`, `1.8446744073709552e+19`},
	{`1e300`, `1e+300`, `1e+300`},
	{`9007199254740993`, `9007199254740993`, `9007199254740993`},
	{`0.1000000000000000055511151231257827`, `0.1`, `0.1`},
	{`0.333333333333333333`, `0.33333333333333331`, `0.33333333333333331`},
	{`[1.0,{"n":2.50}]`, `[1,{"n":2.5}]`, `[1,{"n":2.5}]`},
	{`"a\u0000b"`, `"a\u0000b"`, `"a\u0000b"`},
	{`"\ud800x"`, `"` + "\uFFFD" + `x"`, `"` + "\uFFFD" + `x"`},
}

func TestNumbersOfDocuments(t *testing.T) {
	for i, tt := range storedForms {
		t.Run(tt.sent, func(t *testing.T) {
			c, _ := newItems(t, 1, nil)
			document := func(value string) string { return fmt.Sprintf(`{"id":"a","pk":"k","v":%s`, value) }
			switch sent := document(tt.sent) + "}"; i % 3 {
			case 0:
				c.expect("201", "POST", items, sent, pk("k")...)
			case 1:
				c.batch("200", `[{"operationType":"Upsert","resourceBody":`+sent+`}]`)
			case 2:
				c.create("a", "k")
				c.expect("200", "PATCH", items+"/a", `[{"op":"set","path":"/v","value":`+tt.sent+`}]`, pk("k")...)
			}
			value := func(body []byte) string {
				var d struct{ V json.RawMessage }
				if err := json.Unmarshal(body, &d); err != nil {
					t.Fatal(err)
				}
				return string(d.V)
			}
			if got := value([]byte(c.expect("200", "GET", items+"/a", "", pk("k")...).body)); got != tt.read {
				t.Errorf("a read gives %s, want %s", got, tt.read)
			}
			var feed struct{ Documents []json.RawMessage }
			if err := json.Unmarshal([]byte(c.feed("200").body), &feed); err != nil || value(feed.Documents[0]) != tt.read {
				t.Errorf("the feed gives %s, %v, want %s", feed.Documents, err, tt.read)
			}
			if got := c.query(ask("SELECT * FROM c"))[0][0]; value([]byte(got)) != tt.read {
				t.Errorf("SELECT * gives %s, want %s", got, tt.read)
			}
			if got := c.query(ask("SELECT c.v FROM c"))[0][0]; value([]byte(got)) != tt.projected {
				t.Errorf("a projection gives %s, want %s", got, tt.projected)
			}
			if got := c.query(ask("SELECT VALUE c.v FROM c"))[0][0]; got != tt.projected {
				t.Errorf("SELECT VALUE gives %s, want %s", got, tt.projected)
			}
		})
	}
}

func TestNumbersThatAreNotStored(t *testing.T) {
	c, _ := newItems(t, 1, nil)
	c.create("a", "k")
	for _, value := range []string{`1e400`, `-1e400`, `[{"x":1e309}]`, `NaN`, `Infinity`, `01`, `+1`} {
		a := c.expect("400/", "POST", items, `{"id":"b","pk":"k","v":`+value+`}`, pk("k")...)
		if !strings.Contains(a.body, "The request payload is invalid. Ensure to provide a valid request payload.") {
			t.Errorf("%s: %s", value, a.body)
		}
	}
	if statuses, _ := c.batch("207", `[{"operationType":"Create","resourceBody":{"id":"b","pk":"k","v":1e400}}]`); !slices.Equal(statuses, []int{400}) {
		t.Errorf("a batch answers %v", statuses)
	}
	c.expect("400/", "PATCH", items+"/a", `[{"op":"set","path":"/v","value":1e400}]`, pk("k")...)
}

// TestKeysOfNumbers: all forms of a number are one partition key and one value of filters.
func TestKeysOfNumbers(t *testing.T) {
	c, _ := newItems(t, 4, nil)
	for sent, same := range map[string][]string{
		`1.0`: {`1`, `1e0`}, `-0.0`: {`0`, `-0`}, `36893488147419103232`: {`3.6893488147419103e19`, `3.6893488147419103e+019`}, `"\ud800"`: {`"\ufffd"`},
	} {
		d := c.expect("201", "POST", items, `{"id":"a","pk":`+sent+`}`, "x-ms-documentdb-partitionkey", "["+same[0]+"]")
		for _, form := range append(same, sent) {
			if got := c.expect("200", "GET", items+"/a", "", "x-ms-documentdb-partitionkey", "["+form+"]").body; got != d.body {
				t.Errorf("the key %s finds %s", form, got)
			}
			body := `{"query":"SELECT VALUE c.id FROM c WHERE c.pk = @p","parameters":[{"name":"@p","value":` + form + `}]}`
			if got := ofValues(c.query(body)); !slices.Equal(got, []string{"a"}) {
				t.Errorf("the filter %s finds %v", form, got)
			}
		}
	}
}

// TestNumbersOfQueries: numbers that a query makes or that its text has are written as
// those of projections.
func TestNumbersOfQueries(t *testing.T) {
	c := twenty(t, 1)
	for query, want := range map[string]string{
		"SELECT VALUE 1/3":                         `0.33333333333333331`,
		"SELECT VALUE 1.0":                         `1`,
		"SELECT VALUE 1e3":                         `1000`,
		"SELECT VALUE .5":                          `0.5`,
		"SELECT VALUE 0x1F":                        `31`,
		"SELECT VALUE 9007199254740993":            `9007199254740993`,
		"SELECT VALUE 9007199254740992 + 1":        `9007199254740992`,
		"SELECT VALUE 18446744073709551615":        `1.8446744073709552e+19`,
		"SELECT VALUE 18446744073709551615 + 1":    `1.8446744073709552e+19`,
		"SELECT VALUE [18446744073709551616, 2.0]": `[1.8446744073709552e+19,2]`,
		"SELECT VALUE c.n / 3 FROM c WHERE c.n=1":  `0.33333333333333331`,
		`SELECT VALUE {"a": 1.50}`:                 `{"a":1.5}`,
	} {
		if got := c.query(ask(query)); len(got[0]) != 1 || got[0][0] != want {
			t.Errorf("%s gives %s, want %s", query, got, want)
		}
	}
}
