// Command hosted replays a record of verify-service against the embedded account, and
// prints where the answers differ: scripts/hosted FILE.
package main

import (
	"fmt"
	"io"
	"os"

	"halley/trigger/emulator"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: scripts/hosted FILE, a record that halley verify-service --record has written")
		os.Exit(2)
	}
	differences, err := replayFile(os.Args[1], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosted:", err)
		os.Exit(2)
	}
	if differences > 0 {
		os.Exit(1)
	}
}

// replayFile replays a record and prints the outcome. It returns how many answers differ.
func replayFile(path string, out io.Writer) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	account, err := emulator.New(nil)
	if err != nil {
		return 0, err
	}
	defer account.Close()
	result, err := replay(file, account)
	if err != nil {
		return 0, err
	}
	for _, d := range result.differences {
		fmt.Fprintln(out, d)
	}
	fmt.Fprintf(out, "%d of %d answers are the same, %d of throttling, splits and concurrent hosts were not compared.\n", result.compared-len(result.differences), result.compared, result.skipped)
	return len(result.differences), nil
}
