package exactlyonce

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// cluster stands in for an OpenSearch cluster that remembers deletes: it answers bulk requests
// with external versions, and no others.
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
	source  *document // nil if it was deleted
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{indexed: map[string]indexed{}}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// crash has the cluster break its connections for a part of each interval, until ctx ends:
// some of the requests that are not answered have been carried out.
func (c *cluster) crash(ctx context.Context, interval time.Duration) (crashes int) {
	for {
		waitUntil(ctx, time.Now().Add(interval*3/4))
		if ctx.Err() != nil {
			return crashes
		}
		c.isDown.Store(true)
		waitUntil(ctx, time.Now().Add(interval/4))
		c.isDown.Store(false)
		crashes++
	}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isDown := c.isDown.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	items := []any{}
	for lines := bufio.NewReader(r.Body); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		if isDown && len(items) > 2 {
			panic(http.ErrAbortHandler) // in the middle of a request
		}
		item, err := c.operate(line, lines)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		items = append(items, item)
	}
	if isDown {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
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
			if err := json.Unmarshal(source, &next.source); err != nil {
				return nil, err
			}
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

// requireIndex fails the test unless the index has exactly the documents.
func (c *cluster) requireIndex(t *testing.T, want map[string]document) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, stale, extra := len(want), 0, 0
	for id, entry := range c.indexed {
		if entry.source == nil {
			continue
		}
		d, ok := want[entry.source.ID]
		switch {
		case !ok:
			extra++
		case d != *entry.source || !strings.HasSuffix(id, "/"+d.ID):
			stale++
			lost--
		default:
			lost--
		}
	}
	if lost+stale+extra > 0 {
		t.Errorf("%d documents are lost, %d are not the last version, %d are of deleted documents", lost, stale, extra)
	}
}
