package trigger

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestParseLeaseOfEveryProcessor(t *testing.T) {
	tests := []struct {
		fixture      string
		token        string
		byKeys       bool
		span         span
		owner        string
		continuation string
		etag         string
	}{
		{"dotnet-v0", "0", false, span{"", "FF"}, "host-a", `"1526"`, `"0a00-1"`},
		{"dotnet-v0-new", "0", false, span{}, "", "", `"0a00-2"`},
		{"dotnet-v1", "05C1-0BF3", true, span{"05C1", "0BF3"}, "", `"99"`, `"0a00-3"`},
		{"dotnet-v2", "0", false, span{}, "", `"7"`, `"0a00-4"`},
		{"dotnet-guid-key", "3", false, span{"", "FF"}, "", `"12"`, `"0a00-6"`},
	}
	for _, test := range tests {
		t.Run(test.fixture, func(t *testing.T) {
			l, err := parseLease(fixture(t, test.fixture), fixturePrefix)
			if err != nil {
				t.Fatal(err)
			}
			if l.token != test.token || l.byKeys != test.byKeys || l.span != test.span || l.owner != test.owner ||
				l.continuation != test.continuation || string(l.etag) != test.etag || l.epoch() != 0 {
				t.Errorf("parsed %+v", l)
			}
			if want := time.Unix(1767225600, 0); !l.written.Equal(want) {
				t.Errorf("written %v, want %v", l.written, want)
			}
		})
	}
}

// TestLeaseKeepsWhatItDoesNotKnow writes each lease back as a host does that
// acquires, checkpoints and releases it, and compares property by property.
func TestLeaseKeepsWhatItDoesNotKnow(t *testing.T) {
	changed := map[string]bool{"Owner": true, "ContinuationToken": true, "timestamp": true, "properties": true, "FeedRange": true}
	for _, name := range []string{"dotnet-v0", "dotnet-v0-new", "dotnet-v1", "dotnet-v2", "dotnet-guid-key"} {
		t.Run(name, func(t *testing.T) {
			raw := fixture(t, name)
			l, err := parseLease(raw, fixturePrefix)
			if err != nil {
				t.Fatal(err)
			}
			held := l.clone()
			held.owner, held.continuation = "halley-1", `"2000"`
			held.properties[epochProperty] = "1"
			if !held.span.known() {
				held.span = span{"", "FF"}
			}
			doc, err := held.document(timestamp(time.Date(2026, 2, 3, 4, 5, 6, 700, time.UTC)))
			if err != nil {
				t.Fatal(err)
			}
			var before, after map[string]any
			if err := errors.Join(json.Unmarshal(raw, &before), json.Unmarshal(doc, &after)); err != nil {
				t.Fatal(err)
			}
			for _, p := range systemProperties {
				delete(before, p)
			}
			for p := range changed {
				delete(before, p)
			}
			for p, want := range before {
				if diff := cmp.Diff(want, after[p]); diff != "" {
					t.Errorf("property %s changed: %s", p, diff)
				}
				delete(after, p)
			}
			for p := range after {
				if !changed[p] {
					t.Errorf("property %s added", p)
				}
			}
			if got := after["timestamp"]; got != "2026-02-03T04:05:06.0000007Z" {
				t.Errorf("timestamp %v", got)
			}
			if got := after["FeedRange"]; cmp.Diff(map[string]any{"Range": map[string]any{"min": held.span.Min, "max": held.span.Max}}, got) != "" {
				t.Errorf("FeedRange %v", got)
			}
			if team := l.properties["team"]; team != "" && after["properties"].(map[string]any)["team"] != team {
				t.Errorf("properties %v lost team", after["properties"])
			}
		})
	}
}

// TestLeasePropertiesAreExact: Cosmos DB keeps names apart that differ in case
// alone, and encoding/json does not.
func TestLeasePropertiesAreExact(t *testing.T) {
	l, err := parseLease([]byte(`{"id":"`+fixturePrefix+`..0","LeaseToken":"0","owner":"x","continuationtoken":"\"3\"","PROPERTIES":{"a":"b"}}`), fixturePrefix)
	if err != nil {
		t.Fatal(err)
	}
	if l.owner != "" || l.continuation != "" || len(l.properties) != 0 {
		t.Errorf("took other names for its own: %+v", l)
	}
}

func TestParseLeaseRefuses(t *testing.T) {
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

func TestParseLeaseNamesJava(t *testing.T) {
	_, err := parseLease(fixture(t, "java-epk"), fixturePrefix)
	if !errors.Is(err, errForeignLease) || !strings.Contains(err.Error(), "Java") {
		t.Errorf("got %v", err)
	}
	wrapped := `{"id":"` + fixturePrefix + `..0","LeaseToken":"0","ContinuationToken":"eyJWIjoxfQ=="}`
	if _, err := parseLease([]byte(wrapped), fixturePrefix); !errors.Is(err, errForeignLease) {
		t.Errorf("continuation in Base64 JSON: got %v", err)
	}
}

func TestLeaseExpiry(t *testing.T) {
	written := time.Unix(1_800_000_000, 0)
	tests := []struct {
		name      string
		announced string
		age       time.Duration
		expired   bool
	}{
		{"young", "", 59 * time.Second, false},
		{"the second that _ts may have lost", "", 61 * time.Second, false},
		{"old", "", 62 * time.Second, true},
		{"owner announced more", "2m0s", 90 * time.Second, false},
		{"owner announced less", "10s", 30 * time.Second, false},
	}
	for _, test := range tests {
		l := &lease{owner: "x", written: written, properties: map[string]string{}}
		if test.announced != "" {
			l.properties[expirationProperty] = test.announced
		}
		if got := l.free(written.Add(test.age), time.Minute); got != test.expired {
			t.Errorf("%s: expired %v after %s", test.name, got, test.age)
		}
	}
}

func TestHeldBy(t *testing.T) {
	l := &lease{owner: "a", properties: map[string]string{epochProperty: "4", incarnationProperty: "x"}}
	for _, id := range []identity{{"b", "x", 4}, {"a", "y", 4}, {"a", "x", 5}} {
		if l.heldBy(id) {
			t.Errorf("held by %+v", id)
		}
	}
	if !l.heldBy(identity{"a", "x", 4}) {
		t.Error("not held by its owner")
	}
}
