package apps_test

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"halley/function/app"
	"halley/handlers"
	"halley/handlers/migrate"
)

// byCategory gives orders that have no category one of their own.
func byCategory(document json.RawMessage) (json.RawMessage, error) {
	var order map[string]any
	if err := json.Unmarshal(document, &order); err != nil {
		return nil, err
	}
	if order["category"] == nil {
		order["category"] = "other"
	}
	return json.Marshal(order)
}

// An app that moves orders to another partition key, with the commands migrate verify and
// migrate report.
func Example_migrate() {
	move := migrate.Transform(byCategory)
	options := app.Options{
		Handlers: []handlers.Entry{handlers.New("migrate", "moves orders to the key /category", move.Open)},
	}
	options.Commands = []*cobra.Command{move.Command(options.Inspect)}
	options.Main()
}
