package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"

	"halley/handlers"
	"halley/handlers/app"
	"halley/trigger"
)

func ExampleAll() {
	for _, e := range handlers.All() {
		if e.Name == "push" {
			fmt.Printf("%s: %s; settings %s*\n", e.Name, e.Summary, e.Prefix())
		}
	}
	// Output:
	// push: sends a Web Push notification to a player who is overtaken; settings HALLEY_PUSH_*
}

// Settings of a handler greet would be read from HALLEY_GREET_GREETING.
type Settings struct {
	Greeting string `split_words:"true" default:"hello" desc:"what to say"`
}

type Person struct {
	Name string `json:"name"`
}

// Open is all that a handler's package must have. Its line in All would be
//
//	entry("greet", "greets new people", greet.Open),
func Open(_ context.Context, _ app.Env, s Settings) (trigger.Handler, func() error, error) {
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
	greet, _, err := Open(ctx, app.Env{}, Settings{Greeting: "hello"})
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
