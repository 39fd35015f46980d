// Package app is Halley as an application: the main function of a program that lists
// its handlers.
//
//	func main() {
//		app.Main(
//			handlers.New("orders", "mails the customer of each new order", orders.Open),
//		)
//	}
//
// The program is a command-line tool (help lists its commands), an Azure Functions
// custom handler if the Functions host started it, and a Lambda function if AWS Lambda
// did. [Options] say more than the handlers; [Open] is for programs that have a main
// function of their own. All settings are environment variables; the command check
// lists them.
//
// An app links only what it uses: package handlers knows no sink, and dead letter
// stores in Azure Storage are those of Options.DeadLetterStores. The build tag nodev
// leaves out the commands of a developer's machine, dev and emulator, with the embedded
// account.
//
// # Map of the package
//
//	options.go open.go app.go          the app: its description, its functions and hosts
//	settings*.go *settings.go          the environment: values, rules, defaults
//	internal/connection                names of connections, accounts, identities
//	deadletterstores.go azurestorage   kinds of dead letter stores
//	azure.go invocation.go tick.go     Azure Functions: host, requests, timer
//	continuous.go fanout.go timeout.go the same: continuous mode, queue messages, time limits
//	lambda.go run.go signals.go        AWS Lambda; a plain process
//	check.go probe.go packaging.go     the command check
//	status.go deadletters.go replay.go commands for operators
//	dev*.go ledger.go poison.go        the command dev
package app
