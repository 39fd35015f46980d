package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withList returns a directory whose main.go has the given source, in the module
// example.com/shop.
func withList(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/shop\n", "main.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestHandlerIsAddedToTheList(t *testing.T) {
	tests := []struct{ name, before, after string }{
		{"a list with comments", `
// Shop is an app.
package main

import (
	"halley/function/app"
	"halley/handlers" // light

	"example.com/shop/orders" // the first
)

func main() {
	// The order is that of the help.
	app.Main(
		handlers.New("orders", "mails", orders.Open), // a
		// no more
	)
}
`, `
// Shop is an app.
package main

import (
	"halley/function/app"
	"halley/handlers" // light

	"example.com/shop/orders" // the first
	"example.com/shop/refunds"
)

func main() {
	// The order is that of the help.
	app.Main(
		handlers.New("orders", "mails", orders.Open), // a
		// no more
		handlers.New("refunds", "logs each changed document", refunds.Open),
	)
}
`},
		{"one line", `
package main

import (
	"example.com/shop/orders"
	"halley/function/app"
	"halley/handlers"
)

func main() { app.Main(handlers.New("orders", "mails", orders.Open)) }
`, `
package main

import (
	"example.com/shop/orders"
	"example.com/shop/refunds"
	"halley/function/app"
	"halley/handlers"
)

func main() {
	app.Main(
		handlers.New("orders", "mails", orders.Open),
		handlers.New("refunds", "logs each changed document", refunds.Open),
	)
}
`},
		{"an empty list, a single import", `
package main

import "halley/function/app"

func main() {
	app.Main()
}
`, `
package main

import "halley/function/app"
import "example.com/shop/refunds"
import "halley/handlers"

func main() {
	app.Main(
		handlers.New("refunds", "logs each changed document", refunds.Open),
	)
}
`},
		{"options, other names of packages", `
package main

import (
	"os"

	halley "halley/function/app"
	h "halley/handlers"
)

func main() {
	halley.Options{
		Name: "shop",
		Handlers: []h.Entry{
			h.New("orders", "mails", nil),
		},
	}.Main()
	os.Exit(1)
}
`, `
package main

import (
	"os"

	halley "halley/function/app"
	h "halley/handlers"

	"example.com/shop/refunds"
)

func main() {
	halley.Options{
		Name: "shop",
		Handlers: []h.Entry{
			h.New("orders", "mails", nil),
			h.New("refunds", "logs each changed document", refunds.Open),
		},
	}.Main()
	os.Exit(1)
}
`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := withList(t, test.before)
			files, err := Handler{Name: "refunds", Root: dir}.Create(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(files, " "); got != "refunds/refunds.go refunds/refunds_test.go main.go" {
				t.Errorf("files %s", got)
			}
			after, err := os.ReadFile(filepath.Join(dir, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(string(after)) != strings.TrimSpace(test.after) {
				t.Errorf("main.go is\n%s\nwant\n%s", after, test.after)
			}
		})
	}
}

// If a handler cannot be added, the error says so and nothing is written.
func TestHandlerThatCannotBeAddedWritesNothing(t *testing.T) {
	const imports = "package main\n\nimport (\n\t\"halley/function/app\"\n\t\"halley/handlers\"\n)\n\n"
	const list = imports + "func main() { app.Main(handlers.New(\"refunds\", \"\", nil)) }\n"
	tests := []struct{ name, source, want string }{
		{"Refunds", list, "lower-case letters and digits"},
		{"2nd", list, "begin with a letter"},
		{"type", list, "no word of Go"},
		{"main", list, "no word of Go"},
		{"function", list, "is a directory of the app"},
		{"shop", list, "is the executable of the app"},
		{"refunds", list, "lists a handler refunds already"},
		{"handlers", list, "uses the name handlers already"},
		{"orders", list + "var orders, other int\n", "uses the name orders already"},
		{"orders", list + "type (\n\torders struct{}\n)\n", "uses the name orders already"},
		{"orders", list + "func orders() {}\n", "uses the name orders already"},
		{"orders", imports + "func main() { app.Main(all()...) }\n", "no Go file of"},
		{"orders", "package main\n\nfunc main() {}\n", "no Go file of"},
		{"orders", "package main\n\nfunc main() {", "expected '}'"},
		{"existing", list, "existing exists already"},
	}
	for _, test := range tests {
		t.Run(test.name+" "+test.want, func(t *testing.T) {
			dir := withList(t, test.source)
			if err := os.WriteFile(filepath.Join(dir, "host.json"), []byte(`{"customHandler":{"description":{"defaultExecutablePath":"shop"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "existing"), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := Handler{Name: test.name, Root: dir}.Create(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			after, err := os.ReadFile(filepath.Join(dir, "main.go"))
			if err != nil || string(after) != test.source {
				t.Errorf("%v: main.go is\n%s", err, after)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 4 {
				t.Errorf("%v: the directory has %v", err, entries)
			}
		})
	}
}

func TestImportPathFollowsTheModule(t *testing.T) {
	dir := withList(t, "package main\n")
	for path, want := range map[string]string{"refunds": "example.com/shop/refunds", "cmd/shop/refunds": "example.com/shop/cmd/shop/refunds"} {
		if got, err := importPathOf(t.Context(), filepath.Join(dir, filepath.FromSlash(path))); err != nil || got != want {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
}
