package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

const (
	database = "games"
	results  = "results"
	leases   = "leases"
)

// account is a halley emulator process with a monitored container and a lease
// container.
type account struct {
	*process
	endpoint string
	client   *cosmos.Client
}

var endpointOfEmulator = regexp.MustCompile(`(?m)^endpoint: (\S+)\n`)

// startAccount serves an empty account. Its monitored container has the given
// number of physical ranges.
func startAccount(t *testing.T, ranges int, args ...string) *account {
	t.Helper()
	a := &account{process: start(t, "emulator", binaries.halley, nil, append([]string{"emulator", "--addr", "127.0.0.1:0"}, args...)...)}
	eventually(t, "the account names its endpoint", func() bool {
		if a.ended() {
			t.Fatalf("halley emulator ended:\n%s", a.output)
		}
		match := endpointOfEmulator.FindStringSubmatch(a.output.String())
		if match != nil {
			a.endpoint = match[1]
		}
		return match != nil
	})
	credential, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		t.Fatal(err)
	}
	if a.client, err = cosmos.NewClient(a.endpoint, credential, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.client.CloseIdleConnections)
	a.must(t, a.client.CreateDatabase(t.Context(), database))
	a.create(t, leases, "/id", 400)
	a.create(t, results, "/player", max(400, ranges*10_000)) // a physical range has at most 10,000 RU/s
	if got := len(a.ranges(t)); got != ranges {
		t.Fatalf("the container has %d ranges, want %d", got, ranges)
	}
	return a
}

func (a *account) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (a *account) create(t *testing.T, container, key string, throughput int) {
	t.Helper()
	a.must(t, a.client.CreateContainer(t.Context(), database, cosmos.ContainerDefinition{
		ID: container, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{key}}, Throughput: throughput,
	}))
}

func (a *account) connectionString() string {
	return fmt.Sprintf("AccountEndpoint=%s;AccountKey=%s;", a.endpoint, emulator.Key)
}

// manage sends one request to the management endpoint.
func (a *account) manage(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	text, err := json.Marshal(body)
	a.must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), method, a.endpoint+"_emulator/"+path, bytes.NewReader(text))
	a.must(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	a.must(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	a.must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, got)
	}
	if answer != nil {
		a.must(t, json.Unmarshal(got, answer))
	}
}

// ranges returns the physical ranges of the monitored container, in key order.
func (a *account) ranges(t *testing.T) []emulator.RangeState {
	t.Helper()
	var state emulator.State
	a.manage(t, http.MethodGet, "state", nil, &state)
	for _, d := range state.Databases {
		for _, c := range d.Containers {
			if d.ID == database && c.ID == results {
				return c.Ranges
			}
		}
	}
	t.Fatal("the account has lost its container")
	return nil
}

// quiet returns the ranges when none of them is being split or merged.
func (a *account) quiet(t *testing.T) []emulator.RangeState {
	t.Helper()
	var ranges []emulator.RangeState
	eventually(t, "splits and merges are over", func() bool {
		ranges = a.ranges(t)
		return !slices.ContainsFunc(ranges, func(r emulator.RangeState) bool { return r.Splitting })
	})
	return ranges
}

// split splits the i-th of the current ranges.
func (a *account) split(t *testing.T, i int) {
	t.Helper()
	a.manage(t, http.MethodPost, "split", map[string]string{
		"database": database, "container": results, "range": a.quiet(t)[i].ID,
	}, nil)
}

// merge merges the i-th of the current ranges with the one after it.
func (a *account) merge(t *testing.T, i int) {
	t.Helper()
	ranges := a.quiet(t)
	a.manage(t, http.MethodPost, "merge", map[string]any{
		"database": database, "container": results, "ranges": []string{ranges[i].ID, ranges[i+1].ID},
	}, nil)
}
