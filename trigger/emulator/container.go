package emulator

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/sql"
)

// container holds items. The store keeps its exported fields; see records.
type container struct {
	platform      *platform
	database      *databaseHead
	Name          string `json:"name"`
	Number        uint32 `json:"number"`
	Owner         uint32 `json:"database"` // its database's number
	path          string // self link
	rid           string
	ridBytes      []byte
	keyDefinition epk.Definition // never changes
	uniqueKeys    []uniqueKey    // never change

	*dataPartition                 // its mu guards the fields below
	Definition     json.RawMessage `json:"definition"` // an object without system properties
	ETag           string          `json:"etag"`
	Modified       int64           `json:"modified"`
	Throughput     *offer          `json:"throughput,omitempty"`
	Partitions     []*partition    `json:"partitions"` // in order of Min
	Topology       int             `json:"topology"`   // counts splits and merges
	NextRange      int             `json:"nextRange"`
	ttl            int64           // seconds; 0 = items do not expire, -1 = only those with a ttl
	retention      time.Duration   // of all versions; 0 = they are not kept
	previous       previousImages  // of the versions that the feed shows
	query          sql.Container   // the part of the definition that queries depend on
	logging        bool            // versions are kept now
	logged         uint64          // versions so far
	items          map[string]*item
	unique         map[string]*item // by uniqueTexts
	lastSeq        uint64           // items so far
	writes         uint64           // documents and definitions so far
	expiry         expiry
	reshaping      *reshaping
	dropped        bool
	*copied        // nil if the account has one region
}

// copied is the part of a container in an account of several regions. Its copies share one
// lock. Requests bring all of them up to date; there is no goroutine.
type copied struct {
	region    int          // its index
	copies    []*container // the container in each region
	inbox     []shipment   // transactions of other regions that have not arrived here, in order
	placement *placement   // of the ranges of all copies
}

func (c *call) dispatchContainer() (*response, error) {
	list := c.target.id == ""
	switch {
	case list && c.method == http.MethodGet:
		return c.listContainers()
	case list && c.method == http.MethodPost && c.isQuery():
		return c.queryContainers()
	case list && c.method == http.MethodPost:
		return c.createContainer()
	case !list && c.method == http.MethodGet:
		return c.readContainer()
	case !list && c.method == http.MethodPut:
		return c.replaceContainer()
	case !list && c.method == http.MethodDelete:
		return c.deleteContainer()
	}
	return nil, c.methodNotAllowed()
}

// find takes a name or a resource id. The caller holds the account's mu.
func (d *database) find(name string) (*container, bool) {
	if c, ok := d.containers[name]; ok {
		return c, true
	}
	for _, c := range d.containers {
		if c.rid == name {
			return c, true
		}
	}
	return nil, false
}

// container finds the container of the path. It fails if the request names another
// resource id, for example when the container was deleted and created again.
func (c *call) container() (*container, error) {
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	c.ticket = max(c.ticket, a.ticket)
	d, ok := a.findDatabase(c.target.database)
	if !ok {
		c.metadata = true
		return nil, notFound("database")
	}
	found, ok := d.find(c.target.container)
	if !ok && c.target.kind == kindContainer {
		return nil, notFound("container")
	}
	if !ok {
		c.metadata = true
		return nil, notFound("container")
	}
	if meant := c.header.Get("X-Ms-Cosmos-Intended-Collection-Rid"); meant != "" && meant != found.rid {
		return nil, fail(http.StatusBadRequest, subContainerMismatch, "The container %q has the resource id %s, not %s as the request expects: it was deleted and created again.", found.Name, found.rid, meant)
	}
	return found.inRegion(c.region), nil
}

// locked runs fn with the container's lock held, after advance. If fn fails, the range that
// the request names has refused it, unless fn has noted another one.
func (c *call) locked(on *container, fn func() (*response, error)) (*response, error) {
	on.mu.Lock()
	defer on.mu.Unlock()
	if on.dropped {
		c.metadata, c.reached = true, nil
		return nil, notFound("container")
	}
	advance(on, c.now)
	r, err := fn()
	if err != nil {
		c.reachNamed(on)
	}
	c.ticket = max(c.ticket, on.ticket)
	return r, err
}

// advance brings the container up to date: it ends a split or merge when its time
// has come, deletes items if they have expired, and trims versions if they are
// older than the retention. The caller holds o.mu.
func advance(o *container, now time.Time) {
	if o.platform.store.failing() {
		return // nothing changes until it can be stored
	}
	if o.copied != nil {
		advanceCopies(o, now)
		return
	}
	o.finishReshaping(now)
	expire(o, now)
	o.trim(now)
}

func (o *container) drop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.everywhere() {
		c.dropped = true
		c.items, c.Partitions = nil, nil
	}
}

func (c *call) listContainers() (*response, error) {
	rid, bodies, err := c.containerBodies()
	if err != nil {
		return nil, err
	}
	return list(rid, "DocumentCollections", bodies), nil
}

func (c *call) containerBodies() (string, [][]byte, error) {
	a := c.catalog
	a.mu.RLock()
	defer a.mu.RUnlock()
	c.ticket = a.ticket
	d, ok := a.findDatabase(c.target.database)
	if !ok {
		return "", nil, notFound("database")
	}
	bodies := [][]byte{}
	for _, name := range slices.Sorted(maps.Keys(d.containers)) {
		bodies = append(bodies, d.containers[name].lockedBody())
	}
	return d.rid(), bodies, nil
}

func (o *container) lockedETag() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ETag
}

// checkMatch fails if the request has an If-Match that is not the etag.
func (c *call) checkMatch(etag string) error {
	if tag := c.header.Get("If-Match"); tag != "" && tag != "*" && !sameETag(tag, etag) {
		return preconditionFailed()
	}
	return nil
}

func (o *container) lockedBody() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.body()
}

// body is the container as clients read it.
func (o *container) body() []byte {
	b := append([]byte{}, o.Definition[:len(o.Definition)-1]...)
	b = append(b, `,"_rid":"`+o.rid+`","_ts":`+strconv.FormatInt(o.Modified, 10)+`,"_self":"`+o.path+`","_etag":`...)
	b = strconv.AppendQuote(b, o.ETag)
	return append(b, `,"_docs":"docs/","_sprocs":"sprocs/","_triggers":"triggers/","_udfs":"udfs/","_conflicts":"conflicts/"}`...)
}

func (c *call) createContainer() (*response, error) {
	definition, err := c.parseContainer()
	if err != nil {
		return nil, err
	}
	throughput, err := c.throughput()
	if err != nil {
		return nil, err
	}
	a := c.catalog
	a.mu.Lock()
	defer a.mu.Unlock()
	c.ticket = a.ticket
	d, ok := a.findDatabase(c.target.database)
	if !ok {
		return nil, notFound("database")
	}
	if _, ok := d.containers[definition.name]; ok {
		return nil, conflict("container")
	}
	o := a.addContainer(d, definition, throughput, a.rangesOf(d, throughput))
	c.ticket = a.ticket
	return o.created(), nil
}

// created answers the creation of the container, which takes an LSN where it lies.
func (o *container) created() *response {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.response(http.StatusCreated, 1)
	r.stamp(o.Partitions[0].replica(), true)
	return r
}

// identify derives the names that follow from database and number.
func (o *container) identify() {
	o.rid = containerRID(o.database.Number, o.Number)
	o.ridBytes = decodeRID(o.rid)
	o.path = "dbs/" + o.database.rid() + "/colls/" + o.rid + "/"
}

// define takes over a new definition.
func (o *container) define(d containerDefinition) {
	o.Definition, o.ttl, o.previous, o.query = d.raw, d.ttl, d.previous, d.query
	o.Modified = o.platform.now().Unix()
	o.ETag = o.newETag()
}

func (o *container) newETag() string {
	o.writes++
	return formatETag(o.platform.seed, o.Number, o.writes)
}

func (o *container) newRange() string {
	o.NextRange++
	return strconv.Itoa(o.NextRange - 1)
}

// share divides the throughput of the container evenly among its ranges. It is
// called when the ranges have changed.
func (o *container) share(now time.Time) {
	rate := float64(o.platform.options.RU) / float64(len(o.Partitions))
	for _, p := range o.Partitions {
		p.budget = budget{rate: rate, level: rate, at: now}
	}
}

func (c *call) readContainer() (*response, error) {
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	return c.locked(o, func() (*response, error) {
		r := o.response(http.StatusOK, 1)
		r.stamp(o.Partitions[0].replica(), false)
		return r, nil
	})
}

func (o *container) response(status int, units float64) *response {
	r := reply(status, o.body()).etag(o.ETag).charge(units)
	o.database.name(r)
	r.set("x-ms-documentdb-collection-index-transformation-progress", "100")
	if o.sharesThroughput() {
		r.set("x-ms-share-throughput", "true")
	}
	return r
}

// name adds the headers by which clients learn the container of a resource.
func (o *container) name(r *response) {
	r.set("x-ms-alt-content-path", "dbs/"+o.database.Name+"/colls/"+o.Name)
	r.set("x-ms-content-path", o.rid)
}

func (c *call) replaceContainer() (*response, error) {
	definition, err := c.parseContainer()
	if err != nil {
		return nil, err
	}
	o, err := c.container()
	if err != nil {
		return nil, err
	}
	return c.locked(o, func() (*response, error) {
		if err := c.checkMatch(o.ETag); err != nil {
			return nil, err
		}
		switch {
		case definition.name != o.Name:
			return nil, badRequest("The id of container %q cannot be changed.", o.Name)
		case !slices.Equal(definition.key.Paths, o.keyDefinition.Paths) || definition.key.Kind != o.keyDefinition.Kind || definition.key.Version != o.keyDefinition.Version:
			return nil, badRequest("The partition key of container %q cannot be changed.", o.Name)
		case !sameUniqueKeys(definition.uniqueKeys, o.uniqueKeys):
			return nil, fail(http.StatusForbidden, 0, "The unique index cannot be modified. To change the unique index, remove the collection and re-create a new one.")
		}
		o.define(definition)
		o.rescheduleExpiry()
		o.retain(definition.retention)
		for _, c := range o.everywhere() {
			if c != o {
				c.follow(o)
			}
		}
		o.platform.master.Add(1)
		o.ticket = o.save()
		return o.response(http.StatusOK, 5), nil
	})
}

func (c *call) deleteContainer() (*response, error) {
	a := c.catalog
	a.mu.Lock()
	defer a.mu.Unlock()
	c.ticket = a.ticket
	d, ok := a.findDatabase(c.target.database)
	if !ok {
		return nil, notFound("database")
	}
	o, ok := d.find(c.target.id)
	if !ok {
		return nil, notFound("container")
	}
	if err := c.checkMatch(o.lockedETag()); err != nil {
		return nil, err
	}
	o.drop()
	delete(d.containers, o.Name)
	a.master.Add(1)
	a.ticket = a.removeContainer(o)
	c.ticket = a.ticket
	return reply(http.StatusNoContent, nil).charge(5), nil
}

// locate finds the range that holds an effective partition key.
func (o *container) locate(key string) *partition {
	i := sort.Search(len(o.Partitions), func(i int) bool { return epk.Compare(o.Partitions[i].Max, key) > 0 })
	return o.Partitions[i]
}

// partition finds a range by its id, for a request that names it.
func (o *container) partition(id string) (*partition, error) {
	if _, rangeID, ok := strings.Cut(id, ","); ok {
		id = rangeID // "{container rid},{range id}", as .NET sends it
	}
	if o.reshaping.concerns(id) {
		return nil, completingSplit(id)
	}
	for _, p := range o.Partitions {
		if p.ID == id {
			return p, nil
		}
	}
	return nil, rangeGone(id)
}
