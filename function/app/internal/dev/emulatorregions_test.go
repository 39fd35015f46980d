//go:build !nodev

package dev

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"halley/trigger/emulator"
)

func TestEmulatorPrintsItsRegions(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	options := emulator.Options{Regions: []string{"West Europe", "North Europe"}}
	out := &stoppingWriter{stop: stop}
	if err := serveEmulator(ctx, options, emulator.ServeOptions{Addr: "127.0.0.1:0"}, []string{"d/c:/id"}, nil, out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"region West Europe: http://127.0.0.1:", "region North Europe: http://127.0.0.1:"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it printed %q, without %q", out.String(), want)
		}
	}
}

// stoppingWriter ends the command when it has printed the connection string.
type stoppingWriter struct {
	bytes.Buffer
	stop func()
}

func (w *stoppingWriter) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("connection string")) {
		w.stop()
	}
	return w.Buffer.Write(text)
}

func TestEmulatorRefusesRegionsThatItCannotHave(t *testing.T) {
	for want, args := range map[string][]string{
		"in memory only":    {"--region", "West Europe", "--region", "North Europe", "--data", t.TempDir()},
		"is named twice":    {"--region", "West Europe", "--region", "westeurope"},
		"name at least two": {"--region", "West Europe", "--replication-lag", "2s"},
	} {
		if err := emulatorCommand(args...).ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", args, err, want)
		}
	}
}
