package emulator

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"halley/trigger/emulator/epk"
)

// unitsPerRange is the throughput that one physical range bears,
// https://learn.microsoft.com/azure/cosmos-db/partitioning-overview.
const unitsPerRange = 10_000

// maxRanges is the most ranges that a container may have when it is created.
const maxRanges = 1000

// rangesFor is the number of ranges that a throughput needs at first.
func rangesFor(units int) int { return max(1, (units+unitsPerRange-1)/unitsPerRange) }

// partition is a range of a container, whose mu guards it.
type partition struct {
	ID       string   `json:"id"`
	Min      string   `json:"min"`
	Max      string   `json:"max"`
	Parents  []string `json:"parents"` // all ancestors, oldest first
	Born     int      `json:"born"`    // topology of the container when it appeared
	Version  int64    `json:"version"` // of its session tokens
	Merged   bool     `json:"merged"`  // it or an ancestor came from a merge
	Modified int64    `json:"modified"`

	*sequence
	*spread        // nil if the account has one region
	ownLSN   int64 // of the container's own newest write since the account was opened; 0 if there is none
	log      series[*document]
	versions versionLog // empty unless the container keeps one
	items    series[*item]
	budget   budget
}

func (p *partition) holds(key string) bool { return epk.Contains(p.Min, p.Max, key) }

// session is the range's session token.
func (p *partition) session() string {
	return p.ID + ":" + strconv.FormatInt(p.Version, 10) + "#" + strconv.FormatInt(p.lsn, 10) + p.spread.vector()
}

// checkSession refuses a read whose session token is ahead of the range, as a replica
// does that has not reached the session. A region is never behind itself, so such a token is
// of another region, or of a time before its data were lost. Tokens of other ranges do not count, as in azure-cosmos-dotnet-v3
// (SessionTokenHelper.GetLocalSessionToken).
func (c *call) checkSession(p *partition) error {
	header := c.header.Get("X-Ms-Session-Token")
	if header == "" {
		return nil
	}
	for token := range strings.SplitSeq(header, ",") {
		id, session, _ := strings.Cut(strings.TrimSpace(token), ":")
		position, err := parseSession(session)
		if err != nil {
			return badRequest("The session token %q is not valid: %v.", header, err)
		}
		if id == p.ID && !p.reached(position) {
			f := fail(http.StatusNotFound, subSessionUnavailable, "The read session is not available for the input session token %q: the range is at %q.", token, p.session())
			f.entity = true
			return f
		}
	}
	return nil
}

// session is the part of a session token that is compared.
type session struct {
	version, lsn int64
	regions      map[int]int64 // LSNs by the number of a region
}

// parseSession reads {version}#{lsn}[#{region}={lsn}…].
func parseSession(token string) (s session, err error) {
	parts := strings.Split(token, "#")
	if len(parts) < 2 {
		return s, errors.New("it must be {range}:{version}#{lsn}")
	}
	if s.version, err = strconv.ParseInt(parts[0], 10, 64); err != nil {
		return s, err
	}
	for _, part := range parts[2:] {
		number, text, _ := strings.Cut(part, "=")
		region, regionErr := strconv.Atoi(number)
		lsn, lsnErr := strconv.ParseInt(text, 10, 64)
		if err := errors.Join(regionErr, lsnErr); err != nil {
			return s, err
		}
		if s.regions == nil {
			s.regions = map[int]int64{}
		}
		s.regions[region] = lsn
	}
	s.lsn, err = strconv.ParseInt(parts[1], 10, 64)
	return s, err
}

// reached reports whether the range is not behind a session. If all regions write, each
// counts transactions in the order in which it gets them: then those of each region count. An
// earlier version says nothing: a failover may have lost the writes behind it.
func (p *partition) reached(s session) bool {
	switch {
	case s.version != p.Version:
		return s.version < p.Version
	case p.spread == nil || p.origins == nil:
		return s.lsn <= p.lsn
	}
	for index, count := range p.origins {
		if s.regions[index+1] > count {
			return false
		}
	}
	return true
}

// stamp adds the headers that tell the range's state to the answer to a read.
func (p *partition) stamp(r *response) { r.stamp(p.replica(), false) }

// rangeBody is a range as pkranges lists it, with its share of the throughput.
func (o *container) rangeBody(p *partition, share float64) []byte {
	seq, _ := strconv.Atoi(p.ID)
	rid := memberRID(o.ridBytes, typeRange, uint64(seq))
	body, _ := json.Marshal(map[string]any{ // strings and numbers always marshal
		"id": p.ID, "_rid": rid, "_self": o.path + "pkranges/" + rid + "/",
		"_etag": formatETag(o.platform.seed, o.Number, uint64(p.Born)), "_ts": p.Modified,
		"minInclusive": p.Min, "maxExclusive": p.Max, "ridPrefix": seq, "throughputFraction": share,
		"status": "online", "parents": p.Parents, "ownedArchivalPKRangeIds": []string{}, "lsn": p.lsn,
	})
	return body
}

// budget is the throughput of one range. A call is admitted if anything is left,
// and may overdraw it, as on the service. The lock of the container guards it.
type budget struct {
	rate  float64 // units per second; 0 = unlimited
	level float64
	at    time.Time
}

// admit fails if the budget is spent; the failure has the time until it recovers.
func (b *budget) admit(now time.Time) error {
	if b.rate == 0 {
		return nil
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.level = min(b.rate, b.level+b.rate*passed.Seconds())
		b.at = now
	}
	if b.level > 0 {
		return nil
	}
	f := fail(http.StatusTooManyRequests, subBudgetSpent, "Request rate is large. More Request Units may be needed, so no changes were made. Please retry this request later. Learn more: http://aka.ms/cosmosdb-error-429")
	f.retryAfter = time.Duration((-b.level/b.rate)*float64(time.Second)) + time.Millisecond
	return f
}

func (b *budget) spend(units float64) { b.level -= units }

// A model of request charges that agrees with recorded answers of a hosted account,
// October 2026, within ten percent: proportional to size in KB, with more for writes and
// for the index terms that a write adds and removes.
const (
	readUnits     = 1.0
	failedUnits   = 1.24 // of a write that a partition refuses
	writeUnits    = 5.0  // of the document that a write creates, replaces or deletes
	replaceUnits  = 2.9  // of the document that a replace writes
	propertyUnits = 0.45 // of each property of the old and of the new document
	uniqueUnits   = 1.5  // of the unique keys of a new document
)

func kilobytes(n int) float64 { return float64(max(1, (n+1023)/1024)) }

func readCharge(size int) float64 { return readUnits * kilobytes(size) }

// writeCharge is the charge of a create or delete.
func (d *document) writeCharge() float64 {
	return writeUnits*kilobytes(len(d.body)) + propertyUnits*float64(d.properties)
}

// replaceCharge is the charge of a replace of d.
func (d *document) replaceCharge(newVersion *document) float64 {
	return d.writeCharge() + replaceUnits*kilobytes(len(newVersion.body)) + propertyUnits*float64(newVersion.properties)
}

// uniqueCharge is what unique keys add to the charge of a write.
func (o *container) uniqueCharge() float64 {
	if len(o.uniqueKeys) == 0 {
		return 0
	}
	return uniqueUnits
}

func rangeGone(id string) *failure {
	return fail(http.StatusGone, subRangeGone, "The partition key range %q is gone: it was split or merged. Read the ranges again.", id)
}

func completingSplit(id string) *failure {
	return fail(http.StatusGone, subCompletingSplit, "The partition key range %q is completing a split. Retry.", id)
}
