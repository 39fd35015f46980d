package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"

	"halley/handlers"
	"halley/trigger"
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
