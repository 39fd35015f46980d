// App is the app of package exactlyonce: the handlers view, opensearch and archive.
package main

import (
	"halley/function/app"
	"halley/handlers"
	"halley/handlers/archive"
	"halley/handlers/postgres/view"
	"halley/handlers/search/opensearch"
)

func main() {
	app.Main(
		handlers.New("view", "keeps a view with totals in PostgreSQL", view.Open),
		handlers.New("opensearch", "keeps a full-text index", opensearch.Open),
		handlers.New("archive", "keeps every change in files", archive.Open),
	)
}
