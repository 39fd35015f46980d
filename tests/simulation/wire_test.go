package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// kind is the purpose of a request. The texts are part of the identities of
// requests: if one changes, the seeds give other runs.
type kind string

const (
	readAccount      kind = "account"
	readDatabase     kind = "database"
	readContainer    kind = "container"
	readRanges       kind = "ranges"
	readFeed         kind = "feed"
	listLeases       kind = "list"
	readLease        kind = "get"
	stamp            kind = "stamp" // create marker or lock
	unstamp          kind = "unstamp"
	create           kind = "create"
	acquire          kind = "acquire"
	checkpoint       kind = "checkpoint"
	renew            kind = "renew"
	release          kind = "release"
	tombstone        kind = "tombstone"
	handoverRequest  kind = "ask" // another host's handover request
	retire           kind = "retire"
	pauseWrite       kind = "pause" // of a lease, by an operator
	resumeWrite      kind = "resume"
	seekWrite        kind = "seek"
	takeWrite        kind = "take"
	markWrite        kind = "mark"      // a message for the range is on its way, or has ended
	noticeWrite      kind = "tell"      // another host's notice that it has released leases
	readLetter       kind = "letter"    // or a query of dead letters that are documents
	deadLetterPut    kind = "bury"      // a dead letter
	deadLetterDelete kind = "unbury"    // of one that is a document
	companionWrite   kind = "companion" // of a lease of the second function
	other            kind = "other"
)

// writes reports whether a request changes something.
func (k kind) writes() bool {
	switch k {
	case stamp, unstamp, create, acquire, checkpoint, renew, release, tombstone, handoverRequest, retire, deadLetterPut, deadLetterDelete, companionWrite, pauseWrite, resumeWrite, seekWrite, takeWrite, markWrite, noticeWrite:
		return true
	}
	return false
}

// shared reports whether the first goroutine of a host makes the request for all of them, or
// the two functions of a host may make it at one instant. If so, the identity of the request
// is the instant: requests of one identity have one fate, whichever is sent first.
func (k kind) shared() bool {
	switch k {
	case readAccount, readDatabase, readContainer, readRanges, listLeases, readFeed:
		return true
	}
	return false
}

// serial reports whether goroutines wait for a shared request one after the other.
// If so, it must take no time, because their order would matter.
func (k kind) serial() bool { return k == readAccount || k == readRanges }

// ofCompanion reports whether a request reads leases of the second function.
func (k kind) ofCompanion(resource string) bool {
	return (k == listLeases || k == readLease) && strings.Contains(resource, companion)
}

// request is one request of a host on the wire.
type request struct {
	kind      kind
	container string    // "" if it is for none
	resource  string    // the resource: a range, a lease token, a document
	physical  string    // of a feed read: the range
	keys      leaseSpan // of a feed read: the part of the range, zero for all of it
	after     string    // of a feed read: the continuation
	body      []byte
	doc       leaseDocument // of a write of a lease
	id        string        // its identity within the run
	sent      time.Time
	shift     time.Duration // of the Date header in the answer
}

// classify returns the kind of a request. The caller holds w.mu.
func (w *world) classify(req *http.Request, body []byte) *request {
	r := &request{body: body, sent: time.Now(), container: containerOf(req)}
	segments := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	last := segments[len(segments)-1]
	switch {
	case segments[0] == "":
		r.kind = readAccount
	case len(segments) == 2:
		r.kind = readDatabase
	case len(segments) == 4:
		r.kind, r.resource = readContainer, last
	case last == "pkranges":
		r.kind, r.resource = readRanges, segments[3]
	case len(segments) == 5 && req.Header.Get("A-Im") != "":
		h := req.Header
		r.kind = readFeed
		r.physical, r.after = h.Get("X-Ms-Documentdb-Partitionkeyrangeid"), h.Get("If-None-Match")
		r.keys = leaseSpan{h.Get("X-Ms-Start-Epk"), h.Get("X-Ms-End-Epk")}
		r.resource = segments[3] + ":" + h.Get("X-Ms-Documentdb-Partitionkeyrangeid") +
			"[" + h.Get("X-Ms-Start-Epk") + "-" + h.Get("X-Ms-End-Epk") + ")" + h.Get("If-None-Match")
		if items, _ := strconv.Atoi(h.Get("X-Ms-Max-Item-Count")); items > 100 {
			w.figures.Uses["large pages"]++
		}
	case len(segments) > 4 && segments[3] == letterContainer:
		w.classifyLetter(r, req, last)
	case len(segments) == 5 && strings.Contains(req.Header.Get("Content-Type"), "query+json"):
		r.kind, r.resource = listLeases, segments[3]
		if bytes.Contains(body, []byte(companion)) {
			r.resource += "/" + companion
		}
	case segments[3] != "leases":
		r.kind, r.resource = other, req.Method+last
	default:
		w.classifyLease(r, req, last)
	}
	return r
}

func (w *world) classifyLease(r *request, req *http.Request, last string) {
	method, key := req.Method, last
	var partitionKey []string
	if json.Unmarshal([]byte(req.Header.Get("X-Ms-Documentdb-Partitionkey")), &partitionKey) == nil && len(partitionKey) == 1 && partitionKey[0] != last {
		key = last + "|" + partitionKey[0]
	}
	if method == http.MethodPost || method == http.MethodPut {
		r.doc = parseLeaseDocument(r.body)
		last, key = r.doc.id, r.doc.key()
	}
	if strings.HasPrefix(last, companion) {
		r.kind, r.resource = readLease, last
		if method != http.MethodGet {
			r.kind, r.resource = companionWrite, method+" "+last
		}
		return
	}
	token, isLease := leaseToken(last)
	r.resource = token
	if r.doc.twin != "" {
		r.resource += "|" + r.doc.twin
	}
	switch {
	case method == http.MethodGet:
		r.kind = readLease
	case method == http.MethodPost && isLease:
		r.kind = create
	case method == http.MethodPost:
		r.kind = stamp
	case method == http.MethodDelete && isLease:
		r.kind = retire
		r.doc = w.leases[key]
	case method == http.MethodDelete:
		r.kind = unstamp
	case method == http.MethodPut && isLease:
		r.kind = r.doc.changeFrom(w.leases[key])
	default:
		r.kind = other
	}
}

// leaseToken returns the part after the prefix in the id of a lease document. If
// the document is a marker or lock, it returns the name.
func leaseToken(id string) (token string, isLease bool) {
	if i := strings.LastIndex(id, ".."); i >= 0 {
		return id[i+2:], true
	}
	return id[strings.LastIndexByte(id, '.')+1:], false
}

// leaseDocument is the content of one lease document.
type leaseDocument struct {
	id, token    string
	twin         string // partition key, if it is not the id
	min, max     string
	owner        string
	continuation string
	epoch        int64
	requester    string
	requestedAt  string
	paused       string
	marked       string
	notice       string
	tombstone    bool
	body         []byte
}

func parseLeaseDocument(body []byte) leaseDocument {
	var d struct {
		ID        string `json:"id"`
		Key       string `json:"partitionKey"`
		Token     string `json:"LeaseToken"`
		FeedRange struct {
			Range struct{ Min, Max string }
		}
		Owner             string
		ContinuationToken string
		Properties        map[string]string `json:"properties"`
	}
	if json.Unmarshal(body, &d) != nil {
		return leaseDocument{}
	}
	if d.Key == d.ID {
		d.Key = ""
	}
	epoch, _ := strconv.ParseInt(d.Properties["halley.epoch"], 10, 64)
	return leaseDocument{
		id: d.ID, token: d.Token, twin: d.Key, min: d.FeedRange.Range.Min, max: d.FeedRange.Range.Max,
		owner: d.Owner, continuation: d.ContinuationToken, epoch: epoch,
		requester: d.Properties["halley.handover"], requestedAt: d.Properties["halley.handover.since"],
		paused: d.Properties["halley.paused"], marked: d.Properties["halley.dispatched"], notice: d.Properties["halley.released"],
		tombstone: d.Properties["halley.tombstone"] != "", body: body,
	}
}

// key identifies a document of the lease container.
func (d leaseDocument) key() string {
	if d.twin == "" {
		return d.id
	}
	return d.id + "|" + d.twin
}

func (d leaseDocument) partitionKey() cosmos.PartitionKey {
	return cosmos.NewPartitionKey(cmp.Or(d.twin, d.id))
}

// position returns the LSN in a continuation of the embedded account, 0 if it is
// before the first change.
func (d leaseDocument) position() int64 {
	n, _ := strconv.ParseInt(strings.Trim(d.continuation, `"`), 10, 64)
	return n
}

// changeFrom returns the kind of change that a replace makes to a lease.
func (d leaseDocument) changeFrom(was leaseDocument) kind {
	switch {
	case d.paused != was.paused && d.paused != "":
		return pauseWrite
	case d.paused != was.paused:
		return resumeWrite
	case d.tombstone:
		return tombstone
	case d.notice != "" && was.notice == "" && d.owner == was.owner && d.epoch == was.epoch:
		return noticeWrite
	case d.marked != was.marked && d.owner == was.owner && d.epoch == was.epoch && (d.marked != "" || d.owner == ""):
		return markWrite
	case d.owner == "":
		return release
	case d.requester != "" && (d.requester != was.requester || d.requestedAt != was.requestedAt) && d.epoch == was.epoch:
		return handoverRequest
	case d.epoch != was.epoch || was.owner == "":
		return acquire
	case d.continuation != was.continuation:
		return checkpoint
	}
	return renew
}

// answer returns a response of the service.
func answer(req *http.Request, code int, header http.Header, body string) *http.Response {
	if header == nil {
		header = http.Header{}
	}
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Content-Type", "application/json")
	return &http.Response{
		Status: strconv.Itoa(code) + " " + http.StatusText(code), StatusCode: code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}

// shifted moves the Date header of an answer.
func shifted(resp *http.Response, by time.Duration) *http.Response {
	if resp == nil || by == 0 {
		return resp
	}
	resp.Header["Date"] = []string{time.Now().Add(by).UTC().Format(http.TimeFormat)}
	return resp
}

// cut ends the connection in the middle of the answer's body.
func cut(resp *http.Response) *http.Response {
	if resp == nil {
		return nil
	}
	half := io.LimitReader(resp.Body, max(resp.ContentLength/2, 0))
	resp.Body = io.NopCloser(io.MultiReader(half, broken{}))
	return resp
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// copied returns a copy of a request that may outlive its sender, because a client
// uses the original again when it retries.
func copied(req *http.Request, body []byte) *http.Request {
	c := req.Clone(req.Context())
	c.Body = nil
	if body != nil {
		c.Body = io.NopCloser(bytes.NewReader(body))
	}
	return c
}

// containerOf returns the container in a request's path, "" if there is none.
func containerOf(req *http.Request) string {
	_, rest, _ := strings.Cut(req.URL.Path, "/colls/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}
