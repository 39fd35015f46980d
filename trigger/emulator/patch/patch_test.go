package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"
)

const document = `{"id":"1","pk":"a","n":1.50,"big":9007199254740993,"o":{"x":1,"deep":{"y":null}},"list":[1,2,3],"s":"t","a/b":1,"m~n":2,"_etag":"e"}`

// apply runs one request on document, whose partition key is /pk.
func apply(t *testing.T, body string) (string, error) {
	t.Helper()
	r, err := Parse([]byte(body))
	if err != nil {
		return "", err
	}
	got, err := r.Apply([]byte(document), []string{"pk"})
	return string(got), err
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, operations string
		old, new         string // the part of document that changes
	}{
		{"add a property", `[{"op":"add","path":"/new","value":{"k":[1.0]}}]`, `"_etag":"e"`, `"_etag":"e","new":{"k":[1.0]}`},
		{"add over a property", `[{"op":"add","path":"/s","value":"u"}]`, `"s":"t"`, `"s":"u"`},
		{"add into an array", `[{"op":"add","path":"/list/1","value":9}]`, `[1,2,3]`, `[1,9,2,3]`},
		{"add at an array's length", `[{"op":"add","path":"/list/3","value":9}]`, `[1,2,3]`, `[1,2,3,9]`},
		{"add at the end", `[{"op":"add","path":"/list/-","value":9}]`, `[1,2,3]`, `[1,2,3,9]`},
		{"add null", `[{"op":"add","path":"/s","value":null}]`, `"s":"t"`, `"s":null`},
		{"set a property", `[{"op":"set","path":"/o/x","value":2}]`, `"x":1`, `"x":2`},
		{"set a new property", `[{"op":"set","path":"/o/z","value":2}]`, `"deep":{"y":null}}`, `"deep":{"y":null},"z":2}`},
		{"set an element", `[{"op":"set","path":"/list/0","value":9}]`, `[1,2,3]`, `[9,2,3]`},
		{"set at the end", `[{"op":"set","path":"/list/-","value":9}]`, `[1,2,3]`, `[1,2,3,9]`},
		{"replace", `[{"op":"replace","path":"/o/deep/y","value":[]}]`, `"y":null`, `"y":[]`},
		{"replace an element", `[{"op":"replace","path":"/list/2","value":9}]`, `[1,2,3]`, `[1,2,9]`},
		{"remove", `[{"op":"remove","path":"/o/x"}]`, `"x":1,`, ``},
		{"remove an element", `[{"op":"remove","path":"/list/0"}]`, `[1,2,3]`, `[2,3]`},
		{"increment", `[{"op":"incr","path":"/o/x","value":41}]`, `"x":1`, `"x":42`},
		{"increment by its long name", `[{"op":"increment","path":"/o/x","value":-2}]`, `"x":1`, `"x":-1`},
		{"increment a fraction", `[{"op":"incr","path":"/n","value":0.25}]`, `1.50`, `1.75`},
		{"increment beyond 2^53", `[{"op":"incr","path":"/big","value":1}]`, `9007199254740993`, `9007199254740994`},
		{"increment beyond int64", `[{"op":"incr","path":"/big","value":9223372036854775807}]`, `9007199254740993`, `9232379236109517000`},
		{"increment what is not there", `[{"op":"incr","path":"/o/z","value":1.0}]`, `"deep":{"y":null}}`, `"deep":{"y":null},"z":1.0}`},
		{"increment an element", `[{"op":"incr","path":"/list/1","value":1}]`, `[1,2,3]`, `[1,3,3]`},
		{"move", `[{"op":"move","from":"/o/x","path":"/x"}]`, `{"x":1,"deep":{"y":null}},"list":[1,2,3],"s":"t","a/b":1,"m~n":2,"_etag":"e"`,
			`{"deep":{"y":null}},"list":[1,2,3],"s":"t","a/b":1,"m~n":2,"_etag":"e","x":1`},
		{"move in an array", `[{"op":"move","from":"/list/2","path":"/list/0"}]`, `[1,2,3]`, `[3,1,2]`},
		{"move over a property", `[{"op":"move","from":"/n","path":"/s"}]`, `"n":1.50,`, ``},
		{"slash in a name", `[{"op":"set","path":"/a~1b","value":5}]`, `"a/b":1`, `"a/b":5`},
		{"tilde in a name", `[{"op":"set","path":"/m~0n","value":5}]`, `"m~n":2`, `"m~n":5`},
		{"several in order", `[{"op":"add","path":"/o/l","value":[]},{"op":"add","path":"/o/l/-","value":1},{"op":"incr","path":"/o/l/0","value":1}]`,
			`"deep":{"y":null}}`, `"deep":{"y":null},"l":[2]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Replace(document, c.old, c.new, 1)
			if c.name == "move over a property" {
				want = strings.Replace(want, `"s":"t"`, `"s":1.50`, 1)
			}
			got, err := apply(t, c.operations)
			if err != nil || got != want {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
		})
	}
}

func TestApplyErrors(t *testing.T) {
	for _, c := range []struct{ operations, want string }{
		{`[{"op":"set","path":"/id","value":"2"}]`, "system properties cannot be patched"},
		{`[{"op":"remove","path":"/_etag"}]`, "system properties cannot be patched"},
		{`[{"op":"set","path":"/_ts/x","value":1}]`, "system properties cannot be patched"},
		{`[{"op":"set","path":"/pk","value":"b"}]`, "partition key /pk cannot be patched"},
		{`[{"op":"set","path":"/pk/deeper","value":"b"}]`, "partition key /pk cannot be patched"},
		{`[{"op":"move","from":"/pk","path":"/x"}]`, "from: the partition key /pk"},
		{`[{"op":"move","from":"/s","path":"/id"}]`, "system properties cannot be patched"},
		{`[{"op":"replace","path":"/none","value":1}]`, "nothing to replace"},
		{`[{"op":"replace","path":"/list/3","value":1}]`, "nothing to replace"},
		{`[{"op":"remove","path":"/none"}]`, "nothing to remove"},
		{`[{"op":"remove","path":"/list/-1"}]`, "nothing to remove"},
		{`[{"op":"remove","path":"/list/01"}]`, "nothing to remove"},
		{`[{"op":"add","path":"/none/x","value":1}]`, `no path found beyond "/none"`},
		{`[{"op":"add","path":"/s/x","value":1}]`, `"/s" is neither an object nor an array`},
		{`[{"op":"add","path":"/list/4","value":1}]`, `"4" is not an index of an array of 3 elements`},
		{`[{"op":"set","path":"/list/x","value":1}]`, `"x" is not an index`},
		{`[{"op":"incr","path":"/s","value":1}]`, "not a number"},
		{`[{"op":"incr","path":"/o","value":1}]`, "not a number"},
		{`[{"op":"set","path":"/n","value":1.7e308},{"op":"incr","path":"/n","value":1.7e308}]`, "outside the range"},
		{`[{"op":"move","from":"/none","path":"/x"}]`, `from "/none": there is nothing to remove`},
		{`[{"op":"move","from":"/o","path":"/o/x"}]`, `inside from "/o"`},
		{`[{"op":"set","path":"/n","value":1},{"op":"remove","path":"/none"}]`, `For remove Operation(2) on path "/none"`},
	} {
		got, err := apply(t, c.operations)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %s, error %v, want one with %q", c.operations, got, err, c.want)
		}
	}
}

func TestApplyProtectsObjectsAroundTheKey(t *testing.T) {
	r, err := Parse([]byte(`[{"op":"set","path":"/o","value":{}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply([]byte(document), []string{"o", "x"}); err == nil || !strings.Contains(err.Error(), "/o/x cannot be patched") {
		t.Errorf("error %v, want one that names /o/x", err)
	}
}

func TestApplyLeavesTheDocumentAlone(t *testing.T) {
	original := []byte(document)
	r, err := Parse([]byte(`[{"op":"set","path":"/list/0","value":9},{"op":"remove","path":"/o/x"}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(original); err != nil || string(original) != document {
		t.Errorf("error %v, document now %s", err, original)
	}
}

func TestApplyKeepsTheTextOfOthers(t *testing.T) {
	const odd = `{ "a" : 1.0e+2, "t\u0061g<" : [ 1 , 2.00 ], "x":{"y":-0} }`
	r, err := Parse([]byte(`[{"op":"set","path":"/x/z","value":1}]`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":1.0e+2,"tag<":[ 1 , 2.00 ],"x":{"y":-0,"z":1}}`
	if got, err := r.Apply([]byte(odd)); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if _, err := r.Apply([]byte(`{`)); err == nil {
		t.Error("a document that is not JSON was patched")
	}
}

func TestParseCondition(t *testing.T) {
	r, err := Parse([]byte(`{"condition":"from c where c.n = 1","operations":[{"op":"remove","path":"/n"}]}`))
	if err != nil || r.Condition != "from c where c.n = 1" || len(r.Operations) != 1 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestParseErrors(t *testing.T) {
	eleven := `[` + strings.Repeat(`{"op":"remove","path":"/n"},`, 10) + `{"op":"remove","path":"/n"}]`
	for _, c := range []struct{ body, want string }{
		{``, "not an operations array or object"},
		{`"x"`, "not an operations array or object"},
		{`{"operations":{}}`, "not an operations array or object"},
		{`[]`, "0 operations; send 1 to 10"},
		{`{}`, "0 operations; send 1 to 10"},
		{eleven, "more than 10 operations; send 1 to 10"},
		{`[{"op":"test","path":"/n","value":1}]`, `op "test" is not supported`},
		{`[{"path":"/n","value":1}]`, `op "" is not supported`},
		{`[{"op":"set","path":"/n"}]`, "value is missing"},
		{`[{"op":"incr","path":"/n","value":"1"}]`, "value must be a number"},
		{`[{"op":"incr","path":"/n","value":null}]`, "value must be a number"},
		{`[{"op":"incr","path":"/n"}]`, "value must be a number"},
		{`[{"op":"move","path":"/n"}]`, "from: a path begins with a slash"},
		{`[{"op":"remove","path":"n"}]`, "a path begins with a slash"},
		{`[{"op":"remove","path":"/"}]`, "names a property"},
		{`[{"op":"remove","path":"/` + strings.Repeat("x", 2048) + `"}]`, "the path has 2049 bytes, at most 2048"},
		{`[{"op":"set","value":1,"path":"` + strings.Repeat("/x", 129) + `"}]`, "the path has 129 levels, at most 128"},
		{`[{"op":"move","path":"/x","from":"` + strings.Repeat("/x", 129) + `"}]`, "from: the path has 129 levels"},
		{`[{"op":"` + strings.Repeat("x", 1000) + `","path":"/x"}]`, "For xxxxxxxxxxxxxxxxxxxx Operation(1)"},
		{`[{"op":"remove"}]`, "a path begins with a slash"},
	} {
		if _, err := Parse([]byte(c.body)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Parse(%s): error %v, want one with %q", c.body, err, c.want)
		}
	}
}

// TestPatchOfALongArrayIsQuick patches an array of a million elements: the account
// holds the lock of the container meanwhile.
func TestPatchOfALongArrayIsQuick(t *testing.T) {
	document := []byte(`{"v":[` + strings.Repeat("1,", 999_999) + `1]}`)
	r, err := Parse([]byte(`[{"op":"set","path":"/v/0","value":2}]`))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	patched, err := r.Apply(document)
	if err != nil || !strings.HasPrefix(string(patched), `{"v":[2,1,1,`) || len(patched) != len(document) {
		t.Errorf("%.20s of %d bytes, %v", patched, len(patched), err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestOpenAgreesWithEncodingJSON takes apart values with space, escapes and nesting.
func TestOpenAgreesWithEncodingJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `[ ]`, `{ }`, `[1]`, ` [ 1 , "a\"]" , {"x":[1,{}]} , null ] `, `[[],[[]],{}]`, `[true,false,-1.5e3]`,
		`{"a":1,"b":{"c":"}"}}`, "{ \"\\u0061\\\"\" :\t[ 1 ] ,\n\"\": \"\\\\\" }", "{\"\xff\":1}",
	} {
		n, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		n.raw = bytes.TrimSpace(n.raw)
		n.open()
		got := make(map[string]string)
		for i, m := range n.members {
			if n.array {
				m.name = strconv.Itoa(i)
			}
			got[m.name] = string(m.value.raw)
		}
		want := make(map[string]string)
		var object map[string]json.RawMessage
		var array []json.RawMessage
		if json.Unmarshal([]byte(text), &object) != nil {
			_ = json.Unmarshal([]byte(text), &array)
		}
		for name, raw := range object {
			want[name] = string(raw)
		}
		for i, raw := range array {
			want[strconv.Itoa(i)] = string(raw)
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// FuzzApply checks that Apply does not panic and returns valid JSON.
func FuzzApply(f *testing.F) {
	f.Add(document, `[{"op":"add","path":"/list/-","value":9}]`)
	f.Add(`{"a":[[]]}`, `[{"op":"set","path":"/a/0/0","value":{"x":1}},{"op":"move","from":"/a/0","path":"/b"}]`)
	f.Fuzz(func(t *testing.T, document, body string) {
		r, err := Parse([]byte(body))
		if err != nil {
			return
		}
		patched, err := r.Apply([]byte(document), []string{"pk"})
		if err != nil {
			return
		}
		if _, err := parse(patched); err != nil {
			t.Errorf("%s patched with %s is %s: %v", document, body, patched, err)
		}
	})
}
