package emulator

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// placement says which regions take the writes of a container. The lock of the container
// guards it.
type placement struct {
	regions *regions
	writers map[string]int // by range: index of the region, if not the account's
}

// shipment is a transaction on its way to another region. It shares the documents of the region
// that has committed it.
type shipment struct {
	rangeID  string
	origin   int // index of its region
	sent     time.Time
	lsn      int64
	changes  []*change
	versions []*version
	time     time.Time // of the transaction
	expired  bool
}

// spread is the state of a range in an account of several regions.
type spread struct {
	regions   int     // number of regions
	committed int64   // the LSN that all regions have reached
	origins   []int64 // by region: its transactions that have arrived here; nil if one region writes
}

func (r *regions) newSpread() *spread {
	s := &spread{regions: len(r.names)}
	if r.multipleWrites {
		s.origins = make([]int64, len(r.names))
	}
	return s
}

// vector is the last part of the range's session tokens: the regions besides the one that
// writes, without an LSN of their own, or all of them with their LSNs if all write.
func (s *spread) vector() string {
	if s == nil {
		return ""
	}
	var text strings.Builder
	for i := range s.regions {
		switch {
		case s.origins != nil:
			text.WriteString("#" + strconv.Itoa(i+1) + "=" + strconv.FormatInt(s.origins[i], 10))
		case i > 0:
			text.WriteString("#" + strconv.Itoa(i+1) + "=-1")
		}
	}
	return text.String()
}

// copyToRegions gives a new container, which is still empty, a copy in each region.
func (o *container) copyToRegions() {
	r := o.platform.regions
	if r == nil {
		return
	}
	o.copied = &copied{copies: make([]*container, len(r.names)), placement: &placement{r, map[string]int{}}}
	o.copies[0] = o
	for _, p := range o.Partitions {
		p.Version, p.spread = 0, r.newSpread()
	}
	for i := 1; i < len(r.names); i++ {
		other := *o
		other.copied = &copied{region: i, copies: o.copies, placement: o.placement}
		other.items, other.Partitions = map[string]*item{}, nil
		for _, p := range o.Partitions {
			own := *p
			own.sequence, own.spread = &sequence{p.lsn}, r.newSpread()
			other.Partitions = append(other.Partitions, &own)
		}
		o.copies[i] = &other
	}
	o.measure()
}

// everywhere returns the container in all regions.
func (o *container) everywhere() []*container {
	if o.copied == nil {
		return []*container{o}
	}
	return o.copies
}

// inRegion returns the container as a region has it.
func (o *container) inRegion(index int) *container {
	if o.copied == nil {
		return o
	}
	return o.copies[index]
}

// takesWrites reports whether the region of the container takes writes of p.
func (o *container) takesWrites(p *partition) bool {
	return o.copied == nil || o.placement.regions.multipleWrites || o.placement.writer(p.ID) == o.region
}

// writer is the region that takes the writes of a range.
func (p *placement) writer(rangeID string) int {
	if index, moved := p.writers[rangeID]; moved {
		return index
	}
	return p.regions.writeRegion()
}

// follow takes over the definition of another copy of the container.
func (o *container) follow(other *container) {
	o.Definition, o.ttl, o.previous, o.query = other.Definition, other.ttl, other.previous, other.query
	o.Modified, o.ETag, o.writes = other.Modified, other.ETag, other.writes
	o.rescheduleExpiry()
	o.retain(other.retention)
}

// advanceCopies brings all copies of o up to date. A split or merge waits until each region has
// all writes to its ranges, also if replication is paused. A region without lag has each write
// at once: now is older than the newest ones if the caller has waited for the lock.
func advanceCopies(o *container, now time.Time) {
	if r := o.reshaping; r != nil && !now.Before(r.until) {
		for _, c := range o.copies {
			deliver(c, everything)
		}
		o.placement.inherit(r)
	}
	for _, c := range o.copies {
		c.finishReshaping(now)
	}
	for _, c := range o.copies {
		expire(c, now)
		c.trim(now)
		link := o.placement.regions.link(c.region)
		deliver(c, func(s shipment) bool { return !link.Paused && (link.Lag == 0 || !now.Before(s.sent.Add(link.Lag))) })
	}
	o.measure()
}

// inherit makes the region that takes the writes of a range take those of its successors.
func (p *placement) inherit(r *reshaping) {
	if index, moved := p.writers[r.parents[0]]; moved {
		for _, successor := range r.successors {
			p.writers[successor.ID] = index
		}
	}
}

// measure finds the LSNs that all regions have reached.
func (o *container) measure() {
	for i, p := range o.Partitions {
		committed := p.lsn
		for _, c := range o.copies {
			committed = min(committed, c.Partitions[i].lsn)
		}
		for _, c := range o.copies {
			c.Partitions[i].committed = committed
		}
	}
}

// inheritedSpread is that of a range that takes the place of parents, after all of their
// transactions have arrived.
func inheritedSpread(parents []*partition) *spread {
	if parents[0].spread == nil {
		return nil
	}
	inherited := &spread{regions: parents[0].regions, origins: slices.Clone(parents[0].origins)}
	for _, parent := range parents[1:] {
		for region, count := range parent.origins {
			inherited.origins[region] = max(inherited.origins[region], count)
		}
	}
	return inherited
}

// ship sends a transaction that was committed in one region to all others. Their etags and
// numbers of items continue behind its own, so that none is used twice.
func ship(t *transaction) {
	from := t.container
	s := shipment{t.partition.ID, from.region, from.platform.now(), t.partition.lsn, t.order, t.versions, t.now, t.expired}
	if origins := t.partition.origins; origins != nil {
		origins[from.region]++
	}
	for _, c := range from.copies {
		c.writes, c.lastSeq = max(c.writes, from.writes), max(c.lastSeq, from.lastSeq)
		if c != from {
			c.inbox = append(c.inbox, s)
		}
	}
}

// deliver applies the transactions that have arrived in the region of o, in the order in which
// they were sent.
func deliver(o *container, arrived func(shipment) bool) {
	for len(o.inbox) > 0 && arrived(o.inbox[0]) {
		receive(o, o.inbox[0])
		o.inbox[0] = shipment{}
		o.inbox = o.inbox[1:]
	}
}

func everything(shipment) bool { return true }

// receive applies a transaction of another region. If only one region writes, it has the same
// LSN everywhere; if all do, each region counts what it has, and the last writer wins.
func receive(o *container, s shipment) {
	p := o.rangeByID(s.rangeID)
	t := &transaction{container: o, partition: p, now: s.time, expired: s.expired}
	if p.origins != nil {
		p.origins[s.origin]++
		p.lsn++
	} else {
		p.lsn = max(p.lsn, s.lsn)
	}
	images := map[*document]*document{}
	for _, ch := range s.changes {
		if own := o.receiveChange(ch, s, p.origins != nil); own != nil {
			t.order = append(t.order, own)
			images[ch.after] = own.after
		}
	}
	for _, v := range s.versions {
		own := *v
		if image := images[v.current]; image != nil {
			own.current = image
		}
		t.versions = append(t.versions, &own)
	}
	if !o.logging {
		t.versions = nil
	}
	t.install()
}

// receiveChange returns a change of another region as one of o's own documents, nil if it has
// no effect here.
func (o *container) receiveChange(ch *change, s shipment, lastWriterWins bool) *change {
	own := &change{}
	source := ch.after
	if source == nil {
		source = ch.before
	}
	if source == nil {
		return nil // created and deleted again within the transaction
	}
	known := o.items[source.item.name()]
	if known != nil {
		own.before = known.current
	}
	if lastWriterWins && own.before != nil && own.before.modified > s.time.Unix() {
		return nil
	}
	if ch.after == nil {
		if own.before == nil {
			return nil
		}
		return own
	}
	copied := *ch.after
	copied.superseded = false
	if known == nil || known.seq != ch.after.item.seq {
		item := *ch.after.item
		item.current = nil
		known = &item
	}
	copied.item = known
	own.after = &copied
	return own
}
