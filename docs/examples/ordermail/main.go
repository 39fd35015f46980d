// Ordermail mails customers when their orders are placed and sent: a handler posts each
// such change to the mailer, which is a service of its own.
package main

import (
	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/webhook"
)

func main() { mailApp().Main() }

func mailApp() app.Options {
	return app.Options{
		Handlers: []handlers.Entry{
			handlers.New("webhook", "posts orders that were placed or sent to the mailer", webhook.Open),
		},
		Containers: []app.Container{{Name: "orders", PartitionKey: []string{"/customer"}}},
		Commands:   []*cobra.Command{mailerCommand()},
		Dev:        startDev,
	}
}
