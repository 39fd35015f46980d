//go:build natsserver

package nats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

func TestPublishesInOrderOfEachKey(t *testing.T) {
	s := startServer(t, nil)
	changes := createStream(t, client(t, s), jetstream.StreamConfig{})
	setURL(t, s.ClientURL())
	var batch []trigger.Change
	for i := range 60 {
		batch = append(batch, triggertest.Upsert(order(fmt.Sprint(i), fmt.Sprint("c", i%7)), fmt.Sprint("c", i%7)))
	}
	if v := triggertest.Deliver(t, opened(t), batch...); v.Err != nil {
		t.Fatal(v)
	}
	ids := map[string][]string{}
	for _, m := range messagesOf(t, changes) {
		if m.Subject != "halley.db.orders" {
			t.Errorf("subject is %s", m.Subject)
		}
		key := m.Header.Get("halley-key")
		ids[key] = append(ids[key], m.Header.Get("Nats-Msg-Id"))
	}
	if len(ids) != 7 {
		t.Errorf("%d keys", len(ids))
	}
	want := map[string][]string{}
	messages, err := newEncoder().Messages(trigger.NewBatch(batch...))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		want[string(m.Key)] = append(want[string(m.Key)], m.ID)
	}
	for key := range want {
		if got := strings.Join(ids[key], " "); got != strings.Join(want[key], " ") {
			t.Errorf("messages of %s are %s", key, got)
		}
	}
}

func TestRedeliveryIsDropped(t *testing.T) {
	s := startServer(t, nil)
	changes := createStream(t, client(t, s), jetstream.StreamConfig{})
	setURL(t, s.ClientURL())
	handle := opened(t)
	for epoch := range int64(3) {
		call := triggertest.Call{Epoch: epoch + 1}
		if v := call.Deliver(t, handle, triggertest.Upsert(order("1", "ada"), "ada"), triggertest.Delete("2", "ada")); v.Err != nil {
			t.Fatal(v)
		}
	}
	if got := len(messagesOf(t, changes)); got != 2 {
		t.Errorf("%d messages are stored, want 2", got)
	}
}

func TestSubjectPerKey(t *testing.T) {
	s := startServer(t, nil)
	changes := createStream(t, client(t, s), jetstream.StreamConfig{})
	setURL(t, s.ClientURL())
	t.Setenv("HALLEY_NATS_SUBJECT", "halley.{container}.{key}")
	long := strings.Repeat("x", maxSubject)
	v := triggertest.Deliver(t, opened(t),
		triggertest.Upsert(order("1", "a"), "a b.c>\n*{"), triggertest.Upsert(order("2", "a"), "tenant", 7), triggertest.Upsert(order("3", "a"), ""),
		triggertest.Upsert(order("4", "a"), "é%"), triggertest.Upsert(order("5", "a"), long))
	if len(v.Failed) != 1 || !v.GivenUp || v.Failed[0].ID() != "5" {
		t.Errorf("verdict: %v", v)
	}
	found := map[string]bool{}
	for _, m := range messagesOf(t, changes) {
		found[m.Subject] = true
	}
	for _, want := range []string{"halley.orders.a%20b%2Ec%3E%0A%2A%7B", "halley.orders.tenant.7", "halley.orders.%", "halley.orders.é%25"} {
		if !found[want] {
			t.Errorf("no message with subject %s in %v", want, found)
		}
	}
}

func TestTooLargeIsGivenUp(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.MaxPayload = 64 << 10 })
	js := client(t, s)
	changes := createStream(t, js, jetstream.StreamConfig{MaxMsgSize: 32 << 10})
	setURL(t, s.ClientURL())
	document := func(id string, size int) trigger.Change {
		return triggertest.Upsert(fmt.Sprintf(`{"id":%q,"_etag":"%s","fill":%q}`, id, id, strings.Repeat("x", size)), id)
	}
	v := triggertest.Deliver(t, opened(t), document("small", 10), document("server", 70<<10), document("stream", 40<<10), document("other", 20))
	if !v.GivenUp || len(v.Failed) != 2 || v.Failed[0].ID() != "server" || v.Failed[1].ID() != "stream" {
		t.Errorf("verdict: %v", v)
	}
	for _, want := range []string{"the servers take 65536", "more than the stream takes"} {
		if !strings.Contains(fmt.Sprint(v.Err), want) {
			t.Errorf("error is %v, want %s", v.Err, want)
		}
	}
	if got := len(messagesOf(t, changes)); got != 2 {
		t.Errorf("%d messages are stored, want 2", got)
	}
}

func TestFailures(t *testing.T) {
	change := triggertest.Upsert(order("1", "ada"), "ada")
	t.Run("no stream", func(t *testing.T) {
		s := startServer(t, nil)
		setURL(t, s.ClientURL())
		v := triggertest.Deliver(t, opened(t), change)
		if v.GivenUp || len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), `no stream of JetStream takes subject "halley.db.orders": create one`) {
			t.Errorf("verdict: %v", v)
		}
	})
	t.Run("server is down, then up", func(t *testing.T) {
		s := startServer(t, nil)
		port := s.Addr().String()
		s.Shutdown()
		s.WaitForShutdown()
		setURL(t, "nats://"+port)
		handle := opened(t)
		v := untilExplained(t, handle, change)
		if v.GivenUp || len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), "no servers available") {
			t.Errorf("verdict: %v", v)
		}
		again := startServer(t, func(o *server.Options) { o.Port = portOf(t, port) })
		changes := createStream(t, client(t, again), jetstream.StreamConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for handle(ctx, trigger.NewBatch(change)) != nil {
			if ctx.Err() != nil {
				t.Fatal("the handler does not connect again")
			}
			time.Sleep(50 * time.Millisecond) // sleep: a host waits between attempts, too
		}
		if got := len(messagesOf(t, changes)); got != 1 {
			t.Errorf("%d messages are stored", got)
		}
	})
	t.Run("wrong token", func(t *testing.T) {
		s := startServer(t, func(o *server.Options) { o.Authorization = "hunter2" })
		setURL(t, s.ClientURL())
		t.Setenv("HALLEY_NATS_TOKEN", "hunter3")
		v := untilExplained(t, opened(t), change)
		if got := strings.ToLower(fmt.Sprint(v.Err)); len(v.Failed) != 1 || !strings.Contains(got, "authorization violation") || strings.Contains(got, "hunter") {
			t.Errorf("verdict: %v", v)
		}
	})
	t.Run("context has ended", func(t *testing.T) {
		s := startServer(t, nil)
		changes := createStream(t, client(t, s), jetstream.StreamConfig{})
		setURL(t, s.ClientURL())
		handle := opened(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := handle(ctx, trigger.NewBatch(change)); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		if got := len(messagesOf(t, changes)); got != 0 {
			t.Errorf("%d messages are stored", got)
		}
	})
}

// untilExplained delivers until the error gives the reason of the client, which tells it
// a moment after the first attempt to connect has failed.
func untilExplained(t *testing.T, handle trigger.Handler, change trigger.Change) (v trigger.Verdict) {
	t.Helper()
	for range 200 {
		v = triggertest.Deliver(t, handle, change)
		if strings.Contains(fmt.Sprint(v.Err), "the last attempt to connect failed") {
			break
		}
		time.Sleep(10 * time.Millisecond) // sleep: a host waits between attempts, too
	}
	return v
}

// If a stream refuses one message of a key, the later ones of that key are not published.
func TestNothingPassesAFailedMessage(t *testing.T) {
	s := startServer(t, nil)
	changes := createStream(t, client(t, s), jetstream.StreamConfig{MaxMsgs: 2, Discard: jetstream.DiscardNew})
	setURL(t, s.ClientURL())
	var batch []trigger.Change
	for _, id := range []string{"1", "2", "3", "4"} {
		batch = append(batch, triggertest.Upsert(order(id, "ada"), "ada"))
	}
	v := triggertest.Deliver(t, opened(t), batch...)
	if v.GivenUp || len(v.Failed) != 2 || v.Failed[0].ID() != "3" || v.Failed[1].ID() != "4" {
		t.Errorf("verdict: %v", v)
	}
	if got := len(messagesOf(t, changes)); got != 2 {
		t.Errorf("%d messages are stored", got)
	}
}

func TestLogin(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.Username, o.Password = "halley", "p@ss" })
	address := strings.TrimPrefix(s.ClientURL(), "nats://")
	setURL(t, "nats://halley:p%40ss@"+address)
	handlerstest.Under(t, handlers.New("nats", "", Open), environment)
	if v := triggertest.Deliver(t, opened(t), triggertest.Upsert(order("1", "a"), "a")); !strings.Contains(fmt.Sprint(v.Err), "no stream") {
		t.Errorf("the login failed: %v", v)
	}
}

func TestTLS(t *testing.T) {
	config, files := handlerstest.Certificate(t)
	s := startServer(t, func(o *server.Options) { o.TLSConfig = config })
	changes := createStream(t, client(t, s, natsgo.RootCAs(files.CA), natsgo.ClientCert(files.Cert, files.Key)), jetstream.StreamConfig{})
	setURL(t, "tls://"+s.Addr().String())
	handlerstest.RequireTLS(t, "HALLEY_NATS_", files, func() trigger.Verdict {
		return triggertest.Deliver(t, opened(t), triggertest.Upsert(order("1", "a"), "a"))
	})
	if got := len(messagesOf(t, changes)); got != 1 {
		t.Errorf("%d messages are stored", got)
	}
}

func TestProbe(t *testing.T) {
	s := startServer(t, nil)
	js := client(t, s)
	probe := func(url string) error {
		var offered handlers.Probe
		env := handlers.Env{Prefix: "HALLEY_NATS_", Database: "db", ContainerName: "orders", Probe: func(p handlers.Probe) { offered = p }}
		_, closer, err := Open(t.Context(), env, Settings{URL: []handlers.URL{handlers.URL(url)}, Subject: "halley.{container}", UpsertOp: "r", PublishTimeout: handlers.Interval(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		defer closer()
		if strings.Contains(offered.What, "hunter2") {
			t.Errorf("the probe prints the password: %s", offered.What)
		}
		return offered.Try(t.Context())
	}
	if err := probe(s.ClientURL()); err == nil || !strings.Contains(err.Error(), `no stream takes subject "halley.orders": create one, or correct HALLEY_NATS_SUBJECT`) {
		t.Errorf("error is %v", err)
	}
	createStream(t, js, jetstream.StreamConfig{})
	if err := probe(s.ClientURL()); err != nil {
		t.Error(err)
	}
	if err := probe("nats://me:hunter2@127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "correct HALLEY_NATS_URL") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}

func TestNKey(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "user.nk")
	if err := os.WriteFile(file, seed, 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} })
	setURL(t, s.ClientURL())
	t.Setenv("HALLEY_NATS_NKEY_FILE", file)
	if v := triggertest.Deliver(t, opened(t), triggertest.Upsert(order("1", "a"), "a")); !strings.Contains(fmt.Sprint(v.Err), "no stream") {
		t.Errorf("the login failed: %v", v)
	}
}
