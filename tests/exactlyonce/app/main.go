// App is the app of package exactlyonce: the handler view alone.
package main

import (
	"halley/function/app"
	"halley/handlers"
	"halley/handlers/postgres/view"
)

func main() {
	app.Main(handlers.New("view", "keeps a view with totals in PostgreSQL", view.Open))
}
