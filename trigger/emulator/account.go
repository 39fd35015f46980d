package emulator

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// inProcess is the endpoint of an account that is not served. No host has it.
const inProcess = "https://halley.emulator/"

// Options of an [Account]. The zero value is an empty account in memory.
type Options struct {
	// Data is the directory that keeps the account over restarts; New creates it
	// if it is missing. "" keeps everything in memory.
	Data string
	// RU is the throughput of each container in request units per second, shared
	// evenly by its ranges. A request gets 429/3200 if its range has used up its
	// share. 0 = unlimited.
	RU int
	// Latency is added to every answer.
	Latency time.Duration
	// Regions are the names of the account's regions. Writes go to the first one until
	// [Account.FailOver]; none = South Central US, as in the official emulator. With several,
	// the account is in memory only.
	Regions []string
	// MultipleWrites lets all regions take writes: the last writer wins, by _ts.
	MultipleWrites bool
	// PartitionFailover says in the account's document that ranges may fail over one by one,
	// see [Account.FailOverRange].
	PartitionFailover bool
	// ReplicationLag is how long a write needs to another region, see [Account.SetReplication].
	ReplicationLag time.Duration
	// Ranges is the number of physical ranges of a container that is created without
	// a throughput, of its own or of its database; 0 = 1.
	Ranges int
	// Splitting is how long a split or merge takes. Requests that name one of its
	// ranges get 410/1007 when they arrive before its end; 0 = no time.
	Splitting time.Duration
	// Hosts are names, without port, by which clients may address the account besides
	// localhost and IP addresses. Requests with another Host header are refused: they
	// come from web pages whose name was made to resolve to this machine.
	Hosts []string
	// Log is told when Data cannot be written, and when it can again; nil = nothing is.
	Log *slog.Logger
	// PreviousImages gives every replace, delete and expiry in the feed of all versions
	// the image before it, as the service can be set to do for an account. If false, the
	// previousImageRetentionPolicy of a container decides, and without one there are none:
	// clients must not depend on them.
	PreviousImages bool
	// BulkSeed seeds the dice that give the operations of a bulk request one LSN or
	// several: clients must not depend on either. A seed gives the same LSNs to the
	// same requests; 0 = one LSN for each request, as in the recorded answers.
	BulkSeed uint64
	// Manners choose between answers that clients must both expect.
	Manners Manners
}

func (o Options) check() error {
	switch {
	case o.RU < 0:
		return fmt.Errorf("RU is %d; give a number of request units per second, or 0 for no limit", o.RU)
	case o.Latency < 0:
		return fmt.Errorf("latency is %v; it cannot be negative", o.Latency)
	case o.Splitting < 0:
		return fmt.Errorf("splitting is %v; it cannot be negative", o.Splitting)
	case slices.ContainsFunc(o.Hosts, func(name string) bool { return name == "" || strings.ContainsAny(name, ":/[] ") }):
		return fmt.Errorf("hosts are %q; give names without scheme and port, such as cosmos.test", o.Hosts)
	case o.Ranges < 0 || o.Ranges > maxRanges:
		return fmt.Errorf("ranges is %d; give 0 to %d", o.Ranges, maxRanges)
	}
	return o.checkRegions()
}

// Account is an embedded Cosmos DB account. It is an [http.Handler] and an
// azcore policy.Transporter, and safe for concurrent use.
type Account struct {
	*catalog
	faults faults
	served atomic.Pointer[address] // nil if the account is not served
	calls  atomic.Uint64           // activity ids
	bodies *semaphore.Weighted     // bytes of request bodies in memory
	closed atomic.Bool
}

// maxBodies bounds the request bodies in memory, in bytes. More requests wait.
const maxBodies = 256 << 20

// errClosed is the error of a request that arrives when the account is closed.
var errClosed = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the emulator account is closed")}

// New opens an account. opts may be nil. [Account.Close] ends it.
func New(opts *Options) (*Account, error) {
	a := &Account{
		catalog: &catalog{
			platform: &platform{seed: uint32(time.Now().Unix())},
			queries:  semaphore.NewWeighted(maxQueries), databases: make(map[string]*database),
		},
		bodies: semaphore.NewWeighted(maxBodies),
	}
	if opts != nil {
		a.options = *opts
	}
	if err := a.options.check(); err != nil {
		return nil, fmt.Errorf("emulator options: %w", err)
	}
	if a.options.Log == nil {
		a.options.Log = slog.New(slog.DiscardHandler)
	}
	if len(a.options.Regions) == 0 {
		a.options.Regions = []string{defaultRegion}
	}
	a.regions = newRegions(a.options)
	if a.options.Ranges == 0 {
		a.options.Ranges = 1
	}
	if a.options.Data != "" {
		if err := a.open(a.options.Data); err != nil {
			return nil, fmt.Errorf("open emulator data in %s: %w", a.options.Data, err)
		}
	}
	return a, nil
}

// Close ends the account. Later requests fail; with [Options.Data] all that was
// acknowledged is on disk.
func (a *Account) Close() error {
	if a.closed.Swap(true) {
		return nil
	}
	return a.store.close()
}

// Advance moves the account's clock forward: documents expire, leases in the account
// look older, and the Date header of each answer follows. It is for tests that cannot
// wait, outside of a testing/synctest bubble. Time that a request waits for, such as
// [Options.Latency], is not affected. Advance panics if d is negative.
func (a *Account) Advance(d time.Duration) {
	if d < 0 {
		panic(fmt.Sprintf("emulator: advance by %v: the account's time cannot go back", d))
	}
	a.skipped.Add(int64(d))
}

// Endpoint returns the account's address: the advertised one if the account is
// served, else a name that stands for this process.
func (a *Account) Endpoint() string {
	if served := a.served.Load(); served != nil {
		return served.endpoint
	}
	return inProcess
}

// ConnectionString returns the connection string of the account for clients.
func (a *Account) ConnectionString() string {
	return "AccountEndpoint=" + a.Endpoint() + ";AccountKey=" + Key + ";"
}
