// Catalogue keeps a full-text index of a shop's products in step with their container.
package main

import (
	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/search/bleve"
)

func main() { catalogueApp().Main() }

func catalogueApp() app.Options {
	options := app.Options{
		Handlers:   []handlers.Entry{handlers.New("search", "indexes the products", bleve.Open)},
		Containers: []app.Container{{Name: "products", PartitionKey: []string{"/category"}}},
		Dev:        startDev,
	}
	options.Commands = []*cobra.Command{bleve.Command(options.Inspect)}
	return options
}
