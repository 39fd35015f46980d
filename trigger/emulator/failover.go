package emulator

import (
	"fmt"
	"slices"
)

// Failover says what happens to writes that have not reached the region that takes over.
type Failover string

// The kinds of failover.
const (
	FailoverPlanned   Failover = "planned"   // it waits for them: nothing is lost
	FailoverUnplanned Failover = "unplanned" // they are lost, in all regions
)

// FailOver makes a region the account's first write region, for all ranges of all containers.
// Of an account with multiple writes it changes the order of the regions; if it is unplanned,
// writes of the region that was first are lost. FailOver fails if the account does not have
// the region, or if a planned failover would wait for a replication that is paused.
func (a *Account) FailOver(region string, kind Failover) error {
	index, err := a.checkFailover(region, kind)
	if err != nil {
		return fmt.Errorf("fail over to region %q: %w", region, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.databases {
		for _, o := range d.containers {
			failOver(o, index, kind)
		}
	}
	a.regions.setWriteRegion(index)
	return nil
}

// FailOverRange makes a region take the writes of one range of a container, while the
// account's document stays as it is. It fails as FailOver does, and without
// [Options.PartitionFailover].
func (a *Account) FailOverRange(databaseID, containerID, rangeID, region string, kind Failover) error {
	if err := a.failOverRange(databaseID, containerID, rangeID, region, kind); err != nil {
		return fmt.Errorf("fail over range %q of %s/%s to region %q: %w", rangeID, databaseID, containerID, region, err)
	}
	return nil
}

func (a *Account) failOverRange(databaseID, containerID, rangeID, region string, kind Failover) error {
	index, err := a.checkFailover(region, kind)
	if err != nil {
		return err
	}
	if !a.options.PartitionFailover {
		return fmt.Errorf("ranges of this account do not fail over by themselves: set Options.PartitionFailover, or halley emulator --partition-failover")
	}
	c := &call{catalog: a.catalog, now: a.now(), target: target{kind: kindContainer, database: databaseID, container: containerID}}
	o, err := c.container()
	if err != nil {
		return err
	}
	_, err = c.locked(o, func() (*response, error) {
		p, err := o.partition(rangeID)
		if err != nil {
			return nil, err
		}
		move(o, p.ID, index, kind)
		o.placement.writers[p.ID] = index
		return nil, nil
	})
	return err
}

// checkFailover returns the index of the region that is to take over.
func (a *Account) checkFailover(region string, kind Failover) (int, error) {
	index, err := a.regions.find(region)
	switch {
	case err != nil:
		return 0, err
	case kind != FailoverPlanned && kind != FailoverUnplanned:
		return 0, fmt.Errorf("the kind of failover is %q; give %q or %q", kind, FailoverPlanned, FailoverUnplanned)
	case kind == FailoverPlanned && a.regions.link(index).Paused:
		return 0, fmt.Errorf("replication to it is paused, which a planned failover would wait for: resume it, or make the failover %q", FailoverUnplanned)
	}
	return index, nil
}

// failOver moves the writes of all ranges of a container to a region.
func failOver(o *container, index int, kind Failover) {
	o.mu.Lock()
	defer o.mu.Unlock()
	advance(o, o.platform.now())
	for _, p := range o.Partitions {
		move(o, p.ID, index, kind)
	}
	clear(o.placement.writers)
}

// move lets a region take the writes of a range from the one that takes them now. It delivers
// what is on its way to it, or drops what it does not have.
func move(o *container, rangeID string, index int, kind Failover) {
	oldWriter, newWriter := o.copies[o.placement.writer(rangeID)], o.copies[index]
	if oldWriter == newWriter {
		return
	}
	newestLSN := oldWriter.rangeByID(rangeID).lsn
	if kind == FailoverPlanned {
		deliver(newWriter, everything)
	} else {
		lose(oldWriter, rangeID)
		for _, c := range o.copies {
			c.resemble(newWriter, rangeID)
		}
	}
	manners := o.platform.options.Manners
	for _, c := range o.copies {
		p := c.rangeByID(rangeID)
		if !manners.FailoverKeepsVersion {
			p.Version++
		}
		if kind == FailoverUnplanned && manners.FailoverSkipsLSNs {
			p.lsn = max(p.lsn, newestLSN)
		}
	}
	newWriter.rescheduleExpiry()
	o.measure()
}

// lose drops the transactions of a range that are on their way. If all regions write, only
// those of the region that is left are lost: the others arrive first.
func lose(oldWriter *container, rangeID string) {
	multipleWrites := oldWriter.placement.regions.multipleWrites
	for _, c := range oldWriter.copies {
		c.inbox = slices.DeleteFunc(c.inbox, func(s shipment) bool {
			return s.rangeID == rangeID && (s.origin == oldWriter.region || !multipleWrites)
		})
		if multipleWrites {
			deliver(c, everything)
		}
	}
}

// resemble gives the range of a container the contents that it has in another region.
func (o *container) resemble(other *container, rangeID string) {
	if o == other {
		return
	}
	p, source := o.rangeByID(rangeID), other.rangeByID(rangeID)
	for i := range p.items.all() {
		i.current.superseded = true
		o.releaseUnique(i.current)
		delete(o.items, i.name())
	}
	p.log, p.items = series[*document]{}, series[*item]{}
	p.lsn, p.ownLSN = source.lsn, source.ownLSN
	p.versions = versionLog{kept: slices.Clone(source.versions.kept), trimmed: source.versions.trimmed}
	if p.origins != nil {
		copy(p.origins, source.origins)
	}
	for doc := range source.log.all() {
		copied, i := *doc, *doc.item
		i.current = nil
		copied.item = &i
		o.publish(&copied, p)
	}
}

// newestCopy is the n-th range of the container in the region that takes its writes.
func (o *container) newestCopy(n int) *partition {
	if o.copied == nil {
		return o.Partitions[n]
	}
	return o.copies[o.placement.writer(o.Partitions[n].ID)].Partitions[n]
}

// rangeByID finds a range that exists.
func (o *container) rangeByID(id string) *partition {
	return o.Partitions[slices.IndexFunc(o.Partitions, func(p *partition) bool { return p.ID == id })]
}

// RegionState is one region in a [State].
type RegionState struct {
	Name     string `json:"name"`
	Endpoint string `json:"endpoint"`
	Writes   bool   `json:"writes"` // of databases and containers are accepted there
	Lag      string `json:"lag"`    // of writes of other regions
	Paused   bool   `json:"paused,omitempty"`
}

// CopyState is a range in one region in a [State].
type CopyState struct {
	Region  string `json:"region"`
	LSN     int64  `json:"lsn"`
	Items   int    `json:"items"`
	Writes  bool   `json:"writes"`            // of the range are accepted there
	Pending int    `json:"pending,omitempty"` // writes of the container that have not arrived there
}

func (a *Account) regionStates() (states []RegionState) {
	if a.regions == nil {
		return nil
	}
	endpoints, first := a.regionEndpoints(a.Endpoint()), a.regions.writeRegion()
	for i, name := range a.regions.names {
		link := a.regions.link(i)
		states = append(states, RegionState{name, endpoints[i], i == first || a.options.MultipleWrites, link.Lag.String(), link.Paused})
	}
	return states
}

// copyStates returns the n-th range of the container in all regions.
func (o *container) copyStates(n int) (states []CopyState) {
	if o.copied == nil {
		return nil
	}
	for _, c := range o.copies {
		p := c.Partitions[n]
		states = append(states, CopyState{o.placement.regions.names[c.region], p.lsn, p.items.len(), c.takesWrites(p), len(c.inbox)})
	}
	return states
}
