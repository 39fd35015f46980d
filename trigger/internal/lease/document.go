package lease

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
)

// Lease is one version of a lease document: it gives one owner one range of one
// function. A Lease is immutable once it is shared; writers change a clone.
//
// The format is that of the .NET change feed processor (azure-cosmos-dotnet-v3,
// DocumentServiceLeaseCore and DocumentServiceLeaseCoreEpk): schema v0 names a
// partition key range, v1 a span of hashed keys, and the older v2 library only a
// PartitionId. A write returns every property that Halley does not know as it was
// read. Halley's own state is in "properties", the one object that the .NET
// processor preserves.
type Lease struct {
	id           string
	partitionKey cosmos.PartitionKey // of the document in the lease container
	etag         azcore.ETag
	written      time.Time // last write of the owner on the service's clock (_ts), whole seconds

	token        string // partition key range id (v0), or "min-max" (v1)
	byKeys       bool   // v1: the lease is for the span and not for a physical range
	span         Span   // zero if unknown: a v0 lease that has never been acquired
	owner        string // "" is free
	continuation string // raw etag with its quotes; "" before the first checkpoint
	mode         string
	properties   map[string]string
	timestamp    json.RawMessage // of the owner's last write, nil if there is none

	rest map[string]json.RawMessage // other properties of the document as read, and _rid
}

// Halley's properties in a lease. Those of handovers, pauses and messages are in
// handover.go, pause.go and dispatch.go.
const (
	// RetriesProperty holds the retry state of changes that the handler failed on.
	// This package does not interpret it, see [Held.Properties]; since it refers
	// to changes of one range, children of a split do not inherit it.
	RetriesProperty = "halley.retries"

	// SnapshotProperty is set while the continuation is a position in the snapshot of the
	// range, and not in the function's feed mode. This package does not interpret it. Children
	// of a split inherit it, and a write that sets another position removes it.
	SnapshotProperty = "halley.snapshot"

	// GenerationProperty numbers the last snapshot that was begun of the range, in decimal. This
	// package does not interpret it. Children of a split inherit it, and a seek leaves it: the
	// next snapshot has a higher one.
	GenerationProperty = "halley.generation"

	// KeptProperty says how much of the range's feed all regions of the account had. This package
	// does not interpret it. Children of a split inherit it, and a write that sets another position
	// removes it.
	KeptProperty = "halley.kept"

	epochProperty        = "halley.epoch"       // rises with each acquisition, see nextEpoch; decimal
	incarnationProperty  = "halley.incarnation" // owner name, "/", and a random text for each host process
	expirationProperty   = "halley.expiration"  // expiration interval of the owner, Go syntax
	tombstoneProperty    = "halley.tombstone"   // set if the account refused to delete the lease of a split range
	splittingProperty    = "halley.splitting"   // set once the owner begins to create the leases that follow
	retiringProperty     = "halley.retiring"    // set by an owner that has acquired the lease only to retire it
	holderProperty       = "halley.app"         // app and function of the last Halley owner, see Holder; unset if its app has no name
	uncleanExitsProperty = "halley.deaths"      // consecutive owners that neither released the lease nor made progress, decimal
)

// Modes as lease documents name them. A document without a mode is in the first.
const (
	modeLatestVersion = "Incremental Feed"
	modeAllVersions   = "Full-Fidelity Feed"
)

// ModeName returns the name of a mode in lease documents.
func ModeName(m cosmos.Mode) string {
	if m == cosmos.ModeAllVersions {
		return modeAllVersions
	}
	return modeLatestVersion
}

// Token identifies the lease among those of its function: the id of a physical
// range, or "min-max" of a span.
func (l *Lease) Token() string { return l.token }

// Owner returns the name of the host that holds the lease, "" if it is free.
func (l *Lease) Owner() string { return l.owner }

// Continuation returns the raw etag at which to read the feed, "" before the
// first checkpoint.
func (l *Lease) Continuation() string { return l.continuation }

// Written returns when the owner last wrote the lease, on the service's clock.
func (l *Lease) Written() time.Time { return l.written }

// Span returns the keys of the lease; its Max is "" if they are not known yet.
func (l *Lease) Span() Span { return l.span }

// ByKeys reports whether the lease is for its span and not for a physical range.
func (l *Lease) ByKeys() bool { return l.byKeys }

// Mode returns the name of the feed mode, as in the document.
func (l *Lease) Mode() string { return l.mode }

// Property returns the value of a property, "" if it is not set.
func (l *Lease) Property(name string) string { return l.properties[name] }

// Epoch returns the number of the last acquisition.
func (l *Lease) Epoch() int64 {
	n, _ := parseNumber(l.properties[epochProperty]) // checked by parseLease
	return n
}

// parseNumber reads a number of a property. Unlike [strconv.ParseInt] it makes no error of
// an empty text: most leases lack most properties, and owners ask for them at each page.
func parseNumber(text string) (n int64, ok bool) {
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Tombstone reports whether the lease only marks a range that has split, because
// the account refused to delete the document. No host acquires it.
func (l *Lease) Tombstone() bool { return l.properties[tombstoneProperty] != "" }

// Retiring reports whether an owner took the lease only to retire it, because others
// had replaced it. Until its next acquisition the split of a lease around it waits.
func (l *Lease) Retiring() bool { return l.properties[retiringProperty] != "" }

// Splitting reports whether an owner had begun to create the leases that follow. Its next
// owner ends that, or removes the mark if the range is whole.
func (l *Lease) Splitting() bool { return l.properties[splittingProperty] != "" }

// UncleanExits returns how many consecutive owners neither released the lease nor
// made progress.
func (l *Lease) UncleanExits() int {
	n, _ := parseNumber(l.properties[uncleanExitsProperty]) // 0 if it is not a number
	return int(min(max(n, 0), math.MaxInt32))
}

// OwnedByHalley reports whether the owner is a Halley host. A .NET owner keeps the
// properties of the Halley host before it, with its own name in Owner.
func (l *Lease) OwnedByHalley() bool {
	return strings.HasPrefix(l.properties[incarnationProperty], l.owner+"/")
}

// Holder returns the app and the function of the last owner, as "app/function", or "" if they
// are not known.
func (l *Lease) Holder() string {
	if l.owner != "" && !l.OwnedByHalley() {
		return ""
	}
	return l.properties[holderProperty]
}

// NeverOwned reports whether no host has read the range of the lease since it was created.
func (l *Lease) NeverOwned() bool {
	return l.owner == "" && l.continuation == "" && l.properties[incarnationProperty] == ""
}

// Free reports whether a host may acquire the lease without taking it from a
// live owner.
func (l *Lease) Free(now time.Time, expiration time.Duration) bool {
	return l.owner == "" || now.After(l.freeFrom(expiration))
}

// longestExpiration bounds an announced expiration: no host has a longer one, and a sum
// with a larger one could overflow.
const longestExpiration = 365 * 24 * time.Hour

// freeFrom returns when the lease becomes free unless its owner writes it again,
// on the service's clock. A lease without an owner is free since its last write.
// _ts is cut to whole seconds, so the lease lasts one second longer. If the owner
// announced a longer expiration than this host's, the owner's holds, up to a year.
func (l *Lease) freeFrom(expiration time.Duration) time.Time {
	if l.owner == "" {
		return l.written
	}
	return l.written.Add(l.expiration(expiration) + time.Second)
}

// expiration returns the longer one of this host's expiration and that which the owner announced.
func (l *Lease) expiration(own time.Duration) time.Duration {
	if d, err := time.ParseDuration(l.properties[expirationProperty]); err == nil {
		return max(own, min(d, longestExpiration))
	}
	return own
}

// ownership identifies one acquisition of a lease. The owner's name is not
// enough: two processes may share a name, and one process may acquire twice.
type ownership struct {
	owner       string
	incarnation string
	epoch       int64
}

func (l *Lease) ownership() ownership {
	return ownership{owner: l.owner, incarnation: l.properties[incarnationProperty], epoch: l.Epoch()}
}

// clone copies the lease as far as writers change it.
func (l *Lease) clone() *Lease {
	c := *l
	c.properties = maps.Clone(l.properties)
	if c.properties == nil {
		c.properties = map[string]string{}
	}
	return &c
}

// document encodes the lease for a write: the document as read, with the fields
// that Halley decides replaced. timestamp is when the owner wrote it, in JSON.
func (l *Lease) document(timestamp json.RawMessage) ([]byte, error) {
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
	if f, found := doc["FeedRange"]; l.span.isKnown() && (!found || string(f) == "null") {
		var r wireRange
		r.Range.Min, r.Range.Max = l.span.Min, l.span.Max
		set("FeedRange", r)
	}
	return json.Marshal(doc)
}

// Document returns the document of the lease without the service's own properties and
// without [finished.Property]: a lease that is restored by hand repeats what follows its
// continuation.
func (l *Lease) Document() json.RawMessage {
	restorable := l.clone()
	restorable.dropFinished()
	document, _ := restorable.document(l.timestamp) // it was decoded from JSON, so it encodes
	return document
}

// setMode sets the mode of a lease that has not been created yet.
func (l *Lease) setMode(mode string) {
	l.mode = mode
	l.rest["Mode"] = quotedJSON(mode)
}

// newLease makes a lease for a part that has none, in latest-version mode: v0 if
// the part is a whole physical range, else v1.
func newLease(p Part, prefix string) *Lease {
	if p.whole() {
		return newDocument(prefix, p.Token(), p.Span, false)
	}
	return newKeysLease(p.Span, prefix)
}

// newKeysLease makes a v1 lease for a span.
func newKeysLease(s Span, prefix string) *Lease {
	return newDocument(prefix, s.token(), s, true)
}

func newDocument(prefix, token string, s Span, byKeys bool) *Lease {
	version := 0
	if byKeys {
		version = 1
	}
	return &Lease{
		id: prefix + ".." + token, token: token, span: s, byKeys: byKeys, mode: modeLatestVersion,
		properties: map[string]string{},
		rest: map[string]json.RawMessage{
			"version":    json.RawMessage(strconv.Itoa(version)),
			"LeaseToken": quotedJSON(token),
			"Mode":       quotedJSON(modeLatestVersion),
		},
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
