package emulator

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// reshaping is a split or merge that has begun. Until its end, requests are refused
// if they name one of its parents, and items are still written to the parents. The
// lock of the container guards it.
type reshaping struct {
	parents    []string
	successors []*partition // the ranges that replace them, still empty
	until      time.Time
}

func (r *reshaping) concerns(id string) bool { return r != nil && slices.Contains(r.parents, id) }

// Split divides a range of a container in the middle of its keys and returns the
// ids of the two children, lower keys first. If a request names the range, it gets
// 410/1007 until [Options.Splitting] has passed, then 410/1002. If it names a
// partition key instead, it is served all the time. Split fails if another split or
// merge of the container has begun. A container that shares the throughput of its database
// leaves the data partition: its children have LSNs of their own. Names and resource ids both identify database
// and container.
func (a *Account) Split(databaseID, containerID, rangeID string) (children []string, err error) {
	err = a.reshape(databaseID, containerID, func(o *container, now time.Time) error {
		p, err := o.partition(rangeID)
		if err != nil {
			return err
		}
		middle, err := o.keyDefinition.Midpoint(p.Min, p.Max)
		if err != nil {
			return err
		}
		low, high := o.successor(p), o.successor(p)
		low.Max, high.Min = middle, middle
		o.replace([]*partition{p}, []*partition{low, high}, now)
		children = []string{low.ID, high.ID}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("split range %q of %s/%s: %w", rangeID, databaseID, containerID, err)
	}
	return children, nil
}

// Merge joins two or more adjacent ranges of a container and returns the id of
// the range that takes their place; otherwise as [Account.Split].
func (a *Account) Merge(databaseID, containerID string, rangeIDs ...string) (child string, err error) {
	err = a.reshape(databaseID, containerID, func(o *container, now time.Time) error {
		parents, err := o.adjacent(rangeIDs)
		if err != nil {
			return err
		}
		p := o.successor(parents...)
		p.Merged = true
		o.replace(parents, []*partition{p}, now)
		child = p.ID
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("merge ranges %s of %s/%s: %w", strings.Join(rangeIDs, ", "), databaseID, containerID, err)
	}
	return child, nil
}

// reshape runs fn on a container's ranges and waits until the outcome is on disk.
func (a *Account) reshape(database, name string, fn func(*container, time.Time) error) error {
	if err := a.store.writable(); err != nil {
		return err
	}
	c := &call{catalog: a.catalog, now: a.now(), target: target{kind: kindContainer, database: database, container: name}}
	o, err := c.container()
	if err != nil {
		return err
	}
	_, err = c.locked(o, func() (*response, error) {
		if o.reshaping != nil {
			return nil, fmt.Errorf("ranges %s are still being split or merged", strings.Join(o.reshaping.parents, ", "))
		}
		for _, copied := range o.everywhere() { // all have the same ranges
			if err := fn(copied, c.now); err != nil {
				return nil, err
			}
		}
		advance(o, c.now)
		return nil, nil
	})
	if err != nil {
		return err
	}
	return a.store.wait(c.ticket)
}

// successor is a new range over the keys of adjacent parents.
func (o *container) successor(parents ...*partition) *partition {
	first, last := parents[0], parents[len(parents)-1]
	p := &partition{ID: o.newRange(), Min: first.Min, Max: last.Max, Version: first.Version, sequence: &sequence{}}
	for _, parent := range parents {
		p.Merged = p.Merged || parent.Merged
		p.Version = max(p.Version, parent.Version)
		for _, ancestor := range append(slices.Clone(parent.Parents), parent.ID) {
			if !slices.Contains(p.Parents, ancestor) {
				p.Parents = append(p.Parents, ancestor)
			}
		}
	}
	if len(parents) > 1 {
		p.Version++
	}
	return p
}

// adjacent finds ranges by their ids. It fails if there are fewer than two or if
// they do not follow each other.
func (o *container) adjacent(ids []string) ([]*partition, error) {
	if len(ids) < 2 {
		return nil, fmt.Errorf("name two or more ranges, not %d", len(ids))
	}
	var found []*partition
	for _, id := range ids {
		p, err := o.partition(id)
		if err != nil {
			return nil, err
		}
		found = append(found, p)
	}
	sort.Slice(found, func(i, j int) bool {
		return slices.Index(o.Partitions, found[i]) < slices.Index(o.Partitions, found[j])
	})
	for i := range found[1:] {
		if found[i].Max != found[i+1].Min || found[i] == found[i+1] {
			return nil, fmt.Errorf("ranges %q and %q are not adjacent", found[i].ID, found[i+1].ID)
		}
	}
	return found, nil
}

// replace begins a reshaping.
func (o *container) replace(parents, successors []*partition, now time.Time) {
	o.reshaping = &reshaping{successors: successors, until: now.Add(o.platform.options.Splitting)}
	for _, p := range parents {
		o.reshaping.parents = append(o.reshaping.parents, p.ID)
	}
}

// finishReshaping ends the reshaping if its time has come: its ranges inherit the
// items of their parents, each with its LSN, and their own LSNs begin above.
func (o *container) finishReshaping(now time.Time) {
	r := o.reshaping
	if r == nil || now.Before(r.until) {
		return
	}
	o.reshaping = nil
	o.Topology++
	first := slices.IndexFunc(o.Partitions, func(p *partition) bool { return slices.Contains(r.parents, p.ID) })
	parents := slices.Clone(o.Partitions[first : first+len(r.parents)])
	for _, p := range r.successors {
		p.inherit(parents)
		p.Born, p.Modified = o.Topology, now.Unix()
	}
	o.Partitions = slices.Replace(o.Partitions, first, first+len(parents), r.successors...)
	o.retain(o.retention) // which keeps nothing if ranges were merged
	o.share(now)
	o.ticket = o.save()
}

// inherit fills p from its parents.
func (p *partition) inherit(parents []*partition) {
	logs, items := make([]*series[*document], len(parents)), make([]*series[*item], len(parents))
	for i, parent := range parents {
		p.lsn = max(p.lsn, parent.lsn+1)
		logs[i], items[i] = &parent.log, &parent.items
	}
	documents, all := merge(logs...), merge(items...)
	for doc := range documents.all() {
		if p.holds(doc.item.epk()) {
			p.log.push(doc)
		}
	}
	for i := range all.all() {
		if p.holds(i.epk()) {
			p.items.push(i)
		}
	}
	p.versions = parents[0].versions.part(p.holds) // a merged range keeps none
	p.spread = inheritedSpread(parents)
}
