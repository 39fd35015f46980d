package emulator

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// defaultRegion is the region of an account that names none, as in the official emulator.
const defaultRegion = "South Central US"

// regions are the regions of an account that has several. Their indexes are in the order of
// [Options].Regions. mu guards the fields below it; it is the last lock to be taken.
type regions struct {
	names          []string
	multipleWrites bool

	mu    sync.Mutex
	first int           // the write region; of several, the one that the account names first
	links []Replication // of writes of other regions to each region
}

// Replication is how writes of other regions arrive in a region.
type Replication struct {
	Lag    time.Duration // from the commit of a write to its arrival
	Paused bool          // none arrives, until this is false again
}

// newRegions returns nil if the account has one region.
func newRegions(o Options) *regions {
	if len(o.Regions) < 2 {
		return nil
	}
	r := &regions{names: o.Regions, multipleWrites: o.MultipleWrites, links: make([]Replication, len(o.Regions))}
	for i := range r.links {
		r.links[i].Lag = o.ReplicationLag
	}
	return r
}

// checkRegions fails if regions have no usable names, or options need regions that are missing.
func (o Options) checkRegions() error {
	if err := checkRegionNames(o.Regions); err != nil {
		return err
	}
	several := len(o.Regions) > 1
	switch {
	case several && o.Data != "":
		return errors.New("an account with several regions is in memory only: leave out the data directory, or give one region")
	case !several && (o.MultipleWrites || o.PartitionFailover || o.ReplicationLag != 0):
		return errors.New("multiple writes, partition failover and replication lag need several regions: name at least two")
	case o.MultipleWrites && o.PartitionFailover:
		return errors.New("partition failover is for accounts with one write region: choose it or multiple writes")
	case o.ReplicationLag < 0:
		return fmt.Errorf("replication lag is %v; it cannot be negative", o.ReplicationLag)
	}
	return nil
}

func checkRegionNames(names []string) error {
	keys := map[string]bool{}
	for _, name := range names {
		key := regionKey(name)
		switch {
		case key == "" || strings.ContainsFunc(key, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }):
			return fmt.Errorf("region %q is not a name such as \"West Europe\"", name)
		case keys[key]:
			return fmt.Errorf("region %q is named twice", name)
		}
		keys[key] = true
	}
	return nil
}

// regionKey is a region's name as host names and comparisons have it.
func regionKey(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }

// find returns the index of a region. It fails if the account does not have it.
func (r *regions) find(name string) (int, error) {
	if r == nil {
		return 0, fmt.Errorf("the account has one region: name several in Options.Regions, or with halley emulator --region")
	}
	index := slices.IndexFunc(r.names, func(known string) bool { return regionKey(known) == regionKey(name) })
	if index < 0 {
		return 0, fmt.Errorf("the account has no region %q; it has %q", name, r.names)
	}
	return index, nil
}

// writeRegion is the index of the write region that the account names first.
func (r *regions) writeRegion() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first
}

func (r *regions) setWriteRegion(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.first = index
}

func (r *regions) link(index int) Replication {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.links[index]
}

// SetReplication says how writes of other regions arrive in a region from now on, also those
// that are on their way. Those that have arrived by then stay. It fails if the account does not have
// the region.
func (a *Account) SetReplication(region string, replication Replication) error {
	index, err := a.regions.find(region)
	if err == nil && replication.Lag < 0 {
		err = fmt.Errorf("the lag is %v; it cannot be negative", replication.Lag)
	}
	if err != nil {
		return fmt.Errorf("set replication to region %q: %w", region, err)
	}
	a.advanceAll()
	a.regions.mu.Lock()
	defer a.regions.mu.Unlock()
	a.regions.links[index] = replication
	return nil
}

// advanceAll delivers the writes that have arrived, in all containers.
func (a *Account) advanceAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.databases {
		for _, o := range d.containers {
			o.mu.Lock()
			advance(o, o.platform.now())
			o.mu.Unlock()
		}
	}
}

// RegionEndpoint returns the address of one region of the account. It fails if the account
// does not have it.
func (a *Account) RegionEndpoint(region string) (string, error) {
	index, err := a.regions.find(region)
	if err != nil {
		return "", fmt.Errorf("endpoint of region %q: %w", region, err)
	}
	return a.regionEndpoints(a.Endpoint())[index], nil
}

// regionEndpoints are the addresses of the regions for a caller who reaches the account at
// endpoint: other ports if the account is served, other names in process.
func (a *Account) regionEndpoints(endpoint string) []string {
	u, err := url.Parse(endpoint)
	if err != nil || a.regions == nil {
		return []string{endpoint}
	}
	served := a.served.Load()
	endpoints := make([]string, len(a.regions.names))
	for i, name := range a.regions.names {
		if endpoints[i] = inProcessRegion(name); served != nil {
			u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(served.regionPorts[i]))
			endpoints[i] = u.String()
		}
	}
	return endpoints
}

// inProcessRegion is the endpoint of a region of an account that is not served.
func inProcessRegion(name string) string { return "https://halley-" + regionKey(name) + ".emulator/" }

// regionOf is the index of the region that a request is sent to. The account's own endpoint is
// that of its first write region, whichever it is now.
func (a *Account) regionOf(req *http.Request) int {
	if a.regions == nil {
		return 0
	}
	if served := a.served.Load(); served != nil && req.RemoteAddr != "" {
		if index := slices.Index(served.regionPorts, localPort(req)); index >= 0 {
			return index
		}
		return a.regions.writeRegion()
	}
	for index, region := range a.regions.names {
		if "https://"+req.URL.Host+"/" == inProcessRegion(region) {
			return index
		}
	}
	return a.regions.writeRegion()
}

// location is a region in the account's document.
type location struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

// locations are the regions that take reads, and those that take writes, each with the first
// write region in front.
func (c *call) locations() (readable, writable []location) {
	r := c.catalog.regions
	for i, name := range c.catalog.options.Regions {
		readable = append(readable, location{name, c.regional[i]})
	}
	if r == nil {
		return readable, readable
	}
	first := r.writeRegion()
	writer := readable[first]
	readable = slices.Insert(slices.Delete(readable, first, first+1), 0, writer)
	if r.multipleWrites {
		return readable, readable
	}
	return readable, readable[:1]
}

// checkRegion refuses a write of metadata outside of the write region.
func (c *call) checkRegion() error {
	if r := c.catalog.regions; r != nil && c.writes() && !r.multipleWrites && c.region != r.writeRegion() {
		return writeForbidden()
	}
	return nil
}

// writeForbidden is the answer to a write in a region that takes none
// (https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb).
func writeForbidden() *failure {
	return fail(http.StatusForbidden, subWriteForbidden, "The requested operation cannot be performed at this region.")
}
