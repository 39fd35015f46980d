package apps_test

import (
	"fmt"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/postgres/view"
)

// The main function of this app is one line: warehouse.Main().
func Example_warehouse() {
	warehouse := app.Options{
		Name:     "warehouse",
		Handlers: []handlers.Entry{handlers.New("view", "keeps a table in PostgreSQL in step", view.Open)},
	}
	fmt.Println(warehouse.Name, warehouse.Handlers[0].Prefix())
	// Output: warehouse HALLEY_VIEW_
}
