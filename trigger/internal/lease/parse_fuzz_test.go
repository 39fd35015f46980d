package lease

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzLease requires that an owner that acquires any valid lease writes back every
// property that it does not decide, and then reads the lease that it wrote.
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
		delete(held.properties, handoverWrittenProperty) // as store.replace does
		doc, err := held.document(timestampJSON(time.Unix(0, 0)))
		if err != nil {
			t.Fatalf("%q is valid and cannot be written: %v", raw, err)
		}
		reparsed, err := parseLease(doc, fixturePrefix)
		if err != nil {
			t.Fatalf("%s was written and is invalid: %v", doc, err)
		}
		if reparsed.ownership() != (ownership{"halley-1", "me", 7}) || reparsed.continuation != held.continuation ||
			reparsed.token != l.token || reparsed.byKeys != l.byKeys || reparsed.span != l.span || reparsed.mode != l.mode ||
			!maps.Equal(reparsed.properties, held.properties) {
			t.Fatalf("%q: wrote %+v, read %+v", raw, held, reparsed)
		}
		if diff := cmp.Diff(undecided(t, raw), undecided(t, doc)); diff != "" {
			t.Fatalf("%q: another processor's property changed: %s", raw, diff)
		}
	})
}

// undecided returns the properties of a lease document that Halley only passes on.
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
		delete(properties, "FeedRange") // set if it was not known
	}
	return properties
}

// FuzzContinuation requires that Java's tokens are recognized, and that tokens are
// ordered by their LSNs.
func FuzzContinuation(f *testing.F) {
	f.Add(`"1526"`, `"99"`, int64(7), int64(70))
	f.Add("", `"1"`, int64(1), int64(1))
	f.Add("eyJWIjoxfQ==", "[]", int64(0), int64(-1))
	f.Add(`"12`, `"1:2#3"`, int64(1<<62), int64(-1<<62))
	f.Fuzz(func(t *testing.T, a, b string, x, y int64) {
		if javaContinuation(quotedLSN(x)) || javaContinuation(`"`+a) {
			t.Fatalf("an etag looks like Java's: %d, %q", x, a)
		}
		wrapped := javaContinuation(a)
		if id := `{"id":"` + fixturePrefix + `..0","LeaseToken":"0","ContinuationToken":` + string(quotedJSON(a)) + `}`; wrapped {
			if _, err := parseLease([]byte(id), fixturePrefix); err == nil {
				t.Fatalf("%q is Java's and the lease is valid", a)
			}
		}
		if forth, reverse := compareContinuations(a, b), compareContinuations(b, a); forth != -reverse {
			t.Fatalf("%q, %q compare as %d and as %d", a, b, forth, reverse)
		}
		if compareContinuations(a, a) != 0 {
			t.Fatalf("%q differs from itself", a)
		}
		if x, y := x&^(-1<<62), y&^(-1<<62); compareContinuations(quotedLSN(x), quotedLSN(y)) != compare(x, y) {
			t.Fatalf("positions %d and %d compare as %d", x, y, compareContinuations(quotedLSN(x), quotedLSN(y)))
		}
	})
}

func quotedLSN(lsn int64) string { return strconv.Quote(strconv.FormatInt(lsn, 10)) }

func compare(x, y int64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
