package opensearch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
)

// definition is that of the indexes in the real node. Searches see what the handler has refreshed.
const definition = `{
	"settings": {"index.gc_deletes": "1h", "index.refresh_interval": "-1", "index.number_of_replicas": 0, "index.translog.durability": "async"},
	"mappings": {"properties": {"price": {"type": "float"}}}
}`

// serveBoth answers as the real node does, and compares that with the stand-in's answer. In a bulk
// request with operations that the test has refused, the stand-in answers.
func (c *cluster) serveBoth(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	standIn := httptest.NewRecorder()
	c.serve(standIn, r)
	path, found := strings.CutPrefix(r.URL.RequestURI(), "/base/"+testIndex)
	isRefused := false
	if found && strings.HasPrefix(path, "/_bulk") {
		isRefused = len(c.carried) != len(body)
		body = c.carried
	}
	if !found || len(body) == 0 && isRefused {
		c.reply(w, standIn.Code, standIn.Body.Bytes())
		return
	}
	status, answer, err := c.index.Do(r.Method, path, body)
	if err != nil {
		c.t.Error(err)
	}
	got, want := meaningOf(standIn.Body.Bytes()), meaningOf(answer)
	if standIn.Code != status || !reflect.DeepEqual(got, want) {
		c.t.Errorf("%s %s %.2000s\nthe stand-in answers %d %v\nthe node answers     %d %v", r.Method, path, body, standIn.Code, got, status, want)
	}
	if isRefused {
		status, answer = standIn.Code, standIn.Body.Bytes()
	}
	c.reply(w, status, answer)
}

func (c *cluster) reply(w http.ResponseWriter, status int, answer []byte) {
	w.WriteHeader(status)
	if _, err := w.Write(answer); err != nil {
		c.t.Error(err)
	}
}

// meaningful are the properties of answers that have a meaning for the handler. Texts, names of
// indexes, scores and numbers of shards have none.
var meaningful = []string{
	"items", "index", "delete", "_id", "_version", "result", "status", "error", "type", "caused_by", "hits", "_source", "acknowledged",
	"deleted", "version_conflicts", "failures", "defaults", "settings", "index.gc_deletes",
}

// meaningOf is the part of an answer that has a meaning for the handler, without the items of
// operations that the test has refused.
func meaningOf(answer []byte) any {
	var parsed any
	decoder := json.NewDecoder(bytes.NewReader(answer))
	decoder.UseNumber() // versions are longer than a float64
	if err := decoder.Decode(&parsed); err != nil {
		return fmt.Sprintf("%s: %v", answer, err)
	}
	return meaning(parsed)
}

func meaning(value any) any {
	switch value := value.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, one := range value {
			if settings, ok := one.(map[string]any); ok && settings["settings"] != nil {
				name = "index" // as any other
			}
			_, isText := one.(string)
			if name == "_source" {
				all[name] = one
			} else if slices.Contains(meaningful, name) && (name != "index" || !isText) {
				all[name] = meaning(one)
			}
		}
		return all
	case []any:
		var all []any
		for _, one := range value {
			if !strings.Contains(fmt.Sprint(one), "test_exception") {
				all = append(all, meaning(one))
			}
		}
		return all
	}
	return value
}

// compareDocuments compares the documents of the stand-in with those of the node. The caller holds
// the lock.
func (c *cluster) compareDocuments() {
	if c.index == nil {
		return
	}
	got, want := map[string]string{}, map[string]string{}
	for id, d := range c.documents {
		if d.source != nil {
			got[id] = string(d.source)
		}
	}
	for id, source := range c.index.Documents(c.t) {
		want[id] = string(source)
	}
	if !maps.Equal(got, want) {
		c.t.Errorf("the stand-in has %v\nthe node has     %v", got, want)
	}
	c.refresh() // as the node was
}

// refreshAll lets searches see all documents.
func (c *cluster) refreshAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refresh()
	if c.index != nil {
		c.index.Require(c.t, http.MethodPost, "/_refresh", "")
	}
}

// setMemory sets index.gc_deletes, to its default if value is empty.
func (c *cluster) setMemory(value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.memory = value
	if c.index == nil {
		return
	}
	setting, err := json.Marshal(map[string]any{"index.gc_deletes": value})
	if value == "" {
		setting = []byte(`{"index.gc_deletes":null}`)
	}
	if err != nil {
		c.t.Error(err)
	}
	c.index.Require(c.t, http.MethodPut, "/_settings", string(setting))
}
