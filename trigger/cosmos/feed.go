package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Start is where a feed without a continuation begins. The zero value is the
// beginning. Starts may be compared with ==.
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

// StartNow begins with the next change.
var StartNow = Start{mode: startNow}

// StartAt begins with the changes of time t. Documents know whole seconds
// (_ts), so those of the same second before t come too; the service documents a
// precision of about five seconds.
func StartAt(t time.Time) Start { return Start{mode: startTime, unix: t.Unix()} }

// Time returns the time of [StartAt] in whole seconds; ok is false for every
// other start.
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

// Mode is what a change feed shows.
type Mode int8

const (
	// LatestVersion shows each document in its last version, and no deletes.
	LatestVersion Mode = iota
	// AllVersions shows every version and every delete, within the retention of
	// the container's change feed policy. It begins now or at a continuation.
	AllVersions
)

// FeedRequest asks for one page of the change feed.
type FeedRequest struct {
	// Mode is what to show. A continuation of one mode is none of the other.
	Mode Mode

	// Range is the physical range to read. Its bounds are needed to tell
	// whether Min and Max are narrower.
	Range Range

	// Min and Max restrict the page to a part of the range, [Min, Max) of
	// hashed keys in upper hex, as a lease keeps it after a merge. Both empty is
	// the whole range. They must lie within it.
	Min, Max string

	// Continuation is that of the page before, quotes included. When empty
	// Start decides.
	Continuation string

	// ResourceID is the container's, as [Container.Properties] gives it, that
	// Continuation is of. When given, a container that was created anew by the
	// same name is refused with 400/1024; otherwise a position of the old one
	// could be taken for one of the new.
	ResourceID string

	// Start is where to begin without a continuation. A start time governs every
	// page: give it with the continuation too. After a merge the order of a
	// range no longer follows _ts, and changes from before the time would come
	// (azure-sdk-for-java sends it with every page for that reason).
	Start Start

	// MaxItems is a hint; 0 is the service's own page size. A transaction is
	// never divided, so a page may hold more.
	MaxItems int
}

// Page is one answer of the change feed.
type Page struct {
	// Items are in feed order; none when NotModified. They are slices of the
	// page's buffer: see [Page.Release].
	Items []Item

	// Continuation asks for what follows the page: the answer's etag as it is,
	// quotes included. A page that is NotModified has one too, and it may be
	// newer than the one asked with. When Items came but it did not change,
	// asking again would bring them again.
	Continuation string

	NotModified bool  // nothing new: wait before asking again
	SessionLSN  int64 // newest LSN of the range, from the session token; 0 when absent
	LSN         int64 // the lsn header; 0 when absent
	Charge      float64
	Date        time.Time // the service's, in whole seconds
	ActivityID  string

	buffer *buffer
}

// Item is one change of a page. In LatestVersion mode only the first three
// fields are set.
type Item struct {
	Document  json.RawMessage // as it now is; nil for a delete
	LSN       int64           // _lsn, or that of the metadata; 0 when absent
	Timestamp int64           // _ts, or crts of the metadata: seconds since 1970; 0 when absent

	Operation    Operation
	Previous     json.RawMessage // the version before, where the service has it
	PreviousLSN  int64           // of the version before; 0 when absent
	ID           string          // of a delete
	PartitionKey json.RawMessage // of a delete: an object by path, or a list of values
}

// Operation is what happened to a document.
type Operation string

// The operations of AllVersions mode; in LatestVersion mode it is empty.
const (
	Create  Operation = "create"
	Replace Operation = "replace"
	Delete  Operation = "delete"
	Expire  Operation = "expire" // a delete by time to live
)

// Release gives the page's buffer back for reuse; Items are invalid
// afterwards. It need not be called, and has no effect the second time.
func (p *Page) Release() {
	p.buffer.release()
	p.buffer, p.Items = nil, nil
}

// ReadFeed reads one page. 410/1002 and 410/1007 say that the range was split
// or merged: read [Container.Ranges]. 410/1000 and 400/1024 say that the
// container was created anew and that the continuation does not apply to it. An
// answer that is not a page of a feed, or is truncated, is discarded whole and
// is an error.
func (c *Container) ReadFeed(ctx context.Context, r FeedRequest) (*Page, error) {
	op, err := c.feedOperation(r)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.do(ctx, op)
	if err != nil {
		return nil, err
	}
	page, err := newPage(r, resp, op.answer)
	if err != nil {
		op.answer.release()
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return page, nil
}

func newPage(r FeedRequest, resp *http.Response, body *buffer) (*Page, error) {
	h := resp.Header
	page := &Page{
		Continuation: h.Get("Etag"),
		NotModified:  resp.StatusCode == http.StatusNotModified,
		SessionLSN:   sessionLSN(h.Get(headerSessionToken), r.Range.ID),
		Charge:       charge(h),
		Date:         date(h),
		ActivityID:   h.Get(headerActivityID),
		buffer:       body,
	}
	page.LSN, _ = strconv.ParseInt(h.Get(headerLSN), 10, 64)
	if page.Continuation == "" {
		return nil, errors.New("the answer has no etag: nothing could be read after it")
	}
	if page.NotModified {
		page.Release()
		return page, nil
	}
	var err error
	body.items, err = cutDocuments(body.bytes, body.items[:0])
	if err == nil && r.Mode == AllVersions {
		err = openEnvelopes(body.items)
	}
	page.Items = body.items
	return page, err
}

func (c *Container) feedOperation(r FeedRequest) (*operation, error) {
	op := &operation{
		name: "read feed", kind: "docs", parent: c.link, link: c.link + " range " + r.Range.ID,
		method: http.MethodGet, path: c.path + "/docs", header: http.Header{},
		container: c, feed: true,
	}
	if r.Range.ID == "" {
		return nil, fmt.Errorf("%s: the range has no id", op)
	}
	if r.Mode == AllVersions && r.Continuation == "" && r.Start != StartNow {
		return nil, fmt.Errorf("%s: all versions begin now or at a continuation, not at %s", op, r.Start)
	}
	h := op.header
	h.Set(headerFeedMode, incrementalFeed)
	if r.Mode == AllVersions {
		h.Set(headerFeedMode, fullFidelityFeed)
		h.Set(headerWireFormat, wireFormat)
	}
	h.Set(headerMaxItems, strconv.Itoa(pageHint(r.MaxItems)))
	h.Set(headerPartitionRangeID, r.Range.ID)
	if r.ResourceID != "" {
		h.Set(headerIntendedRID, r.ResourceID)
	}
	r.setPosition(h)
	if err := r.setBounds(h); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return op, nil
}

func (r FeedRequest) setPosition(h http.Header) {
	switch {
	case r.Continuation != "":
		h.Set("If-None-Match", r.Continuation)
	case r.Start.mode == startNow:
		h.Set("If-None-Match", "*")
	}
	if t, ok := r.Start.Time(); ok {
		// The service compares _ts > time.
		h.Set("If-Modified-Since", t.Add(-time.Second).Format(http.TimeFormat))
	}
}

// setBounds restricts the read where the bounds are narrower than the range.
// The start is left out when empty, as azure-cosmos-dotnet-v3 and
// @azure/cosmos do.
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

// sessionLSN takes the LSN out of a session token
// {range}:{version}#{lsn}[#{region}={lsn}…] or {range}:{lsn}, of which there
// may be several with commas between: azure-cosmos-dotnet-v3
// VectorSessionToken.
func sessionLSN(token, rangeID string) int64 {
	for one := range strings.SplitSeq(token, ",") {
		id, rest, ok := strings.Cut(one, ":")
		if !ok || strings.TrimSpace(id) != rangeID && strings.Contains(token, ",") {
			continue
		}
		lsn, after, versioned := strings.Cut(rest, "#")
		if versioned {
			lsn, _, _ = strings.Cut(after, "#")
		}
		n, _ := strconv.ParseInt(lsn, 10, 64)
		return n
	}
	return 0
}
