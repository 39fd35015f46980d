package trigger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseFilter(t *testing.T) {
	for text, want := range map[string]Filter{
		`{"a":[1]}`:                 {`{"a":[1]}`},
		` [ {"a":[1]}, {"b":[2]} ]`: {`{"a":[1]}`, `{"b":[2]}`},
		`[{"a":[1]}]`:               {`{"a":[1]}`},
		`[]`:                        {},
		`{"a":`:                     {`{"a":`}, // refused when it is compiled
	} {
		got, err := ParseFilter(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %q: %v", text, got, err)
		}
		if reparsed, err := ParseFilter(got.String()); len(got) > 0 && (err != nil || !slices.Equal(reparsed, got)) {
			t.Errorf("%s is printed as %s: %v", text, got, err)
		}
	}
	for text, place := range map[string]string{`[{"a":[1]}`: "byte 10", `[{"a":[1]}} ]`: "byte 11"} {
		if _, err := ParseFilter(text); err == nil || !strings.HasPrefix(err.Error(), place) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func ExampleFilter_Compile() {
	passes, err := Filter{`{"status": ["open"], "total": [{"numeric": [">=", 100]}]}`}.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, document := range []string{`{"status": "open", "total": 1e2}`, `{"status": "open", "total": 99.5}`, `{"status": "shut", "total": 250}`} {
		fmt.Println(passes(Change{Document: json.RawMessage(document)}))
	}
	// Output:
	// true
	// false
	// false
}
