package dev

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// emulatorCommand is the command emulator with these arguments.
func emulatorCommand(args ...string) *cobra.Command {
	c := NewEmulatorCommand()
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(args)
	return c
}

func TestParseContainer(t *testing.T) {
	for spec, want := range map[string]struct {
		database, container string
		paths               []string
		throughput          int
		retention           time.Duration
	}{
		"halley/results:/player":           {"halley", "results", []string{"/player"}, 0, 0},
		"halley/results:/player:ranges=16": {"halley", "results", []string{"/player"}, 160_000, 0},
		"d/c:/tenant,/user,/session":       {"d", "c", []string{"/tenant", "/user", "/session"}, 0, 0},
		"d/c:/address/city:ranges=2":       {"d", "c", []string{"/address/city"}, 20_000, 0},
		"d/c:/id:ranges=2:retention=1h":    {"d", "c", []string{"/id"}, 20_000, time.Hour},
	} {
		database, d, err := parseContainer(spec)
		if err != nil || database != want.database || d.ID != want.container || d.Throughput != want.throughput || d.Retention != want.retention || !slices.Equal(d.PartitionKey.Paths, want.paths) {
			t.Errorf("%s: %s %+v %v", spec, database, d, err)
		}
	}
	for _, spec := range []string{"", "results:/player", "halley/results", "halley/results:player", "halley/:/p", "/results:/p", "a/b:/c:ranges=0", "a/b:/c:ranges=x", "a/b:/c:16x", "a/b:/c:retention=90s", "a/b:/c:retention=x"} {
		if database, d, err := parseContainer(spec); err == nil {
			t.Errorf("%q is taken for %s %+v", spec, database, d)
		}
	}
}

// TestEmulatorCommand reads the connection string as a person would, and uses it.
func TestEmulatorCommand(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	done := make(chan error, 1)
	certificate := filepath.Join(t.TempDir(), "account.pem")
	command := emulatorCommand("--addr", "127.0.0.1:0", "--cert-out", certificate, "--container", "games/results:/player:ranges=3", "--container", "games/leases:/id")
	command.SetOut(out)
	go func() {
		done <- command.ExecuteContext(ctx)
		out.Close()
	}()
	connection := ""
	text := make([]byte, 4096)
	for printed := ""; connection == ""; {
		n, err := in.Read(text)
		if err != nil {
			t.Fatalf("%v; it printed %q and ended with %v", err, printed, <-done)
		}
		printed += string(text[:n])
		if before, path, ok := strings.Cut(printed, "\ncertificate for clients of HTTPS to trust: "); ok && path == certificate+"\n" {
			_, connection, _ = strings.Cut(before, "connection string: ")
		}
	}
	endpoint, credential, err := cosmos.ParseConnectionString(connection)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	ranges, err := client.Container("games", "results").Ranges(t.Context())
	if err != nil || len(ranges) != 3 {
		t.Errorf("%d ranges, %v, want 3", len(ranges), err)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestEmulatorChecksData(t *testing.T) {
	dir := t.TempDir()
	account, err := emulator.New(&emulator.Options{Data: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(account.CreateContainer("d", "c", "/id", 1), account.Close()); err != nil {
		t.Fatal(err)
	}
	check := func() (string, error) {
		var out strings.Builder
		command := emulatorCommand("--check", dir)
		command.SetOut(&out)
		command.SetErr(io.Discard)
		err := command.ExecuteContext(t.Context())
		return out.String(), err
	}
	if out, err := check(); err != nil || !strings.Contains(out, "is sound: 1 databases, 1 containers and 0 items") {
		t.Errorf("%q, %v", out, err)
	}
	if err := os.Truncate(filepath.Join(dir, "account.db"), 0); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil || !strings.Contains(err.Error(), "account.db is empty") {
		t.Errorf("an empty file: %q, %v", out, err)
	}
}

func TestEmulatorRefusesFlags(t *testing.T) {
	for says, args := range map[string][]string{
		"--allow-remote":     {"--addr", "0.0.0.0:0"},
		"certificate":        {"--addr", "127.0.0.1:0", "--cert-out", filepath.Join(t.TempDir(), "no", "file")},
		"RU":                 {"--ru", "-1"},
		"database/container": {"--container", "results"},
		"--data":             {"--addr", "127.0.0.1:0", "--data"},
	} {
		command := emulatorCommand(args...)
		command.SetOut(io.Discard)
		command.SetErr(io.Discard)
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("emulator %q: error %v, want one that says %q", args, err, says)
		}
	}
}

// TestEmulatorKeepsContainers: --container with --data finds its container again.
func TestEmulatorKeepsContainers(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		account, err := emulator.New(&emulator.Options{Data: dir})
		if err != nil {
			t.Fatal(err)
		}
		if err := createContainers(t.Context(), account, []string{"games/results:/player"}, nil); err != nil {
			t.Error(err)
		}
		if err := account.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The documents of an account, exported and written to another one, are the same; a
// second seed changes nothing.
func TestEmulatorExportsWhatSeedReads(t *testing.T) {
	documents := []string{`{"id":"1","player":"ada","score":7,"tags":["<a>",null]}`, `{"id":"2","player":"bob"}`, `{"id":"1","player":"bob","big":12345678901234567890}`, `{"id":"3"}`}
	file := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(documents, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	account, err := emulator.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer account.Close()
	for range 2 {
		if err := createContainers(t.Context(), account, []string{"games/results:/player:ranges=3"}, []string{"games/results=" + file}); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(account)
	defer server.Close()
	var out strings.Builder
	command := emulatorCommand("export", "games/results", "--from", server.URL)
	command.SetOut(&out)
	if err := command.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, d := range documents {
		want = append(want, normalJSON(t, d))
	}
	for line := range strings.Lines(out.String()) {
		got = append(got, normalJSON(t, line))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("exported %q, want %q", got, want)
	}
	for _, spec := range []string{"games/results", "results=x.jsonl", "games/=x.jsonl", "games/scores=" + file, "games/results=none.jsonl"} {
		if err := createContainers(t.Context(), account, nil, []string{spec}); err == nil || !strings.Contains(err.Error(), "--seed "+spec) {
			t.Errorf("--seed %s: error %v does not name it", spec, err)
		}
	}
}

// normalJSON sorts the properties of an object.
func normalJSON(t *testing.T, text string) string {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	sorted, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(sorted)
}
