//go:build !nodev

package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// runWorld is the world of a development run: a served account, the app's services, and
// the settings that follow from both.
type runWorld struct {
	program  *Program
	account  *emulator.Account
	client   *cosmos.Client
	services *Services
	settings *settings.Settings
	run      *Run
	seeds    []*seedFile

	stop   context.CancelFunc
	served sync.WaitGroup
	failed error // of serving; read it after served
}

// openWorld opens the account, serves it and starts the services. Close the world after
// use.
func openWorld(ctx context.Context, p *Program, flags runFlags) (*runWorld, error) {
	account, err := emulator.New(&emulator.Options{Data: flags.Data})
	if err != nil {
		return nil, err
	}
	w := &runWorld{program: p, account: account, services: &Services{}, stop: func() {}}
	if err := w.serve(context.WithoutCancel(ctx), flags.Addr); err != nil {
		return nil, errors.Join(err, account.Close())
	}
	if w.client, err = embeddedClient(account); err == nil {
		var services *Services
		if services, err = p.startServices(ctx); err == nil {
			w.services = services
		}
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close stops the services, then the account.
func (w *runWorld) Close() error {
	err := w.services.close()
	w.stop()
	w.served.Wait()
	return errors.Join(err, w.failed, w.account.Close())
}

// serve opens the account to other programs at addr. If that is "", it is defaultAddr,
// or a free port if another program has that one.
func (w *runWorld) serve(ctx context.Context, addr string) error {
	err := w.serveAt(ctx, cmp.Or(addr, defaultAddr))
	if err != nil && addr == "" {
		err = w.serveAt(ctx, "127.0.0.1:0")
	}
	return err
}

// serveAt returns when the account accepts connections, or an error if it cannot.
func (w *runWorld) serveAt(ctx context.Context, addr string) error {
	ctx, w.stop = context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	w.served.Go(func() {
		err := w.account.Serve(ctx, emulator.ServeOptions{Addr: addr, Ready: func(string) { close(ready) }})
		ended <- err
		select {
		case <-ready:
			w.failed = err
		default: // the error is returned below
		}
	})
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return err
	}
}

// load reads the settings, creates the containers, and writes the documents.
func (w *runWorld) load(ctx context.Context, flags runFlags) (err error) {
	if w.settings, err = w.loadSettings(flags.Poison > 0); err != nil {
		return err
	}
	w.run = &Run{Client: w.client, Rate: flags.Rate, books: newLedger(w.settings.App.Functions)}
	for i, f := range w.settings.Functions {
		w.run.books.functions[i].filters = len(f.Filter) > 0
		w.run.Functions = append(w.run.Functions, Function{Name: f.Name, Database: f.DatabaseName, Container: f.ContainerName, Settings: f.Own})
	}
	if err := w.createContainers(ctx); err != nil {
		return err
	}
	if w.seeds, err = w.openSeeds(ctx, flags.Seeds); err != nil {
		return err
	}
	for _, seed := range w.seeds {
		if err := seed.writeMissing(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Preset are the defaults of a development run: the embedded account, and intervals
// that show transitions within seconds instead of minutes. The app's services
// override each.
func (w *runWorld) preset(poison bool) settings.Preset {
	database, container := w.program.Name, w.program.Source.Handlers[0].Name
	if len(w.program.Containers) > 0 {
		first := w.program.Containers[0]
		database, container = cmp.Or(first.Database, database), first.Name
	}
	p := settings.Preset{Emulator: w.account.Endpoint(), Settings: map[string]string{
		"HALLEY_OWNER":                     "dev",
		"HALLEY_LOG_LEVEL":                 "warn",
		"HALLEY_CONNECTION":                account.Emulator,
		"HALLEY_DATABASE_NAME":             database,
		"HALLEY_CONTAINER_NAME":            container,
		"HALLEY_START_FROM":                "beginning",
		"HALLEY_FEED_POLL_DELAY":           "200ms",
		"HALLEY_LEASE_ACQUIRE_INTERVAL":    "1s",
		"HALLEY_LEASE_RENEW_INTERVAL":      "2s",
		"HALLEY_LEASE_EXPIRATION_INTERVAL": "10s",
		"HALLEY_RETRY_MAX":                 "1s",
		"HALLEY_BREAKER_LIMIT":             "unlimited",
	}}
	maps.Copy(p.Settings, w.services.Settings)
	if poison {
		p.Settings["HALLEY_LOG_LEVEL"] = "fatal" // else every failure on a poison document would be a line
		p.Settings["HALLEY_RETRY_MIN"], p.Settings["HALLEY_RETRY_MAX"] = "1ms", "20ms"
	}
	return p
}

// Load reads the settings. A connection to another account is refused: its
// requests would not go to this one.
func (w *runWorld) loadSettings(poison bool) (*settings.Settings, error) {
	loaded, err := settings.LoadPreset(w.program.Source, w.preset(poison))
	if err != nil {
		return nil, err
	}
	for _, f := range loaded.Functions {
		for name, to := range map[string]settings.ConnectionName{"CONNECTION": f.Connection, "LEASE_CONNECTION": f.LeaseConnection} {
			c, err := account.Resolve(f.ConnectionDefaults, to)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Variable(name), err)
			}
			if c.Endpoint != w.account.Endpoint() {
				return nil, fmt.Errorf("%s=%s is another account, %s: the command dev runs on its embedded account only, at %s; remove the setting, or use the command run",
					f.Variable(name), to, c.Endpoint, w.account.Endpoint())
			}
		}
	}
	return loaded, nil
}

// createContainers creates the containers of the services, of the app, and those that
// the settings name. Containers that exist stay as they are.
func (w *runWorld) createContainers(ctx context.Context) error {
	if w.services.Prepare != nil {
		if err := w.services.Prepare(ctx, w.run); err != nil {
			return err
		}
	}
	needed := w.expected()
	for _, f := range w.settings.Functions {
		needed = append(needed,
			Container{Database: f.DatabaseName, Name: f.ContainerName},
			Container{Database: f.LeaseDatabaseName, Name: f.LeaseContainerName})
		if in, ok := f.DeadLetterContainer(); ok {
			needed = append(needed, Container{Database: in.Database, Name: in.Container})
		}
	}
	for _, c := range needed {
		if err := w.run.Create(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// expected are the containers of the app's options, with their databases.
func (w *runWorld) expected() []Container {
	var all []Container
	for _, c := range w.program.Containers {
		c.Database = cmp.Or(c.Database, w.program.Name)
		all = append(all, c)
	}
	return all
}

// childEnv is the environment of another process that runs the app in this world, with
// this format of its log.
func (w *runWorld) childEnv(format settings.LogFormat) []string {
	env := os.Environ()
	presets := w.preset(false).Settings
	presets["HALLEY_LOG_FORMAT"] = string(format)
	for name, value := range presets {
		if os.Getenv(name) == "" {
			env = append(env, name+"="+value)
		}
	}
	for _, f := range w.settings.Functions {
		for _, to := range []settings.ConnectionName{f.Connection, f.LeaseConnection} {
			env = append(env, string(to)+"="+w.account.ConnectionString())
		}
	}
	return env
}

// openSeeds finds the files of documents and their containers. Nil stands for all files
// in seedDir. The documents p *Program.Containers are written at once.
func (w *runWorld) openSeeds(ctx context.Context, names []string) ([]*seedFile, error) {
	for _, c := range w.expected() {
		for _, document := range c.Seed {
			if err := writeSeed(ctx, w.client.Container(c.Database, c.Name), c.definition().PartitionKey.Paths, document); err != nil {
				return nil, err
			}
		}
	}
	if names == nil {
		names, _ = filepath.Glob(filepath.Join(seedDir, "*.jsonl")) // the pattern is valid
	}
	var seeds []*seedFile
	for _, name := range names {
		container, path, named := strings.Cut(name, "=")
		if !named {
			path = name
			container = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		}
		in, err := w.seedContainer(container)
		if err != nil {
			return nil, fmt.Errorf("documents of %s: %w", path, err)
		}
		properties, err := in.Properties(ctx)
		if err != nil {
			return nil, err
		}
		seeds = append(seeds, &seedFile{path: path, in: in, paths: properties.PartitionKey.Paths, known: map[string]bool{}})
	}
	return seeds, nil
}

// seedContainer returns the monitored or expected container of a name.
func (w *runWorld) seedContainer(name string) (*cosmos.Container, error) {
	containers := w.run.Monitored()
	for _, c := range w.expected() {
		containers = append(containers, w.client.Container(c.Database, c.Name))
	}
	var names []string
	for _, c := range containers {
		if c.Name() == name {
			return c, nil
		}
		names = append(names, c.Name())
	}
	slices.Sort(names)
	return nil, fmt.Errorf("the app has no container %s: name the file after one of %s, or give --seed CONTAINER=FILE",
		name, strings.Join(slices.Compact(names), ", "))
}
