package trigger

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/trigger/cosmos"
)

// A host continues leases of each .NET schema and releases them. Of the stored
// documents, only fields that .NET knows, and that an owner may change, have changed.
func TestDotNetLeasesAreTakenOverAndReturned(t *testing.T) {
	const v0, v1, v2 = "v0", "v1", "v2"
	tests := []struct {
		name     string
		keyedBy  string // of the lease container
		schema   string
		property map[string]any // in addition
	}{
		{"v0 by id", "/id", v0, nil},
		{"v0 by partitionKey", "/partitionKey", v0, nil},
		{"v0 with a random partitionKey", "/partitionKey", v0, map[string]any{"partitionKey": "5b2f2a9e-7a59-4c0f"}},
		{"v0 with an unknown property", "/id", v0, map[string]any{"auditedBy": map[string]any{"team": "blue", "n": 12.50}}},
		{"v1 over the whole key space", "/id", v1, nil},
		{"v2 with only a PartitionId", "/id", v2, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
					ID: "shared", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{test.keyedBy}},
				}))
				w.leases = w.client().Container("db", "shared")
				w.writeMany("seen", 10)
				continuation := w.newestContinuation()

				doc := map[string]any{
					"Owner": nil, "ContinuationToken": continuation, "properties": map[string]any{"own": "kept"},
					"timestamp": "2026-01-01T00:00:00.1234567Z",
				}
				token := "0"
				switch test.schema {
				case v0:
					doc["version"], doc["LeaseToken"], doc["Mode"] = 0, token, "Incremental Feed"
				case v1:
					token = "-FF"
					doc["version"], doc["LeaseToken"], doc["FeedRange"] = 1, token, map[string]any{"Range": map[string]any{"min": "", "max": "FF"}}
				case v2:
					doc["PartitionId"] = token
				}
				doc["id"] = w.leasePrefix() + ".." + token
				if test.keyedBy == "/partitionKey" {
					doc["partitionKey"] = doc["id"]
				}
				for name, value := range test.property {
					doc[name] = value
				}
				key := doc["id"].(string)
				if test.keyedBy == "/partitionKey" {
					key = doc["partitionKey"].(string)
				}
				_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey(key), doc)
				must(t, err)
				w.createStamp(".info")

				w.written = map[string]int{}
				w.writeMany("new", 5)
				h, err := New(w.leases, []Function{{FeedSource: FeedSource{Name: "test", Container: w.items}, Handler: w.recorder("a")}}, &Options{Owner: "a"})
				must(t, err)
				summary, err := h.Drain(t.Context())
				must(t, err)
				if summary.Changes != 5 {
					t.Errorf("continued with %+v, want 5 changes", summary)
				}
				w.checkComplete(0)

				resp, err := w.leases.Read(t.Context(), doc["id"].(string), cosmos.NewPartitionKey(key))
				must(t, err)
				var newFields map[string]any
				must(t, json.Unmarshal(resp.Body, &newFields))
				if newFields["Owner"] != nil || newFields["ContinuationToken"] == continuation || !strings.HasPrefix(newFields["ContinuationToken"].(string), `"`) {
					t.Errorf("released as %v", newFields)
				}
				properties := newFields["properties"].(map[string]any)
				if properties["own"] != "kept" || properties[epochProperty] != strconv.Itoa(firstEpoch) {
					t.Errorf("properties %v", properties)
				}
				if timestamp, err := time.Parse("2006-01-02T15:04:05.0000000Z", newFields["timestamp"].(string)); err != nil || time.Since(timestamp).Abs() > 2*time.Second {
					t.Errorf("timestamp %v", newFields["timestamp"])
				}
				for _, p := range append([]string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}, "Owner", "ContinuationToken", "timestamp", "properties", "FeedRange") {
					delete(newFields, p)
					delete(doc, p)
				}
				var oldFields map[string]any
				raw, _ := json.Marshal(doc)
				must(t, json.Unmarshal(raw, &oldFields))
				if diff := cmp.Diff(oldFields, newFields); diff != "" {
					t.Errorf("other changes: %s", diff)
				}
			})
		})
	}
}

func TestJavaLeasesAreRefusedByName(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.leasePrefix() + "..-FF"
		doc := map[string]any{
			"id": id, "LeaseToken": "-FF", "version": 1, "feedRange": map[string]any{"Range": map[string]any{"min": "", "max": "FF"}},
			"Owner": nil, "ContinuationToken": "eyJWIjoxfQ==", "timestamp": "2026-01-01T00:00:00Z[UTC]",
		}
		_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey(id), doc)
		must(t, err)
		oldDocument, err := w.leases.Read(t.Context(), id, cosmos.NewPartitionKey(id))
		must(t, err)
		err = w.host("a", w.recorder("a")).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "Java") || !strings.Contains(err.Error(), "prefix") {
			t.Errorf("run ended with %v", err)
		}
		newDocument, err := w.leases.Read(t.Context(), id, cosmos.NewPartitionKey(id))
		must(t, err)
		if oldDocument.ETag != newDocument.ETag {
			t.Error("the lease was written")
		}
	})
}

func TestInvalidLeaseDocumentIsIgnored(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		id := w.leasePrefix() + "..0"
		_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id, "LeaseToken": "0", "version": 9})
		must(t, err)
		w.writeMany("doc", 20)
		h := w.host("a", w.recorder("a"))
		summary, err := h.Drain(t.Context())
		must(t, err)
		if summary.Ranges != 2 || summary.Drained != 1 || summary.Behind != 1 {
			t.Errorf("summary %+v", summary)
		}
		resp, err := w.leases.Read(t.Context(), id, cosmos.NewPartitionKey(id))
		must(t, err)
		var doc map[string]any
		must(t, json.Unmarshal(resp.Body, &doc))
		if doc["version"] != 9.0 || doc["Owner"] != nil {
			t.Errorf("the lease is now %v", doc)
		}
	})
}
