package handlerstest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Settings are read from HALLEY_COPY_CONTAINER_NAME and HALLEY_COPY_LIMIT.
type Settings struct {
	ContainerName string         `split_words:"true" desc:"container of the copies; required"`
	Limit         handlers.Count `default:"3" desc:"greatest length of an id"`
}

var (
	entry     = handlers.New("copy", "copies documents to another container", open)
	errClosed = errors.New("closed")
	errLong   = errors.New("id is too long")
)

// open is the Open of a handler that copies documents by their id.
func open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	if s.ContainerName == "" {
		return nil, nil, errors.New("setting " + env.Prefix + "CONTAINER_NAME is empty; name a container")
	}
	copies := env.Container(env.Database, s.ContainerName)
	handle := func(ctx context.Context, b trigger.Batch) error {
		for _, c := range b.Changes {
			if len(c.ID()) > int(s.Limit) {
				return trigger.Skip(trigger.Failed(errLong, c))
			}
			if _, err := copies.Upsert(ctx, cosmos.NewPartitionKey(c.ID()), c.Document); err != nil {
				return err
			}
		}
		return nil
	}
	return handle, func() error { return errClosed }, nil
}

func TestHandlerIsOpenedFromSettings(t *testing.T) {
	t.Setenv("HALLEY_COPY_CONTAINER_NAME", "copies")
	w := triggertest.NewWorld(t, nil)
	if err := w.Account().CreateContainer(triggertest.Database, "copies", "/id", 1); err != nil {
		t.Fatal(err)
	}
	handler, stop := handlerstest.Start(t, entry, handlerstest.Env(w))
	v := triggertest.Deliver(t, handler, triggertest.Upsert(`{"id":"abc"}`), triggertest.Upsert(`{"id":"abcd"}`))
	if v.String() != `1 handled, 1 given up ["abcd"]: 1 changes failed: id is too long` {
		t.Errorf("verdict: %v", v)
	}
	if _, err := w.Client().Container(triggertest.Database, "copies").Read(t.Context(), "abc", cosmos.NewPartitionKey("abc")); err != nil {
		t.Error(err)
	}
	if err := stop(); !errors.Is(err, errClosed) {
		t.Errorf("stop returned %v", err)
	}
}

// A setting that the entry changes counts, and the others are as they were read.
func TestEntryChangesSettings(t *testing.T) {
	t.Parallel()
	w := triggertest.NewWorld(t, nil)
	if err := w.Account().CreateContainer(triggertest.Database, "changed", "/id", 1); err != nil {
		t.Fatal(err)
	}
	changed := handlerstest.Entry("copy", open, func(s *Settings) { s.ContainerName = "changed" })
	handler, stop := handlerstest.Start(t, changed, handlerstest.Env(w))
	v := triggertest.Deliver(t, handler, triggertest.Upsert(`{"id":"abc"}`), triggertest.Upsert(`{"id":"abcd"}`))
	if len(v.Handled) != 1 || len(v.Failed) != 1 || v.Failed[0].ID() != "abcd" {
		t.Errorf("verdict: %v", v)
	}
	if err := stop(); !errors.Is(err, errClosed) {
		t.Errorf("stop returned %v", err)
	}
}

// The example of the documentation: a copy in another container of the account, which
// must also hold if a document is written once only.
func TestCopiesConverge(t *testing.T) {
	t.Setenv("HALLEY_COPY_CONTAINER_NAME", "copies")
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/key",
		WriteOnce:    true,
		Document:     func(_ *rand.Rand, id, key string) any { return map[string]string{"id": id, "key": key} },
		Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
			if err := w.Account().CreateContainer(triggertest.Database, "copies", "/id", 1); err != nil {
				t.Fatal(err)
			}
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) {
					handler, _ := handlerstest.Start(t, entry, handlerstest.Env(w))
					return handler, nil
				},
				State: func() any {
					ids := map[string]bool{}
					for page, err := range w.Client().Container(triggertest.Database, "copies").Query(t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
						if err != nil {
							t.Fatal(err)
						}
						for _, document := range page.Items {
							ids[string(cosmos.Property(document, "id"))] = true
						}
					}
					return ids
				},
			}
		},
	})
}

func TestUnusableSettingsFailTheTest(t *testing.T) {
	for want, settings := range map[string]map[string]string{
		"setting HALLEY_COPY_CONTAINER_NAME is empty":                                      nil,
		`setting HALLEY_COPY_LIMIT is "many"`:                                              {"HALLEY_COPY_LIMIT": "many"},
		"asks for container /copies: set Env.Container, for example with handlerstest.Env": {"HALLEY_COPY_CONTAINER_NAME": "copies"},
		"close handler copy: closed":                                                       {"HALLEY_COPY_CONTAINER_NAME": "copies"},
	} {
		t.Run(want, func(t *testing.T) {
			for name, value := range settings {
				t.Setenv(name, value)
			}
			f := &failures{TB: t}
			var working sync.WaitGroup
			working.Go(func() { handlerstest.Under(f, entry, handlers.Env{}) })
			working.Wait()
			for _, cleanup := range f.cleanups {
				cleanup()
			}
			if found := strings.Join(f.texts, "\n"); !strings.Contains(found, want) {
				t.Errorf("failures: %s", found)
			}
		})
	}
}

// failures is a test that records its failures.
type failures struct {
	testing.TB
	texts    []string
	cleanups []func()
}

func (f *failures) Cleanup(cleanup func()) { f.cleanups = append(f.cleanups, cleanup) }
func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}
func (f *failures) Fatal(args ...any) {
	f.Errorf("%s", fmt.Sprint(args...))
	runtime.Goexit()
}
