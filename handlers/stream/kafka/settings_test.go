package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/triggertest"
)

func TestBadSettingsNameTheFix(t *testing.T) {
	good := Settings{Brokers: "127.0.0.1:9092", Topic: "halley", UpsertOp: "r", Key: keyPartition, Compression: "none", MaxMessageBytes: 1_000_000, PublishTimeout: handlers.Interval(time.Second)}
	noPEM := filepath.Join(t.TempDir(), "pem")
	if err := os.WriteFile(noPEM, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(s *Settings)
		want   string
	}{
		{"no brokers", func(s *Settings) { s.Brokers = "" }, "setting HALLEY_KAFKA_BROKERS is empty; set it to host:port"},
		{"connection string", func(s *Settings) { s.Brokers = "Endpoint=sb://a/;SharedAccessKey=hunter2" }, "setting HALLEY_KAFKA_BROKERS has an entry that is not host:port"},
		{"placeholder", func(s *Settings) { s.Topic = "{key}" }, "setting HALLEY_KAFKA_TOPIC has {key}, which stands for nothing"},
		{"characters", func(s *Settings) { s.Topic = "a b" }, `TOPIC is "a b"; a name has up to 249 letters`},
		{"key", func(s *Settings) { s.Key = "id" }, `setting HALLEY_KAFKA_KEY is "id"; set partitionkey or document`},
		{"tombstones", func(s *Settings) { s.Tombstones = true }, "setting HALLEY_KAFKA_TOMBSTONES needs KEY=document"},
		{"compression", func(s *Settings) { s.Compression = "zip" }, `COMPRESSION is "zip"; set none, gzip`},
		{"op", func(s *Settings) { s.UpsertOp = "" }, `setting HALLEY_KAFKA_UPSERT_OP is ""; set r`},
		{"size", func(s *Settings) { s.MaxMessageBytes = 1000 }, "MAX_MESSAGE_BYTES is 1000; set a number above 1024"},
		{"timeout", func(s *Settings) { s.PublishTimeout = 1 }, "PUBLISH_TIMEOUT is 1ns; set 1s or more"},
		{"file without TLS", func(s *Settings) { s.CAFile = noPEM }, "setting HALLEY_KAFKA_TLS is not set, but a file for it is"},
		{"no certificate", func(s *Settings) { s.TLS, s.CAFile = true, noPEM }, "has no certificate in PEM"},
		{"no pair", func(s *Settings) { s.TLS, s.CertFile, s.KeyFile = true, noPEM, noPEM }, "CERT_FILE and KEY_FILE are not a certificate and its key"},
		{"mechanism", func(s *Settings) { s.SASL, s.Username, s.Password = "oauth", "me", "hunter2" }, `setting HALLEY_KAFKA_SASL is "oauth"; set plain`},
		{"password alone", func(s *Settings) { s.Password = "hunter2" }, "SASL is empty, but USERNAME or PASSWORD is set"},
		{"no password", func(s *Settings) { s.SASL = "plain" }, "SASL is set; set USERNAME and PASSWORD as well"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := good
			test.change(&s)
			_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_KAFKA_"}, s)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if printed := fmt.Sprintf("%v %+v %#v", s, s, s); s.Password != "" && strings.Contains(printed, "hunter2") {
				t.Errorf("printed: %s", printed)
			}
		})
	}
}

func TestTopicOfContainer(t *testing.T) {
	s := Settings{Topic: "halley.{database}.{container}"}
	if got, err := s.topic("shop", "my orders.2"); got != "halley.shop.my_20orders_2E2" || err != nil {
		t.Errorf("topic is %q, %v", got, err)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for mechanism, name := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			brokers := embedded(t, kfake.EnableSASL(), kfake.Superuser(name, "halley", "hunter2"), kfake.SeedTopics(1, "halley.db.orders"))
			login := func(s *Settings) { s.Brokers, s.SASL, s.Username, s.Password = brokers, mechanism, "halley", "hunter2" }
			if v := triggertest.Deliver(t, opened(t, login), sized("1", 1)); v.Err != nil {
				t.Errorf("verdict: %v", v)
			}
			wrongPassword := func(s *Settings) { s.Password, s.PublishTimeout = "hunter3", handlers.Interval(time.Second) }
			v := triggertest.Deliver(t, opened(t, login, wrongPassword), sized("1", 1))
			if v.GivenUp || len(v.Failed) != 1 || strings.Contains(fmt.Sprint(v.Err), "hunter") {
				t.Errorf("verdict: %v", v)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	config, files := handlerstest.Certificate(t)
	brokers := embedded(t, kfake.TLS(config), kfake.SeedTopics(1, "halley.db.orders"))
	overTLS := func(s *Settings) {
		s.Brokers, s.TLS = brokers, true
		if s.CertFile == "" { // the broker refuses the client until the timeout
			s.PublishTimeout = handlers.Interval(time.Second)
		}
	}
	handlerstest.RequireTLS(t, "HALLEY_KAFKA_", files, func() trigger.Verdict {
		return triggertest.Deliver(t, opened(t, overTLS), sized("1", 1))
	})
}

func TestProbe(t *testing.T) {
	brokers := embedded(t, kfake.SeedTopics(1, "there"))
	probe := func(brokers, topic string) error {
		var offered handlers.Probe
		env := handlers.Env{Prefix: "HALLEY_KAFKA_", Probe: func(p handlers.Probe) { offered = p }}
		_, closer, err := Open(t.Context(), env, Settings{Brokers: brokers, Topic: topic, UpsertOp: "r", Key: keyPartition, Compression: "none", MaxMessageBytes: 1_000_000, PublishTimeout: handlers.Interval(time.Second)})
		if err != nil {
			t.Fatal(err)
		}
		defer closer()
		return offered.Try(t.Context())
	}
	if err := probe(brokers, "there"); err != nil {
		t.Error(err)
	}
	if err := probe(brokers, "missing"); err == nil || !strings.Contains(err.Error(), "create topic missing, or correct HALLEY_KAFKA_TOPIC") {
		t.Errorf("error is %v", err)
	}
	if err := probe("127.0.0.1:1", "there"); err == nil || !strings.Contains(err.Error(), "correct HALLEY_KAFKA_BROKERS") {
		t.Errorf("error is %v", err)
	}
}
