package lease

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// timestampLayout is .NET's round-trip format for a UTC DateTime.
const timestampLayout = "2006-01-02T15:04:05.0000000Z"

// largestEpoch bounds the epoch of a lease, which each acquisition raises. Unix times,
// with which epochs begin, are far below it.
const largestEpoch = math.MaxInt64 / 2

// systemProperties are set by the service and not sent back.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// writtenProperties are those that [Lease.document] sets at each write.
var writtenProperties = []string{"id", "Owner", "ContinuationToken", "properties", "timestamp"}

// wireRange is FeedRange as .NET's FeedRangeEpk serialises it.
type wireRange struct {
	Range struct {
		Min string `json:"min"`
		Max string `json:"max"`
	} `json:"Range"`
}

// wireFields are the fields of a document that a [Lease] holds in another form.
type wireFields struct {
	seconds     int64 // _ts
	partitionID string
	version     int
	feedRange   *wireRange
}

// parseLease reads a lease document. A document that is not a lease, or one that
// Halley does not understand, is an error and must not be written.
func parseLease(raw []byte, prefix string) (*Lease, error) {
	l, fields, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if err := checkForm(l); err != nil {
		return nil, err
	}
	l.token = cmp.Or(l.token, fields.partitionID)
	l.mode = cmp.Or(l.mode, modeLatestVersion)
	if err := checkToken(l, prefix); err != nil {
		return nil, err
	}
	if err := setSpan(l, fields); err != nil {
		return nil, err
	}
	if javaContinuation(l.continuation) {
		return nil, ErrForeign
	}
	if e, ok := l.properties[epochProperty]; ok {
		switch n, err := strconv.ParseInt(e, 10, 64); {
		case err != nil && !errors.Is(err, strconv.ErrRange), n < 0:
			return nil, fmt.Errorf("property %s is %q, not a count", epochProperty, e)
		case n > largestEpoch:
			return nil, fmt.Errorf("property %s is %q: an acquisition would make it negative; set it to the highest epoch of the other leases", epochProperty, e)
		}
	}
	l.written = time.Unix(fields.seconds, 0)
	if lastWrite, requested := writtenBeforeRequest(l); requested {
		l.written = lastWrite
	}
	if lastWrite, marked := writtenBeforeMark(l); marked {
		l.written = lastWrite
	}
	return l, nil
}

// decode reads the properties of a document by their exact names; encoding/json
// alone would accept names that differ in case.
func decode(raw []byte) (*Lease, wireFields, error) {
	var f wireFields
	document := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, f, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, java := document["feedRange"]; java { // .NET's is FeedRange
		return nil, f, ErrForeign
	}
	l := &Lease{}
	for _, p := range []struct {
		name string
		to   any
	}{
		{"id", &l.id}, {"_etag", &l.etag}, {"_ts", &f.seconds}, {"version", &f.version}, {"LeaseToken", &l.token},
		{"PartitionId", &f.partitionID}, {"FeedRange", &f.feedRange}, {"Owner", &l.owner}, {"Mode", &l.mode},
		{"ContinuationToken", &l.continuation}, {"properties", &l.properties},
	} {
		if err := unmarshalProperty(document, p.name, p.to); err != nil && document[p.name] != nil {
			return nil, f, err
		}
	}
	l.timestamp, l.rest = document["timestamp"], withoutWritten(document)
	return l, f, nil
}

// withoutWritten returns the properties of a document that a write takes over: many leases are in
// memory for long.
func withoutWritten(document map[string]json.RawMessage) map[string]json.RawMessage {
	rest := map[string]json.RawMessage{}
	for name, value := range document {
		if !slices.Contains(writtenProperties, name) && (name == "_rid" || !slices.Contains(systemProperties, name)) {
			rest[name] = value
		}
	}
	return rest
}

// formProperty is the lease property that holds the version of the document's form, 1 if it is
// absent. Versions that know only older forms do not touch the document, see docs/upgrading.md.
const (
	formProperty = "halley.form"
	formVersion  = 1
)

// ErrNewerForm is in the error about a document of a later form.
var ErrNewerForm = errors.New("written by a newer version of Halley")

func checkForm(l *Lease) error {
	text, ok := l.properties[formProperty]
	if !ok {
		return nil
	}
	if n, valid := parseNumber(text); !valid || n > formVersion {
		return fmt.Errorf("%w: its form has version %s, and this version reads forms up to %d", ErrNewerForm, CleanText(text), formVersion)
	}
	return nil
}

func checkToken(l *Lease, prefix string) error {
	if l.token == "" {
		return errors.New("has neither LeaseToken nor PartitionId")
	}
	if token, ok := strings.CutPrefix(l.id, prefix+".."); !ok || token != l.token {
		return fmt.Errorf("id and token %q disagree", l.token)
	}
	return nil
}

func setSpan(l *Lease, f wireFields) error {
	if f.version != 0 && f.version != 1 {
		return fmt.Errorf("unknown schema version %d", f.version)
	}
	l.byKeys = f.version == 1
	if f.feedRange != nil {
		l.span = Span{f.feedRange.Range.Min, f.feedRange.Range.Max}
		if !l.span.isKnown() || cosmos.CompareKeys(l.span.Min, l.span.Max) >= 0 {
			return fmt.Errorf("FeedRange %q to %q is not a range", l.span.Min, l.span.Max)
		}
	}
	if l.byKeys && !l.span.isKnown() {
		return errors.New("schema version 1 without FeedRange")
	}
	return nil
}

// javaContinuation reports whether a token is Java's Base64 ChangeFeedState,
// which wraps etags in JSON. Tokens of .NET and Halley are the raw quoted etag.
func javaContinuation(token string) bool {
	if strings.HasPrefix(token, `"`) {
		return false
	}
	decoded, err := base64.StdEncoding.DecodeString(token)
	return err == nil && bytes.HasPrefix(bytes.TrimSpace(decoded), []byte("{"))
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

func timestampJSON(now time.Time) json.RawMessage {
	return quotedJSON(now.UTC().Format(timestampLayout))
}

func quotedJSON(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always encodes
	return b
}
