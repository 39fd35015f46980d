//go:build !nodev

package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/spf13/cobra"

	"halley/handlers"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// NewEmulatorCommand returns the command emulator.
func NewEmulatorCommand() *cobra.Command {
	var account emulator.Options
	var serve emulator.ServeOptions
	var containers, seeds []string
	var check string
	c := &cobra.Command{
		Use:   "emulator",
		Short: "Serve an embedded Cosmos DB account",
		Long: `Emulator serves an Azure Cosmos DB account from this process, for any client
of the REST API, until a signal. The account is in memory unless --data names a
directory. It listens on loopback only, unless --allow-remote is given.

The port serves HTTP and HTTPS, both over HTTP/1.1 and HTTP/2. Clients that check
certificates trust the file of --cert-out.

Clients address it as localhost or by an IP address; --allow-host permits another
name, such as that of a container. Requests of web pages are refused: those with
an Origin header, or with another name as their Host.

With several --region the account has an endpoint for each, at the ports after that
of --addr, which is always that of the write region.

POST /_emulator/split, /_emulator/merge, /_emulator/failover, /_emulator/replication
and /_emulator/faults change ranges and regions and script faults; GET
/_emulator/state shows all of it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if check != "" {
				return checkEmulator(check, cmd.OutOrStdout())
			}
			account.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return serveEmulator(cmd.Context(), account, serve, containers, seeds, cmd.OutOrStdout())
		},
	}
	c.AddCommand(emulatorExportCommand())
	f := c.Flags()
	f.StringVar(&serve.Addr, "addr", "127.0.0.1:8081", "address to listen on")
	f.BoolVar(&serve.TLS, "tls", false, "print an endpoint of HTTPS; the port serves both HTTP and HTTPS")
	f.StringVar(&serve.CertOut, "cert-out", "", "write the certificate authority of HTTPS, which is made at each start, to this file, as PEM")
	f.StringVar(&serve.Advertise, "advertise", "", "URL that clients are told to use, such as that of a proxy (default: the host that they have used)")
	f.BoolVar(&serve.AllowRemote, "allow-remote", false, "allow an address that is not loopback")
	f.StringArrayVar(&account.Hosts, "allow-host", nil, "name by which clients may address the account besides localhost and IP addresses; may be repeated")
	f.StringVar(&account.Data, "data", "", "directory that keeps the account over restarts")
	f.StringVar(&check, "check", "", "check the data in this directory, and end")
	f.IntVar(&account.RU, "ru", 0, "throughput of each container in RU/s; requests above it get 429 (0: unlimited)")
	f.DurationVar(&account.Latency, "latency", 0, "latency added to every answer")
	f.IntVar(&account.Ranges, "ranges", 1, "ranges of a container that is created without a throughput")
	f.StringArrayVar(&account.Regions, "region", nil, "name of a region of the account; the first takes the writes; may be repeated")
	f.BoolVar(&account.MultipleWrites, "multiple-writes", false, "let all regions take writes; the last writer wins")
	f.BoolVar(&account.PartitionFailover, "partition-failover", false, "let single ranges fail over, and say so in the account's document")
	f.DurationVar(&account.ReplicationLag, "replication-lag", 0, "time that a write needs to another region")
	f.StringArrayVar(&containers, "container", nil, "create database/container:/key[:ranges=n][:retention=d] at start; may be repeated")
	f.StringArrayVar(&seeds, "seed", nil, "write the documents of database/container=FILE that are missing, one JSON object on each line; may be repeated")
	return c
}

// accountGC is the GOGC of a process that serves an account only: its documents stay, so
// that the garbage between two collections should take less room than they.
const accountGC = 30

// serveEmulator serves an account until ctx ends.
func serveEmulator(ctx context.Context, options emulator.Options, serve emulator.ServeOptions, containers, seeds []string, out io.Writer) (err error) {
	if !serve.AllowRemote && !handlers.IsLoopback(serve.Addr) {
		return fmt.Errorf("--addr %s can be reached by other machines, and the account's key is public: listen on 127.0.0.1, or give --allow-remote", serve.Addr)
	}
	if os.Getenv("GOGC") == "" {
		defer debug.SetGCPercent(debug.SetGCPercent(accountGC))
	}
	account, err := emulator.New(&options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, account.Close()) }()
	if err := createContainers(ctx, account, containers, seeds); err != nil {
		return err
	}
	serve.Ready = func(endpoint string) {
		for _, region := range account.State().Regions {
			fmt.Fprintf(out, "region %s: %s\n", region.Name, region.Endpoint)
		}
		fmt.Fprintf(out, "endpoint: %s\nconnection string: %s\n", endpoint, account.ConnectionString())
		if serve.CertOut != "" {
			fmt.Fprintf(out, "certificate for clients of HTTPS to trust: %s\n", serve.CertOut)
		}
	}
	return account.Serve(ctx, serve)
}

// checkEmulator prints what the data in a directory hold.
func checkEmulator(directory string, out io.Writer) error {
	report, err := emulator.CheckData(directory)
	if err != nil {
		return fmt.Errorf("check emulator data: %w", err)
	}
	fmt.Fprintf(out, "%s is sound: %d databases, %d containers and %d items in %d pages\n", directory, report.Databases, report.Containers, report.Items, report.Pages)
	return nil
}

// createContainers creates the containers of --container that do not exist yet, and
// writes the documents of --seed.
func createContainers(ctx context.Context, account *emulator.Account, specs, seeds []string) error {
	client, err := embeddedClient(account)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		database, definition, err := parseContainer(spec)
		if err != nil {
			return fmt.Errorf("--container %s: %w", spec, err)
		}
		if err := createContainer(ctx, client, database, definition); err != nil {
			return err
		}
	}
	return writeSeeds(ctx, client, seeds)
}

// embeddedClient makes a client of the account in this process.
func embeddedClient(account *emulator.Account) (*cosmos.Client, error) {
	key, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		return nil, err
	}
	return cosmos.NewClient(account.Endpoint(), key, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
}

// parseContainer reads database/container:/key[:ranges=n][:retention=d]; a hierarchical
// key is /a,/b. A container with a retention has all versions and deletes in its feed.
func parseContainer(spec string) (database string, definition cosmos.ContainerDefinition, err error) {
	name, value, _ := strings.Cut(spec, ":")
	key, options, _ := strings.Cut(value, ":")
	database, definition.ID, _ = strings.Cut(name, "/")
	if database == "" || definition.ID == "" || !strings.HasPrefix(key, "/") {
		return "", definition, errors.New("write database/container:/key, with :ranges=16 or :retention=10m after it if you want")
	}
	definition.PartitionKey.Paths = strings.Split(key, ",")
	for options != "" {
		var option string
		option, options, _ = strings.Cut(options, ":")
		if err := setOption(&definition, option); err != nil {
			return "", definition, err
		}
	}
	return database, definition, nil
}

// setOption adds an option of parseContainer to a definition.
func setOption(definition *cosmos.ContainerDefinition, option string) error {
	switch name, value, _ := strings.Cut(option, "="); name {
	case "ranges":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not ranges=n with a number above 0", option)
		}
		definition.Throughput = n * ruPerRange
	case "retention":
		d, err := time.ParseDuration(value)
		if err != nil || d < time.Minute || d%time.Minute != 0 {
			return fmt.Errorf("%q is not retention=d with whole minutes, such as 10m", option)
		}
		definition.Retention = d
	default:
		return fmt.Errorf("%q is neither ranges=n nor retention=d", option)
	}
	return nil
}
