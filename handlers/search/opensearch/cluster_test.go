package opensearch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"halley/handlers/search/opensearch/opensearchtest"
)

// cluster answers as OpenSearch documents it for bulk requests with external versions,
// and refuses everything that it would refuse:
// https://docs.opensearch.org/latest/api-reference/document-apis/bulk/
// A delete keeps its version, as within index.gc_deletes. If there is a real node, each request
// goes there as well, and a difference between the two fails the test.
type cluster struct {
	*httptest.Server
	t testing.TB

	mu        sync.Mutex
	documents map[string]stored
	requests  []int                            // operations of each bulk request
	answer    func(w http.ResponseWriter) bool // answers in place of the cluster, if it returns true
	status    func(id string, kind string) int // of an operation in place of the cluster's; 0 is none
	memory    string                           // index.gc_deletes; the default if empty
	authorize func(r *http.Request) (valid bool)
	isMapped  bool                  // metadata have their types
	visible   map[string]stored     // documents as the last refresh left them
	deletes   []int                 // documents that each delete by query has removed
	onDelete  func()                // called between the search of a delete by query and its deletes; may be nil
	index     *opensearchtest.Index // of the real node; nil if there is none
	carried   []byte                // lines of the last bulk request that the cluster has carried out
}

type stored struct {
	version int64
	source  json.RawMessage // nil if deleted
}

const testIndex = "catalogue"

func newCluster(t testing.TB) *cluster {
	c := &cluster{t: t, documents: map[string]stored{}, memory: "1h", index: opensearchtest.NewIndex(t, definition)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	switch {
	case c.authorize != nil && !c.authorize(r):
		w.WriteHeader(http.StatusUnauthorized)
	case c.answer != nil && c.answer(w):
	case c.index != nil:
		c.serveBoth(w, r)
	default:
		c.serve(w, r)
	}
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	path, _ := strings.CutPrefix(r.URL.Path, "/base/"+testIndex)
	switch r.Method + " " + path {
	case "POST /_bulk":
		c.bulk(w, r)
	case "POST /_search":
		c.search(w, r)
	case "PUT /_mapping":
		c.putMapping(w, r)
	case "POST /_refresh":
		c.refresh()
		fmt.Fprint(w, `{"_shards":{"total":2,"successful":1,"failed":0}}`)
	case "POST /_delete_by_query":
		c.deleteByQuery(w, r)
	case "GET /_settings/index.gc_deletes":
		c.answerMemory(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"error":{"type":"index_not_found_exception","reason":"no such index [%s]"},"status":404}`, r.URL.Path)
	}
}

// answerMemory answers a request for index.gc_deletes. A default is in the answer only if the request
// asks for it; otherwise not even the name of the index is.
func (c *cluster) answerMemory(w http.ResponseWriter, r *http.Request) {
	hasDefaults := r.URL.Query().Get("include_defaults") == "true"
	switch {
	case c.memory != "" && hasDefaults:
		fmt.Fprintf(w, `{"catalogue":{"settings":{"index.gc_deletes":%q},"defaults":{}}}`, c.memory)
	case c.memory != "":
		fmt.Fprintf(w, `{"catalogue":{"settings":{"index.gc_deletes":%q}}}`, c.memory)
	case hasDefaults:
		fmt.Fprint(w, `{"catalogue":{"settings":{},"defaults":{"index.gc_deletes":"60s"}}}`)
	default:
		fmt.Fprint(w, `{}`)
	}
}

func (c *cluster) bulk(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	if r.Header.Get("Content-Type") != "application/x-ndjson" || !bytes.HasSuffix(body, []byte("\n")) {
		c.t.Errorf("not NDJSON with a newline at its end: %s, %q", r.Header.Get("Content-Type"), body)
	}
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 16<<20)
	var items []map[string]any
	failed := false
	c.carried = nil
	for lines.Scan() {
		kind, item := c.operation(lines)
		items = append(items, map[string]any{kind: item})
		failed = failed || item["error"] != nil
	}
	c.requests = append(c.requests, len(items))
	if err := json.NewEncoder(w).Encode(map[string]any{"took": 7, "errors": failed, "items": items}); err != nil {
		c.t.Error(err)
	}
}

// operation reads and carries out one operation.
func (c *cluster) operation(lines *bufio.Scanner) (kind string, item map[string]any) {
	var first map[string]struct {
		ID          string `json:"_id"`
		Version     int64  `json:"version"`
		VersionType string `json:"version_type"`
	}
	decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&first); err != nil || len(first) != 1 {
		c.t.Errorf("action line %q: %v", lines.Text(), err)
	}
	action := bytes.Clone(lines.Bytes())
	for k, a := range first {
		kind, item = k, map[string]any{"_index": testIndex, "_id": a.ID}
		if a.VersionType != "external_gte" || a.Version < 1 || len(a.ID) > 512 || a.ID == "" || k != "index" && k != "delete" {
			c.t.Errorf("action %s %+v", k, a)
		}
		var source json.RawMessage
		if k == "index" {
			if !lines.Scan() || !json.Valid(lines.Bytes()) {
				c.t.Errorf("no source line for %s", a.ID)
			}
			source = bytes.Clone(lines.Bytes())
		}
		if c.refuses(k, a.ID, item) {
			continue
		}
		c.carried = append(append(c.carried, action...), '\n')
		if source != nil {
			c.carried = append(append(c.carried, source...), '\n')
		}
		c.write(k, a.ID, a.Version, source, item)
	}
	return kind, item
}

// refuses reports whether the test has an operation refused.
func (c *cluster) refuses(kind, id string, item map[string]any) bool {
	if c.status == nil || c.status(id, kind) == 0 {
		return false
	}
	item["status"], item["error"] = c.status(id, kind), map[string]any{"type": "test_exception", "reason": "as the test asks"}
	return true
}

func (c *cluster) write(kind, id string, version int64, source json.RawMessage, item map[string]any) {
	before, found := c.documents[id]
	fail := func(status int, kind, reason string) {
		item["status"], item["error"] = status, map[string]any{"type": kind, "reason": reason}
	}
	if found && version < before.version {
		fail(409, "version_conflict_engine_exception", fmt.Sprintf("[%s]: version conflict, current version [%d] is higher than the one provided [%d]", id, before.version, version))
		return
	}
	if strings.Contains(string(source), `"price":"`) {
		fail(400, "mapper_parsing_exception", "failed to parse field [price] of type [float]")
		item["error"].(map[string]any)["caused_by"] = map[string]any{"type": "number_format_exception", "reason": "For input string"}
		return
	}
	item["_version"] = version
	switch {
	case kind == "delete" && (!found || before.source == nil):
		item["status"], item["result"] = 404, "not_found"
	case kind == "delete":
		item["status"], item["result"] = 200, "deleted"
	case !found || before.source == nil:
		item["status"], item["result"] = 201, "created"
	default:
		item["status"], item["result"] = 200, "updated"
	}
	c.documents[id] = stored{version, source}
}

// search finds the documents whose source has the words of the query, as the last refresh left them.
func (c *cluster) search(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Size  int
		Query struct {
			Simple struct {
				Query    string
				Operator string `json:"default_operator"`
			} `json:"simple_query_string"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || request.Query.Simple.Operator != "and" {
		c.t.Errorf("search request: %v", err)
	}
	hits := []any{}
	for id, d := range c.visible {
		if d.source != nil && strings.Contains(string(d.source), request.Query.Simple.Query) && len(hits) < request.Size {
			hits = append(hits, map[string]any{"_index": testIndex, "_id": id, "_score": 1.5, "_source": d.source})
		}
	}
	if err := json.NewEncoder(w).Encode(map[string]any{"hits": map[string]any{"hits": hits}}); err != nil {
		c.t.Error(err)
	}
}

// live returns the sources of the index, by id.
func (c *cluster) live() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compareDocuments()
	all := map[string]string{}
	for id, d := range c.documents {
		if d.source != nil {
			all[id] = string(d.source)
		}
	}
	return all
}
