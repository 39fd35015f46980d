//go:build !nodev

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"halley/function/app/internal/connection"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// devWorld is the embedded account of a development run and the app's services.
type devWorld struct {
	app      Options
	account  *emulator.Account
	client   *cosmos.Client
	services *DevServices
}

// openWorld opens the account and starts the services. data is the account's
// directory, "" for memory. Close the world after use.
func openWorld(ctx context.Context, of Options, data string) (*devWorld, error) {
	account, err := emulator.New(&emulator.Options{Data: data})
	if err != nil {
		return nil, err
	}
	w := &devWorld{app: of, account: account, services: &DevServices{}}
	if w.client, err = embeddedClient(account); err == nil {
		var services *DevServices
		if services, err = of.startServices(ctx); err == nil {
			w.services = services
			return w, nil
		}
	}
	return nil, errors.Join(err, account.Close())
}

// Close stops the services, then the account.
func (w *devWorld) Close() error {
	return errors.Join(w.services.close(), w.account.Close())
}

// presets are defaults of settings in a development run: the embedded account, and
// intervals that show within seconds what takes minutes in production. The app's
// services override each, and the environment overrides both.
func (w *devWorld) presets(poison bool) map[string]string {
	level := "error"
	if poison {
		level = "fatal" // else every failure on a poison document would be a line
	}
	presets := map[string]string{
		"HALLEY_OWNER":                     "dev",
		"HALLEY_LOG_LEVEL":                 level,
		"HALLEY_CONNECTION":                connection.Emulator,
		"HALLEY_DATABASE_NAME":             w.app.Name,
		"HALLEY_CONTAINER_NAME":            w.app.monitored(),
		"HALLEY_START_FROM":                "beginning",
		"HALLEY_FEED_POLL_DELAY":           "200ms",
		"HALLEY_LEASE_ACQUIRE_INTERVAL":    "1s",
		"HALLEY_LEASE_RENEW_INTERVAL":      "2s",
		"HALLEY_LEASE_EXPIRATION_INTERVAL": "10s",
		"HALLEY_RETRY_MIN":                 "1ms",
		"HALLEY_RETRY_MAX":                 "20ms",
		"HALLEY_BREAKER_LIMIT":             "unlimited",
	}
	maps.Copy(presets, w.services.Settings)
	return presets
}

// monitored names the container that the functions monitor in a development run unless
// a setting names another: the first that the app expects, else that of the name of its
// first function.
func (o Options) monitored() string {
	if len(o.Containers) > 0 {
		return o.Containers[0].Name
	}
	return o.Handlers[0].Name
}

// settings reads the settings of a development run. A connection to another
// account than the embedded one is refused: its requests would not go there.
func (w *devWorld) settings(poison bool) (*settings, error) {
	loaded, err := loadSettingsOver(w.presets(poison), w.app)
	if err != nil {
		return nil, err
	}
	for _, f := range loaded.Functions {
		for name, to := range map[string]connectionName{"CONNECTION": f.Connection, "LEASE_CONNECTION": f.LeaseConnection} {
			c, err := connection.Resolve(to)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.setting(name), err)
			}
			if c.Endpoint != connection.EmulatorEndpoint {
				return nil, fmt.Errorf("%s=%s is another account: the command dev runs on its embedded account only, so remove the setting or use the command run",
					f.setting(name), to)
			}
		}
	}
	return loaded, nil
}

// populate creates the containers of the app and those that the settings name, and
// writes the seed.
func (w *devWorld) populate(ctx context.Context, of *settings, run *DevRun) error {
	if w.services.Prepare != nil {
		if err := w.services.Prepare(ctx, run); err != nil {
			return err
		}
	}
	for _, c := range w.app.Containers {
		c.Database = cmp.Or(c.Database, w.app.Name)
		if err := run.Create(ctx, c); err != nil {
			return err
		}
		for _, document := range c.Seed {
			if err := seed(ctx, w.client.Container(c.Database, c.Name), c.definition().PartitionKey.Paths, document); err != nil {
				return err
			}
		}
	}
	for _, f := range of.Functions {
		needed := []Container{
			{Database: f.DatabaseName, Name: f.ContainerName},
			{Database: f.LeaseDatabaseName, Name: f.LeaseContainerName},
		}
		if in, ok := f.deadLetterContainer(); ok {
			needed = append(needed, Container{Database: in.database, Name: in.container})
		}
		for _, c := range needed {
			if err := run.Create(ctx, c); err != nil {
				return err
			}
		}
	}
	return seedFiles(ctx, run)
}

// newRun describes the run to the services of the app.
func (w *devWorld) newRun(of *settings, rate int) *DevRun {
	run := &DevRun{Client: w.client, Rate: rate, books: newLedger(of.App.Functions)}
	for _, f := range of.Functions {
		run.Functions = append(run.Functions, DevFunction{Name: f.Name, Database: f.DatabaseName, Container: f.ContainerName, Settings: f.Own})
	}
	return run
}
