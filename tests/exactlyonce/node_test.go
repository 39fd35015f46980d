package exactlyonce

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/handlers/search/opensearch/opensearchtest"
)

// searchIndex is an index of OpenSearch whose cluster crashes.
type searchIndex interface {
	settings() []string
	// crash has the cluster break its connections for a part of each interval, until ctx ends: some of
	// the requests that are not answered have been carried out.
	crash(ctx context.Context, interval time.Duration) (crashes int)
	documents(t *testing.T) map[string]document
}

// newSearchIndex makes an index in the node of HALLEY_TEST_OPENSEARCH_URL, or in a stand-in if
// that is not set.
func newSearchIndex(t *testing.T) searchIndex {
	t.Helper()
	index := opensearchtest.NewIndex(t, `{"settings": {"index.gc_deletes": "1h", "index.number_of_shards": 2, "index.number_of_replicas": 0}}`)
	if index == nil {
		return newCluster(t)
	}
	return &node{index, newConnections(t, index.Node)}
}

// node is an index of a real node, behind connections that break.
type node struct {
	index       *opensearchtest.Index
	connections *connections
}

func (n *node) settings() []string {
	return opensearchSettings("http://"+n.connections.listener.Addr().String(), n.index.Name)
}

func (n *node) crash(ctx context.Context, interval time.Duration) int {
	return crashRepeatedly(ctx, interval, n.connections.refuse)
}

func (n *node) documents(t *testing.T) map[string]document {
	t.Helper()
	return indexedDocuments(t, n.index.Documents(t))
}

// connections carries TCP connections to a server.
type connections struct {
	server   string // address
	listener net.Listener
	carrying sync.WaitGroup

	mu        sync.Mutex            // guards the following
	open      map[net.Conn]struct{} // both ends
	isRefused bool
}

func newConnections(t *testing.T, server string) *connections {
	t.Helper()
	parsed, err := url.Parse(server)
	must(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &connections{server: parsed.Host, listener: listener, open: map[net.Conn]struct{}{}}
	c.carrying.Go(c.accept)
	t.Cleanup(func() {
		must(t, listener.Close())
		c.refuse(true)
		c.carrying.Wait()
	})
	return c
}

// refuse breaks all connections, in the middle of their requests, and those to come until it is
// called with false.
func (c *connections) refuse(isRefused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isRefused = isRefused
	if isRefused {
		for conn := range c.open {
			_ = conn.Close()
		}
	}
}

func (c *connections) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.carrying.Go(func() { c.carry(client) })
	}
}

// carry copies both ways until one end breaks.
func (c *connections) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	defer c.remove(client, server)
	if !c.add(client, server) {
		return
	}
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	_, _ = io.Copy(client, server)
	_ = client.Close()
	copying.Wait()
}

// add reports whether connections are carried at present.
func (c *connections) add(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		c.open[end] = struct{}{}
	}
	return !c.isRefused
}

func (c *connections) remove(ends ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		delete(c.open, end)
	}
}

// opensearchSettings are the settings of the handler opensearch on an index.
func opensearchSettings(url, index string) []string {
	return []string{"HALLEY_FUNCTIONS=opensearch", "HALLEY_OPENSEARCH_URL=" + url, "HALLEY_OPENSEARCH_INDEX=" + index}
}

// crashRepeatedly sets a cluster down for the last quarter of each interval, until ctx ends.
func crashRepeatedly(ctx context.Context, interval time.Duration, setDown func(bool)) (crashes int) {
	for {
		waitUntil(ctx, time.Now().Add(interval*3/4))
		if ctx.Err() != nil {
			return crashes
		}
		setDown(true)
		waitUntil(ctx, time.Now().Add(interval/4))
		setDown(false)
		crashes++
	}
}

// indexedDocuments returns the documents of an index by their ids in the container, given their sources by
// their ids in the index.
func indexedDocuments(t *testing.T, sources map[string]json.RawMessage) map[string]document {
	t.Helper()
	found := map[string]document{}
	for id, source := range sources {
		var d document
		must(t, json.Unmarshal(source, &d))
		if !strings.HasSuffix(id, "/"+d.ID) {
			t.Errorf("document %s has the id %s in the index", d.ID, id)
		}
		found[d.ID] = d
	}
	return found
}
