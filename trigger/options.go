package trigger

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// Function is a handler and the container whose changes it gets.
type Function struct {
	// Name is the processor name: it prefixes the lease ids, and functions that
	// share a lease container differ in it. It may be empty.
	Name string
	// Container is the monitored container.
	Container *cosmos.Container
	// Handler receives the changes.
	Handler Handler
	// Start is where a range without a checkpoint begins; by default now.
	Start Start
	// MaxItems is the page size that is asked for, and so the size of a batch;
	// by default 100. A transaction is never divided, so more may come.
	MaxItems int
	// HandlerTimeout ends the context of a handler call; by default 5 minutes.
	HandlerTimeout time.Duration
	// PollDelay is the wait between two reads of a range that has nothing new;
	// by default the host's.
	PollDelay time.Duration
}

// Options are the settings of a host. The zero value of each field means the
// default that it names. The intervals are those of the .NET change feed
// processor (azure-cosmos-dotnet-v3, ChangeFeedProcessorOptions), and hosts that
// share leases should agree on them.
type Options struct {
	// Owner is this host's name in the leases; by default the machine's name and
	// a random suffix.
	Owner string
	// PollDelay is the wait between two reads of an idle range: 5 s.
	PollDelay time.Duration
	// AcquireInterval is how often a host looks for leases to take: 13 s.
	AcquireInterval time.Duration
	// RenewInterval is how often a lease without progress is written: 17 s.
	RenewInterval time.Duration
	// Expiration is how long a lease stays with a host that does not write it: 60 s.
	Expiration time.Duration
	// AuditInterval is how often the key space is checked for parts that have
	// no lease: 5 min.
	AuditInterval time.Duration
	// StopGrace is how long a running handler may go on, and then the release of
	// its lease may take, after the context of Run or Drain has ended: 10 s.
	StopGrace time.Duration
	// RetryMin and RetryMax bound the wait before a failed batch comes again:
	// 100 ms, doubling up to 30 s.
	RetryMin, RetryMax time.Duration
	// ReadAhead bounds the bytes of pages in memory over all ranges: 64 MiB.
	ReadAhead int64
	// Parallel is how many ranges a drain works on at a time: 32.
	Parallel int
	// Logger gets structured logs; by default nobody does.
	Logger *zap.Logger
	// Observe is called with each event, in the order of each range, from the
	// goroutine where it happened; it must be quick and safe for concurrent use.
	Observe func(Event)
}

func withDefaults(opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
		value time.Duration
	}{
		{"PollDelay", &o.PollDelay, 5 * time.Second},
		{"AcquireInterval", &o.AcquireInterval, 13 * time.Second},
		{"RenewInterval", &o.RenewInterval, 17 * time.Second},
		{"Expiration", &o.Expiration, time.Minute},
		{"AuditInterval", &o.AuditInterval, 5 * time.Minute},
		{"StopGrace", &o.StopGrace, 10 * time.Second},
		{"RetryMin", &o.RetryMin, backoffBase},
		{"RetryMax", &o.RetryMax, backoffMax},
	} {
		if *d.field < 0 {
			return o, fmt.Errorf("option %s is negative", d.name)
		}
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	switch {
	case o.RenewInterval >= o.Expiration/2:
		return o, fmt.Errorf("option RenewInterval (%s) must be less than half of Expiration (%s): one lost write must not lose a lease",
			o.RenewInterval, o.Expiration)
	case o.RetryMax < o.RetryMin:
		return o, fmt.Errorf("option RetryMax (%s) is less than RetryMin (%s)", o.RetryMax, o.RetryMin)
	case o.ReadAhead < 0, o.Parallel < 0:
		return o, errors.New("options ReadAhead and Parallel cannot be negative")
	}
	if o.ReadAhead == 0 {
		o.ReadAhead = 64 << 20
	}
	if o.Parallel == 0 {
		o.Parallel = 32
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.Owner == "" {
		name, _ := os.Hostname()
		o.Owner = name + "-" + rand.Text()[:8]
	}
	return o, nil
}

func (f *Function) validate() error {
	switch {
	case f.Container == nil:
		return fmt.Errorf("function %q has no container", f.Name)
	case f.Handler == nil:
		return fmt.Errorf("function %q has no handler", f.Name)
	case f.MaxItems < 0, f.HandlerTimeout < 0, f.PollDelay < 0:
		return fmt.Errorf("function %q: MaxItems, HandlerTimeout and PollDelay cannot be negative", f.Name)
	}
	if f.MaxItems == 0 {
		f.MaxItems = 100
	}
	if f.HandlerTimeout == 0 {
		f.HandlerTimeout = 5 * time.Minute
	}
	return nil
}
