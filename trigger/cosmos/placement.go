package cosmos

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// quickTimeout bounds the wait for the head of an answer that the service gives in milliseconds, if
	// another region can be asked. It is that of the dialer, and half of the time after which a range
	// is to work again once its partition has failed over.
	quickTimeout = 5 * time.Second
	// lostAnswers is the number of answers in a row that do not come before a partition's next
	// request begins in the next region. One may be lost without any failover.
	lostAnswers = 2
)

// placements are the regions in which the ranges of a container answer, as far as they differ
// from the account's document: a range may fail over by itself, and the document stays as it is
// (https://learn.microsoft.com/azure/cosmos-db/how-to-configure-per-partition-automatic-failover).
// They are used for accounts with several regions and one that writes. mu guards them and is
// never held during I/O.
type placements struct {
	failovers atomic.Int64 // signs of failovers, of all ranges
	inUse     atomic.Bool  // a region has refused a request, or has not answered: until then all ranges are where the account's document says

	mu        sync.Mutex
	byRange   map[string]*placement // by id of the physical range; "" if that is not known
	ranges    []Range               // of the container; nil if they are to be read
	notBefore time.Time             // for a read of the ranges after one that failed
}

// placement is where a range answers.
type placement struct {
	moved      string    // host of the region to ask first, "" for that of the account's document
	askBack    time.Time // when a write asks that of the account's document again
	answered   string    // host of the region that answered the last write, "" if none has
	failures   int       // answers that did not come, in a row
	failedOver time.Time // last sign of a failover
	raisedTo   int64     // version of the session tokens that was such a sign, 0 if none was
}

// of returns the placement of a range. The caller holds mu.
func (p *placements) of(id string) *placement {
	if p.byRange == nil {
		p.byRange = map[string]*placement{}
	}
	if p.byRange[id] == nil {
		p.byRange[id] = &placement{}
		if unknown := p.byRange[""]; unknown != nil {
			*p.byRange[id] = *unknown
		}
	}
	return p.byRange[id]
}

// order returns the endpoints in the order in which to ask them for a range.
func (p *placements) order(id string, write bool, endpoints []*url.URL) []*url.URL {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(id)
	if known.moved == "" || write && !time.Now().Before(known.askBack) {
		return endpoints
	}
	index := slices.IndexFunc(endpoints, func(u *url.URL) bool { return u.Host == known.moved })
	if index <= 0 {
		return endpoints
	}
	return slices.Concat(endpoints[index:], endpoints[:index])
}

// wrote notes that a region has answered a write of a range, and reports whether that is another one
// than before, or than the baseline if there was no write. first is the host of the account's
// document, and version that of the range's session tokens.
func (p *placements) wrote(id, host, first, baseline string, version int64) (hasMoved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(id)
	known.failures = 0
	if known.moved = host; host == first {
		known.moved = ""
	}
	former := cmp.Or(known.answered, baseline)
	if known.answered = host; former == "" || former == host {
		return false
	}
	known.askBack = time.Now().Add(regionPenalty)
	if isTold := known.raisedTo > 0 && known.raisedTo == version || id == "" && p.hasAnswered(host); !isTold {
		p.sign(known)
	}
	return true
}

// read notes that a region has answered a read of a range, which is no sign of a failover: all
// regions answer reads. isNext says that the ones before it have not.
func (p *placements) read(id, host string, isNext bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(id)
	known.failures = 0
	if isNext {
		known.moved = host
	}
}

// hasAnswered reports whether a region answers writes of a range that is known. The caller holds mu.
func (p *placements) hasAnswered(host string) bool {
	for id, known := range p.byRange {
		if id != "" && known.answered == host {
			return true
		}
	}
	return false
}

// failed notes that a region has refused a request for a range, or has not answered it. After
// several answers that did not come, the next request begins in the region after it.
func (p *placements) failed(id string, endpoints []*url.URL, endpoint *url.URL, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(id)
	known.askBack = time.Now().Add(regionPenalty)
	if refused {
		return
	}
	if known.failures++; known.failures >= lostAnswers {
		known.failures = 0
		known.moved = endpoints[(slices.Index(endpoints, endpoint)+1)%len(endpoints)].Host
	}
}

// raised notes that the version of a range's session tokens has risen.
func (p *placements) raised(id string, version int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.of(id)
	known.raisedTo = version
	p.sign(known)
}

// sign notes a sign of a failover. The caller holds mu.
func (p *placements) sign(known *placement) {
	known.failedOver = time.Now()
	p.failovers.Add(1)
}

// knownRanges returns the ranges as last read, nil if they are not known. mayRead reports whether a
// read of them may be tried now.
func (p *placements) knownRanges() (ranges []Range, mayRead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ranges, time.Now().After(p.notBefore)
}

func (p *placements) setRanges(ranges []Range) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ranges = ranges; ranges == nil {
		p.notBefore = time.Now().Add(rereadPause)
	}
}

// rangeOf returns the id of the range that an operation on documents is for, "" if that is
// several or not known. It does no I/O.
func (c *Container) rangeOf(op *operation) string {
	if id := op.header.Get(headerPartitionRangeID); id != "" {
		return id
	}
	key := op.header.Get(headerPartitionKey)
	if key == "" {
		return ""
	}
	ranges, _ := c.placements.knownRanges()
	return c.rangeOfKey(ranges, key)
}

// locate reads the ranges of the container if they are not known. Without them, operations share
// one placement.
func (c *Container) locate(ctx context.Context) {
	if ranges, mayRead := c.placements.knownRanges(); ranges != nil || !mayRead {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, rereadTimeout)
	defer cancel()
	if _, err := c.Ranges(bounded); err != nil {
		c.placements.setRanges(nil)
	}
}

// rangeOfKey returns the id of the range of a key, "" if it is not known. It does no I/O.
func (c *Container) rangeOfKey(ranges []Range, key string) string {
	c.mu.Lock()
	properties := c.properties
	c.mu.Unlock()
	if properties == nil || ranges == nil {
		return ""
	}
	effective, err := properties.PartitionKey.EffectiveKey(key)
	if err != nil {
		return ""
	}
	for _, r := range ranges {
		if CompareKeys(r.Min, effective) <= 0 && CompareKeys(effective, r.Max) < 0 {
			return r.ID
		}
	}
	return ""
}

// FailedOver returns when this client last saw a sign that the range of a key has failed over: its
// writes changed their region, or the version of its session tokens rose; if several regions
// write, the account named another first one. It is zero if there was none. After such a sign,
// writes that were acknowledged before may be lost.
func (c *Container) FailedOver(key PartitionKey) time.Time {
	last := c.client.regions.lastChange()
	ranges, _ := c.placements.knownRanges()
	id := c.rangeOfKey(ranges, key.header)
	c.placements.mu.Lock()
	defer c.placements.mu.Unlock()
	for known, p := range c.placements.byRange {
		if (known == id || known == "" || id == "") && p.failedOver.After(last) {
			last = p.failedOver
		}
	}
	return last
}

// Failovers counts the signs that [Container.FailedOver] tells of, for all ranges of the
// container, and the later moves that [Container.PinToWriteRegion] tells of.
func (c *Container) Failovers() int64 {
	return c.placements.failovers.Load() + c.client.regions.changeCount(time.Duration(c.pinnedFor.Load()))
}

// RegionsReadAt returns when the client last read the regions of the account, zero if it has not.
func (c *Client) RegionsReadAt() time.Time { return c.regions.lastRead() }

// FailsOver reports whether the account has several regions of which one writes, as the client
// last read it.
func (c *Client) FailsOver() bool { return c.regions.failOver() }

// observeAnswer learns from the answer of a range.
func (c *Container) observeAnswer(resp *http.Response) {
	for _, id := range c.sessions.observe(resp) {
		if c.client.regions.failOver() {
			c.placements.raised(id, c.sessions.version(id))
		}
	}
}
