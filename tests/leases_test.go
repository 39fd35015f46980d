package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Lease documents that .NET wrote (testdata/leases) are taken over at their
// continuation. When they are handed back, only properties that .NET knows have
// changed.
// Shapes: azure-cosmos-dotnet-v3, DocumentServiceLeaseCore and
// DocumentServiceLeaseCoreEpk; azure-documentdb-changefeedprocessor-dotnet,
// Lease.
func TestDotNetLeasesAreTakenOverAndReturned(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for leases to expire")
	}
	t.Parallel()
	for _, test := range []struct {
		fixture, key string
		merged       bool
	}{
		{"v0", "/id", false},
		{"v0-partition-key", "/partitionKey", false},
		{"v1", "/id", false},
		{"v1", "/id", true}, // two leases for one physical range
		{"v2", "/id", false},
	} {
		t.Run(fmt.Sprintf("%s on %s, merged %v", test.fixture, test.key, test.merged), func(t *testing.T) {
			t.Parallel()
			takeOverAndHandBack(t, test.fixture, test.key, test.merged)
		})
	}
}

func takeOverAndHandBack(t *testing.T, fixture, key string, merged bool) {
	a := startAccount(t, 2)
	const container = "dotnet-leases"
	a.create(t, container, key, 400)
	handled := a.load(newRecord(t))
	handled.some(t, 1, 5)
	ranges := a.ranges(t)
	if merged {
		a.merge(t, 0)
		a.quiet(t)
	}
	before := a.plant(t, container, fixture, "orders", ranges)

	r := newRecord(t)
	l := a.load(r)
	l.some(t, 6, 10)
	p := a.recorder(t, "halley-host", r, "-prefix", "orders", "-leases", container)
	passes(t, r.settled(t)) // a change before the sixth was never written to this record: a phantom
	if code := p.terminate(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	after := a.documents(t, container)
	if len(after) != len(before) {
		t.Errorf("%d documents after %d: %v", len(after), len(before), slices.Sorted(maps.Keys(after)))
	}
	for id, was := range before {
		if now, found := after[id]; !found {
			t.Errorf("lease %s is gone", id)
		} else if !strings.HasSuffix(id, ".info") {
			checkHandedBack(t, was, now)
		}
	}
}

// plant writes the documents of a fixture, adapted to the account and a processor, with
// an extra property that no processor knows. It returns them as they were stored.
func (a *account) plant(t *testing.T, container, fixture, processor string, ranges []emulator.RangeState) map[string]map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "leases", fixture+".json"))
	a.must(t, err)
	values := map[string]string{"prefix": a.leasePrefix(t, processor)}
	for i, r := range ranges {
		values[fmt.Sprintf("min%d", i)] = r.Min
		values[fmt.Sprintf("max%d", i)] = r.Max
		values[fmt.Sprintf("lsn%d", i)] = strconv.FormatInt(r.LSN, 10)
	}
	var documents []map[string]any
	a.must(t, json.Unmarshal([]byte(os.Expand(string(text), func(name string) string { return values[name] })), &documents))
	for _, d := range documents {
		d["x-team"] = "set by a person"
		key := d["id"]
		if k, found := d["partitionKey"]; found {
			key = k
		}
		_, err := a.client.Container(database, container).Create(t.Context(), cosmos.NewPartitionKey(key), d)
		a.must(t, err)
	}
	return a.documents(t, container)
}

// leasePrefix returns {processor}{host}_{database rid}_{container rid}
// (azure-cosmos-dotnet-v3, ChangeFeedProcessorCore.InitializeAsync).
func (a *account) leasePrefix(t *testing.T, processor string) string {
	t.Helper()
	p, err := a.client.Container(database, results).Properties(t.Context())
	a.must(t, err)
	return processor + "127.0.0.1_" + p.DatabaseResourceID + "_" + p.ResourceID
}

// documents returns the bodies of the documents in a container, by id.
func (a *account) documents(t *testing.T, container string) map[string]map[string]any {
	t.Helper()
	documents := make(map[string]map[string]any)
	for page, err := range a.client.Container(database, container).Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
		a.must(t, err)
		for _, item := range page.Items {
			var d map[string]any
			a.must(t, json.Unmarshal(item, &d))
			documents[d["id"].(string)] = d
		}
	}
	return documents
}

// known are the properties of a lease that the .NET processor reads and writes. The
// service's own properties change with every write.
var known = []string{"version", "LeaseToken", "PartitionId", "FeedRange", "Owner", "ContinuationToken", "properties", "timestamp", "Mode"}

var (
	rawToken = regexp.MustCompile(`^"[0-9]+"$`)
	service  = []string{"_etag", "_ts", "_lsn"}
)

func checkHandedBack(t *testing.T, was, now map[string]any) {
	t.Helper()
	id := was["id"]
	names := maps.Clone(was)
	maps.Copy(names, now)
	for name := range names {
		if !reflect.DeepEqual(was[name], now[name]) && !slices.Contains(known, name) && !slices.Contains(service, name) {
			t.Errorf("lease %s: %s was %v, is %v: .NET does not know it", id, name, was[name], now[name])
		}
	}
	for _, name := range []string{"LeaseToken", "PartitionId", "Mode"} {
		if was[name] != nil && was[name] != now[name] {
			t.Errorf("lease %s: %s was %v, is %v", id, name, was[name], now[name])
		}
	}
	version := func(d map[string]any) float64 { v, _ := d["version"].(float64); return v }
	if version(was) != version(now) {
		t.Errorf("lease %s: version was %v, is %v", id, was["version"], now["version"])
	}
	if now["Owner"] != nil {
		t.Errorf("lease %s still belongs to %v", id, now["Owner"])
	}
	token, _ := now["ContinuationToken"].(string)
	if !rawToken.MatchString(token) || token == was["ContinuationToken"] {
		t.Errorf("lease %s: continuation was %v, is %v; want a later raw etag", id, was["ContinuationToken"], now["ContinuationToken"])
	}
	checkProperties(t, was, now)
	timestamp, _ := now["timestamp"].(string)
	if at, err := time.Parse("2006-01-02T15:04:05.9999999Z", timestamp); err != nil || time.Since(at) > time.Hour {
		t.Errorf("lease %s: timestamp %q is not now in ISO 8601 with Z: %v", id, timestamp, err)
	}
}

// checkProperties fails the test if an entry is missing or a value is not a string,
// because .NET reads them as a Dictionary<string, string>.
func checkProperties(t *testing.T, was, now map[string]any) {
	t.Helper()
	properties, _ := now["properties"].(map[string]any)
	for name, value := range properties {
		if _, isText := value.(string); !isText {
			t.Errorf("lease %s: property %s is %v, not a string", was["id"], name, value)
		}
	}
	before, _ := was["properties"].(map[string]any)
	for name, value := range before {
		if properties[name] != value {
			t.Errorf("lease %s: property %s was %v, is %v", was["id"], name, value, properties[name])
		}
	}
}
