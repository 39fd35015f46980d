package exactlyonce

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
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
	return newNode(t, index)
}

// node is an index of a real node, behind a proxy that breaks its connections.
type node struct {
	*httptest.Server
	index  *opensearchtest.Index
	isDown atomic.Bool
}

func newNode(t *testing.T, index *opensearchtest.Index) *node {
	t.Helper()
	server, err := url.Parse(index.Node)
	must(t, err)
	n := &node{index: index}
	proxy := httputil.NewSingleHostReverseProxy(server)
	proxy.ModifyResponse = func(*http.Response) error {
		if n.isDown.Load() {
			return errors.New("the node is down")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	n.Server = httptest.NewServer(proxy)
	t.Cleanup(n.Close)
	return n
}

func (n *node) settings() []string { return opensearchSettings(n.URL, n.index.Name) }

// crash also breaks connections in the middle of their requests.
func (n *node) crash(ctx context.Context, interval time.Duration) int {
	return crashRepeatedly(ctx, interval, func(isDown bool) {
		n.isDown.Store(isDown)
		if isDown {
			n.CloseClientConnections()
		}
	})
}

func (n *node) documents(t *testing.T) map[string]document {
	t.Helper()
	return indexedDocuments(t, n.index.Documents(t))
}

// opensearchSettings are the settings of the handler opensearch on an index.
func opensearchSettings(url, index string) []string {
	return []string{"HALLEY_FUNCTIONS=opensearch", "HALLEY_OPENSEARCH_URL=" + url, "HALLEY_OPENSEARCH_INDEX=" + index}
}

// crashRepeatedly sets a sink down for the first quarter of each interval, until ctx ends.
func crashRepeatedly(ctx context.Context, interval time.Duration, setDown func(bool)) (crashes int) {
	for ctx.Err() == nil {
		setDown(true)
		waitUntil(ctx, time.Now().Add(interval/4))
		setDown(false)
		crashes++
		waitUntil(ctx, time.Now().Add(interval*3/4))
	}
	return crashes
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
