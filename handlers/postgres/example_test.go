package postgres_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"halley/handlers/postgres"
	"halley/trigger"
)

// A handler that counts the invoices of each customer: each invoice exactly once.
func Example() {
	pool, err := pgxpool.New(context.Background(), "postgres://halley@127.0.0.1/shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	store := postgres.New(pool, pgx.Identifier{"invoices_positions"})
	var handler trigger.Handler = func(ctx context.Context, b trigger.Batch) error {
		return store.Apply(ctx, b, func(ctx context.Context, tx pgx.Tx, fresh []trigger.Change) error {
			customers := make([]string, len(fresh))
			for i, c := range fresh {
				var invoice struct{ Customer string }
				if err := c.Decode(&invoice); err != nil {
					return trigger.Skip(trigger.Failed(err, c))
				}
				customers[i] = invoice.Customer
			}
			_, err := tx.Exec(ctx, `
				INSERT INTO customers AS c (id, invoices) SELECT id, count(*) FROM unnest($1::text[]) AS id GROUP BY id ORDER BY id
				ON CONFLICT (id) DO UPDATE SET invoices = c.invoices + excluded.invoices`, customers)
			return err
		})
	}
	_ = handler // of a trigger.Function
}
