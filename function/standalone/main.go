// Halley, as the wheel and the npm package carry it: an app without Go code of its own. Its
// functions are programs in other languages, see [halley/handlers/remote.OpenFunction], and
// the handlers that Halley comes with.
//
// The file halley.json of the current directory describes the app: its name, defaults of its
// settings, and the containers that dev creates.
package main

import (
	"fmt"
	"os"
)

func main() {
	args := os.Args[1:]
	options, err := load("halley.json", args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "halley:", err)
		os.Exit(1)
	}
	options.Main()
}
