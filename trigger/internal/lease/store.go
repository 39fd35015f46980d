package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/units"
)

// leaseStore reads and writes the lease documents of one function. Every replace and
// every delete of a lease is conditional: the etag is the lock. All goroutines of
// a function use one store.
type leaseStore struct {
	container  *cosmos.Container
	resourceID string // of the container; a container created again under its name has another
	idPrefix   string // of document ids: processor name, account host and resource ids
	keyedBy    string // "id", "partitionKey" or "" (system key)
	owner      string // this host
	writeGate  *writeGate
	meter      *units.Meter

	mu           sync.Mutex         // guards the fields below; never held during I/O
	written      map[string]*Lease  // by document id, of leases that this host holds, as it has last written them
	listedLeases map[string]*Lease  // leases of the last list that this host does not hold, by the text of their documents
	released     map[string]release // last releases by this process, or to it, by lease token
	unsure       map[string]int64   // epochs of the last acquisitions whose outcome this process does not know, likewise
}

// release is a version of a lease in which its owner has given it back: this process, or one that
// this process had asked.
type release struct {
	etag azcore.ETag
	at   time.Time // when the answer to its write arrived
}

// noteWritten has lists show the lease, which this host holds, as it is here, for as long as its
// document has this etag.
func (s *leaseStore) noteWritten(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		s.written = map[string]*Lease{}
	}
	s.written[l.id] = l
}

// forgetWritten ends that, once this host writes the lease no more.
func (s *leaseStore) forgetWritten(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, l.id)
}

// writtenAs returns the lease of a document that is as this host has written it, else nil.
func (s *leaseStore) writtenAs(document []byte) *Lease {
	var etag azcore.ETag
	s.mu.Lock()
	l := s.written[documentID(document)]
	s.mu.Unlock()
	if l == nil || json.Unmarshal(cosmos.Property(document, "_etag"), &etag) != nil || etag != l.etag {
		return nil
	}
	return l
}

// noteUnsure notes the epoch of an acquisition whose outcome is not known.
func (s *leaseStore) noteUnsure(token string, epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unsure == nil {
		s.unsure = map[string]int64{}
	}
	s.unsure[token] = epoch
}

// takeUnsure reports whether that is the epoch of such an acquisition, and forgets it.
func (s *leaseStore) takeUnsure(token string, epoch int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, found := s.unsure[token]
	if found = found && known == epoch; found {
		delete(s.unsure, token)
	}
	return found
}

// noteRelease notes a release.
func (s *leaseStore) noteRelease(l *Lease, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released == nil {
		s.released = map[string]release{}
	}
	s.released[l.token] = release{l.etag, at}
}

// hasReleased reports whether this process has released a lease.
func (s *leaseStore) hasReleased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.released) > 0
}

// isReleasedSince reports whether this version of a lease is from a release after a time.
func (s *leaseStore) isReleasedSince(l *Lease, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, found := s.released[l.token]
	return found && last.etag == l.etag && !last.at.Before(since)
}

// openStore finds out under which ids and partition keys the leases of a
// function are kept, and returns the properties of the monitored container.
func openStore(ctx context.Context, leases, monitored *cosmos.Container, processor string, log *slog.Logger) (*leaseStore, cosmos.ContainerProperties, error) {
	properties, err := monitored.Properties(ctx)
	if err != nil {
		return nil, properties, fmt.Errorf("read container %s/%s: %w", monitored.Database(), monitored.Name(), err)
	}
	found, err := leases.Properties(ctx)
	if err != nil {
		return nil, properties, fmt.Errorf("read lease container %s/%s: %w", leases.Database(), leases.Name(), err)
	}
	if ttl := found.DefaultTTL; ttl != nil && *ttl > 0 {
		return nil, properties, fmt.Errorf("%w: lease container %s/%s deletes its documents after %d s (defaultTtl), so leases and positions would expire; "+
			"set its defaultTtl to -1, or remove it", ErrSetup, leases.Database(), leases.Name(), *ttl)
	}
	s := &leaseStore{container: leases, resourceID: found.ResourceID, writeGate: newWriteGate(log)}
	switch paths := found.PartitionKey.Paths; {
	case len(paths) == 1 && paths[0] == "/id":
		s.keyedBy = "id"
	case len(paths) == 1 && paths[0] == "/partitionKey":
		s.keyedBy = "partitionKey"
	case len(paths) == 0, len(paths) == 1 && paths[0] == "/_partitionKey":
	default:
		return nil, properties, fmt.Errorf("%w: lease container %s/%s is partitioned on %s; create it with partition key /id",
			ErrSetup, leases.Database(), leases.Name(), strings.Join(paths, ", "))
	}
	endpoint, err := url.Parse(monitored.Client().Endpoint())
	if err != nil {
		return nil, properties, fmt.Errorf("account endpoint: %w", err)
	}
	s.idPrefix = idPrefix(processor, endpoint.Hostname(), properties)
	return s, properties, nil
}

// idPrefix is that of azure-cosmos-dotnet-v3 (ChangeFeedProcessorCore.
// GetLeasePrefix), so that both processors find the same leases.
func idPrefix(processor, host string, monitored cosmos.ContainerProperties) string {
	rid := func(s string) string { return strings.ReplaceAll(s, "/", "-") }
	return processor + host + "_" + rid(monitored.DatabaseResourceID) + "_" + rid(monitored.ResourceID)
}

// count tells the meter of a request.
func (s *leaseStore) count(kind units.Kind, resp cosmos.Response, err error) {
	s.meter.Add(kind, resp.Charge+cosmos.ChargeOf(err))
}

// serviceNow is the service's clock.
func (s *leaseStore) serviceNow() time.Time { return s.container.Client().Now() }

// newKey is the partition key of a document that this host creates.
func (s *leaseStore) newKey(id string) cosmos.PartitionKey {
	if s.keyedBy == "" {
		return cosmos.NewPartitionKey(cosmos.Undefined)
	}
	return cosmos.NewPartitionKey(id)
}

// storedKey is the partition key of a document that was read: .NET releases
// between 3.20 and 3.51 gave leases a random partitionKey.
func (s *leaseStore) storedKey(l *Lease) (cosmos.PartitionKey, error) {
	if s.keyedBy != "partitionKey" {
		return s.newKey(l.id), nil
	}
	var key string
	if err := unmarshalProperty(l.rest, "partitionKey", &key); err != nil {
		return cosmos.PartitionKey{}, err
	}
	return cosmos.NewPartitionKey(key), nil
}

// Invalid is a document under the prefix of a function that is not a lease that
// Halley can use. It is reported and never written.
type Invalid struct {
	ID  string
	Err error
}

// listLeases reads all leases of the function, tombstones included. Callers share the
// leases, and clone one before they change it. One foreign lease fails the list.
func (s *leaseStore) listLeases(ctx context.Context) (leases []*Lease, invalid []Invalid, err error) {
	q := cosmos.Query{
		Text:       "SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)",
		Parameters: []cosmos.Parameter{{Name: "@prefix", Value: s.idPrefix + ".."}},
	}
	known := s.lastListed()
	listed := make(map[string]*Lease, len(known))
	for page, err := range s.container.Query(ctx, q) {
		if err != nil {
			s.meter.Add(units.LeaseReads, cosmos.ChargeOf(err))
			return nil, nil, fmt.Errorf("list leases: %w", err)
		}
		s.meter.Add(units.LeaseReads, page.Charge)
		for _, raw := range page.Items {
			l, err := s.writtenAs(raw), error(nil)
			if l == nil {
				l = known[string(raw)]
			}
			if l == nil {
				l, err = s.parseDocument(raw)
			}
			switch {
			case errors.Is(err, ErrForeign):
				return nil, nil, fmt.Errorf("lease %q: %w", documentID(raw), err)
			case err != nil:
				invalid = append(invalid, Invalid{documentID(raw), err})
			default:
				leases = append(leases, l)
				if l.owner == "" || l.owner != s.owner { // this host has written most of its own by the next list
					listed[string(raw)] = l
				}
			}
		}
	}
	if len(leases) > 0 { // else the container may be another one, see Set.reopen
		s.setListed(listed)
	}
	return leases, invalid, nil
}

func (s *leaseStore) lastListed() map[string]*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listedLeases
}

func (s *leaseStore) setListed(listed map[string]*Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listedLeases = listed
}

func (s *leaseStore) parseDocument(raw []byte) (*Lease, error) {
	l, err := parseLease(raw, s.idPrefix)
	if err != nil {
		return nil, err
	}
	l.partitionKey, err = s.storedKey(l)
	return l, err
}

// readLease fetches the newest version of a lease. If the document is gone or not a
// lease any more, the error is ErrLost.
func (s *leaseStore) readLease(ctx context.Context, l *Lease) (*Lease, error) {
	fresh, _, err := s.readIfChanged(ctx, l, "")
	return fresh, err
}

// readIfChanged is readLease, except that changed is false, and the lease is l, if
// the stored version still has the etag.
func (s *leaseStore) readIfChanged(ctx context.Context, l *Lease, etag azcore.ETag) (fresh *Lease, changed bool, err error) {
	resp, changed, err := s.container.ReadIfChanged(ctx, l.id, l.partitionKey, etag)
	s.count(units.LeaseReads, resp, err)
	if cosmos.Classify(err) == cosmos.OutcomeNotFound {
		return nil, false, fmt.Errorf("read lease %q: %w", l.token, errDeleted)
	}
	if err != nil {
		return nil, false, fmt.Errorf("read lease %q: %w", l.token, err)
	}
	if !changed {
		return l, false, nil
	}
	fresh, err = s.parseDocument(resp.Body)
	if err != nil {
		return nil, false, fmt.Errorf("read lease %q: %w: %w", l.token, ErrLost, err)
	}
	return fresh, true, nil
}

// createLease writes a lease, unless its document exists already: then another host
// has created it, which is just as good.
func (s *leaseStore) createLease(ctx context.Context, l *Lease) error {
	if s.keyedBy == "partitionKey" {
		l.rest["partitionKey"] = quotedJSON(l.id)
	}
	timestamp := timestampJSON(s.serviceNow())
	l.confirmFinished(timestamp)
	doc, err := l.document(timestamp)
	if err != nil {
		return err
	}
	_, err = s.createDocument(ctx, l.id, doc)
	return err
}

// replaceLease writes l as its owner, over the version that l.etag names, and moves l
// to the new version. A conflict is the client's error, see [cosmos.Classify].
func (s *leaseStore) replaceLease(ctx context.Context, l *Lease) error {
	now := s.serviceNow()
	delete(l.properties, handoverWrittenProperty)
	delete(l.properties, dispatchedProperty)
	delete(l.properties, releasedProperty)
	timestamp := timestampJSON(now)
	l.confirmFinished(timestamp)
	if err := s.replaceDocument(ctx, l, timestamp); err != nil {
		return err
	}
	l.written, l.timestamp = now, timestamp
	return nil
}

func (s *leaseStore) replaceDocument(ctx context.Context, l *Lease, timestamp json.RawMessage) error {
	doc, err := l.document(timestamp)
	if err != nil {
		return err
	}
	resp, err := s.container.Replace(ctx, l.id, l.partitionKey, doc, l.etag)
	s.count(units.LeaseWrites, resp, err)
	if err != nil {
		return err
	}
	if resp.ETag == "" {
		return fmt.Errorf("replace lease %q: the answer has no etag: %w", l.token, cosmos.ErrOutcomeUnknown)
	}
	l.etag = resp.ETag
	return nil
}

func (s *leaseStore) deleteLease(ctx context.Context, l *Lease) error {
	resp, err := s.container.Delete(ctx, l.id, l.partitionKey, l.etag)
	s.count(units.LeaseWrites, resp, err)
	return err
}

// requestHandover asks the owner of l to release it to the host by, and returns the
// lease as stored. The owner's timestamp stays: only the owner renews.
func (s *leaseStore) requestHandover(ctx context.Context, l *Lease, requester string) (*Lease, error) {
	requested := withHandoverRequest(l, requester, s.serviceNow())
	if err := s.replaceDocument(ctx, requested, l.timestamp); err != nil {
		return nil, fmt.Errorf("request handover of lease %q: %w", l.token, err)
	}
	return requested, nil
}

// The marker document says that the leases were created once. The lock document
// keeps two hosts from creating them at the same time. Both are stamps: only
// their existence and their time of writing count.
func (s *leaseStore) markerID() string { return s.idPrefix + ".info" }
func (s *leaseStore) lockID() string   { return s.idPrefix + ".lock" }

// stamp is the stored form of a stamp.
type stamp struct {
	ID           string `json:"id"`
	PartitionKey string `json:"partitionKey,omitzero"` // if the container has that key
	TTL          int    `json:"ttl,omitzero"`          // of a lock, seconds
	TS           int64  `json:"_ts,omitzero"`          // set by the service
	Since        int64  `json:"halley.since,omitzero"` // of a marker: the start of leases without a position, Unix seconds; 0 for the time of writing
}

// readStamp reads a stamp: when it was first written and its etag, "" if there is none.
func (s *leaseStore) readStamp(ctx context.Context, id string) (written time.Time, etag azcore.ETag, found bool, err error) {
	resp, err := s.container.Read(ctx, id, s.newKey(id))
	s.count(units.LeaseReads, resp, err)
	if cosmos.Classify(err) == cosmos.OutcomeNotFound {
		return time.Time{}, "", false, nil
	}
	if err != nil {
		return time.Time{}, "", false, fmt.Errorf("read %q: %w", id, err)
	}
	var doc stamp
	if err := json.Unmarshal(resp.Body, &doc); err != nil {
		return time.Time{}, "", false, fmt.Errorf("read %q: %w", id, err)
	}
	return time.Unix(cmp.Or(doc.Since, doc.TS), 0), resp.ETag, true, nil
}

// createStamp creates a stamp and returns its etag, "" if the document exists already.
func (s *leaseStore) createStamp(ctx context.Context, doc stamp) (azcore.ETag, error) {
	if s.keyedBy == "partitionKey" {
		doc.PartitionKey = doc.ID
	}
	return s.createDocument(ctx, doc.ID, doc)
}

// deleteStamp deletes a stamp, under its etag unless that is "".
func (s *leaseStore) deleteStamp(ctx context.Context, id string, etag azcore.ETag) error {
	resp, err := s.container.Delete(ctx, id, s.newKey(id), etag)
	s.count(units.LeaseWrites, resp, err)
	return err
}

func (s *leaseStore) createDocument(ctx context.Context, id string, doc any) (azcore.ETag, error) {
	resp, err := s.container.Create(ctx, s.newKey(id), doc)
	s.count(units.LeaseWrites, resp, err)
	if cosmos.IsConflict(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("create %q: %w", id, err)
	}
	return resp.ETag, nil
}

// documentID is a document's id, "" if it has none.
func documentID(document []byte) string {
	var id string
	_ = json.Unmarshal(cosmos.Property(document, "id"), &id)
	return id
}
