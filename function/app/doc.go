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
//	options.go open.go dev.go          the app as its users describe it, and open it
//	internal/text                      texts for people: printable, on a line
//	internal/settings                  the environment: values, rules, defaults, kinds of stores
//	internal/account azurestorage      connections, clients, identities, stores of dead letters
//	internal/hosting                   functions, hosts, run and drain, health, logs, signals
//	internal/operate                   lag, dead letters and leases, for commands and the page
//	internal/operatorpage internal/page        the page of operators, and the page itself
//	internal/functions internal/lambda Azure Functions; AWS Lambda
//	internal/dev                       the commands dev and emulator
//	internal/command                   all other commands, and the root
//
// Imports of the rooms run one way: command, dev, functions or lambda, operatorpage,
// operate, hosting, account, settings, text.
package app
