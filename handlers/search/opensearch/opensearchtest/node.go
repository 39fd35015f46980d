package opensearchtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Index is an index of the OpenSearch node of HALLEY_TEST_OPENSEARCH_URL, which scripts/opensearch
// starts.
type Index struct {
	Node string // URL of the node
	Name string
}

// indexes counts the indexes of this process.
var indexes atomic.Int64

// NewIndex makes an empty index with these settings and mappings, a JSON object. It ends with the
// test. If HALLEY_TEST_OPENSEARCH_URL is not set, it returns nil.
func NewIndex(t testing.TB, definition string) *Index {
	t.Helper()
	node := os.Getenv("HALLEY_TEST_OPENSEARCH_URL")
	if node == "" {
		return nil
	}
	x := &Index{Node: strings.TrimSuffix(node, "/"), Name: fmt.Sprintf("halley-test-%d-%d-%d", time.Now().UnixNano(), os.Getpid(), indexes.Add(1))}
	x.Require(t, http.MethodPut, "", definition)
	t.Cleanup(func() { x.Require(t, http.MethodDelete, "", "") })
	return x
}

// Do sends a request to the index. The path, such as /_bulk, begins after its name. It takes body
// for lines of JSON if it ends with a newline, and for a JSON value otherwise.
func (x *Index) Do(method, path string, body []byte) (status int, answer []byte, err error) {
	// Also at the end of a test, whose own context has ended.
	r, err := http.NewRequestWithContext(context.Background(), method, x.Node+"/"+x.Name+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	switch {
	case bytes.HasSuffix(body, []byte("\n")):
		r.Header.Set("Content-Type", "application/x-ndjson")
	case len(body) > 0:
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// Require sends a request, and fails the test unless it succeeds.
func (x *Index) Require(t testing.TB, method, path, body string) []byte {
	t.Helper()
	status, answer, err := x.Do(method, path, []byte(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("%s %s%s: status %d, %v: %.500s", method, x.Name, path, status, err, answer)
	}
	return answer
}

// Documents refreshes the index, and returns the sources of its documents, by id.
func (x *Index) Documents(t testing.TB) map[string]json.RawMessage {
	t.Helper()
	x.Require(t, http.MethodPost, "/_refresh", "")
	const most = 10_000 // index.max_result_window
	var found struct {
		Hits struct {
			Hits []struct {
				ID     string          `json:"_id"`
				Source json.RawMessage `json:"_source"`
			}
		}
	}
	query := fmt.Sprintf(`{"size":%d,"query":{"match_all":{}}}`, most)
	if err := json.Unmarshal(x.Require(t, http.MethodPost, "/_search", query), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Hits.Hits) == most {
		t.Fatalf("the index has %d documents or more, which no search returns", most)
	}
	all := map[string]json.RawMessage{}
	for _, hit := range found.Hits.Hits {
		all[hit.ID] = hit.Source
	}
	return all
}
