package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// The line of a handler in the list of an app.
func ExampleNew() {
	e := handlers.New("greet", "greets new people", Open)
	fmt.Printf("%s %s; settings %s*\n", e.Name, e.Summary, e.Prefix())
	// Output:
	// greet greets new people; settings HALLEY_GREET_*
}

// Settings of a handler greet would be read from HALLEY_GREET_GREETING.
type Settings struct {
	Greeting string `split_words:"true" default:"hello" desc:"what to say"`
}

type Person struct {
	Name string `json:"name"`
}

// Open is all that a handler's package must have.
func Open(_ context.Context, _ handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	return trigger.Documents(func(_ context.Context, people []Person) error {
		for _, p := range people {
			fmt.Println(s.Greeting, p.Name)
		}
		return nil
	}), nil, nil
}

// A handler package in a few lines.
func Example() {
	ctx := context.Background()
	greet, _, err := Open(ctx, handlers.Env{}, Settings{Greeting: "hello"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = greet(ctx, trigger.Batch{Changes: []trigger.Change{{Document: json.RawMessage(`{"id":"1","name":"Ada"}`)}}})
	fmt.Println("error:", err)
	// Output:
	// hello Ada
	// error: <nil>
}

// A handler that writes the changes of a range at once keeps them in memory. The host has it
// write the rest before the range is released, so that nothing is delivered again.
func ExampleEnv_FollowRanges() {
	open := func(_ context.Context, env handlers.Env, _ struct{}) (trigger.Handler, func() error, error) {
		var mu sync.Mutex // ranges call at the same time
		kept := map[string][]string{}
		write := func(token string) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("written", kept[token])
			delete(kept, token)
		}
		env.FollowRanges(handlers.RangeCallbacks{
			Flush: func(_ context.Context, r trigger.RangeInfo) error {
				write(r.Range.ID)
				return nil
			},
			Closed: func(r trigger.RangeInfo, _ trigger.CloseReason, _ error) {
				mu.Lock()
				defer mu.Unlock()
				delete(kept, r.Range.ID) // of a range that was lost: its next owner delivers the changes again
			},
		})
		return func(_ context.Context, b trigger.Batch) error {
			mu.Lock()
			for _, c := range b.Changes {
				kept[b.Range.ID] = append(kept[b.Range.ID], c.ID())
			}
			full := len(kept[b.Range.ID]) >= 2
			mu.Unlock()
			if full || b.Range.Max == "" { // a replay of dead letters works on no range
				write(b.Range.ID)
				b.Checkpoint()
			}
			return nil
		}, nil, nil
	}

	// An app passes the callbacks to the host; here they are called by hand.
	ctx := context.Background()
	var callbacks handlers.RangeCallbacks
	handle, _, err := open(ctx, handlers.Env{Follow: func(c handlers.RangeCallbacks) { callbacks = c }}, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	leased := cosmos.Range{ID: "0", Max: "FF"}
	for _, id := range []string{"1", "2", "3"} {
		c := trigger.Change{Document: json.RawMessage(`{"id":"` + id + `"}`)}
		if err := handle(ctx, trigger.Batch{Range: leased, Changes: []trigger.Change{c}}); err != nil {
			fmt.Println(err)
		}
	}
	if err := callbacks.Flush(ctx, trigger.RangeInfo{Range: leased}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// written [1 2]
	// written [3]
}

// A handler that measures its requests to a sink. An app passes them to its metrics.
func ExampleEnv_Meter() {
	store := map[string]json.RawMessage{} // a sink
	open := func(_ context.Context, env handlers.Env, _ struct{}) (trigger.Handler, func() error, error) {
		meter := env.Meter("store")
		return func(_ context.Context, b trigger.Batch) error {
			began := time.Now()
			for _, c := range b.Changes {
				store[c.ID()] = c.Document
			}
			meter.Ended(began, nil)
			meter.Wrote(len(b.Changes))
			return nil
		}, nil, nil
	}

	ctx := context.Background()
	handle, _, err := open(ctx, handlers.Env{Measure: func(u handlers.SinkUse) { fmt.Printf("%s %q %d\n", u.Sink, u.Outcome, u.Rows) }}, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := handle(ctx, trigger.NewBatch(trigger.Change{Document: json.RawMessage(`{"id":"1"}`)})); err != nil {
		fmt.Println(err)
	}
	// Output:
	// store "" 0
	// store "ok" 0
	// store "" 1
}
