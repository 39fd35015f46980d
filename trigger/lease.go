package trigger

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
)

// lease is a lease document: it gives one owner one range of one function.
//
// The shape is that of the .NET change feed processor (azure-cosmos-dotnet-v3,
// DocumentServiceLeaseCore and DocumentServiceLeaseCoreEpk): schema v0 names a
// partition key range, v1 a span of hashed keys, and the older v2 library a
// PartitionId alone. Everything in the document that Halley does not know is
// kept as it was read. Halley's own state lives in properties, the one place
// that the .NET processor carries over.
type lease struct {
	id           string
	partitionKey cosmos.PartitionKey // of the document in the lease container
	etag         azcore.ETag
	written      time.Time // _ts: the service's clock when the owner last wrote it, whole seconds

	token        string // partition key range id (v0), or "min-max" (v1)
	byKeys       bool   // v1: the span, not a physical range, is what is leased
	span         span   // zero while unknown: a v0 lease that nobody has acquired yet
	owner        string // "" is free
	continuation string // raw etag, quotes included; "" before the first checkpoint
	mode         string
	properties   map[string]string

	rest map[string]json.RawMessage // the document as read
}

// span is [Min, Max) of hashed partition keys, upper-case hex, "" to "FF". Zeros
// at the end of a bound mean nothing, so bounds are compared, not strings.
type span struct{ Min, Max string }

func spanOf(r cosmos.Range) span { return span{r.Min, r.Max} }

func (s span) known() bool   { return s.Max != "" }
func (s span) token() string { return s.Min + "-" + s.Max }

func (s span) equals(o span) bool {
	return cosmos.CompareKeys(s.Min, o.Min) == 0 && cosmos.CompareKeys(s.Max, o.Max) == 0
}

func (s span) overlaps(o span) bool {
	return cosmos.CompareKeys(s.Min, o.Max) < 0 && cosmos.CompareKeys(o.Min, s.Max) < 0
}

func (s span) contains(o span) bool {
	return cosmos.CompareKeys(s.Min, o.Min) <= 0 && cosmos.CompareKeys(o.Max, s.Max) <= 0
}

func (s span) intersect(o span) span {
	if cosmos.CompareKeys(o.Min, s.Min) > 0 {
		s.Min = o.Min
	}
	if cosmos.CompareKeys(o.Max, s.Max) < 0 {
		s.Max = o.Max
	}
	return s
}

// Lease properties that are Halley's.
const (
	epochProperty       = "halley.epoch"       // acquisitions so far, decimal
	incarnationProperty = "halley.incarnation" // the owner's name, "/", and what is random per host process
	expirationProperty  = "halley.expiration"  // the owner's expiration interval, Go syntax
	tombstoneProperty   = "halley.tombstone"   // set where a split parent could not be deleted
	deathsProperty      = "halley.deaths"      // owners in a row that ended without a word, decimal; see troubles.alone
)

// Modes as the lease documents name them; absent means latest version.
const (
	modeLatestVersion = "Incremental Feed"
	modeAllVersions   = "Full-Fidelity Feed"
)

func leaseMode(m cosmos.Mode) string {
	if m == cosmos.AllVersions {
		return modeAllVersions
	}
	return modeLatestVersion
}

// timestampLayout is .NET's round-trip format for a UTC DateTime.
const timestampLayout = "2006-01-02T15:04:05.0000000Z"

// wireRange is FeedRange as .NET's FeedRangeEpk serialises it.
type wireRange struct {
	Range struct {
		Min string `json:"min"`
		Max string `json:"max"`
	} `json:"Range"`
}

// systemProperties are set by the service and not sent back.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// errForeignLease marks a lease that another kind of processor keeps in a form
// that Halley must neither read nor write.
var errForeignLease = errors.New("written by the Java change feed processor, which cannot share leases with Halley; " +
	"give this function another lease container prefix")

// parseLease reads a lease document. A document that is no lease, or one that
// cannot be understood, is an error and must be left untouched.
func parseLease(raw []byte, prefix string) (*lease, error) {
	rest := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &rest); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, java := rest["feedRange"]; java { // .NET's is FeedRange
		return nil, errForeignLease
	}
	var (
		seconds     int64
		partitionID string
		version     int
		feedRange   *wireRange
	)
	l := &lease{rest: rest}
	for _, p := range []struct {
		name string
		to   any
	}{
		{"id", &l.id}, {"_etag", &l.etag}, {"_ts", &seconds}, {"version", &version}, {"LeaseToken", &l.token},
		{"PartitionId", &partitionID}, {"FeedRange", &feedRange}, {"Owner", &l.owner}, {"Mode", &l.mode},
		{"ContinuationToken", &l.continuation}, {"properties", &l.properties},
	} {
		if err := unmarshalProperty(rest, p.name, p.to); err != nil && rest[p.name] != nil {
			return nil, err
		}
	}
	l.written = time.Unix(seconds, 0)
	l.token = cmp.Or(l.token, partitionID)
	l.mode = cmp.Or(l.mode, modeLatestVersion)
	if l.token == "" {
		return nil, errors.New("has neither LeaseToken nor PartitionId")
	}
	if token, ok := strings.CutPrefix(l.id, prefix+".."); !ok || token != l.token {
		return nil, fmt.Errorf("id and token %q disagree", l.token)
	}
	if version != 0 && version != 1 {
		return nil, fmt.Errorf("unknown schema version %d", version)
	}
	l.byKeys = version == 1
	if feedRange != nil {
		l.span = span{feedRange.Range.Min, feedRange.Range.Max}
		if !l.span.known() || cosmos.CompareKeys(l.span.Min, l.span.Max) >= 0 {
			return nil, fmt.Errorf("FeedRange %q to %q is not a range", l.span.Min, l.span.Max)
		}
	}
	if l.byKeys && !l.span.known() {
		return nil, errors.New("schema version 1 without FeedRange")
	}
	if javaContinuation(l.continuation) {
		return nil, errForeignLease
	}
	if e, ok := l.properties[epochProperty]; ok {
		if n, err := strconv.ParseInt(e, 10, 64); err != nil || n < 0 {
			return nil, fmt.Errorf("property %s is %q, not a count", epochProperty, e)
		}
	}
	if before, asked := l.writtenBeforeAsked(); asked {
		l.written = before
	}
	return l, nil
}

// javaContinuation reports whether a token is Java's Base64 ChangeFeedState,
// which wraps etags in JSON; .NET's and ours are the raw quoted etag.
func javaContinuation(token string) bool {
	if strings.HasPrefix(token, `"`) {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(token)
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(decoded), []byte("{"))
}

// document is the lease as it is written: what was read, with the fields that
// Halley decides replaced. timestamp is when its owner wrote it, in JSON.
func (l *lease) document(timestamp json.RawMessage) ([]byte, error) {
	doc := maps.Clone(l.rest)
	if doc == nil {
		doc = map[string]json.RawMessage{}
	}
	for _, p := range systemProperties {
		delete(doc, p)
	}
	set := func(name string, v any) {
		b, _ := json.Marshal(v) // strings, maps of strings and the like always encode
		doc[name] = b
	}
	set("id", l.id)
	set("Owner", orNull(l.owner))
	set("ContinuationToken", orNull(l.continuation))
	doc["timestamp"] = timestamp
	if l.properties == nil {
		set("properties", struct{}{})
	} else {
		set("properties", l.properties)
	}
	if f, there := doc["FeedRange"]; l.span.known() && (!there || string(f) == "null") {
		var r wireRange
		r.Range.Min, r.Range.Max = l.span.Min, l.span.Max
		set("FeedRange", r)
	}
	return json.Marshal(doc)
}

// inMode sets the mode of a new lease.
func (l *lease) inMode(mode string) *lease {
	l.mode = mode
	l.rest["Mode"] = quoted(mode)
	return l
}

func timestamp(now time.Time) json.RawMessage { return quoted(now.UTC().Format(timestampLayout)) }

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// newLease makes the document of a lease that is not there yet, in
// latest-version mode: v0 for a physical range, v1 (byKeys) for a span.
func newLease(prefix, token string, s span, byKeys bool) *lease {
	version := 0
	if byKeys {
		version = 1
	}
	return &lease{
		id: prefix + ".." + token, token: token, span: s, byKeys: byKeys, mode: modeLatestVersion,
		properties: map[string]string{},
		rest: map[string]json.RawMessage{
			"version":    json.RawMessage(strconv.Itoa(version)),
			"LeaseToken": quoted(token),
			"Mode":       quoted(modeLatestVersion),
		},
	}
}

func (l *lease) epoch() int64 {
	n, _ := strconv.ParseInt(l.properties[epochProperty], 10, 64) // checked by parseLease
	return n
}

func (l *lease) tombstone() bool { return l.properties[tombstoneProperty] != "" }

// deaths is how many owners in a row ended without giving the lease back or
// getting anywhere.
func (l *lease) deaths() int {
	n, _ := strconv.Atoi(l.properties[deathsProperty]) // what is no number begins anew
	return n
}

// clone copies the lease as far as writers change it.
func (l *lease) clone() *lease {
	c := *l
	c.properties = maps.Clone(l.properties)
	if c.properties == nil {
		c.properties = map[string]string{}
	}
	return &c
}

// identity is what makes a host the owner of a lease. The name alone would not
// do: two processes may share one, and one process may acquire twice.
type identity struct {
	owner       string
	incarnation string
	epoch       int64
}

func (l *lease) heldBy(id identity) bool {
	return l.owner == id.owner && l.properties[incarnationProperty] == id.incarnation && l.epoch() == id.epoch
}

// ownedByHalley reports whether a lease's owner understands requests. One of .NET
// keeps the properties of the Halley host before it and puts its name in Owner.
func (l *lease) ownedByHalley() bool {
	return strings.HasPrefix(l.properties[incarnationProperty], l.owner+"/")
}

// idleSince is when a lease becomes free if nobody writes it again, on the
// service's clock: at once where it has no owner, else when the owner's right runs
// out. written is cut to whole seconds, so one more is waited for. An owner that
// announced a longer expiration than ours is given it.
func (l *lease) idleSince(expiration time.Duration) time.Time {
	if l.owner == "" {
		return l.written
	}
	if d, err := time.ParseDuration(l.properties[expirationProperty]); err == nil {
		expiration = max(expiration, d)
	}
	return l.written.Add(expiration + time.Second)
}

// free reports whether the lease may be acquired without taking it from a live owner.
func (l *lease) free(now time.Time, expiration time.Duration) bool {
	return l.owner == "" || now.After(l.idleSince(expiration))
}

// unmarshalProperty decodes one property of a document read as a map.
func unmarshalProperty(doc map[string]json.RawMessage, name string, v any) error {
	raw, ok := doc[name]
	if !ok {
		return fmt.Errorf("has no %s", name)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("property %s: %w", name, err)
	}
	return nil
}
