package lease

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWriteKeepsUnknownProperties writes each lease as a host does that acquires,
// checkpoints and releases it, and compares property by property.
func TestWriteKeepsUnknownProperties(t *testing.T) {
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
			if !held.span.isKnown() {
				held.span = Span{"", "FF"}
			}
			doc, err := held.document(timestampJSON(time.Date(2026, 2, 3, 4, 5, 6, 700, time.UTC)))
			if err != nil {
				t.Fatal(err)
			}
			var oldFields, newFields map[string]any
			if err := errors.Join(json.Unmarshal(raw, &oldFields), json.Unmarshal(doc, &newFields)); err != nil {
				t.Fatal(err)
			}
			for _, p := range systemProperties {
				delete(oldFields, p)
			}
			for p := range changed {
				delete(oldFields, p)
			}
			for p, want := range oldFields {
				if diff := cmp.Diff(want, newFields[p]); diff != "" {
					t.Errorf("property %s changed: %s", p, diff)
				}
				delete(newFields, p)
			}
			for p := range newFields {
				if !changed[p] {
					t.Errorf("property %s added", p)
				}
			}
			if got := newFields["timestamp"]; got != "2026-02-03T04:05:06.0000007Z" {
				t.Errorf("timestamp %v", got)
			}
			if got := newFields["FeedRange"]; cmp.Diff(map[string]any{"Range": map[string]any{"min": held.span.Min, "max": held.span.Max}}, got) != "" {
				t.Errorf("FeedRange %v", got)
			}
			if team := l.properties["team"]; team != "" && newFields["properties"].(map[string]any)["team"] != team {
				t.Errorf("properties %v lost team", newFields["properties"])
			}
		})
	}
}

func TestLeaseIsFreeAfterTheLongerExpiration(t *testing.T) {
	written := time.Unix(1_800_000_000, 0)
	tests := []struct {
		name      string
		announced string
		age       time.Duration
		expired   bool
	}{
		{"young", "", 59 * time.Second, false},
		{"within the second that _ts may have lost", "", 61 * time.Second, false},
		{"old", "", 62 * time.Second, true},
		{"owner announced more", "2m0s", 90 * time.Second, false},
		{"owner announced less", "10s", 30 * time.Second, false},
	}
	for _, test := range tests {
		l := &Lease{owner: "x", written: written, properties: map[string]string{}}
		if test.announced != "" {
			l.properties[expirationProperty] = test.announced
		}
		if got := l.Free(written.Add(test.age), time.Minute); got != test.expired {
			t.Errorf("%s: expired %v after %s", test.name, got, test.age)
		}
	}
}

func TestOwnershipIsOneAcquisition(t *testing.T) {
	l := &Lease{owner: "a", properties: map[string]string{epochProperty: "4", incarnationProperty: "x"}}
	for _, other := range []ownership{{"b", "x", 4}, {"a", "y", 4}, {"a", "x", 5}} {
		if l.ownership() == other {
			t.Errorf("same acquisition as %+v", other)
		}
	}
	if l.ownership() != (ownership{"a", "x", 4}) {
		t.Error("not held by its owner")
	}
}
