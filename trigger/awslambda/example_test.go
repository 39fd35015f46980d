package awslambda_test

import (
	"context"
	"encoding/json"
	"fmt"

	"halley/trigger"
	"halley/trigger/awslambda"
)

type Order struct {
	ID    string  `json:"id"`
	Total float64 `json:"total"`
}

// HandleOrders is an ordinary Lambda function.
func HandleOrders(_ context.Context, orders []Order) error {
	for _, o := range orders {
		fmt.Printf("order %s: %.2f\n", o.ID, o.Total)
	}
	return nil
}

func ExampleHandler() {
	handle, err := awslambda.Handler(HandleOrders, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	// The runtime calls the handler; this example calls it with one batch.
	err = handle(context.Background(), trigger.Batch{Function: "orders", Changes: []trigger.Change{
		{Document: json.RawMessage(`{"id":"a","total":9.5}`)},
		{Document: json.RawMessage(`{"id":"b","total":20}`)},
	}})
	fmt.Println("error:", err)
	// Output:
	// order a: 9.50
	// order b: 20.00
	// error: <nil>
}

func ExampleHandler_wrongSignature() {
	_, err := awslambda.Handler(func(context.Context, Order) error { return nil }, nil)
	fmt.Println(err)
	// Output:
	// func(context.Context, awslambda_test.Order) error is not a Lambda function for documents: its event is awslambda_test.Order, which cannot hold an array of documents; take a slice of a struct, []json.RawMessage, json.RawMessage for the raw array, or any; it must look like func(context.Context, []Document) error: at most a context and the event in, at most a result and an error out
}
