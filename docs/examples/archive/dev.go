//go:build !nodev

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"halley/function/app"
	"halley/handlers/archive"
	"halley/trigger/cosmos"
)

// order is a document of the container orders. A deleted one is marked, because the feed
// does not show deletes.
type order struct {
	ID       string  `json:"id"`
	Customer string  `json:"customer"`
	Total    float64 `json:"total"`
	Deleted  bool    `json:"deleted,omitempty"`
	Version  int     `json:"version"`
}

// devServices are a directory for the archive, a shop that writes orders, and the reload
// at the end.
type devServices struct {
	directory string
	run       *app.DevRun
	orders    []order // as last written
}

// startDev starts them for the command dev.
func startDev(context.Context) (*app.DevServices, error) {
	directory, err := os.MkdirTemp("", "archive")
	if err != nil {
		return nil, err
	}
	s := &devServices{directory: directory}
	return &app.DevServices{
		Settings: map[string]string{
			"HALLEY_CONTAINER_NAME":               "orders",
			"HALLEY_ARCHIVE_DIRECTORY":            directory,
			"HALLEY_ARCHIVE_SOFT_DELETE_PROPERTY": "deleted",
			"HALLEY_ARCHIVE_BATCH_WINDOW":         "500ms",
		},
		Load:  s.load,
		Close: s.close,
	}, nil
}

// load writes orders, new versions of them, and deletes some.
func (s *devServices) load(ctx context.Context, run *app.DevRun) {
	s.run = run
	ticks := time.NewTicker(time.Second / time.Duration(run.Rate))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		i := rand.IntN(len(s.orders)*2 + 1)
		if i >= len(s.orders) {
			i = len(s.orders)
			s.orders = append(s.orders, order{ID: "order-" + strconv.Itoa(i), Customer: "customer-" + strconv.Itoa(i%7)})
		}
		o := &s.orders[i]
		o.Version++
		o.Total = float64(rand.IntN(10000)) / 100
		o.Deleted = rand.IntN(10) == 0
		if _, err := run.Monitored()[0].Upsert(context.WithoutCancel(ctx), cosmos.NewPartitionKey(o.Customer), o); err != nil {
			run.WriteFailed(err)
			continue
		}
		run.Wrote(o.ID, o.Version)
	}
}

// close loads the archive into another container and compares that with the orders.
func (s *devServices) close() error {
	var err error
	if s.run != nil {
		err = s.compare(context.Background())
	}
	return errors.Join(err, os.RemoveAll(s.directory))
}

func (s *devServices) compare(ctx context.Context) error {
	database := s.run.Monitored()[0].Database()
	if err := s.run.Create(ctx, app.Container{Database: database, Name: "restored", PartitionKey: []string{"/customer"}}); err != nil {
		return err
	}
	restored := s.run.Client.Container(database, "restored")
	changes, written, err := reload(ctx, archive.Directory(s.directory), "archive/", restored)
	if err != nil {
		return err
	}
	alive := 0
	for _, o := range s.orders {
		document, err := restored.Read(ctx, o.ID, cosmos.NewPartitionKey(o.Customer))
		switch {
		case o.Deleted && cosmos.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("order %s is not restored: %w", o.ID, err)
		case string(cosmos.Property(document.Body, "version")) != strconv.Itoa(o.Version):
			return fmt.Errorf("order %s is restored as %s, not in version %d", o.ID, document.Body, o.Version)
		}
		alive++
	}
	if alive != written {
		return fmt.Errorf("%d orders are restored, not %d", written, alive)
	}
	fmt.Fprintf(os.Stderr, "reload: %d changes in the archive restore all %d orders; %d are deleted\n", changes, written, len(s.orders)-written)
	return nil
}
