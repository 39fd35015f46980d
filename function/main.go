// Halley is a serverless trigger runtime: it reads the change feed of Azure
// Cosmos DB containers and calls handlers with the changes.
//
// The binary finds out who started it. With arguments it is a command for
// people (halley help). Without, under AWS Lambda it is a Lambda function, and
// under the Azure Functions host a custom handler.
//
// Exit codes: 0 done, 1 failed with an error on stderr (under a host: in the
// log), 200 stopped by a signal while hosted, or because handlers are stuck for
// good, which the Functions host takes for a wish to be restarted; a second signal
// ends the process at once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(start(os.Args[1:])) }

// start runs what the arguments or the surroundings ask for; it returns the
// exit code.
func start(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal kills
	switch port, hosted := functionsPort(); {
	case len(args) > 0:
	case os.Getenv("AWS_LAMBDA_RUNTIME_API") != "":
		return serveLambda(ctx)
	case hosted:
		return serveFunctions(ctx, port)
	}
	if err := rootCommand(args).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "halley:", err)
		return 1
	}
	return 0
}

func rootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "halley",
		Short:         "Calls handlers with the changes of Azure Cosmos DB containers",
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.AddCommand(devCommand(), runCommand(), emulatorCommand(), checkCommand(), statusCommand(), deadLettersCommand(), versionCommand())
	return root
}
