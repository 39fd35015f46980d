package app_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"halley/function/app"
	"halley/handlers"
	"halley/trigger"
)

// Settings of the function orders: HALLEY_ORDERS_SENDER.
type Settings struct {
	Sender string `default:"shop@example.com" desc:"sender of the mails"`
}

type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
}

func openOrders(_ context.Context, _ handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	return trigger.Documents(func(_ context.Context, orders []Order) error {
		for _, o := range orders {
			fmt.Println("mail from", s.Sender, "to", o.Customer)
		}
		return nil
	}), nil, nil
}

// The main function of an app.
func ExampleMain() {
	app.Main(
		handlers.New("orders", "mails the customer of each new order", openOrders),
	)
}

// A program with a main function of its own drains when its own timer says so: here,
// when a scheduler posts to it.
func ExampleOpen() {
	ctx := context.Background()
	a, err := app.Open(ctx, app.Options{Handlers: []handlers.Entry{handlers.New("orders", "mails the customer", openOrders)}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	http.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		summary, err := a.Drain(r.Context()) // returns when all changes are handled, or r's context ends
		fmt.Fprintln(w, summary.Changes, "changes", err)
	})
	log.Print(http.ListenAndServe("127.0.0.1:8080", nil))
}
