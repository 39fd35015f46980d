package trigger

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
)

// Names of lease properties, as they are stored.
const (
	epochProperty        = "halley.epoch"
	retriesProperty      = "halley.retries"
	incarnationProperty  = "halley.incarnation"
	uncleanExitsProperty = "halley.deaths"
	handoverProperty     = "halley.handover"
	pausedProperty       = "halley.paused"
)

// leaseDocument is a lease as it is stored, for tests that inspect it or act as
// another host.
type leaseDocument struct {
	id, token, owner, continuation, mode string
	min, max                             string // of the FeedRange; "" if there is none
	properties                           map[string]string
	etag                                 azcore.ETag
	body                                 map[string]any
}

func parseLeaseDocument(t testing.TB, raw []byte) *leaseDocument {
	t.Helper()
	l := &leaseDocument{}
	var stored struct {
		ID                string            `json:"id"`
		ETag              azcore.ETag       `json:"_etag"`
		LeaseToken        string            `json:"LeaseToken"`
		Owner             string            `json:"Owner"`
		ContinuationToken string            `json:"ContinuationToken"`
		Mode              string            `json:"Mode"`
		Properties        map[string]string `json:"properties"`
		FeedRange         struct {
			Range struct{ Min, Max string } `json:"Range"`
		} `json:"FeedRange"`
	}
	must(t, json.Unmarshal(raw, &stored))
	must(t, json.Unmarshal(raw, &l.body))
	l.id, l.token, l.owner, l.continuation, l.mode = stored.ID, stored.LeaseToken, stored.Owner, stored.ContinuationToken, stored.Mode
	l.min, l.max = stored.FeedRange.Range.Min, stored.FeedRange.Range.Max
	l.properties, l.etag = stored.Properties, stored.ETag
	return l
}

// newLeaseDocument makes a lease that is not stored yet, for a range or, if the token
// has the form min-max, for a span of keys. If hi is "", the span of a range is not
// known.
func newLeaseDocument(prefix, token, lo, hi string) *leaseDocument {
	version := 0
	if strings.Contains(token, "-") {
		version = 1
	}
	l := &leaseDocument{id: prefix + ".." + token, token: token, mode: "Incremental Feed", min: lo, max: hi, properties: map[string]string{}}
	l.body = map[string]any{"id": l.id, "version": version, "LeaseToken": token, "Mode": l.mode}
	if hi != "" {
		l.body["FeedRange"] = map[string]any{"Range": map[string]string{"min": lo, "max": hi}}
	}
	return l
}

func (l *leaseDocument) encode() map[string]any {
	body := maps.Clone(l.body)
	body["Owner"], body["ContinuationToken"], body["properties"] = orNull(l.owner), orNull(l.continuation), l.properties
	return body
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (l *leaseDocument) epoch() int64 {
	n, _ := strconv.ParseInt(l.properties[epochProperty], 10, 64)
	return n
}

func (l *leaseDocument) clone() *leaseDocument {
	c := *l
	c.properties = maps.Clone(l.properties)
	if c.properties == nil {
		c.properties = map[string]string{}
	}
	return &c
}

// requestHandover requests the lease from its owner for another host.
func (w *world) requestHandover(l *leaseDocument, requester string) {
	w.t.Helper()
	next := l.clone()
	next.properties[handoverProperty] = requester
	next.properties["halley.handover.since"] = strconv.FormatInt(w.leases.Client().Now().Unix(), 10)
	next.properties["halley.handover.written"] = fmt.Sprint(int64(l.body["_ts"].(float64)))
	w.replaceLease(next)
}

// leasePrefix returns the text with which the ids of the leases of function "test"
// begin.
func (w *world) leasePrefix() string {
	w.t.Helper()
	properties, err := w.items.Properties(w.t.Context())
	must(w.t, err)
	endpoint, err := url.Parse(w.items.Client().Endpoint())
	must(w.t, err)
	rid := func(s string) string { return strings.ReplaceAll(s, "/", "-") }
	return "test" + endpoint.Hostname() + "_" + rid(properties.DatabaseResourceID) + "_" + rid(properties.ResourceID)
}

// leaseDocuments reads all leases, by token.
func (w *world) leaseDocuments() map[string]*leaseDocument {
	w.t.Helper()
	found := map[string]*leaseDocument{}
	query := cosmos.Query{
		Text:       "SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)",
		Parameters: []cosmos.Parameter{{Name: "@prefix", Value: w.leasePrefix() + ".."}},
	}
	for page, err := range w.leases.Query(w.t.Context(), query) {
		must(w.t, err)
		for _, raw := range page.Items {
			l := parseLeaseDocument(w.t, raw)
			found[l.token] = l
		}
	}
	return found
}

// leasesByOwner counts the leases of each owner.
func (w *world) leasesByOwner() map[string]int {
	n := map[string]int{}
	for _, l := range w.leaseDocuments() {
		n[l.owner]++
	}
	return n
}

func (w *world) createLease(l *leaseDocument) {
	w.t.Helper()
	_, err := w.leases.Create(w.t.Context(), cosmos.NewPartitionKey(l.id), l.encode())
	must(w.t, err)
}

func (w *world) replaceLease(l *leaseDocument) {
	w.t.Helper()
	resp, err := w.leases.Replace(w.t.Context(), l.id, cosmos.NewPartitionKey(l.id), l.encode(), l.etag)
	must(w.t, err)
	l.etag = resp.ETag
}

// createStamp creates the marker (".info") or the lock (".lock") of a bootstrap.
func (w *world) createStamp(suffix string) {
	w.t.Helper()
	id := w.leasePrefix() + suffix
	_, err := w.leases.Create(w.t.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id, "partitionKey": id})
	must(w.t, err)
}

// coverageGaps lists the parts of the key space that no lease covers.
func (w *world) coverageGaps() (gaps []string) {
	w.t.Helper()
	lags, err := EstimateLag(w.t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()})
	must(w.t, err)
	for _, l := range lags {
		if strings.Contains(l.Problem, "no lease covers") {
			gaps = append(gaps, l.Range+": "+l.Problem)
		}
	}
	return gaps
}

// checkNoGaps checks that the leases cover every key.
func (w *world) checkNoGaps() {
	w.t.Helper()
	if found := w.coverageGaps(); len(found) > 0 {
		w.t.Errorf("coverage gaps: %v", found)
	}
}

// lsnOf returns the LSN that a continuation names, 0 for "".
func lsnOf(t *testing.T, continuation string) int64 {
	t.Helper()
	if continuation == "" {
		return 0
	}
	n, err := strconv.ParseInt(strings.Trim(continuation, `"`), 10, 64)
	must(t, err)
	return n
}

func (w *world) deleteLease(l *leaseDocument) error {
	_, err := w.leases.Delete(w.t.Context(), l.id, cosmos.NewPartitionKey(l.id), l.etag)
	return err
}
