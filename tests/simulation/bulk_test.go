package simulation

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"halley/tests/history"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// bulkOperation is one write of a bulk request.
type bulkOperation struct {
	Type string   `json:"operationType"`
	ID   string   `json:"id"`
	Key  string   `json:"partitionKey"`
	Body document `json:"resourceBody"`
}

// largestBulk is the number of operations of a bulk request, at most.
const largestBulk = 8

// writeBulk writes a document of each of several keys of one range with one bulk request,
// whose LSNs the account decides by the seed. While the range is replaced it writes one document.
func (w *world) writeBulk(d dice) {
	var operations []bulkOperation
	r, found := w.rangeOf("k" + strconv.Itoa(d.pick("bulk key", w.swarm.keys)))
	taken := map[string]bool{}
	for i := range d.between("bulk size", 2, largestBulk) {
		n := strconv.Itoa(i)
		key := "k" + strconv.Itoa(d.pick("bulk key "+n, w.swarm.keys))
		id := fmt.Sprintf("%s-%d", key, d.pick("bulk document "+n, w.swarm.documents))
		if !found || w.hashes[key] < r.Min || w.hashes[key] >= r.Max || taken[key] {
			continue
		}
		taken[key] = true
		doc := document{ID: id, Key: key, Seq: w.written[key] + 1, Gone: d.chance("gone "+n, 0.2)}
		text, err := json.Marshal(doc)
		w.must(err)
		operations = append(operations, bulkOperation{"Upsert", id, "[" + string(cosmos.Property(text, "key")) + "]", doc})
	}
	if len(operations) < 2 || !w.sendBulk(r.ID, operations) {
		w.write(d)
		return
	}
	lsns := map[int64]bool{}
	for _, o := range operations {
		_, err := w.monitored.Read(context.Background(), o.ID, partitionKeyOf(o.Body.Key))
		w.must(err)
		lsn, err := strconv.ParseInt(w.writer.itemLSN, 10, 64)
		w.must(err)
		lsns[lsn] = true
		w.recordWrite(o.Body, lsn)
	}
	if len(lsns) < len(operations) {
		w.used("shared LSNs", 1)
	}
}

// writeDeleted creates and deletes an item with one request: the newest LSN of its range is
// then of no item that the feed shows, so that the etag of a page is after its last change.
func (w *world) writeDeleted(d dice) {
	key := "k" + strconv.Itoa(d.pick("deleted key", w.swarm.keys))
	r, found := w.rangeOf(key)
	doc := document{ID: key + "-deleted", Key: key, Noise: true}
	text, err := json.Marshal(doc)
	w.must(err)
	name := "[" + string(cosmos.Property(text, "key")) + "]"
	if found && w.sendBulk(r.ID, []bulkOperation{{"Create", doc.ID, name, doc}, {"Delete", doc.ID, name, doc}}) {
		w.used("deletes", 1)
	}
}

// rangeOf returns the physical range of a key.
func (w *world) rangeOf(key string) (r cosmos.Range, found bool) {
	for _, r := range w.ranges() {
		if r.Min <= w.hashes[key] && w.hashes[key] < r.Max {
			return r, true
		}
	}
	return cosmos.Range{}, false
}

// sendBulk returns false if the account refuses the request because the range is being
// replaced.
func (w *world) sendBulk(rangeID string, operations []bulkOperation) bool {
	text, err := json.Marshal(operations)
	w.must(err)
	req, err := http.NewRequest(http.MethodPost, w.account.Endpoint()+"/dbs/"+database+"/colls/items/docs", strings.NewReader(string(text)))
	w.must(err)
	part := base64.RawURLEncoding.EncodeToString // a token that the official emulator accepts: its signature is the text of the key
	req.Header.Set("Authorization", url.QueryEscape("type=aad&ver=1.0&sig="+part([]byte(`{"alg":"RS256"}`))+"."+part([]byte(`{}`))+"."+part([]byte(emulator.Key))))
	req.Header.Set("X-Ms-Cosmos-Is-Batch-Request", "true")
	req.Header.Set("X-Ms-Cosmos-Batch-Atomic", "false")
	req.Header.Set("X-Ms-Cosmos-Batch-Continue-On-Error", "true")
	req.Header.Set("X-Ms-Documentdb-Partitionkeyrangeid", rangeID)
	resp, err := w.account.Do(req)
	w.must(err)
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusGone {
		return false
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		w.must(fmt.Errorf("bulk: %s: %s", resp.Status, body))
	}
	return true
}

// recordWrite records that a document was written.
func (w *world) recordWrite(doc document, lsn int64) {
	w.written[doc.Key] = doc.Seq
	w.record(history.Event{Kind: history.Write, Key: doc.Key, Seq: doc.Seq, ID: doc.ID, LSN: lsn, Hash: w.hashes[doc.Key]})
	w.figures.Writes++
}
