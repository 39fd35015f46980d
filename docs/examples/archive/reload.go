package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"halley/handlers"
	"halley/handlers/archive"
	"halley/trigger/cosmos"
)

// reloadCommand returns the command that loads the archive into a container.
func reloadCommand(inspect handlers.Inspect) *cobra.Command {
	var into string
	c := &cobra.Command{
		Use:   "reload",
		Short: "Write the last version of each order in the archive to a container",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := inspect(cmd.Context(), "archive")
			if err != nil {
				return err
			}
			settings := found.Settings.(*archive.Settings)
			store, err := openStore(settings)
			if err != nil {
				return err
			}
			target := found.Env.Container(found.Env.Database, into)
			changes, written, err := reload(cmd.Context(), store, settings.Prefix, target)
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d changes read, %d orders written to %s\n", changes, written, into)
			}
			return err
		},
	}
	c.Flags().StringVar(&into, "into", "restored", "container with the partition key of the orders")
	return c
}

// openStore opens the store of the handler's settings.
func openStore(s *archive.Settings) (archive.Store, error) {
	if s.Directory != "" {
		return archive.Directory(s.Directory), nil
	}
	c, err := container.NewClientFromConnectionString(s.ConnectionString.Reveal(), s.BlobContainer, nil)
	if err != nil {
		return nil, errors.New("HALLEY_ARCHIVE_CONNECTION_STRING is not a connection string of a storage account")
	}
	return archive.NewBlobs(c), nil
}

// parallel is the number of orders that are written at a time.
const parallel = 8

// reload writes the last version of each order that was not deleted. It may be repeated.
// Memory holds one version of each order; a larger archive is loaded by prefixes.
func reload(ctx context.Context, store archive.Store, prefix string, into *cosmos.Container) (changes, written int, err error) {
	last := map[string]archive.Record{}
	for r, err := range archive.Read(ctx, store, prefix) {
		if err != nil {
			return changes, 0, err
		}
		changes++
		order := r.PartitionKey + r.ID
		if former, ok := last[order]; !ok || r.Compare(former) > 0 {
			last[order] = r
		}
	}
	writes, ctx := errgroup.WithContext(ctx)
	writes.SetLimit(parallel)
	for _, r := range last {
		if r.Operation == cosmos.OperationDelete || r.Operation == cosmos.OperationExpire {
			continue
		}
		written++
		writes.Go(func() error { return write(ctx, r, into) })
	}
	return changes, written, writes.Wait()
}

// write writes a version without the properties of the former container.
func write(ctx context.Context, r archive.Record, into *cosmos.Container) error {
	var order map[string]json.RawMessage
	if err := json.Unmarshal(r.Document, &order); err != nil {
		return fmt.Errorf("order %s: %w", r.ID, err)
	}
	var customer string
	if err := json.Unmarshal(order["customer"], &customer); err != nil {
		return fmt.Errorf("order %s has no customer: %w", r.ID, err)
	}
	for _, name := range []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"} {
		delete(order, name)
	}
	_, err := into.Upsert(ctx, cosmos.NewPartitionKey(customer), order)
	return err
}
