package mqtt

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	mochi "github.com/mochi-mqtt/server/v2/packets"

	"halley/handlers"
	"halley/handlers/game"
	"halley/handlers/handlerstest"
	"halley/handlers/push"
	"halley/trigger"
	"halley/trigger/triggertest"
)

var entry = handlers.New("mqtt", "", Open)

// startBroker starts a broker in this process, on an address or a free port, for the
// user ada with the password hunter2. It may publish to topics except those below
// forbidden/.
func startBroker(t testing.TB, address string) (server *mqtt.Server, at handlers.URL, stop func()) {
	t.Helper()
	return startBrokerWith(t, listeners.Config{ID: "tcp", Address: address})
}

func startBrokerWith(t testing.TB, config listeners.Config) (server *mqtt.Server, at handlers.URL, stop func()) {
	t.Helper()
	server = mqtt.New(&mqtt.Options{Logger: slog.New(slog.DiscardHandler)})
	err := server.AddHook(new(auth.Hook), &auth.Options{Ledger: &auth.Ledger{
		Auth: auth.AuthRules{{Username: "ada", Password: "hunter2", Allow: true}},
		ACL:  auth.ACLRules{{Filters: auth.Filters{"forbidden/#": auth.Deny}}, {Filters: auth.Filters{"#": auth.ReadWrite}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	listener := listeners.NewTCP(config)
	if err := server.AddListener(listener); err != nil {
		t.Fatal(err)
	}
	server.Listeners.ClientsWg.Add(1) // Close waits for it while connections still add to it, and Add from 0 would be a race
	if err := server.Serve(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		server.Listeners.ClientsWg.Done()
		// Close would take the clients' lock twice, and wait for ever if a client leaves in between.
		server.Listeners.CloseAll(func(string) {
			for _, client := range server.Clients.GetAll() {
				_ = server.DisconnectClient(client, mochi.ErrServerShuttingDown)
			}
		})
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return server, handlers.URL("mqtt://ada:hunter2@" + listener.Address()), stop
}

// eachBroker runs a test on a broker in this process and on the real one at
// HALLEY_TEST_MQTT_URL.
func eachBroker(t *testing.T, test func(t *testing.T, at handlers.URL)) {
	t.Run("embedded", func(t *testing.T) {
		_, at, _ := startBroker(t, "127.0.0.1:0")
		test(t, at)
	})
	t.Run("real", func(t *testing.T) {
		at := os.Getenv("HALLEY_TEST_MQTT_URL")
		if at == "" {
			t.Skip("HALLEY_TEST_MQTT_URL is not set: no real MQTT broker to test with")
		}
		test(t, handlers.URL(at))
	})
}

// subscriber listens to topics.
type subscriber struct {
	mu       sync.Mutex
	received []*paho.Publish
	arrived  chan struct{} // capacity 1
}

// listen subscribes until the test ends. Retained messages are received first.
func listen(t testing.TB, at handlers.URL, filter string) *subscriber {
	t.Helper()
	address, err := parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	s := &subscriber{arrived: make(chan struct{}, 1)}
	client := paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn), OnPublishReceived: []func(paho.PublishReceived) (bool, error){s.receive}})
	request := &paho.Connect{ClientID: "test-" + randomName(), KeepAlive: 30, CleanStart: true}
	if user := address.User; user != nil {
		password, _ := user.Password()
		request.UsernameFlag, request.Username, request.PasswordFlag, request.Password = true, user.Username(), true, []byte(password)
	}
	if _, err := client.Connect(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Disconnect(&paho.Disconnect{}) // the broker may be gone
		<-client.Done()
	})
	if _, err := client.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func randomName() string { return strings.ToLower(crand.Text()) }

func (s *subscriber) receive(p paho.PublishReceived) (bool, error) {
	s.mu.Lock()
	s.received = append(s.received, p.Packet)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	return true, nil
}

// wait returns when n messages were received.
func (s *subscriber) wait(t testing.TB, n int) []*paho.Publish {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		s.mu.Lock()
		got := slices.Clone(s.received)
		s.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-s.arrived:
		case <-limit:
			t.Fatalf("%d of %d messages", len(got), n)
		}
	}
}

// configure sets the settings, with topics of the test's own, which it returns.
func configure(t testing.TB, at handlers.URL) (prefix string) {
	t.Helper()
	prefix = "halley-test/" + randomName()
	t.Setenv("HALLEY_MQTT_REDIS_URL", "redis://"+miniredis.RunT(t).Addr())
	t.Setenv("HALLEY_MQTT_URL", string(at))
	t.Setenv("HALLEY_MQTT_TOPIC", prefix+"/{player}/overtaken/{game}")
	return prefix
}

// play delivers results, "ada 100" each, of a game.
func play(t testing.TB, handle trigger.Handler, name string, results ...string) trigger.Verdict {
	t.Helper()
	var changes []trigger.Change
	for i, r := range results {
		at := strings.LastIndexByte(r, ' ')
		changes = append(changes, triggertest.Upsert(fmt.Sprintf(`{"id":"%d","game":%q,"player":%q,"score":%s}`, i, name, r[:at], r[at+1:]), r[:at]))
	}
	return triggertest.Deliver(t, handle, changes...)
}

func TestOvertakenPlayerIsNotified(t *testing.T) {
	eachBroker(t, func(t *testing.T, at handlers.URL) {
		prefix := configure(t, at)
		t.Setenv("HALLEY_MQTT_TTL", "1h")
		early := listen(t, at, prefix+"/#")
		handle := handlerstest.Under(t, entry, handlers.Env{})
		for _, results := range [][]string{{"ada 100", "a/b+#% 90"}, {"bob 120"}} {
			if v := play(t, handle, "chess", results...); len(v.Failed) > 0 {
				t.Fatal(v)
			}
		}
		got := map[string]push.Message{}
		for _, p := range early.wait(t, 2) {
			var m push.Message
			if err := json.Unmarshal(p.Payload, &m); err != nil {
				t.Fatal(err)
			}
			got[strings.TrimPrefix(p.Topic, prefix)] = m
			if p.QoS != 1 || p.Properties.User.Get("tag") != m.Tag || p.Properties.ContentType != "application/json" || p.Properties.MessageExpiry == nil || *p.Properties.MessageExpiry > 3600 {
				t.Errorf("packet %v", p)
			}
		}
		if m := got["/ada/overtaken/chess"]; m.By != "bob" || m.Best != 100 || m.Score != 120 {
			t.Errorf("received %v", got)
		}
		if m := got["/a%2Fb%2B%23%25/overtaken/chess"]; m.Player != "a/b+#%" {
			t.Errorf("received %v", got)
		}
		late := listen(t, at, prefix+"/ada/#").wait(t, 1)
		if len(late) != 1 || !late[0].Retain {
			t.Errorf("retained: %v", late)
		}
	})
}

// The connection is made again after the broker has restarted; while it is away, calls
// fail and no notification is lost.
func TestBrokerRestarts(t *testing.T) {
	_, at, stop := startBroker(t, "127.0.0.1:0")
	prefix := configure(t, at)
	t.Setenv("HALLEY_MQTT_SEND_TIMEOUT", "2s")
	handle := handlerstest.Under(t, entry, handlers.Env{})
	for _, results := range [][]string{{"ada 100"}, {"bob 120"}} {
		if v := play(t, handle, "chess", results...); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	stop()
	v := play(t, handle, "chess", "cid 130")
	if len(v.Failed) != 1 || v.GivenUp || !strings.Contains(v.Err.Error(), "MQTT broker 127.0.0.1:") || strings.Contains(v.Err.Error(), "hunter2") {
		t.Fatal(v)
	}
	address, _ := parse(at)
	startBroker(t, address.Host)
	heard := listen(t, at, prefix+"/#")
	if v := play(t, handle, "chess", "cid 130"); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	heard.wait(t, 2) // ada and bob
}

func TestRefusalsOfBroker(t *testing.T) {
	_, at, _ := startBroker(t, "127.0.0.1:0")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, test := range map[string]struct {
		at    handlers.URL
		topic string
		want  string
	}{
		"wrong password":   {handlers.URL(strings.Replace(string(at), "hunter2", "hunter3", 1)), "x/{player}", "connection refused with reason code 0x86"},
		"not allowed":      {at, "forbidden/{player}", "refused it with reason code 0x87"},
		"nothing listens":  {"mqtt://127.0.0.1:1", "x/{player}", "connection refused"},
		"no answer":        {handlers.URL("mqtt://" + silent.Addr().String()), "x/{player}", "i/o timeout|deadline exceeded"},
		"not a TLS server": {handlers.URL(strings.Replace(string(at), "mqtt://", "mqtts://", 1)), "x/{player}", "EOF|tls: "},
	} {
		t.Run(name, func(t *testing.T) {
			configure(t, test.at)
			t.Setenv("HALLEY_MQTT_TOPIC", test.topic)
			t.Setenv("HALLEY_MQTT_SEND_TIMEOUT", "300ms")
			var probe handlers.Probe
			handle := handlerstest.Under(t, entry, handlers.Env{Probe: func(p handlers.Probe) {
				if strings.HasPrefix(p.What, "MQTT broker ") {
					probe = p
				}
			}})
			if v := play(t, handle, "chess", "ada 1"); len(v.Failed) > 0 {
				t.Fatal(v)
			}
			v := play(t, handle, "chess", "bob 2")
			if len(v.Failed) != 1 || v.GivenUp || !regexp.MustCompile(test.want).MatchString(v.Err.Error()) || strings.Contains(v.Err.Error(), "hunter") {
				t.Errorf("verdict %v, want %s", v, test.want)
			}
			err := probe.Try(t.Context())
			if connects := name == "not allowed"; (err == nil) != connects || err != nil && !strings.Contains(err.Error(), "start it, or correct HALLEY_MQTT_URL") {
				t.Errorf("probe: %v", err)
			}
		})
	}
}

// Whatever happens, the topic of each player that was overtaken keeps a notification,
// and the champion's has none.
func TestTopicsConverge(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/player",
		WriteOnce:    true,
		Seeds:        handlerstest.Seeds(),
		Document: func(random *rand.Rand, id, player string) any {
			return game.Result{ID: id, Game: "chess", Player: player, Score: float64(1 + random.IntN(1000))}
		},
		Open: func(t testing.TB, _ *triggertest.World) triggertest.Sink {
			server, at, _ := startBroker(t, "127.0.0.1:0")
			prefix := configure(t, at)
			handle, stop := handlerstest.Start(t, entry, handlers.Env{})
			defer func() {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}()
			if v := play(t, handle, "chess", "champion 1000000", "last 0"); len(v.Failed) > 0 {
				t.Fatal(v)
			}
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) { return handlerstest.Start(t, entry, handlers.Env{}) },
				State: func() any { // topics with a retained message
					var topics []string
					for _, p := range server.Topics.Messages(prefix + "/#") {
						topics = append(topics, strings.TrimPrefix(p.TopicName, prefix))
					}
					return []bool{slices.Contains(topics, "/last/overtaken/chess"), slices.Contains(topics, "/champion/overtaken/chess")}
				},
			}
		},
		Want: func([]json.RawMessage) any { return []bool{true, false} },
	})
}

func TestBadSettings(t *testing.T) {
	tests := []struct{ setting, value, want string }{
		{"URL", "", "URL is empty"},
		{"URL", "http://broker", "URL is http://broker, not the URL of a broker"},
		{"URL", "mqtt://me:hunter2/x@broker", "URL is [redacted], not the URL of a broker"},
		{"URL", "hunter2", "URL is [redacted], not the URL of a broker"},
		{"URL", "mqtt://me:hunter2@broker:port", "URL is [redacted], not the URL of a broker"},
		{"TOPIC", "players/#", `TOPIC is "players/#"; write a topic without + and #`},
		{"TOPIC", "players", `TOPIC is "players"; it must have {player}`},
		{"TTL", "10ms", "TTL is 10ms; it must be 1s to"},
		{"REDIS_URL", "", "REDIS_URL is empty"},
		{"TOP", "1001", "TOP is 1001"},
	}
	for _, tt := range tests {
		t.Run(tt.setting+" "+tt.value, func(t *testing.T) {
			configure(t, "mqtts://ada:hunter2@broker.example")
			t.Setenv("HALLEY_MQTT_TOPIC", "")
			t.Setenv("HALLEY_MQTT_TOPIC", "players/{player}")
			t.Setenv("HALLEY_MQTT_"+tt.setting, tt.value)
			settings, err := entry.Load()
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = entry.Open(t.Context(), handlers.Env{}, settings)
			if err == nil || !strings.HasPrefix(err.Error(), "open handler mqtt: setting HALLEY_MQTT_"+tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
			if text := fmt.Sprintf("%v %+v %#v %x", settings, settings, settings, settings.(*Settings).URL); strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
				t.Errorf("settings print the password: %s", text)
			}
		})
	}
}

// A call that ends does not wait for a connection that another call makes.
func TestEndedContext(t *testing.T) {
	address, err := parse("mqtt://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(address, nil, "halley", time.Minute)
	b.slot <- struct{}{} // the other call
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.publish(ctx, message{topic: "x", ttl: time.Second}); err == nil || !strings.Contains(err.Error(), "no connection: context canceled") {
		t.Error(err)
	}
	b.close()
}

func TestTLS(t *testing.T) {
	config, files := handlerstest.Certificate(t)
	_, at, _ := startBrokerWith(t, listeners.Config{ID: "tcp", Address: "127.0.0.1:0", TLSConfig: config})
	configure(t, handlers.URL(strings.Replace(at.Reveal(), "mqtt://", "mqtts://", 1)))
	if v := play(t, handlerstest.Under(t, entry, handlers.Env{}), "chess", "ada 100"); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	score := 100
	handlerstest.RequireTLS(t, "HALLEY_MQTT_", files, func() trigger.Verdict {
		score++
		return play(t, handlerstest.Under(t, entry, handlers.Env{}), "chess", fmt.Sprintf("bob %d", score))
	})
}
