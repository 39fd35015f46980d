package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dev --watch starts a function again when its file changes: the next documents reach the
// new one, and nothing is built.
func TestWatchStartsFunctionsAgain(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: no function to change")
	}
	setEnvironment(t, nil)
	placeHalley(t, "app")
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	function := func(version string) string {
		return "def handle(changes):\n    for change in changes:\n        print('" + version + " got', change.id)\n"
	}
	if err := os.Mkdir(filepath.Join(dir, "dev"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("halley.json", `{"name": "shop", "settings": {"HALLEY_ORDERS_COMMAND": "python3 -m halley orders", "HALLEY_LOG_LEVEL": "info"}}`)
	write("orders.py", function("first"))
	write("dev/orders.jsonl", "{\"id\": \"1\"}\n")

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	halley := exec.CommandContext(ctx, "halley", "dev", "--watch", "--addr", "127.0.0.1:0", "--page=off")
	halley.Dir, halley.Stderr = dir, os.Stderr
	out, err := halley.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := halley.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	waitFor := func(text string) {
		t.Helper()
		var said []string
		for lines.Scan() {
			if said = append(said, lines.Text()); strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Fatalf("dev does not say %q:\n%s", text, strings.Join(said, "\n"))
	}
	waitFor("first got 1")
	write("orders.py", function("second"))
	waitFor("running the new source")
	write("dev/orders.jsonl", "{\"id\": \"1\"}\n{\"id\": \"2\"}\n")
	waitFor("second got 2")
	if err := halley.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	waitFor("every change was handled")
	if err := halley.Wait(); err != nil {
		t.Error(err)
	}
}
