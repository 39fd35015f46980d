package emulator

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"halley/trigger/emulator/epk"
)

// Pages of a feed or query are bounded by items and by bytes, as the service
// bounds them.
const (
	defaultPage = 1000
	pageBytes   = 4 << 20
)

// capabilityMergedStart is the bit of x-ms-cosmos-sdk-supportedcapabilities with
// which a client may combine a start time and a merged range (SdkSupportedCapabilities
// in azure-cosmos-dotnet-v3).
const capabilityMergedStart = 2

// feedRequest is a read of the change feed, resolved to one physical range.
type feedRequest struct {
	span
	partition *partition
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
		return i.key == s.key
	}
	return epk.Contains(s.min, s.max, i.epk)
}

// page is what one read of a feed found.
type page struct {
	documents []*document
	lsn       int64 // where the next read begins
}

// readFeed answers a read of the change feed in latest-version mode.
func (c *call) readFeed() (*response, error) {
	if mode := c.header.Get("A-Im"); !strings.EqualFold(mode, "Incremental Feed") {
		return nil, badRequest("The change feed mode A-IM: %q is not supported by this account; use \"Incremental Feed\".", mode)
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
		if err := req.partition.budget.admit(c.now); err != nil {
			return nil, err
		}
		found = req.read()
		return found.response(o, req.partition), nil
	})
	if r != nil && r.status == http.StatusOK {
		r.body = found.body(o.rid)
	}
	return r, err
}

// feedRequest reads the headers of a feed request.
func (c *call) feedRequest(o *container) (*feedRequest, error) {
	req := &feedRequest{}
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
	return req, c.position(req)
}

// span reads which part of the key space is asked for.
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

// feedPartition finds the range to read: the one named, or the only one that
// holds the bounds.
func (c *call) feedPartition(o *container, req *feedRequest) (*partition, error) {
	if id := c.header.Get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		return o.partition(id)
	}
	p := o.locate(req.min)
	if req.key == "" && epk.Compare(req.max, p.Max) > 0 {
		return nil, badRequest("The change feed of container %q is asked for beyond one of its %d partition key ranges: send x-ms-documentdb-partitionkeyrangeid.", o.Name, len(o.Partitions))
	}
	return p, nil
}

// pageLimit reads x-ms-max-item-count; -1 leaves it to the account.
func (c *call) pageLimit() (int, error) {
	text := c.header.Get("X-Ms-Max-Item-Count")
	if text == "" || text == "-1" {
		return defaultPage, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, badRequest("x-ms-max-item-count must be a positive number or -1, not %q.", text)
	}
	return n, nil
}

// position reads where to start: an etag, the beginning, a time or now.
func (c *call) position(req *feedRequest) error {
	etag := c.header.Get("If-None-Match")
	if etag == "*" {
		req.now = true
		return nil
	}
	if err := c.startTime(req, etag); err != nil || etag == "" {
		return err
	}
	lsn, err := strconv.ParseInt(strings.Trim(etag, `"`), 10, 64)
	if err != nil || lsn < 0 || lsn > req.partition.lsn {
		return badRequest("The If-None-Match %s is no continuation of partition key range %q, whose LSN is %d.", etag, req.partition.ID, req.partition.lsn)
	}
	req.after = lsn
	return nil
}

// startTime reads If-Modified-Since. Clients resend it with every etag: a range
// that was never merged then has nothing older to hide, so that it is ignored, as
// the REST reference says; a merged one needs both.
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

// read takes the next page from the log. Changes of one transaction have one LSN
// and stay together, however many they are.
func (req *feedRequest) read() page {
	found := page{lsn: req.partition.lsn}
	if req.now {
		return found
	}
	size := 0
	for doc := range req.partition.log.after(req.after) {
		full := len(found.documents) >= req.limit || size >= pageBytes
		if full && doc.lsn != found.documents[len(found.documents)-1].lsn {
			break
		}
		if req.selects(doc) {
			found.documents = append(found.documents, doc)
			size += len(doc.body)
		}
	}
	if n := len(found.documents); n > 0 {
		found.lsn = found.documents[n-1].lsn
	}
	return found
}

func (req *feedRequest) selects(doc *document) bool {
	return (req.since == 0 || doc.modified > req.since) && req.holds(doc.item)
}

// response is the page without its body. Its etag is the only token of progress.
func (f page) response(o *container, p *partition) *response {
	status, units := http.StatusOK, 0.0
	if len(f.documents) == 0 {
		status, units = http.StatusNotModified, 1
	}
	for _, doc := range f.documents {
		units += readCharge(len(doc.body))
	}
	p.budget.spend(units)
	r := reply(status, nil).etag(strconv.Quote(strconv.FormatInt(f.lsn, 10))).charge(units)
	r.set("x-ms-item-count", strconv.Itoa(len(f.documents)))
	o.name(r)
	p.stamp(r)
	return r
}

// body writes the documents, which need no lock any more.
func (f page) body(rid string) []byte {
	size := 64
	for _, doc := range f.documents {
		size += len(doc.body) + 32
	}
	b := append(make([]byte, 0, size), `{"_rid":"`+rid+`","Documents":[`...)
	for i, doc := range f.documents {
		if i > 0 {
			b = append(b, ',')
		}
		b = doc.appendFeed(b)
	}
	b = append(b, `],"_count":`...)
	return append(strconv.AppendInt(b, int64(len(f.documents)), 10), '}')
}
