package hosted

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// chargeTolerance is the share by which a charge may differ.
const chargeTolerance = 0.1

// baselines are the distances between the LSNs of an account and the recorded ones. The
// master partition counts whatever happened to the account before. After an exchange with
// another status than the recorded one, the next LSN begins a new distance.
type baselines struct{ data, master baseline }

type baseline struct {
	known    bool
	distance int64
}

// compare returns the differences of an answer to the recorded one, in words.
func (b *baselines) compare(e Exchange, got Answer) []string {
	var found differences
	want := e.Want
	found.text("status", strconv.Itoa(got.Status), strconv.Itoa(want.Status))
	found.text("substatus", got.Substatus, want.Substatus)
	found.text("items", got.Items, want.Items)
	partition := &b.data
	if want.Master {
		partition = &b.master
	}
	found.session(partition, got, want)
	if got.Status != want.Status {
		b.data.known = false
	}
	found.charge(got.Charge, want.Charge)
	found.message(got.Message, want.Message)
	if want.Status >= http.StatusBadRequest {
		found.errorBody(got, want)
	} else {
		found.body(e, got)
	}
	found.lsns(e, got)
	found.common(got)
	return found
}

// differences collects them in words.
type differences []string

func (d *differences) add(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }

func (d *differences) text(name, got, want string) {
	if got != want {
		d.add("%s %q, want %q", name, got, want)
	}
}

// session compares tokens: the range, the version, and the LSN by its distance.
func (d *differences) session(b *baseline, got, want Answer) {
	gotRange, gotLSN, gotOK := parseToken(got.Session)
	wantRange, wantLSN, wantOK := parseToken(want.Session)
	if gotOK && wantOK {
		if !b.known {
			b.known, b.distance = true, gotLSN-wantLSN
		}
		gotLSN -= b.distance
	}
	if gotOK != wantOK || gotRange != wantRange || gotLSN != wantLSN {
		d.add("session token %q, want %q", got.Session, want.Session)
	}
}

// parseToken splits {range}:{version}#{lsn}.
func parseToken(token string) (rangeVersion string, lsn int64, ok bool) {
	rangeVersion, text, ok := strings.Cut(token, "#")
	lsn, err := strconv.ParseInt(text, 10, 64)
	return rangeVersion, lsn, ok && err == nil
}

func (d *differences) charge(got, want string) {
	gotUnits, gotErr := strconv.ParseFloat(got, 64)
	wantUnits, wantErr := strconv.ParseFloat(want, 64)
	if (gotErr == nil) != (wantErr == nil) || math.Abs(gotUnits-wantUnits) > chargeTolerance*wantUnits {
		d.add("charge %q, want %q", got, want)
	}
}

// message compares the first lines of messages; those of the account may have more of
// its own after a record that was cut.
func (d *differences) message(got, want string) {
	if prefix, cut := strings.CutSuffix(want, "…"); cut && strings.HasPrefix(got, prefix) {
		return
	}
	d.text("message", got, want)
}

// errorCodes are the codes of errors by status.
var errorCodes = map[int]string{
	400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict",
	412: "PreconditionFailed", 413: "RequestEntityTooLarge", 429: "TooManyRequests",
}

func (d *differences) errorBody(got, want Answer) {
	var body struct {
		Code string
		Info *string `json:"additionalErrorInfo"`
	}
	if err := json.Unmarshal(got.Body, &body); err != nil {
		d.add("the body of the error is not JSON: %v", err)
	}
	d.text("code", body.Code, errorCodes[want.Status])
	if (body.Info != nil) != (want.Substatus == "1004") {
		d.add("additionalErrorInfo is there: %v", body.Info != nil)
	}
	d.text("etag of an error", got.Header.Get("Etag"), "")
}

// documentETag is the form of the etags of documents and metadata.
var documentETag = regexp.MustCompile(`^"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"$`)

// systemOrder are the system properties of a document in their order.
var systemOrder = []string{`"_rid":`, `"_self":`, `"_etag":`, `"_attachments":`, `"_ts":`}

// body compares shapes: lists with their counts, documents with their system properties
// and etags, empty bodies.
func (d *differences) body(e Exchange, got Answer) {
	if e.Want.Status == http.StatusNoContent {
		d.text("body of a 204", string(got.Body), "")
		d.text("etag of a 204", got.Header.Get("Etag"), "")
		return
	}
	if !json.Valid(got.Body) {
		d.add("the body is not JSON: %.60s", got.Body)
		return
	}
	var body struct {
		ID    *string
		ETag  string `json:"_etag"`
		Count *int   `json:"_count"`
	}
	_ = json.Unmarshal(got.Body, &body) // batches are arrays
	switch etag := got.Header.Get("Etag"); {
	case e.Header.Get("A-Im") != "":
		if _, err := strconv.Atoi(strings.Trim(etag, `"`)); err != nil || got.Header.Get("X-Ms-Continuation") != "" {
			d.add("etag %q of a feed page, continuation %q", etag, got.Header.Get("X-Ms-Continuation"))
		}
	case body.Count != nil || body.ID == nil:
		d.text("etag of a list", etag, "")
	case etag != "" && (etag != body.ETag || !documentETag.MatchString(etag)):
		d.add("etag %q in the header, %q in the body", etag, body.ETag)
	}
	if body.Count != nil && e.Want.Items != "" {
		d.text("_count", strconv.Itoa(*body.Count), e.Want.Items)
	}
	if strings.Contains(e.Path, "/docs") && body.ID != nil {
		d.order(string(got.Body))
	}
}

// order compares the order of a document's system properties.
func (d *differences) order(body string) {
	end := 0
	for _, name := range systemOrder {
		i := strings.Index(body[end:], name)
		if i < 0 {
			d.add("%s is missing or not in its place in %s", name, body)
			return
		}
		end += i
	}
}

// lsns compares the LSN headers with the session token: the newest LSN in all three, and
// one less as the committed one if the answer is that of a successful write.
func (d *differences) lsns(e Exchange, got Answer) {
	_, lsn, ok := parseToken(e.Want.Session)
	if _, own, gotOK := parseToken(got.Session); gotOK {
		lsn = own
	}
	wantLSN, wantCommitted := "", ""
	if ok {
		wantLSN, wantCommitted = strconv.FormatInt(lsn, 10), strconv.FormatInt(lsn, 10)
	}
	if e.Want.Status == http.StatusTooManyRequests {
		if got.Header.Get("Lsn") == "" {
			d.add("a 429 without LSN")
		}
		return
	}
	if ok && !e.Want.Master && writes(e) {
		wantCommitted = strconv.FormatInt(lsn-1, 10)
	}
	d.text("lsn", got.Header.Get("Lsn"), wantLSN)
	d.text("x-ms-cosmos-llsn", got.Header.Get("X-Ms-Cosmos-Llsn"), wantLSN)
	if got.Status != http.StatusMultiStatus { // either may have written
		d.text("x-ms-global-committed-lsn", got.Header.Get("X-Ms-Global-Committed-Lsn"), wantCommitted)
	}
	if writes(e) {
		d.text("x-ms-item-lsn", got.Header.Get("X-Ms-Item-Lsn"), "")
	}
}

// writes reports whether an exchange is a write that took an LSN of the data partition.
func writes(e Exchange) bool {
	query := e.Header.Get("X-Ms-Documentdb-Isquery") != ""
	return e.Method != http.MethodGet && !query && (e.Want.Status < http.StatusMultiStatus)
}

// common compares the headers that all answers of one origin have.
func (d *differences) common(got Answer) {
	d.text("x-ms-gatewayversion", got.Header.Get("X-Ms-Gatewayversion"), "version=2.14.0")
	d.text("content-type", got.Header.Get("Content-Type"), "application/json")
	if got.Session == "" {
		return
	}
	for name, want := range map[string]string{
		"x-ms-serviceversion": "version=2.14.0.0", "x-ms-schemaversion": "1.21", "cache-control": "no-store, no-cache",
		"pragma": "no-cache", "x-ms-number-of-read-regions": "0",
	} {
		d.text(name, got.Header.Get(name), want)
	}
}
