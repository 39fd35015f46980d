package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"

	"halley/handlers/loopback"
)

// cluster stands in for an OpenSearch cluster. It answers bulk requests with external
// versions, and no others.
// https://docs.opensearch.org/latest/api-reference/document-apis/bulk/
type cluster struct {
	mu      sync.Mutex
	indexed map[string]indexed // by the id in the index
}

// indexed is the last operation on a document.
type indexed struct {
	version int64
	source  json.RawMessage // nil if it was deleted
}

// startOpenSearch starts a stand-in for a cluster.
func startOpenSearch(s *stage) (*part, error) {
	server, err := loopback.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &cluster{indexed: map[string]indexed{}}
	server.Serve(c)
	s.onClose(server.Close)
	return &part{
		settings: map[string]string{"HALLEY_OPENSEARCH_URL": server.Origin(), "HALLEY_OPENSEARCH_INDEX": results},
		read:     func(context.Context) (versions, error) { return c.read() },
		compare: func(_ context.Context, written []document) (string, error) {
			found, err := c.read()
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("the index of the stand-in for OpenSearch has the last version of all %d documents, and no other", len(written)), found.equal(written)
		},
	}, nil
}

func (c *cluster) read() (versions, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := versions{}
	for one := range maps.Values(c.indexed) {
		if one.source == nil {
			continue
		}
		if err := found.add(one.source); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/"+results+"/_bulk" {
		http.NotFound(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	items := []any{}
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		item, err := c.operate(line, lines)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		items = append(items, item)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
}

// operate carries out one operation and returns its item of the answer. An index operation
// has its source in the next line.
func (c *cluster) operate(line []byte, lines *bufio.Reader) (any, error) {
	var action map[string]struct {
		ID      string `json:"_id"`
		Version int64
		Type    string `json:"version_type"`
	}
	if err := json.Unmarshal(line, &action); err != nil {
		return nil, err
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
		switch former, found := c.indexed[a.ID]; {
		case a.Type != "external_gte":
			return nil, fmt.Errorf("version_type is %q", a.Type)
		case found && a.Version < former.version:
			status = http.StatusConflict
		default:
			c.indexed[a.ID] = next
		}
		return map[string]any{kind: map[string]any{"status": status}}, nil
	}
	return nil, errors.New("no operation")
}
