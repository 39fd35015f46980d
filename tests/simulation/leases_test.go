package simulation

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"halley/tests/history"
)

// serve passes a request to the account. The answer to a list is kept until a lease
// changes.
func (w *world) serve(req *http.Request, r *request) (*http.Response, error) {
	if r.kind != listLeases {
		return w.account.Do(req)
	}
	w.mu.Lock()
	body, known := w.listed[string(r.body)]
	w.mu.Unlock()
	if known {
		return answer(req, http.StatusOK, nil, body), nil
	}
	resp, err := w.account.Do(copied(req, r.body))
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("X-Ms-Continuation") != "" {
		return resp, err
	}
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.listed[string(r.body)] = string(read)
	w.mu.Unlock()
	return answer(req, http.StatusOK, nil, string(read)), nil
}

// changed drops the kept lists of a function, because one of its leases has changed.
func (w *world) changed(ofCompanion bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.listed, func(query, _ string) bool { return strings.Contains(query, companion) == ofCompanion })
}

// observe records the effect of a request on a lease document.
func (w *world) observe(p *process, r *request, got result) {
	if got.err != nil || got.resp.StatusCode >= 300 && !(r.kind == deadLetterPut && got.resp.StatusCode == http.StatusConflict) { // a put of a letter that the store has
		return
	}
	if r.container == letterContainer {
		w.observeLetter(r)
		return
	}
	w.changed(r.kind == companionWrite)
	event := history.Event{
		Kind: history.Lease, Host: p.name, Sent: r.sent, Range: r.doc.token, ID: r.doc.twin, Min: r.doc.min, Max: r.doc.max,
		Owner: r.doc.owner, Epoch: r.doc.epoch, Position: r.doc.position(),
	}
	switch r.kind {
	case create, acquire, checkpoint, renew, release, tombstone, handoverRequest, pauseWrite, resumeWrite, seekWrite, takeWrite:
		w.keep(r.doc)
	case companionWrite:
		w.keepCompanion(r.resource)
		return
	case markWrite, noticeWrite:
		w.keep(r.doc)
		if r.kind == noticeWrite {
			w.used("notices", 1)
		}
		return // neither its owner nor its position has changed
	case retire:
		w.drop(r.doc.key())
	case stamp:
		if r.resource != "info" {
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
		release: history.Release, tombstone: history.Tombstone, handoverRequest: history.Request, retire: history.Retire,
		pauseWrite: history.Pause, resumeWrite: history.Resume, seekWrite: history.Seek, takeWrite: history.Take,
	}[r.kind]
	if event.Op == history.Seek && p.command == releasing {
		event.Op = history.Free
	}
	w.record(event)
	if r.kind == acquire {
		w.mu.Lock()
		p.unread[r.doc.token] = leaseSpan{r.doc.min, r.doc.max}
		w.mu.Unlock()
	}
}

// keep remembers the current form of a lease document.
func (w *world) keep(d leaseDocument) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leases[d.key()] = d
	if n := len(w.copies); n < 400 || w.swarm.dice("copy").chance(fmt.Sprint(w.steps), 0.05) {
		w.copies = append(w.copies, d)
	}
}

func (w *world) drop(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.leases, key)
}

// record appends events to the history. Only the scheduler calls it.
func (w *world) record(events ...history.Event) {
	now := time.Now()
	for i := range events {
		events[i].Time = now
	}
	w.history = append(w.history, events...)
}

// capture is the writer's transport. It keeps the LSN of the last write, and that of the
// document that was read last.
type capture struct {
	w            *world
	lsn, itemLSN string
}

func (c *capture) Do(req *http.Request) (*http.Response, error) {
	resp, err := c.w.account.Do(req)
	if err == nil {
		c.lsn, c.itemLSN = resp.Header.Get("Lsn"), resp.Header.Get("X-Ms-Item-Lsn")
	}
	return resp, err
}
