package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Start is the start of a feed that is read without a continuation. The zero
// value is the beginning of the feed. Starts may be compared with ==.
type Start struct {
	mode startMode
	unix int64 // of startTime
}

type startMode int8

const (
	startBeginning startMode = iota
	startNow
	startTime
)

// StartNow starts at the next change.
var StartNow = Start{mode: startNow}

// StartAt starts at the changes of time t. Documents have a time in whole
// seconds (_ts), so changes of the same second before t are included. The
// service documents a precision of about five seconds.
func StartAt(t time.Time) Start { return Start{mode: startTime, unix: t.Unix()} }

// Time returns the time of [StartAt] in whole seconds; ok is false for every
// other Start.
func (s Start) Time() (t time.Time, ok bool) {
	return time.Unix(s.unix, 0).UTC(), s.mode == startTime
}

// String returns "beginning", "now" or the time in RFC 3339.
func (s Start) String() string {
	switch s.mode {
	case startNow:
		return "now"
	case startTime:
		return time.Unix(s.unix, 0).UTC().Format(time.RFC3339)
	}
	return "beginning"
}

// Mode selects the changes that a feed reports.
type Mode int8

const (
	// ModeLatestVersion reports the latest version of each document, and no
	// deletes.
	ModeLatestVersion Mode = iota
	// ModeAllVersions reports every version and every delete, within the retention
	// of the container's change feed policy. It must start now or at a
	// continuation.
	ModeAllVersions
)

// FeedRequest is a request for one page of the change feed.
type FeedRequest struct {
	// Mode selects the changes to report. A continuation is valid in its own
	// mode only.
	Mode Mode

	// Range is the physical range to read. Min and Max are compared with its
	// bounds.
	Range Range

	// Min and Max restrict the page to a part of the range, [Min, Max) of
	// hashed keys in upper-case hex, as a lease keeps its part after a merge.
	// If both are empty, the whole range is read. They must lie within the
	// range.
	Min, Max string

	// Continuation is the one of the page before, with its quotes. If empty,
	// Start applies.
	Continuation string

	// ResourceID is the [ContainerProperties].ResourceID of the container that
	// Continuation belongs to. If it is set and the container was deleted and
	// created again under the same name, the service rejects the request with
	// 400/1024. Otherwise the feed of the new container could be read at a
	// position of the old one.
	ResourceID string

	// Start applies if there is no continuation. A start time must be sent with
	// every page, so set it together with the continuation too: after a merge
	// the order of a range does not follow _ts any more, and without the time
	// older changes would be reported (azure-sdk-for-java sends it with every
	// page for that reason).
	Start Start

	// SessionToken is the [Response].SessionToken of a write to the range, or the
	// [Page].SessionToken of an earlier page, also of another client. Under Session
	// consistency the answer is then not older than that write or page: a region
	// that has not reached it answers 404/1002, and ReadFeed asks the next one. If it
	// is empty, ReadFeed sends the newest token in the answers to this client, from
	// the range or the ranges that it was split or merged from. If the account's
	// consistency is weaker than Session, the service answers with what the region
	// has.
	// https://learn.microsoft.com/azure/cosmos-db/change-feed lists it.
	SessionToken string

	// KeyProperty names a property of documents, at their first level, whose value
	// [Item].KeyPlace is to tell; for latest-version mode.
	KeyProperty string

	// MaxItems is a hint; 0 means the service's own page size. A transaction is
	// never divided, so a page may have more items.
	MaxItems int

	// Admit, if set, is called with the bytes that the answer takes in memory, before
	// they are read, and again as an answer of unknown length grows. If it returns false,
	// ReadFeed discards the answer, and its error wraps [ErrNotAdmitted].
	Admit func(bytes int) bool
}

// ErrNotAdmitted is the error of an answer that [FeedRequest].Admit does not admit.
var ErrNotAdmitted = errors.New("the answer is larger than admitted")

// Page is one answer of the change feed.
type Page struct {
	// Items are in feed order; empty if NotModified. They are slices of the
	// page's buffer: see [Page.Release].
	Items []Item

	// Continuation requests the next page: the answer's etag, with its quotes.
	// A page that is NotModified also has one, and it may be newer than the one
	// in the request. If Items came with an unchanged Continuation, the next
	// request would return the same items.
	Continuation string

	NotModified  bool   // no new changes, also if an empty page says so: wait before the next request
	SessionToken string // of the range, for [FeedRequest].SessionToken; "" if absent
	SessionLSN   int64  // newest LSN of the range, from the session token; 0 if absent
	Version      int64  // of the session token; it rises when the range fails over
	CommittedLSN int64  // newest LSN that all regions have; 0 if absent
	LSN          int64  // the lsn header; 0 if absent
	Charge       float64
	Date         time.Time // by the service's clock, in whole seconds
	ActivityID   string
	Throttled    bool // the service refused earlier tries of this read for its rate or load, see [IsThrottled]

	// UnknownForm describes the first change in [ModeAllVersions] whose form does not name a
	// known operation, "" if there is none. Such a change is an [OperationUpsert] if it has
	// a document.
	UnknownForm string

	buffer *buffer
}

// Item is one change of a page. In latest-version mode only the first four fields are
// set.
type Item struct {
	Document  json.RawMessage // the version reported; nil for a delete
	LSN       int64           // _lsn, or lsn of the metadata; 0 if absent
	Timestamp int64           // _ts, or crts of the metadata: seconds since 1970; 0 if absent

	IDPlace  Place // of the value of id in Document; in latest-version mode
	KeyPlace Place // of the value of [FeedRequest].KeyProperty in Document; in latest-version mode

	Operation    Operation
	Previous     json.RawMessage // the version before, if the service has it
	PreviousLSN  int64           // of the version before; 0 if absent
	ID           string          // of a delete
	PartitionKey json.RawMessage // of a delete: an object by path, or a list of values
}

// Place is where a value is in a document: from byte Start to before byte End. The zero
// value is of a value that is absent or was not looked for.
type Place struct{ Start, End uint32 }

// In returns the value at the place in a document, a part of it, or nil if there is none.
func (p Place) In(document []byte) []byte {
	if p.End == 0 || p.Start > p.End || int64(p.End) > int64(len(document)) {
		return nil
	}
	return document[p.Start:p.End:p.End]
}

// Operation is the kind of a change.
type Operation string

// The operations. In all-versions mode [Item].Operation mostly is a create, a replace, a
// delete or an expiry; see [Page].UnknownForm for others. In latest-version mode and for a
// document without metadata it is empty; package trigger then calls a change an upsert.
const (
	OperationUpsert  Operation = "upsert" // created or replaced
	OperationCreate  Operation = "create"
	OperationReplace Operation = "replace"
	OperationDelete  Operation = "delete"
	OperationExpire  Operation = "expire" // a delete by time to live

	// OperationUnknown is a change without a document, by an operation that this package
	// does not know. Its id and key may be known.
	OperationUnknown Operation = "unknown"
)

// Release returns the page's buffer for reuse; Items must not be used
// afterwards. Calling Release is optional, and a second call has no effect.
func (p *Page) Release() {
	p.buffer.release()
	p.buffer, p.Items = nil, nil
}

// Share returns a page with the same contents for another reader, which releases it on
// its own. The bytes are the same: they are used again when all shares are released, or, if
// one of them was released by [Page.ReleaseItems], when the documents are garbage. Its Charge
// is 0, as the service has answered once. It is called before p is released.
func (p *Page) Share() *Page {
	share := *p
	share.Charge = 0
	if share.buffer != nil {
		share.buffer.shares.Add(1)
	}
	return &share
}

// Size returns the bytes that the page takes in memory until it is released.
func (p *Page) Size() int { return p.buffer.size() }

// ReleaseItems is Release for a page whose documents were handed on: the slice Items is
// reused, and the bytes belong to the documents, which stay valid. They keep each other
// in memory.
func (p *Page) ReleaseItems() {
	p.buffer.releaseItems()
	p.buffer, p.Items = nil, nil
}

// ReadFeed reads one page. 410/1002 and 410/1007 mean that the range was split
// or merged: call [Container.Ranges]. 410/1000 and 400/1024 mean that the
// container was deleted and created again, so the continuation is not valid for
// it. If the answer is truncated or is not a feed page, ReadFeed returns an
// error and no items.
//
// If no region has reached the session after all retries (404/1002), the account
// may have failed over and lost it. Later reads of the range begin a new session.
func (c *Container) ReadFeed(ctx context.Context, r FeedRequest) (*Page, error) {
	r.SessionToken = cmp.Or(r.SessionToken, c.sessions.token(r.Range))
	op, err := c.feedOperation(r)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.do(ctx, op)
	if IsBehindSession(err) {
		c.sessions.forget(r.Range)
	}
	if err != nil {
		return nil, err
	}
	page, err := newPage(r, resp, op.answer)
	if err != nil {
		op.answer.release()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	page.Charge, page.Throttled = op.charge, op.throttled
	page.Date = op.date
	return page, nil
}

func newPage(r FeedRequest, resp *http.Response, body *buffer) (*Page, error) {
	h := resp.Header
	page := &Page{
		Continuation: value(h, "Etag"),
		NotModified:  resp.StatusCode == http.StatusNotModified,
		SessionToken: value(h, headerSessionToken),
		ActivityID:   value(h, headerActivityID),
		buffer:       body,
	}
	page.Version, page.SessionLSN = sessionPosition(page.SessionToken, r.Range.ID)
	page.LSN = number(h, headerLSN)
	page.CommittedLSN = max(number(h, headerCommittedLSN), 0) // -1 is unknown, too
	if page.Continuation == "" {
		return nil, errors.New("the answer has no etag: the next page cannot be requested")
	}
	if page.NotModified {
		page.Release()
		return page, nil
	}
	var err error
	if r.Mode == ModeAllVersions { // the documents are inside of others
		r.KeyProperty = ""
	}
	body.reserveItems(number(h, headerItemCount))
	body.items, err = scanDocuments(body.bytes, body.items[:0], r.KeyProperty)
	if err == nil && r.Mode == ModeAllVersions {
		page.UnknownForm, err = decodeEnvelopes(body.items)
	}
	page.Items = body.items
	if err == nil && len(page.Items) == 0 && page.Continuation == r.Continuation {
		page.NotModified = true
		page.Release()
	}
	return page, err
}

// NewestLSN returns the newest LSN of a range in any region that tells one, and the request units of
// asking. The error is that of the last region if none does. A region that does not answer is left
// after a few seconds.
func (c *Container) NewestLSN(ctx context.Context, r Range) (newest int64, units float64, err error) {
	endpoints, err := c.client.regions.readEndpoints(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, endpoint := range endpoints {
		lsn, charge, regionErr := c.newestLSNIn(ctx, r, endpoint)
		units += charge
		if regionErr != nil {
			err = regionErr
		}
		newest = max(newest, lsn)
	}
	if newest > 0 {
		return newest, units, nil
	}
	return 0, units, cmp.Or(err, errNoLSN)
}

// errNoLSN means that no answer has told an LSN.
var errNoLSN = errors.New("the feed does not tell its newest LSN")

func (c *Container) newestLSNIn(ctx context.Context, r Range, endpoint *url.URL) (lsn int64, units float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, quickTimeout)
	defer cancel()
	op, err := c.feedOperation(FeedRequest{Range: r, Start: StartNow, MaxItems: 1})
	if err != nil {
		return 0, 0, err
	}
	op.endpoint = endpoint
	resp, err := c.client.do(ctx, op)
	if err != nil {
		return 0, op.charge, err
	}
	op.answer.release()
	_, lsn = sessionPosition(resp.Header.Get(headerSessionToken), r.ID)
	return max(lsn, 0), op.charge, nil
}

// mostFeedValues is the number of headers with values of their own that most reads have at most.
const mostFeedValues = 5

func (c *Container) feedOperation(r FeedRequest) (*operation, error) {
	op := &operation{
		name: "read feed", kind: "docs", parent: c.link, link: c.link,
		method: http.MethodGet, path: c.path + "/docs", target: c.docs, header: newHeader(), values: make([]string, 0, mostFeedValues),
		container: c, feed: true, admit: r.Admit,
	}
	if r.Range.ID == "" {
		return nil, fmt.Errorf("%s: the range has no id", op)
	}
	op.setHeader(headerPartitionRangeID, r.Range.ID)
	if r.Mode == ModeAllVersions && r.Continuation == "" && r.Start != StartNow {
		return nil, fmt.Errorf("%s: all-versions mode must start now or at a continuation, not at %s", op, r.Start)
	}
	op.header[headerFeedMode] = incrementalValue
	if r.Mode == ModeAllVersions {
		op.header.Set(headerFeedMode, fullFidelityFeed)
		op.header.Set(headerWireFormat, wireFormat)
	}
	op.setHeader(headerMaxItems, strconv.Itoa(pageHint(r.MaxItems)))
	if r.ResourceID != "" {
		op.setHeader(headerIntendedRID, r.ResourceID)
	}
	if r.SessionToken != "" {
		op.setHeader(headerSessionToken, r.SessionToken)
	}
	r.setPosition(op)
	if err := r.setBounds(op.header); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return op, nil
}

func (r FeedRequest) setPosition(op *operation) {
	switch {
	case r.Continuation != "":
		op.setHeader("If-None-Match", r.Continuation)
	case r.Start.mode == startNow:
		op.setHeader("If-None-Match", "*")
	}
	if t, ok := r.Start.Time(); ok {
		// The service reports changes with _ts > time.
		op.setHeader("If-Modified-Since", t.Add(-time.Second).Format(http.TimeFormat))
	}
}

// setBounds restricts the read if the bounds are narrower than the range. An
// empty lower bound is left out, as azure-cosmos-dotnet-v3 and @azure/cosmos
// do.
func (r FeedRequest) setBounds(h http.Header) error {
	lo, hi := r.Min, cmp.Or(r.Max, r.Range.Max)
	if r.Min == "" && r.Max == "" {
		return nil
	}
	if CompareKeys(lo, r.Range.Min) < 0 || CompareKeys(hi, r.Range.Max) > 0 || CompareKeys(lo, hi) >= 0 {
		return fmt.Errorf("keys [%q, %q) are not within the range's [%q, %q)", lo, hi, r.Range.Min, r.Range.Max)
	}
	if CompareKeys(lo, r.Range.Min) == 0 && CompareKeys(hi, r.Range.Max) == 0 {
		return nil
	}
	h.Set(headerReadKeyType, "EffectivePartitionKeyRange")
	h.Set(headerEndEPK, hi)
	if lo != "" {
		h.Set(headerStartEPK, lo)
	}
	return nil
}
