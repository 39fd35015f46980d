// Archive keeps every version of a shop's orders as Parquet, for analysis with Spark or
// DuckDB, and loads the orders again from there.
package main

import (
	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/archive"
)

func main() { archiveApp().Main() }

func archiveApp() app.Options {
	options := app.Options{
		Handlers:   []handlers.Entry{handlers.New("archive", "keeps every version of an order as Parquet", archive.Open)},
		Containers: []app.Container{{Name: "orders", PartitionKey: []string{"/customer"}, Ranges: 2}},
		Dev:        startDev,
	}
	options.Commands = []*cobra.Command{reloadCommand(options.Inspect), archive.Command(options.Inspect)}
	return options
}
