package cosmos_test

import (
	"context"
	"encoding/json"
	"fmt"

	oncecosmos "halley/handlers/once/cosmos"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// A handler that counts the orders of each customer in a document of that customer. Orders
// and counts are partitioned by the customer.
func Example() {
	credential, err := cosmos.KeyCredential("a2V5")
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := cosmos.NewClient("https://example.documents.azure.com/", credential, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	type count struct {
		ID       string `json:"id"`
		Customer any    `json:"customer"`
		Orders   int    `json:"orders"`
	}
	counts := client.Container("shop", "counts")
	store := oncecosmos.New(counts, "orders", ownerOf)
	var handler trigger.Handler = func(ctx context.Context, b trigger.Batch) error {
		return store.Apply(ctx, b, func(ctx context.Context, tx *cosmos.Transaction, fresh []trigger.Change) error {
			customer := ownerOf(fresh[0])
			n := count{ID: "orders", Customer: customer[0]}
			stored, err := counts.Read(ctx, n.ID, cosmos.NewPartitionKey(customer...))
			switch {
			case cosmos.IsDocumentNotFound(err):
				n.Orders = len(fresh)
				tx.Create(n)
				return nil
			case err != nil:
				return err
			}
			if err := json.Unmarshal(stored.Body, &n); err != nil {
				return err
			}
			n.Orders += len(fresh)
			tx.Replace(n.ID, n, stored.ETag)
			return nil
		})
	}
	_ = handler // of a trigger.Function
}
