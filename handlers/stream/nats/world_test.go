//go:build natsserver

package nats

import (
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/stream"
	"halley/handlers/stream/streamtest"
	"halley/trigger"
)

// startServer starts a server with JetStream on loopback; configure may be nil.
func startServer(t testing.TB, configure func(*server.Options)) *server.Server {
	t.Helper()
	options := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}
	if configure != nil {
		configure(options)
	}
	s, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS server does not answer")
	}
	return s
}

// client connects a test to a server.
func client(t testing.TB, s *server.Server, options ...natsgo.Option) jetstream.JetStream {
	t.Helper()
	nc, err := natsgo.Connect(s.ClientURL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// createStream creates a stream of all subjects of the handler.
func createStream(t testing.TB, js jetstream.JetStream, config jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	config.Name, config.Subjects = "CHANGES", []string{"halley.>"}
	created, err := js.CreateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// messagesOf returns all messages of a stream, in its order.
func messagesOf(t testing.TB, of jetstream.Stream) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	info, err := of.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq && info.State.Msgs > 0; seq++ {
		m, err := of.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// replicaOf consumes a stream from its beginning.
func replicaOf(t testing.TB, of jetstream.Stream) any {
	t.Helper()
	replica := streamtest.NewReplica()
	for _, m := range messagesOf(t, of) {
		replica.Apply(t, m.Header.Get(jetstream.MsgIDHeader), m.Header.Get("halley-key"), m.Data)
	}
	return replica.State()
}

// setURL sets the handler's servers.
func setURL(t testing.TB, url string) {
	t.Setenv("HALLEY_NATS_URL", url)
}

var environment = handlers.Env{Database: "db", ContainerName: "orders"}

// opened opens the handler from the settings of the environment.
func opened(t testing.TB) trigger.Handler {
	t.Helper()
	return handlerstest.Under(t, handlers.New("nats", "", Open), environment)
}

func order(id, customer string) string {
	return fmt.Sprintf(`{"id":%q,"customer":%q,"_etag":"\"%s\""}`, id, customer, id)
}

func newEncoder() stream.Encoder {
	return stream.Encoder{Database: environment.Database, Container: environment.ContainerName}
}

func portOf(t testing.TB, address string) int {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return number
}
