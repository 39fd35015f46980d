package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Container represents one container of an account. Containers of the same
// client and name share one cache of properties and ranges, and one session. It is
// safe for concurrent use.
type Container struct {
	client         *Client
	database, name string
	link           string   // dbs/{database}/colls/{name}
	path           string   // link, escaped and with a leading slash
	docs           *url.URL // of the documents; has only a path

	pinnedFor atomic.Int64 // nanoseconds, see PinToWriteRegion; 0 if the container is not pinned

	mu          sync.Mutex // guards properties and forgetCount
	properties  *ContainerProperties
	forgetCount int // calls of Forget

	ranges     rangeMap
	sessions   sessions
	placements placements
}

// Container returns the container of that name. It does no I/O and does not
// check that the container exists.
func (c *Client) Container(database, container string) *Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{database, container}
	if known := c.containers[key]; known != nil {
		return known
	}
	path := "/dbs/" + url.PathEscape(database) + "/colls/" + url.PathEscape(container)
	docs, _ := url.Parse(path + "/docs") // it is escaped
	made := &Container{
		client:   c,
		database: database,
		name:     container,
		link:     "dbs/" + database + "/colls/" + container,
		path:     path,
		docs:     docs,
		ranges:   rangeMap{lock: make(chan struct{}, 1)},
	}
	c.containers[key] = made
	return made
}

// PinToWriteRegion sends all later requests for documents of the container, reads as well, to the
// region that takes their writes, whatever regions are preferred: reads there see the writes that
// were accepted.
//
// If one region of the account writes, requests follow a range that fails over: after a refused
// request (403/3) or answers that do not come, they try the next region. The service refuses
// writes in all regions but one, so that a needless try changes nothing.
//
// If several regions write, etags do not lock across them: two clients could both replace one
// version of a document, and one replace would be undone later. Then requests go to the account's
// first write region, also if it is not reachable, and move only once the account has named
// another one and moveAfter has passed, the longest of all calls. The container is that of all
// callers of [Client.Container] with its name.
func (c *Container) PinToWriteRegion(moveAfter time.Duration) {
	for wanted, known := int64(max(moveAfter, 1)), c.pinnedFor.Load(); wanted > known; known = c.pinnedFor.Load() {
		c.pinnedFor.CompareAndSwap(known, wanted)
	}
}

// WriteRegion returns the host of the account's first write region as the client
// last read it, "" before that. The account is read again every few minutes, and
// after a region has rejected a write or could not be reached.
func (c *Container) WriteRegion() string { return c.client.regions.writeRegion() }

// Name returns the container's name.
func (c *Container) Name() string { return c.name }

// Database returns the name of the container's database.
func (c *Container) Database() string { return c.database }

// Client returns the client that returned the container.
func (c *Container) Client() *Client { return c.client }

// ContainerProperties are the properties of a container and its database.
type ContainerProperties struct {
	ID                 string
	ResourceID         string // _rid of the container; changes when it is deleted and created again
	DatabaseResourceID string // _rid of its database
	PartitionKey       PartitionKeyDefinition
	DefaultTTL         *int          // seconds; -1 for "on, without a default"; nil if off
	Retention          time.Duration // of the change feed in [ModeAllVersions] mode; 0 if the container has no change feed policy
	ETag               azcore.ETag
	Modified           time.Time // when it was created or its settings were last changed, in whole seconds
}

// changeFeedPolicy enables [ModeAllVersions] for a container:
// azure-cosmos-dotnet-v3 ChangeFeedPolicy.
type changeFeedPolicy struct {
	Minutes int `json:"retentionDuration"`
}

// PartitionKeyDefinition defines the partition key of a container.
type PartitionKeyDefinition struct {
	Paths   []string `json:"paths"`             // for example "/player"; more than one for a hierarchical key, none if a legacy container has no key
	Kind    string   `json:"kind,omitempty"`    // "Hash" (default) or "MultiHash"
	Version int      `json:"version,omitempty"` // of the hash: 1 or 2
}

// Properties reads the container and its database. The result is cached until
// [Container.Forget] is called or the service reports that the container is missing or
// was created again.
func (c *Container) Properties(ctx context.Context) (ContainerProperties, error) {
	c.mu.Lock()
	known, forgetCount := c.properties, c.forgetCount
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	read, err := c.readProperties(ctx)
	if err != nil {
		return ContainerProperties{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if forgetCount == c.forgetCount {
		c.properties = &read
	}
	return read, nil
}

func (c *Container) readProperties(ctx context.Context) (ContainerProperties, error) {
	var container struct {
		ID           string                 `json:"id"`
		ResourceID   string                 `json:"_rid"`
		ETag         azcore.ETag            `json:"_etag"`
		Timestamp    int64                  `json:"_ts"`
		DefaultTTL   *int                   `json:"defaultTtl"`
		Policy       changeFeedPolicy       `json:"changeFeedPolicy"`
		PartitionKey PartitionKeyDefinition `json:"partitionKey"`
	}
	var database struct {
		ResourceID string `json:"_rid"`
	}
	if err := c.client.readResource(ctx, "read container", "colls", c.link, c.path, &container); err != nil {
		return ContainerProperties{}, err
	}
	if err := c.client.readResource(ctx, "read database", "dbs", "dbs/"+c.database, "/dbs/"+url.PathEscape(c.database), &database); err != nil {
		return ContainerProperties{}, err
	}
	if container.ResourceID == "" || database.ResourceID == "" {
		return ContainerProperties{}, fmt.Errorf("read container %s: the answer has no _rid", c.link)
	}
	key := container.PartitionKey
	key.Kind = cmp.Or(key.Kind, "Hash")
	key.Version = max(key.Version, 1)
	return ContainerProperties{
		ID:                 container.ID,
		ResourceID:         container.ResourceID,
		DatabaseResourceID: database.ResourceID,
		PartitionKey:       key,
		DefaultTTL:         container.DefaultTTL,
		Retention:          time.Duration(container.Policy.Minutes) * time.Minute,
		ETag:               container.ETag,
		Modified:           time.Unix(container.Timestamp, 0).UTC(),
	}, nil
}

// Forget drops the cached properties and ranges, so that the next calls read
// them again, and the session tokens.
func (c *Container) Forget() {
	c.mu.Lock()
	c.properties = nil
	c.forgetCount++
	c.mu.Unlock()
	c.ranges.invalid.Store(true)
	c.sessions.clear()
	c.placements.setRanges(nil)
}

func (c *Client) readResource(ctx context.Context, name, kind, link, path string, v any) error {
	op := &operation{name: name, kind: kind, parent: link, link: link, method: http.MethodGet, path: path}
	if _, err := c.do(ctx, op); err != nil {
		return err
	}
	return op.decode(v)
}

// CreateDatabase creates a database. If it exists, [IsConflict] holds for the
// error.
func (c *Client) CreateDatabase(ctx context.Context, id string) error {
	return c.create(ctx, &operation{
		name: "create database", kind: "dbs", link: "dbs/" + id, path: "/dbs",
	}, map[string]string{"id": id})
}

// ContainerDefinition describes a container to create.
type ContainerDefinition struct {
	ID           string
	PartitionKey PartitionKeyDefinition // Kind "" means Hash, or MultiHash if there are several paths; Version 0 means 2
	DefaultTTL   *int                   // seconds; -1 if each document sets its own ttl; nil if off
	Throughput   int                    // RU/s; 0 for the service's default
	Retention    time.Duration          // of the change feed in [ModeAllVersions] mode, whole minutes; 0 for no change feed policy
}

// CreateContainer creates a container. If it exists, [IsConflict] holds for the
// error.
func (c *Client) CreateContainer(ctx context.Context, database string, def ContainerDefinition) error {
	key := def.PartitionKey
	if key.Version == 0 {
		key.Version = 2
	}
	if key.Kind == "" && len(key.Paths) > 1 {
		key.Kind = "MultiHash"
	}
	key.Kind = cmp.Or(key.Kind, "Hash")
	var policy *changeFeedPolicy
	if def.Retention > 0 {
		policy = &changeFeedPolicy{Minutes: int(def.Retention / time.Minute)}
	}
	header := newHeader()
	if def.Throughput > 0 {
		header.Set(headerOfferThroughput, strconv.Itoa(def.Throughput))
	}
	return c.create(ctx, &operation{
		name: "create container", kind: "colls", parent: "dbs/" + database, link: "dbs/" + database + "/colls/" + def.ID,
		path: "/dbs/" + url.PathEscape(database) + "/colls", header: header,
	}, struct {
		ID           string                 `json:"id"`
		PartitionKey PartitionKeyDefinition `json:"partitionKey"`
		DefaultTTL   *int                   `json:"defaultTtl,omitempty"`
		Policy       *changeFeedPolicy      `json:"changeFeedPolicy,omitempty"`
	}{def.ID, key, def.DefaultTTL, policy})
}

func (c *Client) create(ctx context.Context, op *operation, def any) (err error) {
	op.method, op.write = http.MethodPost, true
	if op.body, err = json.Marshal(def); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	_, err = c.do(ctx, op)
	return err
}
