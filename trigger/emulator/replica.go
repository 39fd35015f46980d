package emulator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// replica is the state of the partition that made an answer: a range of a container, or the
// master partition, which answers for metadata and has LSNs of its own (recorded answers of a
// hosted account, October 2026). Its answers carry the state, those that fail as well. The
// gateway has no LSN: what it refuses has neither session token nor charge.
type replica struct {
	rangeID string // "" = the master partition
	session string
	lsn     int64

	committed int64 // in all regions
}

// replica returns the state of the range. The caller holds the container's mu.
func (p *partition) replica() replica {
	r := replica{p.ID, p.session(), p.lsn, p.lsn}
	if p.spread != nil {
		r.committed = p.spread.committed
	}
	return r
}

// replica returns the state of the partition that the call has reached, nil if that is the
// gateway.
func (c *call) replica() *replica {
	if c.reached == nil && c.metadata {
		master := c.catalog.masterReplica()
		return &master
	}
	return c.reached
}

// reach notes that the range has made the answer. The caller holds the container's mu.
func (c *call) reach(p *partition) {
	reached := p.replica()
	c.reached = &reached
}

// refuse returns err as the error of the range that the request names.
func (c *call) refuse(o *container, err error) error {
	_, err = c.locked(o, func() (*response, error) { return nil, err })
	return err
}

// reachNamed notes the range that a request names by its id or key, the first one if it names
// none, unless the request is one for metadata. The caller holds the container's mu.
func (c *call) reachNamed(o *container) {
	if c.reached != nil || c.metadata {
		return
	}
	if id := c.header.Get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		if p, err := o.partition(id); err == nil {
			c.reach(p)
		}
		return
	}
	p := o.Partitions[0]
	if key, err := o.wholeKey(c.header.Get("X-Ms-Documentdb-Partitionkey")); err == nil {
		p = o.locate(o.keyDefinition.Hash(key))
	}
	c.reach(p)
}

// stamp adds the headers that tell the state of a replica. A write is committed in all
// regions after its answer. A 429 has no session token.
func (r *response) stamp(from replica, write bool) {
	committed := from.committed
	if write {
		committed = min(committed, from.lsn-1)
	}
	if r.status != http.StatusTooManyRequests {
		r.set("x-ms-session-token", from.session)
	}
	r.set("lsn", strconv.FormatInt(from.lsn, 10))
	r.set("x-ms-cosmos-llsn", strconv.FormatInt(from.lsn, 10))
	r.set("x-ms-global-committed-lsn", strconv.FormatInt(committed, 10))
	if from.rangeID != "" {
		r.set("x-ms-documentdb-partitionkeyrangeid", from.rangeID)
	}
}

// Charges of requests that fail (recorded answers of a hosted account, October 2026).
const (
	conflictUnits  = 1.48
	throttledUnits = 0.38
	absentUnits    = 2.0 // of a database or container that does not exist
)

// units is the charge of a request that fails with f.
func (c *call) units(f *failure) float64 {
	switch {
	case f.free:
		return 0
	case f.status == http.StatusTooManyRequests:
		return throttledUnits
	case c.reached == nil && f.status == http.StatusNotFound:
		return absentUnits
	case c.reached == nil && c.method == http.MethodPost:
		return 0
	case f.status == http.StatusConflict:
		return conflictUnits
	case c.writes():
		return failedUnits
	}
	return readUnits
}

// refusal is the answer to a call that fails.
func (c *call) refusal(f *failure) *response {
	from := c.replica()
	if f.gateway || f.status == http.StatusGone || f.status >= http.StatusInternalServerError || c.target.kind != kindItem && c.isQuery() && f.status == http.StatusBadRequest {
		from = nil
	}
	described := *f
	if from == nil {
		described.message = shortened(f.message, maxMessage) + "\r\nActivityId: " + c.activity + ", " + serviceSDK
		return described.response()
	}
	described.message = c.describe(f, *from)
	r := described.response().charge(c.units(f))
	r.stamp(*from, false)
	return r
}

// serviceSDK ends the diagnostics of the service's errors.
const serviceSDK = "Microsoft.Azure.Documents.Common/2.14.0"

// describe is the message of a partition: the text, or a list of errors with it, and then
// lines of diagnostics. Some drivers learn from those whether the item, the container or the
// database is missing.
func (c *call) describe(f *failure, from replica) string {
	text := shortened(f.message, maxMessage)
	if !f.entity {
		text = errorList(text)
	}
	uri := fmt.Sprintf("/apps/%08x/services/%08x/partitions/%s/replicas/1p/", c.catalog.seed, c.catalog.seed, from.rangeID)
	moment := c.now.UTC().Format(time.RFC3339Nano)
	stats := fmt.Sprintf("\r\nRequestStartTime: %s, RequestEndTime: %s,  Number of regions attempted:1\r\n", moment, moment) +
		fmt.Sprintf("RequestStart: %s; ResponseTime: %s; StoreResult: StorePhysicalAddress: rntbd:/%s, LSN: %d, GlobalCommittedLsn: %d, PartitionKeyRangeId: %s, StatusCode: %d, SubStatusCode: %d, RequestCharge: %.2f, SessionToken: %s; ResourceType: %s, OperationType: %s\r\n, SDK: %s",
			moment, moment, uri, from.lsn, from.lsn, from.rangeID, f.status, f.substatus, c.units(f), from.session, c.resourceType(f), c.method, serviceSDK)
	if f.entity {
		return text + ", " + stats
	}
	return text + "\r\nActivityId: " + c.activity + ", Request URI: " + uri + ", RequestStats: " + stats
}

// errorList is a message with one error.
func errorList(text string) string {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return `Message: {"Errors":[` + strings.TrimSpace(quoted.String()) + `]}`
}

// resourceType names the kind of resource that a failure is about.
func (c *call) resourceType(f *failure) string {
	if f.resource != "" {
		return resourceTypes[f.resource]
	}
	return map[string]string{kindDatabase: "Database", kindContainer: "Collection", kindOffer: "Offer", kindRange: "PartitionKeyRange"}[c.target.kind]
}
