// Halley is a serverless trigger runtime: it reads the change feed of Azure
// Cosmos DB containers and calls handlers with the changes.
//
// With arguments the binary is a command-line tool (halley help). Without arguments
// the environment decides: if AWS Lambda started it, it is a Lambda function, and if
// the Azure Functions host did, a custom handler.
//
// Exit codes: 0 if done; 1 if failed, with an error on stderr or, under a host, in
// the log; 200 if the Functions host should start the process again, after a signal
// or when handlers are stuck. A signal that comes more than a second after the first
// ends the process at once, with 128 and its number.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() { os.Exit(start(os.Args[1:])) }

// start runs the mode that arguments and environment select, and returns the exit
// code.
func start(args []string) int {
	port, hosted := functionsPort()
	hosted = hosted && len(args) == 0
	ctx, stop := stopOnSignal(func(s os.Signal) int {
		if hosted {
			return exitHosted
		}
		return signalledCode(s)
	})
	defer stop()
	switch {
	case len(args) > 0:
	case os.Getenv("AWS_LAMBDA_RUNTIME_API") != "":
		return serveLambda(ctx)
	case hosted:
		return serveFunctions(ctx, port)
	}
	if err := rootCommand(args).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "halley:", errorText(err))
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
