// Package dev runs an app on an embedded account: its services, seeds, hosts, screen, page
// and verdict. The build tag nodev leaves out all but the types that apps name.
package dev

import (
	"context"
	"errors"
	"slices"
	"sync"

	"halley/function/app/internal/hosting"
	"halley/trigger/cosmos"
)

// Program is an app as its development runs need it.
type Program struct {
	hosting.Program
	Containers []Container
	Services   func(context.Context) (*Services, error) // nil is none
	Sources    []string                                 // see app.Options
}

// WatchedFlag is the flag of the command run with which --watch runs the handlers. The run
// stops in good order when its standard input ends, on every system alike, and its page
// shows the documents of every call, as the page of dev does.
const WatchedFlag = "watched"

// Container is a container of the monitored account.
type Container struct {
	Database     string
	Name         string
	PartitionKey []string // paths, such as /player; the default is /id
	Ranges       int      // physical ranges in the embedded account; the default is 1
	Seed         []any    // documents that dev writes, as encoding/json encodes them
}

// Services are the additions of an app to its development run.
type Services struct {
	// Settings are defaults of settings by the names of their variables, such as the URL
	// of an embedded server. The environment overrides each.
	Settings map[string]string

	// Prepare, if not nil, is called before the handlers are opened. It creates
	// containers whose definition only the app knows, and documents.
	Prepare func(context.Context, *Run) error

	// Load, if not nil, writes Run.Rate documents a second until its context ends and
	// its last write is answered.
	Load func(context.Context, *Run)

	// Figures, if not nil, counts what the services have seen, for the summary. The keys
	// are in plain words, such as "notifications received".
	Figures func() map[string]int64

	// Close, if not nil, stops the services. It is called once, after the hosts have
	// stopped.
	Close func() error
}

// Run is a development run of an app. Its methods may be called by any number of
// goroutines.
type Run struct {
	Client    *cosmos.Client // of the embedded account
	Functions []Function     // the enabled functions
	Rate      int            // documents that Load is to write per second

	books *ledger

	mu     sync.Mutex // guards the fields below
	failed int        // writes that were not acknowledged
	last   error
}

// Function is one enabled function in a development run.
type Function struct {
	Name                string
	Database, Container string // that it monitors
	Settings            any    // of its handler, a pointer to its Settings struct
}

// Create creates a container, and its database, unless they exist.
func (r *Run) Create(ctx context.Context, c Container) error {
	return createContainer(ctx, r.Client, c.Database, c.definition())
}

// Monitored returns the distinct containers that the functions monitor.
func (r *Run) Monitored() (containers []*cosmos.Container) {
	for _, f := range r.Functions {
		known := slices.ContainsFunc(containers, func(c *cosmos.Container) bool { return c.Database() == f.Database && c.Name() == f.Container })
		if !known {
			containers = append(containers, r.Client.Container(f.Database, f.Container))
		}
	}
	return containers
}

// Wrote records that the account has acknowledged version v of a document, from 1 on.
// The document has the version in its property "version". The run then waits for each
// function to handle it.
func (r *Run) Wrote(id string, v int) { r.books.wrote(id, v) }

// WriteFailed records a write that the account has not acknowledged.
func (r *Run) WriteFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed, r.last = r.failed+1, err
}

// failures returns the number of writes that were not acknowledged, and the error of
// the last.
func (r *Run) failures() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed, r.last
}

func (c Container) definition() cosmos.ContainerDefinition {
	d := cosmos.ContainerDefinition{ID: c.Name, Throughput: max(c.Ranges, 1) * ruPerRange}
	if d.PartitionKey.Paths = c.PartitionKey; len(c.PartitionKey) == 0 {
		d.PartitionKey.Paths = []string{"/id"}
	}
	return d
}

// ruPerRange is the throughput of one physical range: the service creates a
// container with its throughput divided by this many ranges.
const ruPerRange = 10000

// createContainer creates a container and its database if they do not exist.
func createContainer(ctx context.Context, client *cosmos.Client, database string, definition cosmos.ContainerDefinition) error {
	if err := client.CreateDatabase(ctx, database); err != nil && !cosmos.IsConflict(err) {
		return err
	}
	if err := client.CreateContainer(ctx, database, definition); err != nil && !cosmos.IsConflict(err) {
		return err
	}
	return nil
}

// startServices returns the services of the app, which may have none.
func (p *Program) startServices(ctx context.Context) (*Services, error) {
	s := &Services{}
	if p.Services != nil {
		var err error
		if s, err = p.Services(ctx); err != nil {
			return nil, err
		}
		if s == nil {
			return nil, errors.New("app.Options.Dev returned no services and no error")
		}
	}
	return s, nil
}

func (s *Services) close() error {
	if s.Close == nil {
		return nil
	}
	return s.Close()
}
