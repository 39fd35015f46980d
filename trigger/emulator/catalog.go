package emulator

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// maxQueries is how many queries of an account are evaluated at the same time; more wait. Each
// may need up to about 200 MB.
const maxQueries = 8

// catalog has the databases and containers of an account: all that requests read and change.
type catalog struct {
	*platform
	roles   atomic.Pointer[[]RoleAssignment] // nil if there are none
	queries *semaphore.Weighted              // queries that are being evaluated

	mu        sync.RWMutex // guards the fields below; taken before a container's
	created   uint32       // databases and containers so far
	writes    uint64       // to databases and offers, for their etags
	ticket    uint64       // newest store ticket of these
	databases map[string]*database
}

// findDatabase takes a name or a resource id. The caller holds a.mu.
func (a *catalog) findDatabase(name string) (*database, bool) {
	if d, ok := a.databases[name]; ok {
		return d, true
	}
	for _, d := range a.databases {
		if d.rid() == name {
			return d, true
		}
	}
	return nil, false
}

// addDatabase adds a database. The caller holds a.mu.
func (a *catalog) addDatabase(name string, throughput *offer) *database {
	a.created++
	a.writes++
	d := &database{containers: make(map[string]*container), databaseHead: databaseHead{
		Name: name, Number: a.seed + a.created, Throughput: throughput,
		ETag: formatETag(a.seed, 0, a.writes), Modified: a.now().Unix(),
	}}
	if throughput != nil {
		d.shared.sequence.lsn = 1
	}
	throughput.place(d.rid(), "dbs/"+d.rid()+"/", a.seed+a.created, a.now())
	a.databases[name] = d
	a.master.Add(1)
	a.ticket = a.saveDatabase(d)
	return d
}

// rangesOf is the number of ranges that a new container begins with.
func (a *catalog) rangesOf(d *database, throughput *offer) int {
	switch {
	case throughput != nil:
		return rangesFor(throughput.units())
	case d.Throughput != nil:
		return 1
	}
	return a.options.Ranges
}

// addContainer adds a container to d. The caller holds the account's mu.
func (a *catalog) addContainer(d *database, definition containerDefinition, throughput *offer, ranges int) *container {
	a.created++
	o := &container{
		platform: a.platform, database: &d.databaseHead, Name: definition.name, Number: a.created, Owner: d.Number, Throughput: throughput,
		keyDefinition: definition.key, uniqueKeys: definition.uniqueKeys, items: make(map[string]*item),
	}
	if o.Throughput == nil && d.Throughput == nil {
		o.Throughput = &offer{Manual: max(defaultThroughput, (ranges-1)*unitsPerRange)}
	}
	o.enter()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.identify()
	o.Throughput.place(o.rid, o.path, a.seed+a.created, a.now())
	o.define(definition)
	bounds := o.keyDefinition.Boundaries(ranges)
	for i := range ranges {
		o.Partitions = append(o.Partitions, &partition{ID: o.newRange(), Min: bounds[i], Max: bounds[i+1], Parents: []string{}, Version: -1, Modified: o.Modified})
	}
	for _, p := range o.Partitions {
		p.sequence = o.firstSequence()
		p.lsn++
	}
	o.retain(definition.retention)
	o.share(o.platform.now())
	o.copyToRegions()
	d.containers[o.Name] = o
	a.master.Add(1)
	a.ticket = a.saveWithCounters(o)
	o.ticket = a.ticket
	return o
}
