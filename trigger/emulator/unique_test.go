package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

const uniqueContainer = `{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/email"]},{"paths":["/name/first","/name/last"]}]}}`

func newUniqueItems(t *testing.T, opts *Options) (*client, *Account) {
	t.Helper()
	c, a := newClient(t, opts)
	c.expect("201", "POST", "/dbs", `{"id":"db"}`)
	c.expect("201", "POST", "/dbs/db/colls", uniqueContainer)
	return c, a
}

func person(id, email, first, last string) string {
	return fmt.Sprintf(`{"id":%q,"pk":"k","email":%s,"name":{"first":%s,"last":%s}}`, id, email, first, last)
}

func TestUniqueKeys(t *testing.T) {
	c, _ := newUniqueItems(t, nil)
	c.expect("201", "POST", items, person("ada", `"a@x"`, `"Ada"`, `"L"`), pk("k")...)
	c.expect("201", "POST", items, person("one", `1`, `"B"`, `"L"`), pk("k")...)
	c.expect("201", "POST", items, `{"id":"none","pk":"k"}`, pk("k")...)
	upsert := with(pk("k"), "x-ms-documentdb-is-upsert", "True")
	for _, step := range []struct{ name, want, method, path, body string }{
		{"same email", "409", "POST", "", person("bob", `"a@x"`, `"Bob"`, `"M"`)},
		{"same first and last name", "409", "POST", "", person("bob", `"b@x"`, `"Ada"`, `"L"`)},
		{"same last name only", "201", "POST", "", person("bob", `"b@x"`, `"Bob"`, `"L"`)},
		{"an equal number", "409", "POST", "", person("other", `1.0`, `"C"`, `"L"`)},
		{"a number and a string", "201", "POST", "", person("text", `"1"`, `"C"`, `"L"`)},
		{"missing is null", "409", "POST", "", person("null", `null`, `"D"`, `"L"`)},
		{"missing in another item", "409", "POST", "", `{"id":"missing","pk":"k","email":"m@x"}`},
		{"replace takes another's value", "409", "PUT", "/bob", person("bob", `"a@x"`, `"Bob"`, `"L"`)},
		{"replace keeps its own values", "200", "PUT", "/bob", person("bob", `"b@x"`, `"Bob"`, `"L"`)},
		{"patch takes another's value", "409", "PATCH", "/bob", `{"operations":[{"op":"set","path":"/email","value":"a@x"}]}`},
		{"patch frees a value", "200", "PATCH", "/ada", `{"operations":[{"op":"set","path":"/email","value":"ada@x"}]}`},
		{"the value is free", "200", "PATCH", "/bob", `{"operations":[{"op":"set","path":"/email","value":"a@x"}]}`},
		{"delete frees a value", "204", "DELETE", "/bob", ""},
		{"the value is free again", "201", "POST", "", person("eve", `"a@x"`, `"Eve"`, `"L"`)},
	} {
		c.t = t
		if got := c.send(step.method, items+step.path, step.body, pk("k")...); fmt.Sprint(got.status) != step.want {
			t.Errorf("%s: %d %s", step.name, got.status, got.body)
		}
	}
	c.expect("409", "POST", items, person("new", `"a@x"`, `"N"`, `"L"`), upsert...)
	c.expect("200", "POST", items, person("eve", `"a@x"`, `"Eve"`, `"M"`), upsert...)
	c.expect("201", "POST", items, `{"id":"eve","pk":"other","email":"a@x"}`, pk("other")...)
	changed := `{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[]}}`
	c.expect("403", "PUT", "/dbs/db/colls/c", changed)
	c.expect("200", "PUT", "/dbs/db/colls/c", uniqueContainer)
}

func TestUniqueKeysInBatches(t *testing.T) {
	c, _ := newUniqueItems(t, nil)
	c.expect("201", "POST", items, person("a", `"a"`, `"A"`, `"L"`), pk("k")...)
	batch := func(operations ...string) []int {
		body := "["
		for i, o := range operations {
			if i > 0 {
				body += ","
			}
			body += o
		}
		statuses, _ := c.batch("207", body+"]")
		return statuses
	}
	put := func(kind, id, email string) string {
		return fmt.Sprintf(`{"operationType":%q,"id":%q,"resourceBody":%s}`, kind, id, person(id, `"`+email+`"`, `"`+id+`"`, `"L"`))
	}
	if got := batch(put("Create", "b", "b"), put("Create", "c", "b")); !slices.Equal(got, []int{424, 409}) {
		t.Errorf("two of one batch: %v", got)
	}
	if got := batch(put("Create", "b", "b"), put("Upsert", "c", "a")); !slices.Equal(got, []int{424, 409}) {
		t.Errorf("one of an earlier request: %v", got)
	}
	swap := "[" + put("Replace", "a", "new") + "," + put("Create", "b", "a") + `,{"operationType":"Delete","id":"a"},` + put("Create", "c", "new") + "]"
	if statuses, _ := c.batch("200", swap); !slices.Equal(statuses, []int{200, 201, 204, 201}) {
		t.Errorf("values that the batch frees: %v", statuses)
	}
	c.expect("409", "POST", items, person("d", `"new"`, `"D"`, `"L"`), pk("k")...)
	c.expect("201", "POST", items, person("d", `"d"`, `"A"`, `"L"`), pk("k")...)
}

func TestUniqueKeysSurviveSplitMergeAndRestart(t *testing.T) {
	opts := &Options{Data: t.TempDir()}
	c, a := newUniqueItems(t, opts)
	c.expect("201", "POST", items, person("a", `"a"`, `"A"`, `"L"`), pk("k")...)
	children, err := a.Split("db", "c", "0")
	if err != nil {
		t.Fatal(err)
	}
	c.expect("409", "POST", items, person("b", `"a"`, `"B"`, `"L"`), pk("k")...)
	if _, err := a.Merge("db", "c", children[0], children[1]); err != nil {
		t.Fatal(err)
	}
	c.expect("409", "POST", items, person("b", `"a"`, `"B"`, `"L"`), pk("k")...)
	c, _ = reopen(t, a, opts)
	if got := c.send(http.MethodPost, items, person("b", `"b"`, `"A"`, `"L"`), pk("k")...); got.status != http.StatusConflict {
		t.Errorf("after a restart: %d %s", got.status, got.body)
	}
	c.expect("204", "DELETE", items+"/a", "", pk("k")...)
	c.expect("201", "POST", items, person("b", `"a"`, `"A"`, `"L"`), pk("k")...)
}
