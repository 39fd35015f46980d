package trigger

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"
)

// rewriteVersions changes the items of each page of all versions.
func rewriteVersions(w *world, rewrite func(item map[string]json.RawMessage, metadata map[string]any)) hostNetwork {
	return hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
		resp, err := w.account.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK || r.Header.Get("A-IM") != "Full-Fidelity Feed" {
			return resp, err, true
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		must(w.t, err)
		var page struct {
			Documents []map[string]json.RawMessage
		}
		must(w.t, json.Unmarshal(body, &page))
		for _, item := range page.Documents {
			var metadata map[string]any
			must(w.t, json.Unmarshal(item["metadata"], &metadata))
			rewrite(item, metadata)
			if item["metadata"] != nil {
				item["metadata"], err = json.Marshal(metadata)
				must(w.t, err)
			}
		}
		body, err = json.Marshal(page)
		must(w.t, err)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		resp.Header.Del("Content-Length")
		return resp, nil, true
	}}
}

// All versions come in forms that other captures have: without an operation, with an unknown
// one, and a delete that only its minimal image identifies. All are delivered, and the log
// tells once of forms that are not known.
func TestUnknownFormsOfAllVersionsAreDelivered(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		network := rewriteVersions(w, func(item map[string]json.RawMessage, metadata map[string]any) {
			switch metadata["operationType"] {
			case "create":
				delete(metadata, "operationType")
			case "replace":
				metadata["operationType"] = "rename"
			case "delete":
				item["current"] = json.RawMessage(`{"id":"doc","player":"doc"}`)
				metadata["changeType"] = "delete"
				delete(metadata, "operationType")
				delete(metadata, "id")
				delete(metadata, "partitionKey")
				delete(item, "previous")
			}
		})
		h := &versionHistory{}
		logger, logged := recordLog(slog.LevelWarn)
		defer w.startHost(w.hostOn(network, "a", h.handler(), allVersions, func(_ *Function, o *Options) { o.Logger = logger }))()
		time.Sleep(time.Minute)
		h.put(w, "doc", 0)
		h.put(w, "doc", 0)
		h.remove(w, "doc")
		time.Sleep(10 * time.Second)
		h.put(w, "doc", 0)
		time.Sleep(10 * time.Second)
		h.mu.Lock()
		defer h.mu.Unlock()
		if want := []string{"doc: upsert -→1", "doc: upsert 1→2", "doc: delete -→-", "doc: upsert -→3"}; !slices.Equal(h.seen, want) {
			t.Errorf("saw %v\nwant %v", h.seen, want)
		}
		lines := logged.FilterMessageSnippet("in a form that is not known")
		if lines.Len() != 1 || lines.All()[0].ContextMap()["form"] != "change without operationType" {
			t.Errorf("logged %v", lines)
		}
	})
}
