package crash

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"halley/tests/history"
)

// stage is the progress of a request when its host is killed.
type stage string

const (
	lost       stage = "lost"       // it was sent and is never applied
	late       stage = "late"       // it is applied when the host is dead
	unanswered stage = "unanswered" // it is applied, and the host dies before the answer
	answered   stage = "answered"   // the host dies as soon as the answer is sent
	working    stage = "working"    // the host dies while the handler has the page
)

// deed is the purpose of a request.
type deed string

const (
	page       deed = "page" // of the feed, with changes
	checkpoint deed = "checkpoint"
	renewal    deed = "renewal"
	acquire    deed = "acquire"
	release    deed = "release"
	child      deed = "child" // a lease is created
	retire     deed = "retire"
	lock       deed = "lock" // of the bootstrap
	marker     deed = "marker"
	notice     deed = "notice" // of leases that a host has released
	other      deed = "other"
)

// point is a request and a stage at which a host is killed.
type point struct {
	deed  deed
	stage stage
}

// atRandom is not a point: the host is killed at a random moment.
var atRandom = point{}

func (p point) String() string {
	if p == atRandom {
		return "at random"
	}
	return string(p.deed) + " " + string(p.stage)
}

// births are the points of a bootstrap, points those of a working host. If a host
// dies in a bootstrap, its lock remains, and the others wait for it for 30 s.
var (
	born   = point{marker, unanswered}
	births = []point{{lock, unanswered}, {child, lost}, {child, unanswered}, {marker, lost}}
	points = []point{
		atRandom,
		{page, unanswered}, {page, answered}, {page, working},
		{checkpoint, lost}, {checkpoint, late}, {checkpoint, unanswered}, {checkpoint, answered},
		{acquire, lost}, {acquire, late}, {acquire, unanswered}, {acquire, answered},
		{child, lost}, {child, late}, {child, unanswered}, {child, answered},
		{retire, lost}, {retire, late}, {retire, unanswered}, {retire, answered},
		{release, lost}, {release, late}, {release, unanswered},
		{renewal, late}, {renewal, unanswered},
	}
)

// needsReshape reports whether hosts reach the point only when a range splits or
// merges; needsStop, only when a host stops.
func (p point) needsReshape() bool { return p.deed == child || p.deed == retire }
func (p point) needsStop() bool    { return p.deed == release }

// request is the parsed form of a request.
type request struct {
	deed  deed
	id    string       // of the document
	lease leaseContent // that is written
}

// leaseContent is the part of a lease document that a history records.
type leaseContent struct {
	ID        string `json:"id"`
	Token     string `json:"LeaseToken"`
	FeedRange struct {
		Range struct{ Min, Max string }
	}
	Owner             string
	ContinuationToken string
	Properties        map[string]string `json:"properties"`
}

func (l leaseContent) epoch() int64 {
	n, _ := strconv.ParseInt(l.Properties["halley.epoch"], 10, 64)
	return n
}

// position returns the LSN in a continuation of the embedded account.
func (l leaseContent) position() int64 {
	n, _ := strconv.ParseInt(strings.Trim(l.ContinuationToken, `"`), 10, 64)
	return n
}

// classify parses a request to a cell's account. leases are the current documents.
func classify(r *http.Request, body []byte, leases map[string]leaseContent) request {
	segments := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(segments) < 5 || segments[2] != "colls" || segments[4] != "docs" {
		return request{deed: other}
	}
	if r.Header.Get("A-IM") != "" {
		return request{deed: page}
	}
	if !strings.HasPrefix(segments[3], leaseContainer) || r.Method == http.MethodGet || strings.Contains(r.Header.Get("Content-Type"), "query") {
		return request{deed: other}
	}
	q := request{deed: other, id: segments[len(segments)-1]}
	if json.Unmarshal(body, &q.lease) == nil && q.lease.ID != "" {
		q.id = q.lease.ID
	}
	isLease := strings.Contains(q.id, "..")
	switch {
	case !isLease && r.Method == http.MethodPost && strings.HasSuffix(q.id, ".info"):
		q.deed = marker
	case !isLease && r.Method == http.MethodPost:
		q.deed = lock
	case isLease && r.Method == http.MethodPost:
		q.deed = child
	case isLease && r.Method == http.MethodDelete:
		q.deed, q.lease = retire, leases[q.id]
	case isLease && r.Method == http.MethodPut:
		q.deed = change(leases[q.id], q.lease)
	}
	return q
}

// change returns the kind of change that a replace makes to a lease.
func change(was, is leaseContent) deed {
	const asker, since, teller = "halley.handover", "halley.handover.since", "halley.released"
	switch {
	case is.Owner == "":
		return release
	case is.epoch() != was.epoch() || was.Owner == "":
		return acquire
	case is.Properties[asker] != was.Properties[asker] || is.Properties[since] != was.Properties[since]:
		return other // a handover request
	case is.Properties[teller] != "":
		return notice
	case is.ContinuationToken != was.ContinuationToken:
		return checkpoint
	}
	return renewal
}

// event returns the history event of an applied request, false if the history does
// not record it.
func (q request) event(host string) (history.Event, bool) {
	e := history.Event{
		Kind: history.Lease, Host: host, Range: q.lease.Token,
		Min: q.lease.FeedRange.Range.Min, Max: q.lease.FeedRange.Range.Max,
		Owner: q.lease.Owner, Epoch: q.lease.epoch(), Position: q.lease.position(),
	}
	ops := map[deed]history.Op{
		child: history.Create, acquire: history.Acquire, checkpoint: history.Checkpoint, renewal: history.Renew,
		release: history.Release, retire: history.Retire, marker: history.Marker,
	}
	op, found := ops[q.deed]
	if !found && q.deed != notice && strings.Contains(q.id, "..") && q.lease.Token != "" {
		op, found = history.Request, true
	}
	e.Op = op
	return e, found
}

// changesLease reports whether a request writes a lease document. If so, it must be
// applied and recorded under one lock.
func (q request) changesLease() bool {
	return !slices.Contains([]deed{page, lock}, q.deed) && (q.deed != other || strings.Contains(q.id, ".."))
}
