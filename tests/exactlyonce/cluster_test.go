package exactlyonce

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/handlers/search/opensearch/opensearchtest"
)

// cluster stands in for an OpenSearch cluster that remembers deletes: it answers bulk requests
// with external versions, and what the handler asks at the end of a snapshot. Each search sees
// all that was indexed before.
// https://docs.opensearch.org/latest/api-reference/document-apis/bulk/
type cluster struct {
	*httptest.Server
	isDown atomic.Bool

	mu      sync.Mutex // guards indexed
	indexed map[string]indexed
}

// indexed is the last operation on an entry of the index.
type indexed struct {
	version int64
	source  json.RawMessage // nil if it was deleted
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{indexed: map[string]indexed{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) settings() []string { return opensearchSettings(c.URL, "orders") }

func (c *cluster) crash(ctx context.Context, interval time.Duration) int {
	return crashRepeatedly(ctx, interval, c.isDown.Store)
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var answer any
	var err error
	switch r.URL.Path {
	case "/orders/_bulk":
		answer, err = c.bulk(r.Body)
	case "/orders/_delete_by_query":
		answer, err = c.deleteByQuery(r)
	case "/orders/_mapping", "/orders/_refresh":
		answer = map[string]any{"acknowledged": true}
	default:
		err = fmt.Errorf("no request has the path %s", r.URL.Path)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case c.isDown.Load():
		panic(http.ErrAbortHandler)
	default:
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// bulk carries out operations. A cluster that is down breaks the connection in the middle of them.
func (c *cluster) bulk(body io.Reader) (any, error) {
	items := []any{}
	for lines := bufio.NewReader(body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return map[string]any{"items": items}, nil
		}
		if c.isDown.Load() && len(items) > 2 {
			panic(http.ErrAbortHandler)
		}
		item, err := c.operate(line, lines)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
}

// deleteByQuery removes documents. A cluster that is down breaks the connection in the middle.
func (c *cluster) deleteByQuery(r *http.Request) (any, error) {
	request, err := opensearchtest.ParseDeletion(r)
	deleted := 0
	for id, entry := range c.indexed {
		if err != nil || deleted == request.Limit || c.isDown.Load() && deleted > 2 {
			break
		}
		if entry.source != nil && request.Matches(entry.source) {
			c.indexed[id] = indexed{version: entry.version + 1}
			deleted++
		}
	}
	return map[string]any{"deleted": deleted, "version_conflicts": 0, "failures": []any{}}, err
}

// operate carries out one operation and returns its item of the answer. An index operation
// has its source in the next line. The caller holds the lock.
func (c *cluster) operate(line []byte, lines *bufio.Reader) (any, error) {
	var action map[string]struct {
		ID      string `json:"_id"`
		Version int64  `json:"version"`
	}
	if err := json.Unmarshal(line, &action); err != nil || len(action) != 1 {
		return nil, fmt.Errorf("operation %s: %v", line, err)
	}
	for kind, a := range action {
		next, status := indexed{version: a.Version}, http.StatusOK
		if kind == "index" {
			source, err := lines.ReadBytes('\n')
			if err != nil {
				return nil, err
			}
			next.source = source
		}
		if former, found := c.indexed[a.ID]; found && a.Version < former.version {
			status = http.StatusConflict
		} else {
			c.indexed[a.ID] = next
		}
		return map[string]any{kind: map[string]any{"status": status}}, nil
	}
	return nil, nil
}

func (c *cluster) documents(t *testing.T) map[string]document {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	sources := map[string]json.RawMessage{}
	for id, entry := range c.indexed {
		if entry.source != nil {
			sources[id] = entry.source
		}
	}
	return indexedDocuments(t, sources)
}
