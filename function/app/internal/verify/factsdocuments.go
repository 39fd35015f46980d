package verify

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// documentFacts are those of leases and dead letters, and of sessions.
func documentFacts() []fact {
	return []fact{
		{
			name: "lease: create", relies: "one lease for each range", expected: "a second create of an id is answered with 409",
			meaning: "two hosts could create the same lease", grave: true, needs: needWrites,
			cost: price{fixed: costCreate + costRefused}, probe: probeCreateOnly,
		}, {
			name: "lease: If-Match", relies: "one owner of a lease", expected: "a replace with an old etag is answered with 412 and changes nothing",
			meaning: "two hosts could own one lease", grave: true, needs: needWrites,
			cost: price{fixed: costReplace + costRefused + costRead}, probe: probeIfMatch,
		}, {
			name: "lease: If-None-Match", relies: "cheap reads of leases", expected: "304 while a document has that etag",
			meaning: "hosts would miss changes of leases, or read more than they need", needs: needWrites,
			cost: price{fixed: 2 * costRead}, probe: probeReadIfChanged,
		}, {
			name: "lease: query", relies: "finding the leases of a function", expected: "STARTSWITH finds the documents of a prefix, also new ones",
			meaning: "hosts would not see all leases", grave: true, needs: needWrites,
			cost: price{fixed: costQuery}, probe: probeQuery,
		}, {
			name: "lease: delete", relies: "the end of a lease after a split", expected: "with an old etag 412, with the current one 204, and then 404",
			meaning: "a lease could be deleted that another host has changed", grave: true, needs: needWrites,
			cost: price{fixed: costRefused + costDelete + costRead}, probe: probeDelete,
		}, {
			name: "session: token", relies: "reading what was written", expected: "{range}:{version}#{LSN}, of the LSN of the write",
			meaning: "reads of the feed might not see the newest writes, and lag would be unknown", needs: needWrites,
			cost: price{fixed: costCreate}, probe: probeSessionToken,
		}, {
			name: "clock: _ts and Date", relies: "the time of changes, and the clock of hosts", expected: "_ts is the second of the write by the Date header, within 5 s",
			meaning: "starts at a time, ages and expiries are wrong by the difference", needs: needWrites,
			cost: price{fixed: costRead}, probe: probeClock,
		}, {
			name: "absent document", relies: "telling a missing document from a missing container", expected: "404, while the container is read with 200",
			meaning: "a lost lease might not be created again",
			cost:    price{fixed: 2 * costRead}, probe: probeAbsentDocument,
		},
	}
}

// leaseCreated returns the document. The first fact that needs it creates it.
func (s *session) leaseCreated(ctx context.Context) (leaseState, error) {
	if s.lease.id != "" {
		return s.lease, nil
	}
	l := leaseState{id: s.run + "-lease", pk: cosmos.NewPartitionKey(s.run + "-lease")}
	created, err := s.leases.Create(ctx, l.pk, l.version(1))
	if err != nil {
		return l, err
	}
	l.oldTag = created.ETag
	s.lease = l
	return l, nil
}

// leaseReplaced returns the document after its second version.
func (s *session) leaseReplaced(ctx context.Context) (leaseState, error) {
	l, err := s.leaseCreated(ctx)
	if err != nil || l.newTag != "" {
		return l, err
	}
	replaced, err := s.leases.Replace(ctx, l.id, l.pk, l.version(2), l.oldTag)
	if err != nil {
		return l, err
	}
	l.newTag = replaced.ETag
	if l.newTag == l.oldTag || l.newTag == "" {
		return l, differs("two versions of a document have the etags %s and %s", l.oldTag, l.newTag)
	}
	s.lease = l
	return l, nil
}

func probeCreateOnly(ctx context.Context, s *session) (string, error) {
	l, err := s.leaseCreated(ctx)
	if err != nil {
		return "", err
	}
	_, err = s.leases.Create(ctx, l.pk, l.version(1))
	return "409", wantStatus("the second create", err, http.StatusConflict)
}

func probeIfMatch(ctx context.Context, s *session) (string, error) {
	l, err := s.leaseReplaced(ctx)
	if err != nil {
		return "", err
	}
	_, err = s.leases.Replace(ctx, l.id, l.pk, l.version(3), l.oldTag)
	if err := wantStatus("the replace with an old etag", err, http.StatusPreconditionFailed); err != nil {
		return "", err
	}
	read, err := s.leases.Read(ctx, l.id, l.pk)
	if err != nil {
		return "", err
	}
	if read.ETag != l.newTag || string(cosmos.Property(read.Body, "version")) != "2" {
		return "", differs("the refused replace has changed the document")
	}
	return "412", nil
}

func probeReadIfChanged(ctx context.Context, s *session) (string, error) {
	l, err := s.leaseReplaced(ctx)
	if err != nil {
		return "", err
	}
	if _, changed, err := s.leases.ReadIfChanged(ctx, l.id, l.pk, l.newTag); err != nil {
		return "", err
	} else if changed {
		return "", differs("%d with the current etag", s.meter.last().status)
	}
	if _, changed, err := s.leases.ReadIfChanged(ctx, l.id, l.pk, l.oldTag); err != nil {
		return "", err
	} else if !changed {
		return "", differs("%d with an old etag", s.meter.last().status)
	}
	return "304, and 200 for an old etag", nil
}

func probeQuery(ctx context.Context, s *session) (string, error) {
	l, err := s.leaseReplaced(ctx)
	if err != nil {
		return "", err
	}
	found := 0
	q := cosmos.Query{Text: "SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)", Parameters: []cosmos.Parameter{{Name: "@prefix", Value: l.id}}}
	for p, err := range s.leases.Query(ctx, q) {
		if err != nil {
			return "", err
		}
		found += len(p.Items)
	}
	if found != 1 {
		return "", differs("%d of 1 documents", found)
	}
	return "found", nil
}

func probeDelete(ctx context.Context, s *session) (string, error) {
	l, err := s.leaseReplaced(ctx)
	if err != nil {
		return "", err
	}
	_, err = s.leases.Delete(ctx, l.id, l.pk, l.oldTag)
	if err := wantStatus("the delete with an old etag", err, http.StatusPreconditionFailed); err != nil {
		return "", err
	}
	if _, err := s.leases.Delete(ctx, l.id, l.pk, l.newTag); err != nil {
		return "", err
	}
	_, err = s.leases.Read(ctx, l.id, l.pk)
	return "412, 204, 404", wantStatus("the read of the deleted document", err, http.StatusNotFound)
}

var tokenForm = regexp.MustCompile(`^([^:,]+):(-?\d+)#(\d+)(#\d+=-?\d+)*$`)

func probeSessionToken(ctx context.Context, s *session) (string, error) {
	w, err := s.create(ctx)
	if err != nil {
		return "", err
	}
	parts := tokenForm.FindStringSubmatch(w.resp.SessionToken)
	if parts == nil || parts[1] != s.home.ID {
		return "", differs("%q, the range is %s", w.resp.SessionToken, s.home.ID)
	}
	if w.lsn > 0 && position(w.lsn) != `"`+parts[3]+`"` {
		return "", differs("%q, the write has LSN %d", w.resp.SessionToken, w.lsn)
	}
	return w.resp.SessionToken[:strings.Index(w.resp.SessionToken, "#")+1] + "LSN", nil
}

// clockTolerance is how far _ts may be from the Date of the answer.
const clockTolerance = 5 * time.Second

func probeClock(ctx context.Context, s *session) (string, error) {
	w := s.newest
	read, err := s.items.Read(ctx, w.id, s.pk())
	if err != nil {
		return "", err
	}
	var seconds int64
	if err := json.Unmarshal(cosmos.Property(read.Body, "_ts"), &seconds); err != nil {
		return "", differs("_ts is %s", cosmos.Property(read.Body, "_ts"))
	}
	if w.resp.Date.IsZero() {
		return "", differs("no Date header")
	}
	gap := w.resp.Date.Sub(time.Unix(seconds, 0)).Abs()
	if gap > clockTolerance {
		return "", differs("_ts and Date are %v apart", gap)
	}
	return "within 5 s", nil
}

func probeAbsentDocument(ctx context.Context, s *session) (string, error) {
	_, err := s.leases.Read(ctx, s.run+"-absent", cosmos.NewPartitionKey(s.run+"-absent"))
	if err == nil {
		return "", differs("an absent document was read")
	}
	if !cosmos.IsDocumentNotFound(err) {
		return "", wantStatus("the read of an absent document", err)
	}
	s.leases.Forget() // read the container again
	if _, err := s.leases.Properties(ctx); err != nil {
		return "", wantStatus("the read of the container", err)
	}
	return "404, and 200 for the container", nil
}
