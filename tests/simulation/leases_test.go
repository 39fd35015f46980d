package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"halley/tests/history"
	"halley/trigger/cosmos"
)

// serve has the account answer.
func (w *world) serve(req *http.Request, r *request) (*http.Response, error) {
	if r.kind == listLeases {
		return w.list(req, r.body)
	}
	return w.account.Do(req)
}

// list answers the one query that hosts make, by reading the lease container's
// feed from its beginning.
func (w *world) list(req *http.Request, body []byte) (*http.Response, error) {
	var q struct {
		Parameters []struct{ Value string }
	}
	if err := json.Unmarshal(body, &q); err != nil || len(q.Parameters) != 1 {
		return nil, fmt.Errorf("query %q is not the one that lists leases", body)
	}
	prefix := q.Parameters[0].Value
	w.mu.Lock()
	cached, ok := w.listed[prefix]
	w.mu.Unlock()
	if ok {
		return answer(req, 200, nil, cached), nil
	}
	var found [][]byte
	for _, doc := range w.stored() {
		var d struct {
			ID string `json:"id"`
		}
		if json.Unmarshal(doc, &d) == nil && strings.HasPrefix(d.ID, prefix) {
			found = append(found, doc)
		}
	}
	list := fmt.Sprintf(`{"_rid":"","Documents":[%s],"_count":%d}`, bytes.Join(found, []byte(",")), len(found))
	w.mu.Lock()
	w.listed[prefix] = list
	w.mu.Unlock()
	return answer(req, 200, nil, list), nil
}

// changed says that the lease container is not as it was listed.
func (w *world) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.listed)
}

// stored reads all documents of the lease container.
func (w *world) stored() []json.RawMessage {
	var docs []json.RawMessage
	c := w.admin.Container(database, "leases")
	request := cosmos.FeedRequest{Range: cosmos.Range{ID: "0", Max: "FF"}}
	for {
		page, err := c.ReadFeed(context.Background(), request)
		if err != nil {
			w.t.Errorf("read leases: %v", err)
			return nil
		}
		if page.NotModified {
			return docs
		}
		for _, item := range page.Items {
			docs = append(docs, slices.Clone(item.Document))
		}
		request.Continuation = page.Continuation
		page.Release()
	}
}

// observe records what a request did to a lease document.
func (w *world) observe(p *process, r *request, got result) {
	if got.err != nil || got.resp.StatusCode >= 300 {
		return
	}
	w.changed()
	event := history.Event{
		Kind: history.Lease, Host: p.name, Sent: r.sent, Range: r.doc.token, Min: r.doc.min, Max: r.doc.max,
		Owner: r.doc.owner, Epoch: r.doc.epoch, Position: r.doc.position(),
	}
	switch r.kind {
	case create, acquire, checkpoint, renew, release, tombstone:
		w.keep(r.doc)
	case retire:
		w.drop(r.doc.id)
	case stamp:
		if r.what != "info" {
			return
		}
		w.bootstrapped = true
		w.record(history.Event{Kind: history.Lease, Op: history.Marker, Host: p.name, Sent: r.sent})
		return
	default:
		return
	}
	event.Op = map[kind]history.Op{
		create: history.Create, acquire: history.Acquire, checkpoint: history.Checkpoint, renew: history.Renew,
		release: history.Release, tombstone: history.Tombstone, retire: history.Retire,
	}[r.kind]
	w.record(event)
}

// keep notes a lease document as it now is.
func (w *world) keep(d leaseDocument) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases[d.id] = d
	if n := len(w.copies); n < 400 || w.swarm.dice("copy").chance(fmt.Sprint(w.steps), 0.05) {
		w.copies = append(w.copies, d)
	}
}

func (w *world) drop(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leases, id)
}

// record appends to the history what the scheduler sees happen.
func (w *world) record(events ...history.Event) {
	now := time.Now()
	for i := range events {
		events[i].Time = now
	}
	w.history = append(w.history, events...)
}

// capture is the writer's transport. It keeps the LSN of what was written.
type capture struct {
	w   *world
	lsn string
}

func (c *capture) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.w.account.Do(req)
	if err == nil {
		c.lsn = resp.Header.Get("Lsn")
	}
	return resp, err
}
