package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Account is what the service says of an account.
type Account struct {
	ID                   string
	Consistency          string   // default consistency level, for example "Session"
	WriteRegions         []Region // the first one takes the writes unless MultipleWriteRegions
	ReadRegions          []Region
	MultipleWriteRegions bool
}

// Region is one region of an account.
type Region struct {
	Name     string `json:"name"` // for example "West Europe"
	Endpoint string `json:"databaseAccountEndpoint"`
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
	accountAge     = 5 * time.Minute  // after which the account is read again
	regionPenalty  = 5 * time.Minute  // for which an unreachable region comes last
	rereadPatience = 5 * time.Second  // for a read that is not strictly needed
	rereadPause    = 30 * time.Second // after one that failed
)

// regions knows where requests go.
type regions struct {
	base      *url.URL
	preferred []string
	account   func(context.Context) (Account, error)

	turn chan struct{} // one reader of the account at a time

	mu            sync.Mutex
	reads, writes []*url.URL
	due           time.Time            // when to read the account again
	patience      time.Time            // not before this, for it could not be read
	down          map[string]time.Time // host: until when it comes last
	failures      int                  // of first reads
	failed        error                // the last of them
}

func newRegions(base *url.URL, preferred []string, account func(context.Context) (Account, error)) *regions {
	return &regions{
		base: base, preferred: preferred, account: account,
		turn: make(chan struct{}, 1), down: map[string]time.Time{},
	}
}

// endpoints returns where op may go, best first.
func (r *regions) endpoints(ctx context.Context, op *operation) ([]*url.URL, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if op.kind != "" {
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case op.kind == "":
		return r.upFirst(r.accountEndpoints()), nil
	case op.write:
		return r.upFirst(r.writes), nil
	}
	return r.upFirst(r.reads), nil
}

// upFirst moves the regions that are down to the end.
func (r *regions) upFirst(list []*url.URL) []*url.URL {
	if len(r.down) == 0 || len(list) < 2 {
		return list
	}
	now := time.Now()
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *url.URL) int {
		return compareBool(now.Before(r.down[a.Host]), now.Before(r.down[b.Host]))
	})
	return list
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// refresh reads the account where it is due.
func (r *regions) refresh(ctx context.Context) error {
	known, due := r.state()
	switch {
	case !known:
		return r.readFirst(ctx)
	case due:
		r.readAgain(ctx)
	}
	return nil
}

// readFirst reads the account when nothing is known of it yet. All requests
// wait for one that does, and share its failure.
func (r *regions) readFirst(ctx context.Context) error {
	before, _ := r.failure()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if known, _ := r.state(); known {
		return nil
	}
	if count, err := r.failure(); count != before {
		return err
	}
	err := r.read(ctx)
	if err != nil && ctx.Err() == nil {
		r.fail(err)
	}
	return err
}

// readAgain reads the account unless another request does. What is known stays
// when it cannot be read.
func (r *regions) readAgain(ctx context.Context) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	default:
		return
	}
	if _, due := r.state(); !due {
		return
	}
	within, cancel := context.WithTimeout(ctx, rereadPatience)
	defer cancel()
	if err := r.read(within); err != nil && ctx.Err() == nil {
		r.postpone()
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
	return r.reads != nil, !now.Before(r.due) && !now.Before(r.patience)
}

// failure returns how often a first read failed, and the last error.
func (r *regions) failure() (count int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures, r.failed
}

func (r *regions) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures++
	r.failed = err
}

func (r *regions) postpone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.patience = time.Now().Add(rereadPause)
}

// stale has the account read again before the next request.
func (r *regions) stale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = time.Time{}
}

// unreachable puts a region last for a while.
func (r *regions) unreachable(host string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[host] = time.Now().Add(regionPenalty)
	r.due = time.Time{}
}

func (r *regions) adopt(a Account) error {
	reads, err := r.order(a.ReadRegions)
	if err != nil {
		return err
	}
	if !a.MultipleWriteRegions && len(a.WriteRegions) > 1 {
		a.WriteRegions = a.WriteRegions[:1]
	}
	writes, err := r.order(a.WriteRegions)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads, r.writes, r.due = reads, writes, time.Now().Add(accountAge)
	return nil
}

// order returns the endpoints of regions, the preferred ones first; the
// configured endpoint when there are none.
func (r *regions) order(regions []Region) ([]*url.URL, error) {
	rank := func(name string) int {
		i := slices.IndexFunc(r.preferred, func(p string) bool { return regionKey(p) == regionKey(name) })
		if i < 0 {
			return len(r.preferred)
		}
		return i
	}
	regions = slices.Clone(regions)
	slices.SortStableFunc(regions, func(a, b Region) int { return rank(a.Name) - rank(b.Name) })
	var list []*url.URL
	for _, region := range regions {
		u, err := parseEndpoint(region.Endpoint)
		if err != nil || r.base.Scheme == "https" && u.Scheme != "https" {
			return nil, fmt.Errorf("account names an unusable endpoint %q for region %q", region.Endpoint, region.Name)
		}
		list = append(list, u)
	}
	if list == nil {
		list = []*url.URL{r.base}
	}
	return list, nil
}

func regionKey(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }

// accountEndpoints are where the account can be read: the configured endpoint
// and, of a global one, the names of the preferred regions, as
// azure-cosmos-dotnet-v3 LocationHelper.GetLocationEndpoint makes them.
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
