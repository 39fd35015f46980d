package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// orders is an app whose handler tells of the documents that it gets. It has no load.
func orders(handled chan<- string) *Program {
	type settings struct {
		Sender string `default:"shop" desc:"sender"`
	}
	p := newProgram("shop", handlers.New("orders", "tells of orders", func(context.Context, handlers.Env, settings) (trigger.Handler, func() error, error) {
		return func(ctx context.Context, b trigger.Batch) error {
			for _, c := range b.Changes {
				select {
				case handled <- versionedOf(c.Document).ID:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		}, nil, nil
	}))
	p.Containers = []Container{{Name: "orders", PartitionKey: []string{"/customer"}, Ranges: 2, Seed: []any{map[string]any{"id": "seed", "customer": "ada"}}}}
	return p
}

// startDev runs dev until the test ends, and returns its output.
func startDev(t *testing.T, of *Program, o runFlags) *apptest.Lines {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var out apptest.Lines
	done := make(chan error, 1)
	go func() { done <- develop(ctx, of, o, &out, &out) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
	return &out
}

func expect(t *testing.T, handled <-chan string, want ...string) {
	t.Helper()
	var got []string
	for range want {
		select {
		case id := <-handled:
			got = append(got, id)
		case <-time.After(apptest.Patience):
			t.Fatalf("handled %v, want %v", got, want)
		}
	}
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("handled %v, want %v", got, want)
	}
}

// TestDevTakesWritesOfOtherPrograms: with the connection string that dev prints, a
// client writes over the network, and the handler has the document, in the long form within
// a second.
func TestDevTakesWritesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	handled := make(chan string, 10)
	out := startDev(t, orders(handled), runFlags{Rate: 1, Hosts: 1, Seeds: []string{}})
	expect(t, handled, "seed")
	found := regexp.MustCompile("AccountEndpoint=http://127.0.0.1:[0-9]+/;AccountKey=.*;").FindString(out.String())
	endpoint, credential, err := cosmos.ParseConnectionString(found)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	client, err := cosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		t.Fatal(err)
	}
	var took []time.Duration
	for i := range 5 {
		began := time.Now()
		id := fmt.Sprint("posted-", i)
		if _, err := client.Container("shop", "orders").Create(t.Context(), cosmos.NewPartitionKey("bob"), []byte(fmt.Sprintf(`{"id":%q,"customer":"bob"}`, id))); err != nil {
			t.Fatal(err)
		}
		expect(t, handled, id)
		took = append(took, time.Since(began))
	}
	if slices.Sort(took); handlerstest.IsLong() && took[2] > time.Second {
		t.Errorf("from the write to the handler: %v", took)
	}
}

// TestDevFollowsFiles: documents of files are written once, lines that are added while
// dev runs are written, too, and a line that is wrong is named.
func TestDevFollowsFiles(t *testing.T) {
	apptest.CleanEnv(t, nil)
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("dev/orders.jsonl", "{\"id\":\"1\",\"customer\":\"ada\"}\n\n{\"id\":\"2\"}\n")
	handled := make(chan string, 10)
	t.Run("run", func(t *testing.T) {
		out := startDev(t, orders(handled), runFlags{Rate: 1, Hosts: 1, Data: filepath.Join(dir, "account")})
		expect(t, handled, "seed", "1", "2")
		write("dev/orders.jsonl", "{\"id\":\"1\",\"customer\":\"ada\"}\n{\"id\":\"2\",\"total\":5}\nnonsense\n{\"id\":\"3\"}\n")
		expect(t, handled, "2", "3")
		for !strings.Contains(out.String(), "2 documents of dev/orders.jsonl written") {
			time.Sleep(time.Millisecond) // sleep: waits for the output of another goroutine
		}
		if !strings.Contains(out.String(), "dev/orders.jsonl:3: not a JSON object") {
			t.Errorf("the wrong line is not named:\n%s", out.String())
		}
	})
	t.Run("again", func(t *testing.T) {
		write("more.jsonl", `{"id":"4"}`)
		write("dev/orders.jsonl", "{\"id\":\"1\",\"customer\":\"ada\"}\n")
		startDev(t, orders(handled), runFlags{Rate: 1, Hosts: 1, Data: filepath.Join(dir, "account"), Seeds: []string{"dev/orders.jsonl", "orders=more.jsonl"}})
		expect(t, handled, "4") // the others are there
	})
	for name, test := range map[string]struct {
		seed, text, says string
	}{
		"no container": {"unknown.jsonl", "{}", "the app has no container unknown: name the file after one of orders"},
		"missing file": {"orders=missing.jsonl", "", "missing.jsonl"},
		"bad line":     {"orders=bad.jsonl", "{\"id\":\"1\"}\n[]", "bad.jsonl:2: not a JSON object"},
		"no id":        {"orders=bad.jsonl", "{}", "bad.jsonl:1:"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, file, _ := strings.Cut(test.seed, "="); test.text != "" && file != "" {
				write(file, test.text)
			}
			err := develop(t.Context(), orders(handled), runFlags{Rate: 1, Hosts: 1, Seeds: []string{test.seed}}, &bytes.Buffer{}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %s", err, test.says)
			}
		})
	}
}

func TestKeyOfDocuments(t *testing.T) {
	document := []byte(`{"id":"1","n":2,"on":true,"none":null,"deep":{"er":"x"},"list":[1]}`)
	for paths, want := range map[string]string{
		"/id": `["1"]`, "/n": `[2]`, "/on": `[true]`, "/none": `[null]`, "/deep/er": `["x"]`, "/missing": `[{}]`, "/id/deeper": `[{}]`, "/deep": `[{}]`, "/list": `[{}]`,
		"/id,/n": `["1",2]`, `/"id"`: `["1"]`,
	} {
		key, err := keyOf(document, strings.Split(paths, ","))
		if err != nil || key.String() != want {
			t.Errorf("%s: %s, %v, want %s", paths, key, err, want)
		}
	}
	if _, err := keyOf([]byte("3"), []string{"/id"}); err == nil {
		t.Error("a number has a key")
	}
}

// TestDevListensElsewhereIfItsPortIsTaken: but not if the port was asked for.
func TestDevListensElsewhereIfItsPortIsTaken(t *testing.T) {
	apptest.CleanEnv(t, nil)
	t.Chdir(t.TempDir())
	handled := make(chan string, 10)
	first, err := openWorld(t.Context(), orders(handled), runFlags{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := openWorld(t.Context(), orders(handled), runFlags{})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if first.account.Endpoint() == second.account.Endpoint() {
		t.Errorf("both listen at %s", first.account.Endpoint())
	}
	taken := strings.TrimSuffix(strings.TrimPrefix(second.account.Endpoint(), "http://"), "/")
	if third, err := openWorld(t.Context(), orders(handled), runFlags{Addr: taken}); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("a third at %s: %v, %v", taken, third, err)
	}
}

// A change that fails in all its attempts is dead-lettered, and the verdict says so.
func TestDevTellsOfDeadLetters(t *testing.T) {
	t.Parallel()
	of := orders(nil)
	of.Services = presets("HALLEY_MAX_ATTEMPTS", "2")
	of.Source.Handlers = []handlers.Entry{handlers.New("orders", "fails", func(context.Context, handlers.Env, struct{}) (trigger.Handler, func() error, error) {
		return func(context.Context, trigger.Batch) error { return fmt.Errorf("no customer") }, nil, nil
	})}
	var out, log bytes.Buffer
	if err := develop(t.Context(), of, runFlags{Rate: 1, Hosts: 1, For: time.Second, Seeds: []string{}, JSON: true}, &out, &log); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), log.String())
	}
	var sum runSummary
	if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
		t.Fatal(err)
	}
	if said := sum.verdict(); sum.DeadLettered != 1 || !strings.Contains(said[len(said)-1], "dead-lettered after its last attempt (1)") || !strings.Contains(log.String(), "no customer") {
		t.Errorf("verdict %q\n%s", said, log.String())
	}
}

// Services preset settings of every type that a handler may have.
func TestServicesPresetAllTypesOfSettings(t *testing.T) {
	type settings struct {
		Columns []string          `desc:"columns"`
		Limit   int               `default:"3" desc:"limit"`
		Fast    bool              `desc:"fast"`
		Wait    time.Duration     `desc:"wait"`
		Delay   handlers.Interval `desc:"delay"`
		Name    handlers.Secret   `desc:"name"`
	}
	t.Parallel()
	opened := make(chan settings, 1)
	shop := newProgram("shop", handlers.New("orders", "tells of its settings", func(_ context.Context, _ handlers.Env, s settings) (trigger.Handler, func() error, error) {
		opened <- s
		return func(context.Context, trigger.Batch) error { return nil }, nil, nil
	}))
	shop.Services = func(context.Context) (*Services, error) {
		return &Services{Settings: map[string]string{
			"HALLEY_ORDERS_COLUMNS": `a="b",c`, "HALLEY_ORDERS_LIMIT": "7", "HALLEY_ORDERS_FAST": "true",
			"HALLEY_ORDERS_WAIT": "2s", "HALLEY_ORDERS_DELAY": "3s", "HALLEY_ORDERS_NAME": "x",
		}}, nil
	}
	startDev(t, shop, runFlags{Addr: "127.0.0.1:0", Rate: 1, Hosts: 1, Seeds: []string{}, Page: "off"})
	want := settings{Columns: []string{`a="b"`, "c"}, Limit: 7, Fast: true, Wait: 2 * time.Second, Delay: handlers.Interval(3 * time.Second), Name: "x"}
	if got := <-opened; !reflect.DeepEqual(got, want) {
		t.Errorf("settings %+v", got)
	}
}
