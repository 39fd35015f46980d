package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/handlerstest/parallel"
	"halley/handlers/stream/streamtest"
	"halley/trigger"
)

// Most tests wait for a broker. They run at once, so each gives its handler settings that the
// environment does not have.
func TestMain(m *testing.M) {
	parallel.AtOnce(8)
	os.Exit(m.Run())
}

// eachBroker runs a test with the broker that franz-go has for tests, and with the real
// one at HALLEY_TEST_KAFKA, which scripts/kafka starts.
func eachBroker(t *testing.T, test func(t *testing.T, brokers string)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, embedded(t))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		brokers := os.Getenv("HALLEY_TEST_KAFKA")
		if brokers == "" {
			t.Skip("HALLEY_TEST_KAFKA is not set: no real Kafka to test with; scripts/kafka starts one")
		}
		test(t, brokers)
	})
}

// embedded starts a broker in the process.
func embedded(t testing.TB, options ...kfake.Opt) (brokers string) {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// topic is a topic of its own for each test.
type topic struct {
	brokers, name string
	admin         *kadm.Client
}

// set has the handler write to the topic.
func (c topic) set(s *Settings) { s.Brokers, s.Topic = c.brokers, c.name }

const partitions = 3

// createTopic creates a topic.
func createTopic(t testing.TB, brokers string, configs map[string]*string) topic {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	created := topic{brokers: brokers, name: fmt.Sprintf("halley-test-%d-%d", os.Getpid(), rand.Uint64()), admin: kadm.NewClient(client)}
	if _, err := created.admin.CreateTopic(t.Context(), partitions, 1, configs, created.name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := created.admin.DeleteTopic(ctx, created.name); err != nil {
			t.Error(err)
		}
		client.Close()
	})
	return created
}

// records returns all records of the topic, in the order of each partition.
func (c topic) records(t testing.TB, brokers string) (all []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ends, err := c.admin.ListEndOffsets(ctx, c.name)
	if err != nil {
		t.Fatal(err)
	}
	stored := int64(0)
	ends.Each(func(end kadm.ListedOffset) { stored += end.Offset })
	consumer, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics(c.name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	for int64(len(all)) < stored {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d of %d records: %v", len(all), stored, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// replica consumes the topic from its beginning.
func (c topic) replica(t testing.TB, brokers string) any {
	t.Helper()
	replica := streamtest.NewReplica()
	for _, r := range c.records(t, brokers) {
		if r.Value != nil {
			replica.Apply(t, header(r, "halley-id"), header(r, "halley-key"), r.Value)
		}
	}
	return replica.State()
}

var environment = handlers.Env{Database: "db", ContainerName: "orders"}

// opened opens the handler with changes of its default settings.
func opened(t testing.TB, changes ...func(*Settings)) trigger.Handler {
	t.Helper()
	return handlerstest.Under(t, handlerstest.Entry("kafka", Open, changes...), environment)
}

func order(id, customer string) string {
	return fmt.Sprintf(`{"id":%q,"customer":%q,"_etag":"\"%s\""}`, id, customer, id)
}
