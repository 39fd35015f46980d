package property

import (
	"encoding/json"
	"testing"
)

func TestPathsFindProperties(t *testing.T) {
	document := json.RawMessage(`{"id":"a","outer":{"inner":{"x":1},"a/b~":[2]},"list":[{"x":1}],"none":null}`)
	for text, want := range map[string]string{
		"/id": `"a"`, "/outer/inner/x": "1", "/outer/inner": `{"x":1}`, "/outer/a~1b~0": "[2]", "/none": "null",
		"/missing": "", "/id/x": "", "/list/0": "", "/outer/missing/x": "",
	} {
		path, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(path.Of(document)); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
		if path.String() != text {
			t.Errorf("%s prints as %s", text, path)
		}
	}
	for _, text := range []string{"", "/", "id", "outer/inner"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is taken for a path", text)
		}
	}
}
