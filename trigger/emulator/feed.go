package emulator

import (
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"halley/trigger/emulator/epk"
)

// Pages of a feed or query are bounded by items and by bytes, as the service
// bounds them.
const (
	defaultPage   = 1000
	pageBytes     = 4 << 20
	entryOverhead = 256 // of an entry in a page of the feed, at most, besides its documents and key
)

// capabilityMergedStart is the bit of x-ms-cosmos-sdk-supportedcapabilities with
// which a client may combine a start time and a merged range (SdkSupportedCapabilities
// in azure-cosmos-dotnet-v3).
const capabilityMergedStart = 2

// feedRequest is a read of the change feed, resolved to one physical range.
type feedRequest struct {
	span
	partition *partition
	versions  bool  // all of them, and deletes
	envelopes bool  // the format that has room for more than a document
	after     int64 // LSN
	since     int64 // seconds since 1970, exclusive; only documents modified later
	now       bool  // start at the end
	limit     int
}

// span is a part of a container's key space: all between two effective partition
// keys, or one logical partition among them.
type span struct {
	min, max string
	key      string // canonical logical partition key; "" = all
	prefix   bool   // min and max come from a partition key
}

func (s span) holds(i *item) bool {
	if s.key != "" {
		return i.key() == s.key
	}
	return epk.Contains(s.min, s.max, i.epk())
}

// entry is a change as a feed shows it.
type entry interface {
	position() int64
	subject() *item
	written() int64 // seconds since 1970
	size() int      // in bytes, about
	appendTo(b []byte, form feedForm) []byte
}

// feedForm is the part of a container on which the text of its changes depends.
type feedForm struct {
	key      epk.Definition
	previous previousImages
}

// page is the result of one read of a feed.
type page struct {
	entries []entry
	lsn     int64 // the next read begins after it
	isEmpty bool  // it has no changes, and others follow
	form    feedForm
}

// Modes of the change feed, as A-IM names them.
const (
	latestVersion = "Incremental Feed"
	allVersions   = "Full-Fidelity Feed"
)

// readFeed answers a read of the change feed.
func (c *call) readFeed() (*response, error) {
	mode := c.header.Get("A-Im")
	if !strings.EqualFold(mode, latestVersion) && !strings.EqualFold(mode, allVersions) {
		return nil, badRequest("The change feed mode A-IM: %q is not supported by this account; use %q or %q.", mode, latestVersion, allVersions)
	}
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	var found page
	r, err := c.locked(o, func() (*response, error) {
		req, err := c.feedRequest(o)
		if err != nil {
			return nil, err
		}
		if err := c.checkSession(req.partition); err != nil {
			return nil, err
		}
		if c.catalog.options.Manners.RefuseAhead && req.after > req.partition.lsn {
			return nil, notContinuation(c.header.Get("If-None-Match"), req.partition)
		}
		if err := req.partition.budget.admit(c.now); err != nil {
			return nil, err
		}
		found = req.read(c.catalog.options.Manners)
		found.form = o.feedForm()
		return found.response(o, req.partition), nil
	})
	if r != nil && r.status == http.StatusOK {
		r.body = found.body(o)
	}
	return r, err
}

// feedRequest reads the headers of a feed request.
func (c *call) feedRequest(o *container) (*feedRequest, error) {
	req := &feedRequest{
		versions:  strings.EqualFold(c.header.Get("A-Im"), allVersions),
		envelopes: c.header.Get("X-Ms-Cosmos-Changefeed-Wire-Format-Version") == wireFormat,
	}
	var err error
	if req.span, err = c.span(o); err != nil {
		return nil, err
	}
	if req.partition, err = c.feedPartition(o, req); err != nil {
		return nil, err
	}
	if req.limit, err = c.pageLimit(); err != nil {
		return nil, err
	}
	if req.versions {
		return req, c.versionPosition(o, req)
	}
	return req, c.position(req)
}

// span reads the part of the key space that the request asks for.
func (c *call) span(o *container) (span, error) {
	s := span{min: epk.Min, max: epk.Max}
	if min := c.header.Get("X-Ms-Start-Epk"); min != "" {
		s.min = strings.ToUpper(min)
	}
	if max := c.header.Get("X-Ms-End-Epk"); max != "" {
		s.max = strings.ToUpper(max)
	}
	if epk.Compare(s.min, s.max) >= 0 || epk.Compare(s.max, epk.Max) > 0 {
		return s, badRequest("x-ms-start-epk %q and x-ms-end-epk %q must be a range of effective partition keys below %q.", s.min, s.max, epk.Max)
	}
	header := c.header.Get("X-Ms-Documentdb-Partitionkey")
	if header == "" {
		return s, nil
	}
	key, err := epk.ParseKey(header)
	if err != nil {
		return s, badRequest("The header x-ms-documentdb-partitionkey cannot be read: %v.", err)
	}
	if len(key) > len(o.keyDefinition.Paths) {
		return s, badRequest("The partition key %s has more components than the container has paths.", key)
	}
	s.narrow(o.keyDefinition, key)
	return s, nil
}

// feedPartition finds the range to read: the one that the request names, or the one
// that holds the bounds. It fails if several ranges do.
func (c *call) feedPartition(o *container, req *feedRequest) (*partition, error) {
	if id := c.header.Get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		return o.partition(id)
	}
	p := o.locate(req.min)
	if req.key == "" && epk.Compare(req.max, p.Max) > 0 {
		return nil, badRequest("The request for the change feed of container %q names more than one of its %d partition key ranges: send x-ms-documentdb-partitionkeyrangeid.", o.Name, len(o.Partitions))
	}
	return p, nil
}

// pageLimit reads x-ms-max-item-count; if it is -1, the account decides.
func (c *call) pageLimit() (int, error) {
	text := c.header.Get("X-Ms-Max-Item-Count")
	if text == "" || text == "-1" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, badRequest("The input PageSize %s is invalid. Ensure to pass a valid page size which must be a positive integer or -1 for a dynamic page size.", shortened(text, maxName)).byGateway()
	}
	return n, nil
}

// position reads the start of the feed: an etag, the beginning, a time or now.
func (c *call) position(req *feedRequest) error {
	etag := c.header.Get("If-None-Match")
	if etag == "*" {
		req.now = true
		return nil
	}
	if err := c.startTime(req, etag); err != nil || etag == "" {
		return err
	}
	return req.resume(etag)
}

// resume starts after an etag. It fails if the etag is not an LSN.
func (req *feedRequest) resume(etag string) error {
	lsn, err := strconv.ParseInt(strings.Trim(etag, `"`), 10, 64)
	if err != nil || lsn < 0 {
		return notContinuation(etag, req.partition)
	}
	req.after = lsn
	return nil
}

func notContinuation(etag string, p *partition) error {
	return badRequest("The If-None-Match %s is not a continuation of partition key range %q, whose LSN is %d.", etag, p.ID, p.lsn)
}

// startTime reads If-Modified-Since, which clients send again with every etag. If
// the range was never merged, all changes after the etag are later anyway, so the
// time is ignored, as the REST reference says. If it was, both are needed.
func (c *call) startTime(req *feedRequest, etag string) error {
	text := c.header.Get("If-Modified-Since")
	if text == "" || etag != "" && !req.partition.Merged {
		return nil
	}
	capabilities, _ := strconv.Atoi(c.header.Get("X-Ms-Cosmos-Sdk-Supportedcapabilities"))
	if req.partition.Merged && capabilities&capabilityMergedStart == 0 {
		return badRequest("If-Modified-Since is not supported with merged partitions: the client lacks the capability (bit %d of x-ms-cosmos-sdk-supportedcapabilities).", capabilityMergedStart)
	}
	start, err := parseDate(text)
	if err != nil {
		return err
	}
	req.since = start.Unix()
	return nil
}

// parseDate takes RFC 1123 dates in GMT, and in UTC as azcosmos writes them.
func parseDate(text string) (time.Time, error) {
	if t, err := http.ParseTime(text); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC1123, text)
	if err != nil {
		return time.Time{}, badRequest("The date %q is not in the form of RFC 1123, such as %q.", text, http.TimeFormat)
	}
	return t, nil
}

// read takes the next page from the log. When changes share an LSN, as those of one
// transaction do, they stay in one page, even if they alone exceed its limits.
//
// The LSN of a page that reaches the end is the newest that the read has passed: it may be
// that of an item which was deleted or has expired since (recorded answer of a hosted account,
// October 2026: etag "43" after an item at 42). For other pages see [Manners].
func (req *feedRequest) read(m Manners) page {
	if req.now {
		return page{lsn: req.partition.newest(m)}
	}
	found, size := page{}, 0
	for e := range req.changes() {
		if len(found.entries) >= req.limit && e.position() != found.last() {
			found.lsn = m.cutLSN(found.last(), e.position())
			return found
		}
		if !req.selects(e) {
			continue
		}
		if m.EmptyPages && len(found.entries) == 0 && e.position() > req.after+1 {
			return page{lsn: e.position() - 1, isEmpty: true}
		}
		size += e.size() + len(e.subject().text) + entryOverhead
		if size > pageBytes && found.cut(e.position()) {
			found.lsn = m.cutLSN(found.last(), e.position())
			return found
		}
		found.entries = append(found.entries, e)
	}
	found.lsn = req.endLSN(m, len(found.entries), found.last())
	return found
}

// endLSN is the LSN of a page that reaches the end, of so many changes.
func (req *feedRequest) endLSN(m Manners, changes int, last int64) int64 {
	switch {
	case m.FullAsCut && changes >= req.limit:
		return last
	case m.IdleKeepsETag && changes == 0 && req.after > 0:
		return req.after
	case req.after > req.partition.lsn:
		return req.partition.newest(m)
	}
	return max(req.after, req.partition.newest(m))
}

// cut removes the changes with an LSN from the end of the page, unless it has no others.
func (f *page) cut(lsn int64) bool {
	earlier := len(f.entries)
	for earlier > 0 && f.entries[earlier-1].position() == lsn {
		earlier--
	}
	if earlier == 0 {
		return false
	}
	f.entries = f.entries[:earlier]
	return true
}

// last returns the LSN of the last change of the page, 0 if it has none.
func (f page) last() int64 {
	if len(f.entries) == 0 {
		return 0
	}
	return f.entries[len(f.entries)-1].position()
}

// changes are all changes of the range after the position.
func (req *feedRequest) changes() iter.Seq[entry] {
	return func(yield func(entry) bool) {
		if req.versions {
			for _, v := range req.partition.versions.after(req.after) {
				if !yield(v) {
					return
				}
			}
			return
		}
		for doc := range req.partition.log.after(req.after) {
			e := entry(doc)
			if req.envelopes {
				e = latest{doc}
			}
			if !yield(e) {
				return
			}
		}
	}
}

func (req *feedRequest) selects(e entry) bool {
	return (req.since == 0 || e.written() > req.since) && req.holds(e.subject())
}

// response is the page without its body. Its etag is the only token of progress.
func (f page) response(o *container, p *partition) *response {
	status, units := http.StatusOK, 0.0
	switch {
	case f.isEmpty:
		units = 1
	case len(f.entries) == 0:
		status, units = http.StatusNotModified, 1
	}
	for _, e := range f.entries {
		units += readCharge(e.size())
	}
	p.budget.spend(units)
	r := reply(status, nil).etag(strconv.Quote(strconv.FormatInt(f.lsn, 10))).charge(units)
	r.set("x-ms-item-count", strconv.Itoa(len(f.entries)))
	o.name(r)
	p.stamp(r)
	return r
}

// body writes the changes. The caller needs no lock: when a document is published,
// its body does not change any more.
func (f page) body(o *container) []byte {
	size := 64
	for _, e := range f.entries {
		size += e.size() + 32
	}
	b := append(make([]byte, 0, size), `{"_rid":"`+o.rid+`","Documents":[`...)
	for i, e := range f.entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = e.appendTo(b, f.form)
	}
	b = append(b, `],"_count":`...)
	return append(strconv.AppendInt(b, int64(len(f.entries)), 10), '}')
}
