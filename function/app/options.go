package app

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/command"
	"halley/function/app/internal/functions"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/lambda"
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

	// Sources are the extensions of the files that the handlers are in, such as .py, if
	// they are programs that the app runs. With them, dev --watch starts the handlers again
	// when such a file changes below the current directory; it builds nothing.
	Sources []string

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
	_, hosted := functions.Port()
	ctx := hosting.StopOnSignal(func(s os.Signal) int {
		if hosted && len(args) == 0 {
			return functions.ExitCode
		}
		return hosting.SignalledCode(s)
	})
	os.Exit(o.Run(ctx, args))
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
	p := o.program()
	if err := p.Source.Validate(); err != nil {
		fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name, text.OfError(err))
		return 1
	}
	port, hosted := functions.Port()
	switch {
	case len(args) > 0:
	case os.Getenv("AWS_LAMBDA_RUNTIME_API") != "":
		return lambda.Serve(ctx, &p.Program.Program)
	case hosted:
		return functions.Serve(ctx, &p.Program.Program, port)
	}
	if err := p.Root(args).ExecuteContext(ctx); err != nil {
		fmt.Fprintf(p.Stderr, "%s: %s\n", p.Name, text.OfError(err))
		return command.ExitCode(err)
	}
	return 0
}

// Inspect gives one of the app's own commands access to a function: its settings, its
// containers and its leases. It makes an account's first request, so that a command
// fails at once if the account cannot be reached.
//
//	options.Commands = []*cobra.Command{migrate.Command(options.Inspect)}
func (o Options) Inspect(ctx context.Context, function string) (handlers.Inspection, error) {
	return account.Inspect(ctx, o.program().Source, function)
}

// program is the app as its rooms need it, with the defaults.
func (o Options) program() *command.Program {
	p := &command.Program{Commands: o.Commands}
	p.Name, p.Version, p.Telemetry, p.Stdout, p.Stderr = o.Name, o.Version, o.Telemetry, o.Stdout, o.Stderr
	p.Source = settings.Source{Handlers: o.Handlers, Stores: o.DeadLetterStores, Credential: o.Credential}
	p.Containers, p.Services, p.Sources = o.Containers, o.Dev, o.Sources
	p.SetDefaults()
	return p
}
