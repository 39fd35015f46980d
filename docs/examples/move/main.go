// Move copies the orders of a shop to a container with another partition key, while the
// shop keeps writing.
package main

import (
	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/migrate"
)

func main() { moveApp().Main() }

func moveApp() app.Options {
	move := migrate.Transform(byCategory)
	options := app.Options{
		Handlers: []handlers.Entry{handlers.New("migrate", "moves orders to the partition key /category", move.Open)},
		Containers: []app.Container{
			{Name: "orders", PartitionKey: []string{"/customer"}, Ranges: 2},
			{Name: target, PartitionKey: []string{"/category"}},
		},
		Dev: startDev,
	}
	options.Commands = []*cobra.Command{move.Command(options.Inspect)}
	return options
}

const target = "orders-by-category"
