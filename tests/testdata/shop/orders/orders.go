// Package orders handles orders. A line in a file stands for a mail.
package orders

import (
	"context"
	"fmt"
	"os"

	"halley/handlers"
	"halley/trigger"
)

// Settings are HALLEY_ORDERS_OUTBOX and HALLEY_ORDERS_GREETING.
type Settings struct {
	Outbox   string `required:"true" desc:"file that the mails are appended to"`
	Greeting string `default:"hello" desc:"first word of a mail"`
}

// Order is a document of the monitored container.
type Order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
}

// Open opens the handler.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	out, err := os.OpenFile(s.Outbox, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %sOUTBOX: %w", env.Prefix, err)
	}
	return trigger.Documents(func(_ context.Context, orders []Order) error {
		for _, o := range orders {
			if _, err := fmt.Fprintf(out, "%s %s: order %s\n", s.Greeting, o.Customer, o.ID); err != nil {
				return err
			}
		}
		return nil
	}), out.Close, nil
}
