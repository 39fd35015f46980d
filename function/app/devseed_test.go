package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// ordersApp is an app without services. Its handler counts documents.
func ordersApp(seen *atomic.Int64) Options {
	open := func(context.Context, handlers.Env, struct{}) (trigger.Handler, func() error, error) {
		return func(_ context.Context, b trigger.Batch) error {
			seen.Add(int64(len(b.Changes)))
			return nil
		}, nil, nil
	}
	return Options{Name: "shop", Handlers: []handlers.Entry{handlers.New("orders", "counts orders", open)}}.withDefaults()
}

// writeSeed writes dev/orders.jsonl into a directory and makes it the current one.
func writeSeed(t *testing.T, text string) {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir(filepath.Join(dir, seedDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, seedDir, "orders.jsonl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An app without settings handles the documents of its files.
func TestDevWritesSeedFiles(t *testing.T) {
	cleanEnv(t, nil)
	writeSeed(t, "{\"id\": \"1\"}\n\n{\"id\": \"2\"}\n{\"id\": \"3\"}")
	var seen atomic.Int64
	var out bytes.Buffer
	options := devOptions{For: time.Second, Rate: 1, Hosts: 1, JSON: true}
	if err := ordersApp(&seen).devMain(t.Context(), options, &out, io.Discard); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var s devSummary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if seen.Load() != 3 || s.Written != 3 || s.Delivered != 3 || s.Redelivered != 0 || s.Lost != 0 {
		t.Errorf("%d documents were delivered, want 3: %s", seen.Load(), out.String())
	}
}

func TestDamagedSeedNamesItsLine(t *testing.T) {
	cleanEnv(t, nil)
	writeSeed(t, "{\"id\": \"1\"}\n\n{\"id\": 2\n")
	var seen atomic.Int64
	err := ordersApp(&seen).devMain(t.Context(), devOptions{For: time.Second, Rate: 1, Hosts: 1}, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(seedDir, "orders.jsonl")+":3: seed of container orders") {
		t.Errorf("error is %v", err)
	}
}
