package webhook_test

import (
	"fmt"
	"testing"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/webhook"
	"halley/handlers/webhook/receiver"
	"halley/trigger/triggertest"
)

// A receiver gets a message about a change. In an app the settings come from the
// environment, and the URL is a public one.
func ExampleOpen() {
	var t *testing.T // of the test function
	r, err := receiver.Start("127.0.0.1:0", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Setenv("HALLEY_WEBHOOK_URL", r.URL())
	t.Setenv("HALLEY_WEBHOOK_SECRETS", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	t.Setenv("HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT", "true") // on loopback
	entry := handlers.New("webhook", "posts each order", webhook.Open)
	handle := handlerstest.Under(t, entry, handlers.Env{Database: "shop"})
	triggertest.Deliver(t, handle, triggertest.Upsert(`{"id": "1", "customer": "ada"}`, "ada"))
	for _, m := range r.Messages() {
		fmt.Println(m.Type, string(m.Data.Document))
	}
}
