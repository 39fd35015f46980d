//go:build !nodev

package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/spf13/cobra"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/function/app/internal/verify"
	"halley/trigger/cosmos"
)

// verifyFlags are the flags of the command verify-service.
type verifyFlags struct {
	connection string
	json       bool
	record     string
	verify     verify.Options
}

// VerifyServiceCommand returns the command verify-service, which tries on the user's account
// what Halley relies on.
func VerifyServiceCommand() *cobra.Command {
	var flags verifyFlags
	c := &cobra.Command{
		Use:   "verify-service",
		Short: "Prove on your account what Halley relies on",
		Long: `Verify-service tries each fact about Azure Cosmos DB that Halley relies on, on the
account of --connection, then runs two hosts with a handover, a drain, a dead letter
and its replay. It prints a table: each fact, what was expected and what was seen,
and what a difference means for you.

It works in scratch containers: with --create in containers of its own, which it
deletes at the end, also after Ctrl-C; else in those of --container and --leases,
which must be empty. It deletes nothing that it has not created. It says
beforehand what it costs, and ends at --limit.

The exit code is 0 if the account is verified, 2 if it is verified with remarks, 3
if Halley must not be used on it, and 1 if the command could not run. A fact that
this account cannot show is not verified, which is not a remark.

With --record FILE it also writes all requests and answers to a file, without keys,
tokens, addresses and the names of the account, the database and the containers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags.verify.Progress = cmd.ErrOrStderr()
			return verifyService(cmd, flags)
		},
	}
	f, v := c.Flags(), &flags.verify
	f.StringVar(&flags.connection, "connection", "CosmosDB", "name of the connection, as in HALLEY_CONNECTION")
	f.StringVar(&v.Database, "database", "", "scratch database (default with --create: a new one)")
	f.StringVar(&v.Items, "container", "", "empty container to monitor, whose partition key is one property such as /pk")
	f.StringVar(&v.Leases, "leases", "", "empty container for leases, whose partition key is /id")
	f.BoolVar(&v.Create, "create", false, "create the containers, and the database if it does not exist")
	f.BoolVar(&v.DataIsKnown, "i-know-it-has-data", false, "use containers that hold data; none of it is changed or deleted")
	f.Float64Var(&v.Limit, "limit", 0, fmt.Sprintf("request units after which the run ends (default: %d, and more with --throttle and --split)", verify.DefaultLimit))
	f.BoolVar(&v.Throttle, "throttle", false, "also write until the service refuses, for about 2,500 request units more")
	f.BoolVar(&v.Split, "split", false, "also raise the throughput of a new container until its range splits, which can take an hour and costs by the hour")
	f.BoolVar(&flags.json, "json", false, "print the report as JSON")
	f.StringVar(&flags.record, "record", "", "file to write the requests and answers to")
	return c
}

func (f verifyFlags) check() error {
	v := f.verify
	switch {
	case v.Create && (v.Items != "" || v.Leases != ""):
		return errors.New("--create makes containers of its own: leave out --container and --leases")
	case !v.Create && (v.Database == "" || v.Items == "" || v.Leases == ""):
		return errors.New("name scratch containers with --database, --container and --leases, or give --create")
	case v.Limit < 0:
		return fmt.Errorf("--limit %v: must not be negative", v.Limit)
	case v.DataIsKnown && f.record != "":
		return errors.New("--record would hold your data: record a run in empty containers")
	}
	return nil
}

func verifyService(cmd *cobra.Command, flags verifyFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	v := flags.verify
	v.Run = verify.NewRun(rand.Text())
	resolved, err := account.Resolve(settings.ConnectionDefaults{}, settings.ConnectionName(flags.connection))
	if err != nil {
		return err
	}
	v.Meter = &verify.Meter{}
	v.Client, err = resolved.Client(cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		PerRetryPolicies: []policy.Policy{v.Meter}, Retry: policy.RetryOptions{MaxRetries: 3},
	}})
	if err != nil {
		return err
	}
	if _, err := account.Reach(cmd.Context(), v.Client, settings.ConnectionName(flags.connection), cmd.ErrOrStderr()); err != nil {
		return err
	}
	var file io.WriteCloser
	if flags.record != "" {
		v.Record = true
		if file, err = os.OpenFile(flags.record, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
	}
	report, err := verify.Run(cmd.Context(), v)
	if file != nil {
		if err := errors.Join(report.WriteRecord(file), file.Close()); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
	}
	return printVerified(cmd, flags, report, err)
}

// printVerified prints the report. Its error has the exit code.
func printVerified(cmd *cobra.Command, flags verifyFlags, report *verify.Report, failure error) error {
	var err error
	if flags.json {
		err = report.WriteJSON(text.SafeWriter(cmd.OutOrStdout()))
	} else {
		err = report.Write(cmd.OutOrStdout())
	}
	switch {
	case err != nil:
		return err
	case report.Code == verify.CodeFailed:
		return failure
	case report.Code != verify.CodeVerified:
		return codedError{report.Code, errors.New("the account differs from what Halley relies on")}
	}
	return nil
}
