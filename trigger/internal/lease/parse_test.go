package lease

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const fixturePrefix = "orders.documents.azure.com_bf8uAA==_bf8uALgoqxk="

func fixture(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "leases", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParseReadsLeasesOfEveryProcessor(t *testing.T) {
	tests := []struct {
		fixture      string
		token        string
		byKeys       bool
		span         Span
		owner        string
		continuation string
		etag         string
	}{
		{"dotnet-v0", "0", false, Span{"", "FF"}, "host-a", `"1526"`, `"0a00-1"`},
		{"dotnet-v0-new", "0", false, Span{}, "", "", `"0a00-2"`},
		{"dotnet-v1", "05C1-0BF3", true, Span{"05C1", "0BF3"}, "", `"99"`, `"0a00-3"`},
		{"dotnet-v2", "0", false, Span{}, "", `"7"`, `"0a00-4"`},
		{"dotnet-guid-key", "3", false, Span{"", "FF"}, "", `"12"`, `"0a00-6"`},
	}
	for _, test := range tests {
		t.Run(test.fixture, func(t *testing.T) {
			l, err := parseLease(fixture(t, test.fixture), fixturePrefix)
			if err != nil {
				t.Fatal(err)
			}
			if l.token != test.token || l.byKeys != test.byKeys || l.span != test.span || l.owner != test.owner ||
				l.continuation != test.continuation || string(l.etag) != test.etag || l.Epoch() != 0 {
				t.Errorf("parsed %+v", l)
			}
			if want := time.Unix(1767225600, 0); !l.written.Equal(want) {
				t.Errorf("written %v, want %v", l.written, want)
			}
		})
	}
}

// Cosmos DB distinguishes names that differ only in case; encoding/json does not.
func TestParseDistinguishesCaseOfNames(t *testing.T) {
	l, err := parseLease([]byte(`{"id":"`+fixturePrefix+`..0","LeaseToken":"0","owner":"x","continuationtoken":"\"3\"","PROPERTIES":{"a":"b"}}`), fixturePrefix)
	if err != nil {
		t.Fatal(err)
	}
	if l.owner != "" || l.continuation != "" || len(l.properties) != 0 {
		t.Errorf("read properties of other names: %+v", l)
	}
}

func TestParseRejectsInvalidDocuments(t *testing.T) {
	id := `"id":"` + fixturePrefix + `..0"`
	tests := []struct{ name, doc, want string }{
		{"not an object", `[]`, "not a JSON object"},
		{"no token", `{` + id + `}`, "neither LeaseToken nor PartitionId"},
		{"other id", `{"id":"` + fixturePrefix + `..1","LeaseToken":"0"}`, "disagree"},
		{"unknown version", `{` + id + `,"LeaseToken":"0","version":7}`, "unknown schema version 7"},
		{"v1 without range", `{` + id + `,"LeaseToken":"0","version":1}`, "without FeedRange"},
		{"empty range", `{` + id + `,"LeaseToken":"0","FeedRange":{"Range":{"min":"20","max":"20"}}}`, "not a range"},
		{"owner of another type", `{` + id + `,"LeaseToken":"0","Owner":7}`, "Owner"},
		{"epoch", `{` + id + `,"LeaseToken":"0","properties":{"halley.epoch":"-1"}}`, "not a count"},
		{"largest epoch", `{` + id + `,"LeaseToken":"0","properties":{"halley.epoch":"9223372036854775807"}}`, "would make it negative"},
		{"larger epoch", `{` + id + `,"LeaseToken":"0","properties":{"halley.epoch":"92233720368547758070"}}`, "would make it negative"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := parseLease([]byte(test.doc), fixturePrefix)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error about %q", err, test.want)
			}
		})
	}
}

func TestParseRejectsJavaLeases(t *testing.T) {
	_, err := parseLease(fixture(t, "java-epk"), fixturePrefix)
	if !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "Java") {
		t.Errorf("got %v", err)
	}
	wrapped := `{"id":"` + fixturePrefix + `..0","LeaseToken":"0","ContinuationToken":"eyJWIjoxfQ=="}`
	if _, err := parseLease([]byte(wrapped), fixturePrefix); !errors.Is(err, ErrForeign) {
		t.Errorf("continuation in Base64 JSON: got %v", err)
	}
}
