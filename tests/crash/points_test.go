package crash

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"halley/tests/history"
)

// stage says how far a request gets before its host is killed.
type stage string

const (
	lost       stage = "lost"       // it has left and is never carried out
	late       stage = "late"       // it is carried out when the host is dead
	unanswered stage = "unanswered" // it is carried out, and the host dies before the answer
	answered   stage = "answered"   // the host dies as soon as the answer has left
	working    stage = "working"    // the host dies while the handler has the page
)

// deed is what a request is for.
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
	other      deed = "other"
)

// point is where a host is killed.
type point struct {
	deed  deed
	stage stage
}

// atRandom is no point at all: the host dies at some moment.
var atRandom = point{}

func (p point) String() string {
	if p == atRandom {
		return "at random"
	}
	return string(p.deed) + " " + string(p.stage)
}

// births are the points of a bootstrap, points those of a host at work. Who dies
// in a bootstrap leaves its lock behind, which others respect for 30 s.
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

// needsReshape reports whether the point is passed only where a range splits or
// merges; needsStop, where a host is asked to stop.
func (p point) needsReshape() bool { return p.deed == child || p.deed == retire }
func (p point) needsStop() bool    { return p.deed == release }

// request is what one request asks for.
type request struct {
	deed  deed
	id    string       // of the document
	lease leaseContent // that is written
}

// leaseContent is a lease document as far as a history tells of it.
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

// position is the LSN that a continuation of the embedded account names.
func (l leaseContent) position() int64 {
	n, _ := strconv.ParseInt(strings.Trim(l.ContinuationToken, `"`), 10, 64)
	return n
}

// classify says what a request to a cell's account is for. leases are the
// documents as they are now.
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

// change names what a replace makes of a lease.
func change(was, is leaseContent) deed {
	const asker, since = "halley.handover", "halley.handover.since"
	switch {
	case is.Owner == "":
		return release
	case is.epoch() != was.epoch() || was.Owner == "":
		return acquire
	case is.Properties[asker] != was.Properties[asker] || is.Properties[since] != was.Properties[since]:
		return other // a request to hand it over
	case is.ContinuationToken != was.ContinuationToken:
		return checkpoint
	}
	return renewal
}

// event is what a request that was carried out means to the history; none where
// it means nothing.
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
	if !found && strings.Contains(q.id, "..") && q.lease.Token != "" {
		op, found = history.Request, true
	}
	e.Op = op
	return e, found
}

// changesLease reports whether a request writes a lease document, so that it
// has to be carried out and recorded in one.
func (q request) changesLease() bool {
	return !slices.Contains([]deed{page, lock}, q.deed) && (q.deed != other || strings.Contains(q.id, ".."))
}
