package epk

import (
	"slices"
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	for header, want := range map[string]Key{
		`[]`:                             {},
		`[{}]`:                           {Undefined},
		`[ { } ]`:                        {Undefined},
		`[null]`:                         {Null},
		`["a",null,true,false,{},5,5.5]`: {String("a"), Null, True, False, Undefined, Number(5), Number(5.5)},
		`["\u7535\u8111"]`:               {String("电脑")},
		`[-0]`:                           {Number(0)},
		`[1e2]`:                          {Number(100)},
		` ["x"] `:                        {String("x")},
	} {
		got, err := ParseKey(header)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseKey(%s) = %v, %v; want %v", header, got, err, want)
		}
	}
}

func TestParseKeyErrors(t *testing.T) {
	for header, want := range map[string]string{
		``:          "not a JSON array",
		`"a"`:       "not a JSON array",
		`null`:      "not a JSON array",
		`["a"`:      "not a JSON array",
		`[{"a":1}]`: "is not a key value",
		`[["a"]]`:   "is not a key value",
		`[1e999]`:   "outside the range of a double",
	} {
		if _, err := ParseKey(header); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseKey(%s): error %v, want one with %q", header, err, want)
		}
	}
}

func TestKeyStringIsCanonical(t *testing.T) {
	for header, want := range map[string]string{
		`[]`:                      `[]`,
		`["a\"b", {}, null,true]`: `["a\"b",{},null,true]`,
		`[1.0]`:                   `[1]`,
		`[1e2, -5, 0.5, false]`:   `[100,-5,0.5,false]`,
		`[1e300]`:                 `[1e+300]`,
	} {
		if got := vectorKey(t, header).String(); got != want {
			t.Errorf("key %s prints as %s, want %s", header, got, want)
		}
		if text := vectorKey(t, want).String(); text != want {
			t.Errorf("key %s prints as %s", want, text)
		}
	}
}

func TestExtract(t *testing.T) {
	const document = `{"id":"1","a":{"b":{"c":7},"x/y":"slash"},"a b":"quoted","n":null,"list":[1],
		"t":true,"f":false,"num":1.50,"esc\u0061ped":"u"}`
	for path, want := range map[string]Component{
		`/id`:        String("1"),
		`/a/b/c`:     Number(7),
		`/a/"x/y"`:   String("slash"),
		`/a/'x/y'`:   String("slash"),
		`/"a b"`:     String("quoted"),
		`/a b`:       String("quoted"),
		`/n`:         Null,
		`/n/deeper`:  Undefined,
		`/id/deeper`: Undefined,
		`/list`:      Undefined,
		`/a`:         Undefined,
		`/missing`:   Undefined,
		`/a/missing`: Undefined,
		`/t`:         True,
		`/f`:         False,
		`/num`:       Number(1.5),
		`/escaped`:   String("u"),
	} {
		d, err := ParseDefinition([]byte(`{"paths":["` + strings.ReplaceAll(path, `"`, `\"`) + `"],"version":2}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Extract([]byte(document))
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("Extract %s = %v, %v; want %v", path, got, err, want)
		}
	}
}

func TestExtractHierarchy(t *testing.T) {
	d, err := ParseDefinition([]byte(`{"paths":["/tenant","/user/id","/session"],"kind":"MultiHash","version":2}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := d.Extract([]byte(`{"tenant":"t","user":{"id":9}}`))
	if want := (Key{String("t"), Number(9), Undefined}); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestSegments(t *testing.T) {
	d, err := ParseDefinition([]byte(`{"paths":["/a/\"b c\"","/d"],"kind":"MultiHash"}`))
	if got := d.Segments(); err != nil || len(got) != 2 || !slices.Equal(got[0], []string{"a", "b c"}) || !slices.Equal(got[1], []string{"d"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestExtractErrors(t *testing.T) {
	d, err := ParseDefinition([]byte(`{"paths":["/pk"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range []string{`[]`, `{"pk"`, `"x"`, `{"pk":1e999}`} {
		if key, err := d.Extract([]byte(document)); err == nil || !strings.Contains(err.Error(), "/pk") {
			t.Errorf("Extract from %s = %v, %v; want an error that names the path", document, key, err)
		}
	}
}

func TestParseDefinition(t *testing.T) {
	for raw, want := range map[string]Definition{
		`{"paths":["/pk"]}`:                               {Kind: Hash, Version: 1},
		`{"paths":["/pk"],"kind":"Hash","version":2}`:     {Kind: Hash, Version: 2},
		`{"paths":["/a","/b"],"kind":"MultiHash"}`:        {Kind: MultiHash, Version: 2},
		`{"paths":["/a"],"kind":"MultiHash","version":2}`: {Kind: MultiHash, Version: 2},
		`{"paths":["/_partitionKey"],"systemKey":true}`:   {Kind: Hash, Version: 1},
	} {
		got, err := ParseDefinition([]byte(raw))
		if err != nil || got.Kind != want.Kind || got.Version != want.Version {
			t.Errorf("ParseDefinition(%s) = %s version %d, %v", raw, got.Kind, got.Version, err)
		}
	}
}

func TestParseDefinitionErrors(t *testing.T) {
	for raw, want := range map[string]string{
		`[]`:                              "partitionKey",
		`{}`:                              "paths is empty",
		`{"paths":[]}`:                    "paths is empty",
		`{"paths":["/a","/b"]}`:           `use kind "MultiHash"`,
		`{"paths":["/a"],"kind":"Range"}`: `kind "Range" is not supported`,
		`{"paths":["/a"],"version":3}`:    "version 3",
		`{"paths":["/a"],"kind":"MultiHash","version":1}`:    "use 2",
		`{"paths":["/a","/b","/c","/d"],"kind":"MultiHash"}`: "at most 3",
		`{"paths":["pk"]}`:      "begins with a slash",
		`{"paths":[""]}`:        "names no property",
		`{"paths":["/"]}`:       "property name is empty",
		`{"paths":["/a//b"]}`:   "property name is empty",
		`{"paths":["/\"a"]}`:    "not closed",
		`{"paths":["/\"a\"b"]}`: "begins with a slash",
	} {
		if _, err := ParseDefinition([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseDefinition(%s): error %v, want one with %q", raw, err, want)
		}
	}
}
