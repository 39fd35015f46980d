// Command hosted replays a record of a hosted account against the embedded account, and
// prints where the answers differ: scripts/hosted FILE. FILE is what halley verify-service
// --record has written, or a Markdown table (.md) of answers to the exchanges of package
// halley/trigger/emulator/hosted.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"halley/trigger/emulator"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: scripts/hosted FILE, a record that halley verify-service --record has written, or a table of recorded answers (.md)")
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

// recordedRU is the throughput of the account that answered the exchanges of package hosted.
const recordedRU = 400

// replayFile replays a record and prints the outcome. It returns how many answers differ.
func replayFile(path string, out io.Writer) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	isTable := filepath.Ext(path) == ".md"
	options := &emulator.Options{}
	if isTable {
		options.RU = recordedRU
	}
	account, err := emulator.New(options)
	if err != nil {
		return 0, err
	}
	defer account.Close()
	var result outcome
	if isTable {
		result, err = replayTable(context.Background(), file, account)
	} else {
		result, err = replay(file, account)
	}
	if err != nil {
		return 0, err
	}
	for _, d := range result.differences {
		fmt.Fprintln(out, d)
	}
	fmt.Fprintf(out, "%d of %d answers are the same, %d of throttling, splits and concurrent hosts were not compared.\n", result.compared-len(result.differences), result.compared, result.skipped)
	return len(result.differences), nil
}
