package sql

import (
	"fmt"
	"slices"
	"testing"
)

func TestMembers(t *testing.T) {
	for _, c := range []struct {
		object string
		want   []string
	}{
		{`{}`, nil},
		{` { } `, nil},
		{`{"a":1}`, []string{`"a"=1`}},
		{`{"a":1,"b":"x"}`, []string{`"a"=1`, `"b"="x"`}},
		{"{ \"a\" :\t1 ,\r\n\"b\" : [1, 2] }", []string{`"a"=1`, `"b"=[1, 2]`}},
		{`{"a":{"b":{"c":[]}},"d":null}`, []string{`"a"={"b":{"c":[]}}`, `"d"=null`}},
		{`{"}":"]","\"":"\\"}`, []string{`"}"="]"`, `"\""="\\"`}},
		{`{"a":"{\"b\":[","c":true}`, []string{`"a"="{\"b\":["`, `"c"=true`}},
		{`{"":-1.5e-3,"a":1,"a":2}`, []string{`""=-1.5e-3`, `"a"=1`, `"a"=2`}},
	} {
		var got []string
		for name, value := range members([]byte(c.object)[skipSpace([]byte(c.object), 0):]) {
			got = append(got, fmt.Sprintf("%s=%s", name, value))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s has %q, want %q", c.object, got, c.want)
		}
	}
}

func TestElements(t *testing.T) {
	for _, c := range []struct {
		array string
		want  []string
	}{
		{`[]`, nil},
		{`[ ]`, nil},
		{`[1]`, []string{`1`}},
		{"[ 1 ,\n2\t, -3e4 ]", []string{`1`, `2`, `-3e4`}},
		{`["a,b","]","\"]"]`, []string{`"a,b"`, `"]"`, `"\"]"`}},
		{`[[],[1,[2]],{"a":[3]}]`, []string{`[]`, `[1,[2]]`, `{"a":[3]}`}},
		{`[null,true,false]`, []string{`null`, `true`, `false`}},
	} {
		var got []string
		for element := range elements([]byte(c.array)) {
			got = append(got, string(element))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s has %q, want %q", c.array, got, c.want)
		}
	}
}

func TestLookup(t *testing.T) {
	document := []byte(`{"a":1, "b c" : {"d":[true]}, "\u00e9":"e", "\"":2, "":3, "a":4}`)
	for name, want := range map[string]string{
		"a":    `1`,
		"b c":  `{"d":[true]}`,
		"é":    `"e"`,
		`"`:    `2`,
		"":     `3`,
		"A":    ``,
		"b":    ``,
		"none": ``,
		"d":    ``,
	} {
		if got, _ := lookup(document, name); string(got) != want {
			t.Errorf("property %q is %q, want %q", name, got, want)
		}
	}
}

func TestQuotedStrings(t *testing.T) {
	for text, quoted := range map[string]string{
		"":              `""`,
		"plain":         `"plain"`,
		`a"b\c`:         `"a\"b\\c"`,
		"a\nb\rc\td":    `"a\nb\rc\td"`,
		"\x00\x1f":      `"\u0000\u001f"`,
		"/<>&":          `"/<>&"`,
		"é漢😀":           `"é漢😀"`,
		"\u2028\u2029":  "\"\u2028\u2029\"",
		"\x7f":          "\"\x7f\"",
		"'single' only": `"'single' only"`,
	} {
		if got := string(appendQuoted(nil, text)); got != quoted {
			t.Errorf("%q is written as %s, want %s", text, got, quoted)
		}
		if got := unquote([]byte(quoted)); got != text {
			t.Errorf("%s is read as %q, want %q", quoted, got, text)
		}
	}
	for quoted, want := range map[string]string{
		`"\u0041\u00e9"`: "Aé",
		`"\ud83d\ude00"`: "😀",
		`"\ud83d"`:       "\ufffd",
		`"\/\b\f"`:       "/\b\f",
		"\"a\xffb\"":     "a\ufffdb",
	} {
		if got := unquote([]byte(quoted)); got != want {
			t.Errorf("%s is read as %q, want %q", quoted, got, want)
		}
	}
}
