package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

// Account describes an account.
type Account struct {
	ID                   string
	Consistency          string   // default consistency level, for example "Session"
	WriteRegions         []Region // only the first accepts writes unless MultipleWriteRegions
	ReadRegions          []Region
	MultipleWriteRegions bool
}

// Region is one region of an account.
type Region struct {
	Name     string `json:"name"` // for example "West Europe"
	Endpoint string `json:"databaseAccountEndpoint"`
}

// UnknownRegions returns those of the names that no region of the account has. Case and spaces do
// not count, as for [ClientOptions].PreferredRegions.
func (a Account) UnknownRegions(names []string) (unknown []string) {
	for _, name := range names {
		isNamed := func(r Region) bool { return regionKey(r.Name) == regionKey(name) }
		if !slices.ContainsFunc(a.ReadRegions, isNamed) && !slices.ContainsFunc(a.WriteRegions, isNamed) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// Account reads the account.
func (c *Client) Account(ctx context.Context) (Account, error) {
	op := &operation{name: "read account", method: http.MethodGet, path: "/"}
	if _, err := c.do(ctx, op); err != nil {
		return Account{}, err
	}
	var body struct {
		ID           string   `json:"id"`
		WriteRegions []Region `json:"writableLocations"`
		ReadRegions  []Region `json:"readableLocations"`
		Multiple     bool     `json:"enableMultipleWriteLocations"`
		Consistency  struct {
			Level string `json:"defaultConsistencyLevel"`
		} `json:"userConsistencyPolicy"`
	}
	if err := op.decode(&body); err != nil {
		return Account{}, err
	}
	return Account{body.ID, body.Consistency.Level, body.WriteRegions, body.ReadRegions, body.Multiple}, nil
}

const (
	accountAge    = 5 * time.Minute  // after it, the account is read again
	regionPenalty = 5 * time.Minute  // for this time, an unreachable region comes last
	rereadTimeout = 2 * time.Second  // of a repeated read; the known regions are still usable
	rereadPause   = 30 * time.Second // after a repeated read that failed
)

// regions chooses the regions for requests and caches the account.
type regions struct {
	base      *url.URL
	preferred []string
	account   func(context.Context) (Account, error)

	lock chan struct{} // holds a token while a request reads the account

	mu            sync.Mutex // guards the fields below; never held during a request
	reads, writes []*url.URL
	firstWrite    *url.URL             // endpoint of the account's first write region, whatever is preferred
	formerWrite   *url.URL             // first write region before the last change, of several that write
	multiple      bool                 // all regions write
	changes       int64                // times that the account named another first one of several write regions
	changedAt     time.Time            // last of these
	readAt        time.Time            // when the account was last read
	firstSince    time.Time            // when it first named the present first write region
	rereadAt      time.Time            // time at which the account is read again
	notBefore     time.Time            // no repeated read before this time, because the last one failed
	penalties     map[string]time.Time // by host: time until which it comes last
	firstFailures int                  // number of failed first reads
	lastFailure   error                // error of the last failed first read
}

func newRegions(base *url.URL, preferred []string, account func(context.Context) (Account, error)) *regions {
	return &regions{
		base: base, preferred: preferred, account: account,
		lock: make(chan struct{}, 1), penalties: map[string]time.Time{},
	}
}

// route is where an operation may be sent.
type route struct {
	endpoints []*url.URL // best first
	movable   bool       // the operation follows its range to another region, see placements
	first     string     // of a movable one: host of the account's first write region
}

// route returns where op may be sent.
func (r *regions) route(ctx context.Context, op *operation) (route, error) {
	if err := ctx.Err(); err != nil {
		return route{}, err
	}
	if op.kind != "" {
		if err := r.refresh(ctx); err != nil {
			return route{}, err
		}
	}
	to := r.accountRoute(op)
	if to.movable && op.container.placements.inUse.Load() {
		to.endpoints = op.container.placements.order(op.container.rangeOf(op), op.write, to.endpoints)
	}
	return to, nil
}

// accountRoute is route by the account's document alone.
func (r *regions) accountRoute(op *operation) route {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case op.kind == "":
		return route{endpoints: r.reachableFirst(r.accountEndpoints())}
	case op.endpoint != nil:
		return route{endpoints: []*url.URL{op.endpoint}}
	}
	pinnedFor := time.Duration(0)
	if op.container != nil {
		pinnedFor = time.Duration(op.container.pinnedFor.Load())
	}
	switch pinned := pinnedFor > 0; {
	case op.kind == "docs" && !r.multiple && (pinned || op.write):
		endpoints := []*url.URL{r.firstWrite}
		for _, u := range r.reads {
			if u.Host != r.firstWrite.Host {
				endpoints = append(endpoints, u)
			}
		}
		return route{endpoints: endpoints, movable: len(endpoints) > 1, first: r.firstWrite.Host}
	case pinned && r.waits(pinnedFor):
		return route{endpoints: []*url.URL{r.formerWrite}}
	case pinned && r.multiple:
		return route{endpoints: []*url.URL{r.firstWrite}}
	case op.write:
		return route{endpoints: r.reachableFirst(r.writes)}
	}
	return route{endpoints: r.reachableFirst(r.reads)}
}

// reachableFirst moves unreachable regions to the end, the one that was asked last behind the others: if
// all have been silent lately, they take turns.
func (r *regions) reachableFirst(list []*url.URL) []*url.URL {
	if len(r.penalties) == 0 || len(list) < 2 {
		return list
	}
	now := time.Now()
	penalty := func(u *url.URL) (until time.Time) {
		if until = r.penalties[u.Host]; now.Before(until) {
			return until
		}
		return time.Time{}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *url.URL) int { return penalty(a).Compare(penalty(b)) })
	return list
}

// refresh reads the account if it is not known or too old.
func (r *regions) refresh(ctx context.Context) error {
	known, due := r.state()
	switch {
	case !known:
		return r.readInitially(ctx)
	case due:
		r.reread(ctx)
	}
	return nil
}

// readInitially reads the account if it is not known yet. One request reads it;
// all others wait for that request and share its failure.
func (r *regions) readInitially(ctx context.Context) error {
	oldCount, _ := r.failure()
	select {
	case r.lock <- struct{}{}:
		defer func() { <-r.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if known, _ := r.state(); known {
		return nil
	}
	if count, err := r.failure(); count != oldCount {
		return err
	}
	err := r.read(ctx)
	if err != nil && ctx.Err() == nil {
		r.recordFailure(err)
	}
	return err
}

// reread reads the account again unless another request is doing so. If that
// fails, the known regions stay in use.
func (r *regions) reread(ctx context.Context) {
	select {
	case r.lock <- struct{}{}:
		defer func() { <-r.lock }()
	default:
		return
	}
	if _, due := r.state(); !due {
		return
	}
	rereadCtx, cancel := context.WithTimeout(ctx, rereadTimeout)
	defer cancel()
	if err := r.read(rereadCtx); err != nil && ctx.Err() == nil {
		r.postponeReread()
	}
}

func (r *regions) read(ctx context.Context) error {
	account, err := r.account(ctx)
	if err != nil {
		return err
	}
	return r.adopt(account)
}

func (r *regions) state() (known, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	return r.reads != nil, !now.Before(r.rereadAt) && !now.Before(r.notBefore)
}

// failure returns the number of failed first reads, and the last error.
func (r *regions) failure() (count int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.firstFailures, r.lastFailure
}

func (r *regions) recordFailure(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.firstFailures++
	r.lastFailure = err
}

func (r *regions) postponeReread() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notBefore = time.Now().Add(rereadPause)
}

// markStale makes the next request read the account again.
func (r *regions) markStale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rereadAt = time.Time{}
}

// markUnreachable puts a region last for regionPenalty.
func (r *regions) markUnreachable(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.penalties[host] = time.Now().Add(regionPenalty)
	r.rereadAt = time.Time{}
}

func (r *regions) adopt(a Account) error {
	reads, err := r.orderEndpoints(a.ReadRegions)
	if err != nil {
		return err
	}
	if !a.MultipleWriteRegions && len(a.WriteRegions) > 1 {
		a.WriteRegions = a.WriteRegions[:1]
	}
	first, err := r.orderEndpoints(a.WriteRegions[:min(len(a.WriteRegions), 1)])
	if err != nil {
		return err
	}
	writes, err := r.orderEndpoints(a.WriteRegions)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstWrite == nil {
		r.firstSince = time.Now()
	}
	if former := r.firstWrite; former != nil && former.Host != first[0].Host {
		r.formerWrite, r.firstSince = nil, time.Now()
		if a.MultipleWriteRegions {
			r.changes, r.changedAt, r.formerWrite = r.changes+1, time.Now(), former
		}
	}
	r.multiple, r.readAt = a.MultipleWriteRegions, time.Now()
	r.reads, r.writes, r.firstWrite, r.rereadAt = reads, writes, first[0], time.Now().Add(accountAge)
	return nil
}

// writeRegion returns the host of the first write region, "" before the account was
// read.
func (r *regions) writeRegion() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstWrite == nil {
		return ""
	}
	return r.firstWrite.Host
}

// lastChange returns when the account last named another first write region, zero if it has not.
func (r *regions) lastChange() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changedAt
}

func (r *regions) lastRead() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readAt
}

// baseline returns the host of the account's first write region, "" if this client has not known it
// for longer than a time: a process that has just begun may find a range in another region that
// failed over hours ago.
func (r *regions) baseline(age time.Duration) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstWrite == nil || time.Since(r.firstSince) < age {
		return ""
	}
	return r.firstWrite.Host
}

// waits reports whether the requests of a container that is pinned for a time have not moved
// to the new one of several write regions yet. The caller holds mu.
func (r *regions) waits(pinnedFor time.Duration) bool {
	return r.formerWrite != nil && time.Since(r.changedAt) < pinnedFor
}

// changeCount counts the changes of the first write region, and the moves that follow them.
func (r *regions) changeCount(pinnedFor time.Duration) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 2 * r.changes
	if r.waits(pinnedFor) {
		count--
	}
	return count
}

// readEndpoints returns the endpoints of all regions.
func (r *regions) readEndpoints(ctx context.Context) ([]*url.URL, error) {
	if err := r.refresh(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reads, nil
}

// failOver reports whether the account has several regions of which one writes.
func (r *regions) failOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.multiple && slices.ContainsFunc(r.reads, func(u *url.URL) bool { return u.Host != r.firstWrite.Host })
}

// orderEndpoints returns the endpoints of regions, preferred regions first.
// Without regions, it returns the configured endpoint.
func (r *regions) orderEndpoints(regions []Region) ([]*url.URL, error) {
	rank := func(name string) int {
		i := slices.IndexFunc(r.preferred, func(p string) bool { return regionKey(p) == regionKey(name) })
		if i < 0 {
			return len(r.preferred)
		}
		return i
	}
	regions = slices.Clone(regions)
	// slices.SortStableFunc would be compiled for this type: 12 kB of every app.
	sort.SliceStable(regions, func(i, j int) bool { return rank(regions[i].Name) < rank(regions[j].Name) })
	var list []*url.URL
	for _, region := range regions {
		u, err := parseEndpoint(region.Endpoint)
		if err != nil || r.base.Scheme == "https" && u.Scheme != "https" {
			return nil, fmt.Errorf("account lists an unusable endpoint %q for region %q", region.Endpoint, region.Name)
		}
		if !slices.ContainsFunc(list, func(known *url.URL) bool { return known.Host == u.Host }) {
			list = append(list, u)
		}
	}
	if list == nil {
		list = []*url.URL{r.base}
	}
	return list, nil
}

func regionKey(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }

// accountEndpoints returns the endpoints from which the account can be read:
// the configured endpoint and, if it is the global endpoint of an account in
// Azure, those of the preferred regions, with names as azure-cosmos-dotnet-v3
// LocationHelper.GetLocationEndpoint builds them.
func (r *regions) accountEndpoints() []*url.URL {
	list := []*url.URL{r.base}
	account, domain, _ := strings.Cut(r.base.Host, ".")
	if !isAzure(r.base.Hostname()) {
		return list
	}
	for _, region := range r.preferred {
		list = append(list, &url.URL{Scheme: r.base.Scheme, Host: account + "-" + regionKey(region) + "." + domain, Path: "/"})
	}
	return list
}
