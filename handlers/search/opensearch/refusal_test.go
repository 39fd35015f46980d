package opensearch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/search/opensearch/opensearchtest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// openIndex returns access to an index.
func openIndex(t *testing.T, url, name string) *Index {
	t.Helper()
	x, err := New(Settings{URL: handlers.URL(url), Index: name, BulkBytes: 1 << 30, RequestTimeout: handlers.Interval(time.Minute)})
	check(t, err)
	t.Cleanup(func() { check(t, x.Close()) })
	return x
}

// onNode returns an index of the real node, and the handler's access to it.
func onNode(t *testing.T) (*opensearchtest.Index, *Index) {
	t.Helper()
	index := opensearchtest.NewIndex(t, definition)
	if index == nil {
		t.Skip("HALLEY_TEST_OPENSEARCH_URL is not set: no OpenSearch to test with")
	}
	return index, openIndex(t, index.Node, index.Name)
}

// unshown is the source of a document that the snapshot of wholeRange has not shown.
func unshown(key string) string {
	return fmt.Sprintf(`{"_halley":{"generation":1,"effectiveKey":"1","key":%q,"source":""}}`, key)
}

func wholeRange(kept ...string) trigger.SnapshotEnd {
	end := trigger.SnapshotEnd{Generation: 2, KeptKeys: kept}
	end.Range.Max = "FF"
	return end
}

// An operator reads the cause of a refusal: of a shard, if all have refused, or of a document. The
// advice is that of the cause.
func TestRefusalTellsItsCause(t *testing.T) {
	c := newCluster(t)
	x := openIndex(t, c.URL+"/base", testIndex)
	for body, want := range map[string]string{
		`{"error":{"root_cause":[{"type":"query_shard_exception","reason":"too many terms"}],"type":"search_phase_execution_exception","reason":"all shards failed"},"status":403}`: "query_shard_exception: too many terms (the user needs",
		`{"deleted":0,"failures":[{"index":"a","id":"b","cause":{"type":"cluster_block_exception","reason":"index [a] blocked"},"status":403}]}`:                                    "cluster_block_exception: index [a] blocked (remove the block",
		`{"error":{"type":"security_exception","reason":"no permissions"},"status":403}`:                                                                                            "security_exception: no permissions (the user needs",
		`{"error":"no handler found","status":403}`: "answers 403 (the user needs",
	} {
		c.answer = func(w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, body)
			return true
		}
		if err := x.RemoveUnshown(t.Context(), wholeRange()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A node refuses a request that is too large before it has read it: scripts/opensearch starts one
// that takes 16 MB.
func TestNodeRefusesTooLargeDocument(t *testing.T) {
	_, x := onNode(t)
	large := product("large", strings.Repeat("x", 17<<20))
	if v := triggertest.Deliver(t, x.Handle, large); !v.GivenUp || !strings.Contains(v.Err.Error(), "BULK_BYTES") {
		t.Errorf("verdict: %.300v", v.Err)
	}
	if v := triggertest.Deliver(t, x.Handle, product("small", "tea"), large); v.GivenUp || len(v.Failed) != 2 {
		t.Errorf("verdict: given up %v, %d failed: %.300v", v.GivenUp, len(v.Failed), v.Err)
	}
}

// A node puts the cause of a removal that is refused where the handler looks for it.
func TestNodeTellsWhyItRefusesRemoval(t *testing.T) {
	index, x := onNode(t)
	check(t, x.putMapping(t.Context()))
	index.Require(t, http.MethodPost, "/_bulk", `{"index":{"_id":"a"}}`+"\n"+unshown("k")+"\n")
	for _, refused := range []struct {
		setting, want string
		kept          []string
	}{
		{`{"index.blocks.write":true}`, "answers 403: cluster_block_exception: index [" + index.Name + "] blocked", nil},
		{`{"index.blocks.write":null,"index.max_terms_count":1}`, "answers 400: query_shard_exception: failed to create query: The number of terms [2]", []string{"x", "y"}},
	} {
		index.Require(t, http.MethodPut, "/_settings", refused.setting)
		err := x.RemoveUnshown(t.Context(), wholeRange(refused.kept...))
		if err == nil || !strings.Contains(err.Error(), refused.want) || strings.Contains(err.Error(), "permission") {
			t.Errorf("%s: %v", refused.setting, err)
		}
	}
}
