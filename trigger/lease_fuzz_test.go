package trigger

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzLease wants no panic, and of a document that is taken for a lease: that
// an owner which acquires it writes back all that it does not decide, and then
// reads back what it wrote.
func FuzzLease(f *testing.F) {
	names, err := filepath.Glob(filepath.Join("testdata", "leases", "*.json"))
	if err != nil || len(names) == 0 {
		f.Fatalf("no fixtures: %v", err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	id := `{"id":"` + fixturePrefix + `..0","LeaseToken":"0",`
	f.Add([]byte(id + `"version":0,"Owner":null,"ContinuationToken":"\"12\"","properties":{"halley.epoch":"3","team":"x"}}`))
	f.Add([]byte(id + `"owner":"x","continuationtoken":"\"3\"","PROPERTIES":{"a":"b"}}`))
	f.Add([]byte(id + `"FeedRange":null,"more":{"a":[1e2,"\u00e9"]},"properties":null}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := parseLease(raw, fixturePrefix)
		if err != nil {
			return
		}
		held := l.clone()
		held.owner, held.continuation = "halley-1", `"2000"`
		held.properties[epochProperty], held.properties[incarnationProperty] = "7", "me"
		delete(held.properties, handoverWrittenProperty)
		doc, err := held.document(timestamp(time.Unix(0, 0)))
		if err != nil {
			t.Fatalf("%q is taken for a lease and cannot be written: %v", raw, err)
		}
		again, err := parseLease(doc, fixturePrefix)
		if err != nil {
			t.Fatalf("%s was written and is refused: %v", doc, err)
		}
		if !again.heldBy(identity{"halley-1", "me", 7}) || again.continuation != held.continuation ||
			again.token != l.token || again.byKeys != l.byKeys || again.span != l.span || again.mode != l.mode ||
			!maps.Equal(again.properties, held.properties) {
			t.Fatalf("%q: wrote %+v, read %+v", raw, held, again)
		}
		if diff := cmp.Diff(undecided(t, raw), undecided(t, doc)); diff != "" {
			t.Fatalf("%q: what is not ours changed: %s", raw, diff)
		}
	})
}

// undecided are the properties of a lease document that Halley only passes on.
func undecided(t *testing.T, doc []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var properties map[string]any
	if err := d.Decode(&properties); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{"Owner", "ContinuationToken", "timestamp", "properties"}, systemProperties...) {
		delete(properties, name)
	}
	if properties["FeedRange"] == nil {
		delete(properties, "FeedRange") // filled in where it is not known
	}
	return properties
}

// FuzzContinuation wants tokens of three kinds told apart, and positions in the
// order of their numbers.
func FuzzContinuation(f *testing.F) {
	f.Add(`"1526"`, `"99"`, int64(7), int64(70))
	f.Add("", `"1"`, int64(1), int64(1))
	f.Add("eyJWIjoxfQ==", "[]", int64(0), int64(-1))
	f.Add(`"12`, `"1:2#3"`, int64(1<<62), int64(-1<<62))
	f.Fuzz(func(t *testing.T, a, b string, x, y int64) {
		if javaContinuation(quotedLSN(x)) || javaContinuation(`"`+a) {
			t.Fatalf("an etag is taken for Java's: %d, %q", x, a)
		}
		wrapped := javaContinuation(a)
		if id := `{"id":"` + fixturePrefix + `..0","LeaseToken":"0","ContinuationToken":` + string(quoted(a)) + `}`; wrapped {
			if _, err := parseLease([]byte(id), fixturePrefix); err == nil {
				t.Fatalf("%q is Java's and the lease was accepted", a)
			}
		}
		if forth, back := compareContinuations(a, b), compareContinuations(b, a); forth != -back {
			t.Fatalf("%q, %q compare as %d and as %d", a, b, forth, back)
		}
		if compareContinuations(a, a) != 0 {
			t.Fatalf("%q differs from itself", a)
		}
		if x, y := x&^(-1<<62), y&^(-1<<62); compareContinuations(quotedLSN(x), quotedLSN(y)) != compare(x, y) {
			t.Fatalf("positions %d and %d compare as %d", x, y, compareContinuations(quotedLSN(x), quotedLSN(y)))
		}
	})
}

func compare(x, y int64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// FuzzLogicalKey wants equal text for equal values, whatever their spelling,
// and a value for every path.
func FuzzLogicalKey(f *testing.F) {
	f.Add([]byte(`{"pk":"a","n":{"b c":1.0}}`), "/pk", `/n/"b c"`)
	f.Add([]byte(`{"a":{"b":[1,{}]},"":null}`), "/a/b/c", "//")
	f.Add([]byte(`[1]`), `/"open`, "x/y")
	f.Add([]byte(`{"pk":1e400}`), "/pk", "")
	f.Fuzz(func(t *testing.T, doc []byte, first, second string) {
		paths := []string{first, second}
		key := logicalKey(doc, paths)
		var values []any
		if err := json.Unmarshal([]byte(key), &values); err != nil || len(values) != len(paths) {
			t.Fatalf("%s at %q is %q, not a value for each path", doc, paths, key)
		}
		var decoded any
		if json.Unmarshal(doc, &decoded) != nil {
			return
		}
		respelled, err := json.MarshalIndent(decoded, " ", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if again := logicalKey(respelled, paths); again != key {
			t.Fatalf("%s has key %s, spelled as %s it has %s", doc, key, respelled, again)
		}
		for i, path := range paths {
			if want, there := lookUp(decoded, splitKeyPath(path)); there && !reflect.DeepEqual(values[i], want) {
				t.Fatalf("%s at %q is %v, want %v", doc, path, values[i], want)
			}
		}
	})
}

// lookUp follows property names into a decoded document.
func lookUp(v any, names []string) (any, bool) {
	for _, name := range names {
		object, _ := v.(map[string]any)
		next, there := object[name]
		if !there {
			return nil, false
		}
		v = next
	}
	return v, true
}
