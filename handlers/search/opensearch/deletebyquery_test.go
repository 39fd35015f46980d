package opensearch

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"halley/handlers/search/opensearch/opensearchtest"
)

// putMapping takes the mapping of the metadata alone.
func (c *cluster) putMapping(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || string(body) != mapping {
		c.t.Errorf("mapping %s, %v", body, err)
	}
	c.isMapped = true
	fmt.Fprint(w, `{"acknowledged":true}`)
}

// put indexes a document, as another client does. The caller holds the lock, or the handler is idle.
func (c *cluster) put(id string, version int64, source string) {
	c.documents[id] = stored{version, []byte(source)}
	if c.index != nil {
		action := fmt.Sprintf(`{"index":{"_id":%q,"version":%d,"version_type":"external_gte"}}`, id, version)
		c.index.Require(c.t, http.MethodPost, "/_bulk", action+"\n"+source+"\n")
	}
}

// refresh lets searches see all documents.
func (c *cluster) refresh() { c.visible = maps.Clone(c.documents) }

// deleteByQuery removes documents that the last refresh shows: a document that was written since is a
// conflict, until the next refresh.
func (c *cluster) deleteByQuery(w http.ResponseWriter, r *http.Request) {
	request, err := opensearchtest.ParseDeletion(r)
	if err != nil || !c.isMapped {
		c.t.Errorf("mapped %v: %v", c.isMapped, err)
	}
	var found []string
	for _, id := range slices.Sorted(maps.Keys(c.visible)) {
		if c.visible[id].source != nil && request.Matches(c.visible[id].source) && len(found) < request.Limit {
			found = append(found, id)
		}
	}
	if c.onDelete != nil {
		c.onDelete()
	}
	deleted, conflicts := 0, 0
	for _, id := range found {
		if c.documents[id].version != c.visible[id].version || string(c.documents[id].source) != string(c.visible[id].source) {
			conflicts++
			continue
		}
		c.documents[id] = stored{c.documents[id].version + 1, nil}
		deleted++
	}
	c.deletes = append(c.deletes, deleted)
	fmt.Fprintf(w, `{"took":3,"timed_out":false,"total":%d,"deleted":%d,"version_conflicts":%d,"failures":[]}`, len(found), deleted, conflicts)
}
