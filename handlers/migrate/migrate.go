// Package migrate copies the documents of the monitored container to another container,
// which usually has another partition key, while clients keep writing to the source. A
// Go function may transform each document. When nothing is left to copy, [Migration.Verify]
// compares both containers completely, and [Migration.Report] says whether the clients
// can be switched.
//
// The one rule of idempotency is: a copy carries the position of the version that it was
// made of ([halley/handlers/position]), and a version is written only if the target holds
// no newer position for its document. Each write is conditional, on the etag of the copy
// that was read or on its absence. So redelivery writes the same again, and an older
// version that arrives late writes nothing.
//
// # The copy
//
// A copy has the id of its document, the content that the transform returned, and a
// property with the guard, by default _halley: position and partition key of the source.
// If the content of a document gives it another partition key than before, the new copy
// is created and the old one buried: it becomes a tombstone, a document with id, key,
// guard and a ttl. The call looks for the copies of its documents with one query over all
// partitions, so no map of old keys is needed.
//
// Two documents of the source may have the same id in different partitions. If both get
// the same key in the target, the second is dead-lettered: the transform must choose keys
// that keep them apart. A document of the target without a guard is never touched.
//
// # Deletes
//
// Latest-version mode shows no deletes. A soft-deleted document is copied with its mark
// and its ttl. To copy deletes, run a second function with the same target in
// all-versions mode, and start it first: positions are the same in both modes. A delete
// and an expiry bury the copy. A tombstone lasts TOMBSTONE_TTL, if the time to
// live of the target is on (defaultTtl -1 suffices), and otherwise for ever. It must last
// longer than a paused host may still write. A transform that returns nil leaves a
// document out, which is the same as a delete.
//
// A ttl in a document is copied as it is, and begins again with the copy.
//
// # Order and failures
//
// The copies of one document follow the order of its versions. If a batch has several
// versions of a document, only the last one is written. If the target throttles, all
// requests of the process wait as long as it asks. If it is down, the call fails and is
// repeated; single documents that fail are repeated alone. A document that the transform
// or the target refuses is dead-lettered with the reason.
//
// If a former owner creates the copy of an older version under another key, after the
// newer version was copied, it buries that copy itself. If it dies between these two
// requests, the old copy stays until the document is written again. [Migration.Verify]
// finds it.
package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// Settings of the handler, read with the prefix HALLEY_MIGRATE_.
type Settings struct {
	TargetContainerName string            `split_words:"true" desc:"container that gets the copies; required"`
	TargetDatabaseName  string            `split_words:"true" desc:"its database; if empty, the monitored container's"`
	TargetConnection    string            `split_words:"true" desc:"name of the connection of its account; if empty, the monitored account"`
	RequestUnits        handlers.Count    `split_words:"true" default:"1000" desc:"request units per second that one process spends on the target, at least 10"`
	Parallel            handlers.Count    `default:"8" desc:"documents of one call that are written at a time"`
	TombstoneTTL        handlers.Interval `split_words:"true" default:"24h" desc:"how long the mark of a deleted or moved copy stays in the target"`
	GuardProperty       string            `split_words:"true" default:"_halley" desc:"property of each copy with the position of its version"`
}

// validate returns an error that begins with the name of the setting.
func (s Settings) validate(env handlers.Env) error {
	switch {
	case s.TargetContainerName == "":
		return errors.New("TARGET_CONTAINER_NAME is empty; name the container that gets the copies")
	case strings.ContainsAny(s.TargetConnection, "=;/"):
		return errors.New("TARGET_CONNECTION is not the name of a connection; put the connection string into a variable and name that")
	case s.TargetConnection != "" && env.Account == nil:
		return errors.New("TARGET_CONNECTION names a connection, but the handler is opened outside of an app; leave it empty")
	case s.RequestUnits < 10:
		return fmt.Errorf("REQUEST_UNITS is %d; it must be at least 10", s.RequestUnits)
	case s.TombstoneTTL < handlers.Interval(time.Minute):
		return fmt.Errorf("TOMBSTONE_TTL is %v; it must be at least 1m", s.TombstoneTTL)
	case s.GuardProperty == "" || s.GuardProperty == "id" || s.GuardProperty == "ttl":
		return fmt.Errorf("GUARD_PROPERTY is %q; name a property that no document has", s.GuardProperty)
	}
	return nil
}

// Transform returns the document of the target for one of the source, with the same id.
// It gets the document with its system properties, which need not be removed, and must
// not modify its bytes. It returns nil to leave the document out. It depends on the
// document alone: the same version must give the same copy. A document with which it
// fails is dead-lettered. A nil Transform copies documents as they are.
type Transform func(document json.RawMessage) (json.RawMessage, error)

// Open opens the handler without a transform.
func Open(ctx context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	return Transform(nil).Open(ctx, env, s)
}

// Open opens the handler of an app with a transform:
//
//	handlers.New("migrate", "moves orders to another key", migrate.Transform(byCategory).Open)
func (t Transform) Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	m, err := t.migration(env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	env.OfferProbe(m.probe(env.Prefix))
	return m.Handle, nil, nil
}

// migration makes the migration that the settings describe.
func (t Transform) migration(env handlers.Env, s Settings) (*Migration, error) {
	if err := s.validate(env); err != nil {
		return nil, err
	}
	database := s.TargetDatabaseName
	if database == "" {
		database = env.Database
	}
	container := env.Container
	if s.TargetConnection == "" && database == env.Database && s.TargetContainerName == env.ContainerName {
		return nil, errors.New("TARGET_CONTAINER_NAME is the monitored container; name another one")
	}
	if s.TargetConnection != "" {
		client, err := env.Account(s.TargetConnection)
		if err != nil {
			return nil, fmt.Errorf("TARGET_CONNECTION: %w", err)
		}
		container = client.Container
	}
	return New(container(database, s.TargetContainerName), t, &Options{
		RequestUnits: float64(s.RequestUnits), Parallel: int(s.Parallel), TombstoneTTL: time.Duration(s.TombstoneTTL),
		GuardProperty: s.GuardProperty, Logger: env.Log(), Meter: env.Meter("cosmos"),
	}), nil
}

// Options are the options of [New]. The zero value of a field means its default.
type Options struct {
	RequestUnits  float64       // per second; no bound
	Parallel      int           // documents of one call that are written at a time: 8
	TombstoneTTL  time.Duration // 24 h
	GuardProperty string        // _halley
	Logger        *zap.Logger   // none
	Meter         *handlers.Meter
}

// Migration copies documents to one target. It is safe for concurrent use.
type Migration struct {
	target    *cosmos.Container
	transform Transform
	options   Options
	budget    *budget
	progress  *progress
}

// New returns a migration to a container. It does no I/O. opts may be nil.
func New(target *cosmos.Container, transform Transform, opts *Options) *Migration {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Parallel <= 0 {
		o.Parallel = 8
	}
	if o.TombstoneTTL <= 0 {
		o.TombstoneTTL = 24 * time.Hour
	}
	if o.GuardProperty == "" {
		o.GuardProperty = "_halley"
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	b := newBudget(o.RequestUnits, o.Meter)
	return &Migration{target: target, transform: transform, options: o, budget: b, progress: newProgress(o.Logger, b)}
}

// targetPaths returns the paths of the target's partition key. The client caches them.
func (m *Migration) targetPaths(ctx context.Context) (keyPaths, error) {
	properties, err := m.target.Properties(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the target container: %w", err)
	}
	return parseKeyPaths(properties.PartitionKey.Paths), nil
}

// probe tries whether the target exists, and whether tombstones expire there.
func (m *Migration) probe(prefix string) handlers.Probe {
	name := "target container " + m.target.Database() + "/" + m.target.Name()
	return handlers.Probe{What: name, Try: func(ctx context.Context) error {
		properties, err := m.target.Properties(ctx)
		if err != nil {
			return fmt.Errorf("%w: create it, or correct %sTARGET_CONTAINER_NAME", err, prefix)
		}
		if properties.DefaultTTL == nil {
			return errors.New("its time to live is off, so that the marks of deleted and moved copies would stay for ever: set its defaultTtl to -1")
		}
		return nil
	}}
}
