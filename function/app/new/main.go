//go:build !nodev

// New writes an app, or a handler of the app in the current directory. In a module
// that requires Halley:
//
//	go run halley/function/app/new handler refunds
package main

import (
	"context"
	"fmt"
	"os"

	"halley/function/app"
)

func main() {
	c := app.NewCommand()
	c.SilenceUsage, c.SilenceErrors = true, true
	if err := c.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "new:", err)
		os.Exit(1)
	}
}
