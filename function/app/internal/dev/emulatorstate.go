//go:build !nodev

package dev

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// systemProperties of a document are set by the account that keeps it.
var systemProperties = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

func emulatorExportCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "export DATABASE/CONTAINER",
		Short: "Print the documents of an embedded account",
		Long: `Export prints the documents of a container of an embedded account, one JSON
object on each line, without the properties that the account sets. The flag
--seed of emulator and of dev reads such lines.`,
		Example: "  halley emulator export games/results > results.jsonl\n  halley emulator --container games/results:/player --seed games/results=results.jsonl",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			database, container, ok := strings.Cut(args[0], "/")
			if !ok || database == "" || container == "" {
				return fmt.Errorf("%q: write DATABASE/CONTAINER", args[0])
			}
			key, err := cosmos.KeyCredential(emulator.Key)
			if err != nil {
				return err
			}
			client, err := cosmos.NewClient(from, key, nil)
			if err != nil {
				return fmt.Errorf("--from: %w", err)
			}
			defer client.CloseIdleConnections()
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := exportDocuments(cmd.Context(), client.Container(database, container), out); err != nil {
				return fmt.Errorf("export %s from %s: %w", args[0], from, err)
			}
			return out.Flush()
		},
	}
	c.Flags().StringVar(&from, "from", "http://127.0.0.1:8081", "address of the embedded account")
	return c
}

// accountTimeout is the time in which an account of this machine answers first.
const accountTimeout = 5 * time.Second

// exportDocuments writes each document of a container as a line of JSON, range by range
// in the order of the change feed. A document that is written meanwhile may come twice.
func exportDocuments(ctx context.Context, from *cosmos.Container, out io.Writer) error {
	limited, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	ranges, err := from.Ranges(limited)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	for _, r := range ranges {
		for continuation := ""; ; {
			page, err := from.ReadFeed(ctx, cosmos.FeedRequest{Range: r, Continuation: continuation})
			if err != nil {
				return err
			}
			for _, item := range page.Items {
				var document map[string]json.RawMessage
				if err := json.Unmarshal(item.Document, &document); err != nil {
					return err
				}
				for _, name := range systemProperties {
					delete(document, name)
				}
				if err := lines.Encode(document); err != nil {
					return err
				}
			}
			continuation = page.Continuation
			page.Release()
			if page.NotModified {
				break
			}
		}
	}
	return nil
}

// writeSeeds writes the documents of DATABASE/CONTAINER=FILE into containers that exist.
// Documents whose id is there already stay as they are.
func writeSeeds(ctx context.Context, client *cosmos.Client, seeds []string) error {
	for _, spec := range seeds {
		name, path, _ := strings.Cut(spec, "=")
		database, container, _ := strings.Cut(name, "/")
		if database == "" || container == "" || path == "" {
			return fmt.Errorf("--seed %s: write database/container=FILE", spec)
		}
		in := client.Container(database, container)
		properties, err := in.Properties(ctx)
		if cosmos.IsNotFound(err) {
			return fmt.Errorf("--seed %s: there is no container %s: create it with --container %s:/key", spec, name, name)
		}
		if err != nil {
			return fmt.Errorf("--seed %s: %w", spec, err)
		}
		s := seedFile{path: path, in: in, paths: properties.PartitionKey.Paths, known: map[string]bool{}}
		if err := s.writeMissing(ctx); err != nil {
			return fmt.Errorf("--seed %s: %w", spec, err)
		}
	}
	return nil
}
