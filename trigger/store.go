package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
)

// errLeaseLost means that a lease is no longer this host's: another owner has
// it, or it is gone. Whoever gets it stops without writing.
var errLeaseLost = errors.New("lease lost")

// leaseStore reads and writes the lease documents of one function. Every
// replace and delete is conditional: the etag is the lock.
type leaseStore struct {
	container  *cosmos.Container
	prefix     string // processor name, account host and RIDs, as .NET composes it
	expiration time.Duration
	keyedBy    string // "id", "partitionKey" or "" (system key)

	mu     sync.Mutex
	listed map[string]*lease // by the text of the document: what the last list parsed, not to be changed

	monitoredKey []string      // partition key paths of the monitored container
	retention    time.Duration // of its change feed, for all versions; 0 is none
	monitoredRID string        // its resource id: another one under its name is another container
}

// newLeaseStore finds out under which ids and keys a function's leases are
// kept. The prefix is the one of azure-cosmos-dotnet-v3
// (ChangeFeedProcessorCore.GetLeasePrefix), so that both find the same leases.
func newLeaseStore(ctx context.Context, leases *cosmos.Container, f Function, expiration time.Duration) (*leaseStore, error) {
	monitored, err := f.Container.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("read container %s/%s: %w", f.Container.Database(), f.Container.Name(), err)
	}
	own, err := leases.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("read lease container %s/%s: %w", leases.Database(), leases.Name(), err)
	}
	s := &leaseStore{container: leases, expiration: expiration, monitoredKey: monitored.PartitionKey.Paths, monitoredRID: monitored.ResourceID,
		retention: monitored.Retention}
	switch paths := own.PartitionKey.Paths; {
	case len(paths) == 1 && paths[0] == "/id":
		s.keyedBy = "id"
	case len(paths) == 1 && paths[0] == "/partitionKey":
		s.keyedBy = "partitionKey"
	case len(paths) == 0, len(paths) == 1 && paths[0] == "/_partitionKey":
	default:
		return nil, fmt.Errorf("%w: lease container %s/%s is partitioned on %s; create it with partition key /id",
			errSetup, leases.Database(), leases.Name(), strings.Join(paths, ", "))
	}
	endpoint, err := url.Parse(f.Container.Client().Endpoint())
	if err != nil {
		return nil, fmt.Errorf("account endpoint: %w", err)
	}
	rid := func(s string) string { return strings.ReplaceAll(s, "/", "-") }
	s.prefix = f.leasePrefix() + endpoint.Hostname() + "_" + rid(monitored.DatabaseResourceID) + "_" + rid(monitored.ResourceID)
	return s, nil
}

// now is the service's clock.
func (s *leaseStore) now() time.Time { return s.container.Client().Now() }

// newKey is the partition key of a document that this host creates.
func (s *leaseStore) newKey(id string) cosmos.PartitionKey {
	if s.keyedBy == "" {
		return cosmos.NewPartitionKey(cosmos.Undefined)
	}
	return cosmos.NewPartitionKey(id)
}

// storedKey is the partition key of a document that was read: .NET releases
// between 3.20 and 3.51 gave leases a random partitionKey.
func (s *leaseStore) storedKey(l *lease) (cosmos.PartitionKey, error) {
	if s.keyedBy != "partitionKey" {
		return s.newKey(l.id), nil
	}
	var key string
	if err := unmarshalProperty(l.rest, "partitionKey", &key); err != nil {
		return cosmos.PartitionKey{}, err
	}
	return cosmos.NewPartitionKey(key), nil
}

// unreadable is a document under the prefix that is no lease Halley can use.
// It is reported and never written.
type unreadable struct {
	id  string
	err error
}

// list reads all leases of the function, tombstones included. What it returns
// is shared and must be cloned before it is changed.
func (s *leaseStore) list(ctx context.Context) (leases []*lease, bad []unreadable, err error) {
	q := cosmos.Query{
		Text:       "SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)",
		Parameters: []cosmos.Parameter{{Name: "@prefix", Value: s.prefix + ".."}},
	}
	s.mu.Lock()
	before := s.listed
	s.mu.Unlock()
	listed := make(map[string]*lease, len(before))
	for page, err := range s.container.Query(ctx, q) {
		if err != nil {
			return nil, nil, fmt.Errorf("list leases: %w", err)
		}
		for _, raw := range page.Items {
			l, err := before[string(raw)], error(nil)
			if l == nil {
				l, err = s.parse(raw)
			}
			switch {
			case errors.Is(err, errForeignLease):
				return nil, nil, fmt.Errorf("lease %q: %w", documentID(raw), err)
			case err != nil:
				bad = append(bad, unreadable{documentID(raw), err})
			default:
				listed[string(raw)] = l
				leases = append(leases, l)
			}
		}
	}
	s.mu.Lock()
	s.listed = listed
	s.mu.Unlock()
	return leases, bad, nil
}

func (s *leaseStore) parse(raw []byte) (*lease, error) {
	l, err := parseLease(raw, s.prefix)
	if err != nil {
		return nil, err
	}
	l.partitionKey, err = s.storedKey(l)
	return l, err
}

// read fetches the newest copy of a lease; errLeaseLost when it is gone.
func (s *leaseStore) read(ctx context.Context, l *lease) (*lease, error) {
	resp, err := s.container.Read(ctx, l.id, l.partitionKey)
	if cosmos.Classify(err) == cosmos.NotFound {
		return nil, fmt.Errorf("read lease %q: %w (document deleted)", l.token, errLeaseLost)
	}
	if err != nil {
		return nil, fmt.Errorf("read lease %q: %w", l.token, err)
	}
	fresh, err := s.parse(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read lease %q: %w: %w", l.token, errLeaseLost, err)
	}
	return fresh, nil
}

// create writes a lease that must not be there yet; false means that another
// host was first, which is as good.
func (s *leaseStore) create(ctx context.Context, l *lease) (bool, error) {
	if s.keyedBy == "partitionKey" {
		l.rest["partitionKey"] = quoted(l.id)
	}
	doc, err := l.document(timestamp(s.now()))
	if err != nil {
		return false, err
	}
	etag, err := s.createDocument(ctx, l.id, doc)
	return etag != "", err
}

// createStamp writes a marker or a lock; "" means that there was one.
func (s *leaseStore) createStamp(ctx context.Context, id string, more map[string]any) (azcore.ETag, error) {
	doc := map[string]any{"id": id}
	if s.keyedBy == "partitionKey" {
		doc["partitionKey"] = id
	}
	maps.Copy(doc, more)
	return s.createDocument(ctx, id, doc)
}

func (s *leaseStore) createDocument(ctx context.Context, id string, doc any) (azcore.ETag, error) {
	resp, err := s.container.Create(ctx, s.newKey(id), doc)
	if cosmos.IsStatus(err, 409) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("create %q: %w", id, err)
	}
	return resp.ETag, nil
}

// replace writes l as its owner, over the version that l.etag names, and moves
// l to the new one. A conflict is reported as the client's error; see classify.
func (s *leaseStore) replace(ctx context.Context, l *lease) error {
	now := s.now()
	delete(l.properties, handoverWrittenProperty)
	if err := s.overwrite(ctx, l, timestamp(now)); err != nil {
		return err
	}
	l.written = now
	return nil
}

func (s *leaseStore) overwrite(ctx context.Context, l *lease, timestamp json.RawMessage) error {
	doc, err := l.document(timestamp)
	if err != nil {
		return err
	}
	resp, err := s.container.Replace(ctx, l.id, l.partitionKey, doc, l.etag)
	if err != nil {
		return err
	}
	if resp.ETag == "" {
		return fmt.Errorf("replace lease %q: the answer has no etag: %w", l.token, cosmos.ErrOutcomeUnknown)
	}
	l.etag = resp.ETag
	return nil
}

func (s *leaseStore) delete(ctx context.Context, l *lease) error {
	_, err := s.container.Delete(ctx, l.id, l.partitionKey, l.etag)
	return err
}

// acquire makes id's owner the owner of the listed lease l, with the next
// epoch, and says when the write that did it left. errLeaseLost means that someone else was quicker or is alive again;
// the next pass of the balancer looks anew.
func (s *leaseStore) acquire(ctx context.Context, l *lease, me identity) (*lease, identity, time.Time, error) {
	next := l.clone()
	me.epoch = l.epoch() + 1
	next.owner = me.owner
	next.properties[epochProperty] = fmt.Sprint(me.epoch)
	next.properties[incarnationProperty] = me.incarnation
	next.properties[expirationProperty] = s.expiration.String()
	delete(next.properties, deathsProperty)
	if l.owner != "" && l.ownedByHalley() {
		next.properties[deathsProperty] = fmt.Sprint(l.deaths() + 1)
	}
	next.settled()

	sent := time.Now()
	err := s.replace(ctx, next)
	if err == nil {
		return next, me, sent, nil
	}
	if !cosmos.Classify(err).Unsure() {
		return nil, me, sent, fmt.Errorf("acquire lease %q: %w", l.token, err)
	}
	fresh, readErr := s.read(ctx, l)
	if readErr != nil {
		return nil, me, sent, fmt.Errorf("acquire lease %q: %w", l.token, errors.Join(err, readErr))
	}
	if !fresh.heldBy(me) {
		return nil, me, sent, fmt.Errorf("acquire lease %q: %w (owner %q)", l.token, errLeaseLost, fresh.owner)
	}
	return fresh, me, time.Time{}, nil // it may have been an earlier request: trust nothing before the next write
}

// marker is the document that says that the leases were created once;
// lock the one that keeps two hosts from creating them together.
func (s *leaseStore) markerID() string { return s.prefix + ".info" }
func (s *leaseStore) lockID() string   { return s.prefix + ".lock" }

// stamp reads a marker or lock: when it was written and its etag. ok is false
// where it is not there.
func (s *leaseStore) stamp(ctx context.Context, id string) (written time.Time, etag azcore.ETag, ok bool, err error) {
	resp, err := s.container.Read(ctx, id, s.newKey(id))
	if cosmos.Classify(err) == cosmos.NotFound {
		return time.Time{}, "", false, nil
	}
	if err != nil {
		return time.Time{}, "", false, fmt.Errorf("read %q: %w", id, err)
	}
	var doc struct {
		TS int64 `json:"_ts"`
	}
	if err := json.Unmarshal(resp.Body, &doc); err != nil {
		return time.Time{}, "", false, fmt.Errorf("read %q: %w", id, err)
	}
	return time.Unix(doc.TS, 0), resp.ETag, true, nil
}

// documentID is a document's id, "" where it has none.
func documentID(document []byte) string {
	var id string
	_ = json.Unmarshal(cosmos.Property(document, "id"), &id)
	return id
}
