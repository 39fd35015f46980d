package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/handlers"
	"halley/trigger/deadletter"
)

// Options describe an application. Only Handlers is required.
type Options struct {
	// Name is the app's name in its help and its errors. The default is the last
	// element of the path of the main package.
	Name string

	// Version is the app's. The default is that of the main module, else the commit
	// that it was built from, else "devel".
	Version string

	// Handlers lists the functions in the order of the documentation.
	// [handlers.New] makes an entry.
	Handlers []handlers.Entry

	// Credential, if not nil, makes the Entra ID credential of connections with neither a
	// key nor a named identity, such as azidentity.NewDefaultAzureCredential. The default
	// is the machine's managed identity, else the login of the Azure CLI or of the Azure
	// Developer CLI. It links neither service principals nor workload identities.
	Credential func() (azcore.TokenCredential, error)

	// DeadLetterStores are kinds of stores for HALLEY_DEAD_LETTERS, next to container,
	// directory, drop and none, which every app has. Package azurestorage has blob and
	// queue. An app links the libraries of the stores that it lists, and no others.
	DeadLetterStores []deadletter.Kind

	// Containers are those that the app expects. The command dev creates them in its
	// embedded account and writes their seed.
	Containers []Container

	// Dev, if not nil, starts what a development run needs next to the account, such as
	// an embedded server in place of the handlers' sink, and a load.
	Dev func(context.Context) (*DevServices, error)

	// Commands are the app's own, next to those of Halley.
	Commands []*cobra.Command

	// Telemetry, if not nil, starts the export of traces and metrics, such as otel.Export of
	// package halley/function/app/otel.
	Telemetry Telemetry

	// Logger is used by [Open]. The default logs as the settings HALLEY_LOG_LEVEL and
	// HALLEY_LOG_FORMAT say. Commands always log so.
	Logger *zap.Logger

	// Stdout and Stderr get the output of commands. The defaults are the process's.
	Stdout, Stderr io.Writer
}

// Container is a container of the monitored account.
type Container struct {
	Database     string
	Name         string
	PartitionKey []string // paths, such as /player; the default is /id
	Ranges       int      // physical ranges in the embedded account; the default is 1
	Seed         []any    // documents that dev writes, as encoding/json encodes them
}

// Main is the main function of an app: it runs the command of the arguments, or
// serves the platform that started the process, and exits. Options.Main does the
// same with further options.
func Main(entries ...handlers.Entry) { Options{Handlers: entries}.Main() }

// Main runs the app with the arguments and signals of the process, and exits with
// the code of [Options.Run]. A signal that comes more than a second after the first
// ends the process at once, with 128 and its number, or with 200 under the Functions
// host.
func (o Options) Main() {
	args := os.Args[1:]
	_, hosted := functionsPort()
	ctx, stop := hosting.StopOnSignal(func(s os.Signal) int {
		if hosted && len(args) == 0 {
			return exitHosted
		}
		return hosting.SignalledCode(s)
	})
	code := o.Run(ctx, args)
	stop()
	os.Exit(code)
}

// Run runs the app until ctx ends or its work is done, and returns the exit code of
// the process: 0 if done; 1 if failed, with an error on Stderr or, under a host, in
// the log; 200 if the Functions host should start the process again, after the end of
// ctx or when handlers are stuck.
//
// With args the app is a command-line tool. Without, the environment decides: if AWS
// Lambda started the process, it is a Lambda function, and if the Azure Functions
// host did, a custom handler. Otherwise it prints its help.
func (o Options) Run(ctx context.Context, args []string) int {
	o = o.withDefaults()
	if err := o.source().Validate(); err != nil {
		fmt.Fprintf(o.Stderr, "%s: %s\n", o.Name, text.OfError(err))
		return 1
	}
	port, hosted := functionsPort()
	switch {
	case len(args) > 0:
	case os.Getenv("AWS_LAMBDA_RUNTIME_API") != "":
		return serveLambda(ctx, o.program())
	case hosted:
		return serveFunctions(ctx, o.program(), port)
	}
	if err := o.rootCommand(args).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(o.Stderr, "%s: %s\n", o.Name, text.OfError(err))
		return 1
	}
	return 0
}

func (o Options) rootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           o.Name,
		Short:         "Calls handlers with the changes of Azure Cosmos DB containers",
		Long:          o.help(),
		Version:       o.versions(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	root.AddCommand(o.devCommands()...)
	root.AddCommand(o.runCommand(), o.checkCommand(), o.statusCommand(), o.deadLettersCommand(), o.leasesCommand(), o.importCommand(), o.versionCommand())
	root.AddCommand(o.Commands...)
	return root
}

// help lists the functions of the app.
func (o Options) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s calls handlers with the changes of Azure Cosmos DB containers.\n\nFunctions:\n", o.Name)
	for _, e := range o.Handlers {
		fmt.Fprintf(&b, "  %-11s %s\n", e.Name, e.Summary)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (o Options) withDefaults() Options {
	info, _ := debug.ReadBuildInfo()
	o.Name = cmp.Or(o.Name, nameOf(info))
	o.Version = cmp.Or(o.Version, versionOf(info))
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	return o
}

var majorVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^v[0-9]+$`) })

// nameOf returns the last element of the main package's path that is not a major
// version, else the name of the executable.
func nameOf(info *debug.BuildInfo) string {
	if info == nil || info.Path == "" || info.Path == "command-line-arguments" {
		return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	}
	if base := path.Base(info.Path); !majorVersion().MatchString(base) {
		return base
	}
	return path.Base(path.Dir(info.Path))
}

// program is the app as its rooms need it. Its defaults are filled in.
func (o Options) program() hosting.Program {
	return hosting.Program{Name: o.Name, Version: o.Version, Source: o.source(), Telemetry: o.Telemetry, Stdout: o.Stdout, Stderr: o.Stderr}
}

// source is the app whose settings are read.
func (o Options) source() settings.Source {
	return settings.Source{Handlers: o.Handlers, Stores: o.DeadLetterStores, Credential: o.Credential}
}
