package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"

	"example.com/ordermail/mailer"
)

// startMailer starts a mailer and sets the settings of the handler.
func startMailer(t testing.TB) *mailer.Mailer {
	t.Helper()
	m, err := mailer.New(t.TempDir(), devSecret)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	t.Setenv("HALLEY_WEBHOOK_URL", server.URL)
	t.Setenv("HALLEY_WEBHOOK_SECRETS", devSecret)
	t.Setenv("HALLEY_WEBHOOK_EVENT", "order")
	t.Setenv("HALLEY_WEBHOOK_ALLOW_PRIVATE_ENDPOINT", "true")
	return m
}

func outbox(t testing.TB, m *mailer.Mailer) []string {
	t.Helper()
	mails, err := m.Outbox()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(mails)
	return mails
}

// The story of the app: each status of an order is mailed once, although hosts die in the
// middle of a batch, and an order without an address is dead-lettered.
func TestEachStatusIsMailedOnce(t *testing.T) {
	m := startMailer(t)
	filter, err := trigger.ParseFilter(statuses)
	if err != nil {
		t.Fatal(err)
	}
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer", Function: trigger.Function{Filter: filter}})
	w.Put(`{"id":"1","customer":"ada@example.com","status":"placed","total":12.5}`)
	w.Put(`{"id":"2","customer":"nobody","status":"placed","total":1}`)
	w.Put(`{"id":"3","customer":"ada@example.com","status":"draft","total":3}`)
	handle := handlerstest.Under(t, mailApp().Handlers[0], handlerstest.Env(w))
	var first *triggertest.Host
	first = w.Host(func(ctx context.Context, b trigger.Batch) error {
		err := handle(ctx, b)
		first.Kill() // before the checkpoint: everything is delivered again
		return err
	})
	first.Drain()
	second := w.Host(handle)
	second.Drain()
	w.Put(`{"id":"1","customer":"ada@example.com","status":"sent","total":12.5}`)
	second.Drain()
	want := []string{"ada@example.com: Your order 1 is placed", "ada@example.com: Your order 1 is sent"}
	if d := cmp.Diff(want, outbox(t, m)); d != "" {
		t.Error(d)
	}
	letters := w.DeadLetters()
	if len(letters) != 1 || letters[0].DocumentID != "2" || !strings.Contains(letters[0].Error, "answered 422") {
		t.Errorf("dead letters: %v", letters)
	}
}

// Other senders are refused.
func TestMailerVerifiesSignatures(t *testing.T) {
	m := startMailer(t)
	t.Setenv("HALLEY_WEBHOOK_SECRETS", "whsec_YW5vdGhlciBzZWNyZXQgb2YgMzIgYnl0ZXMhISEhISE=")
	handle := handlerstest.Under(t, mailApp().Handlers[0], handlerstest.Env(triggertest.NewWorld(t, nil)))
	v := triggertest.Deliver(t, handle, triggertest.Upsert(`{"id":"1","customer":"ada@example.com","status":"placed"}`, "1"))
	if len(v.Failed) != 1 || v.GivenUp || !strings.Contains(v.Err.Error(), "answered 401 "+http.StatusText(401)) || len(outbox(t, m)) != 0 {
		t.Errorf("%v, outbox %q", v, outbox(t, m))
	}
}
