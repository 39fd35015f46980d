package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/stream"
	"halley/trigger"
	"halley/trigger/triggertest"
)

func TestPublishesInOrderOfEachKey(t *testing.T) {
	eachBroker(t, func(t *testing.T, brokers string) {
		changes := createTopic(t, brokers, nil)
		var batch []trigger.Change
		for i := range 300 {
			key := fmt.Sprint("c", i%7)
			batch = append(batch, triggertest.Upsert(order(fmt.Sprint(i), key), key))
		}
		if v := triggertest.Deliver(t, opened(t, changes.set), batch...); v.Err != nil {
			t.Fatal(v)
		}
		messages, err := stream.Encoder{Database: "db", Container: "orders"}.Messages(trigger.NewBatch(batch...))
		if err != nil {
			t.Fatal(err)
		}
		want, got := map[string]string{}, map[string]string{}
		for _, m := range messages {
			want[string(m.Key)] += " " + m.ID
		}
		byKey := kgo.StickyKeyPartitioner(nil).ForTopic(changes.name)
		for _, r := range changes.records(t, brokers) {
			if int(r.Partition) != byKey.Partition(&kgo.Record{Key: r.Key}, partitions) {
				t.Errorf("a message of key %s is in partition %d", r.Key, r.Partition)
			}
			got[string(r.Key)] += " " + header(r, "halley-id")
		}
		if len(got) != 7 {
			t.Errorf("%d keys", len(got))
		}
		for key := range want {
			if got[key] != want[key] {
				t.Errorf("messages of %s are%s, want%s", key, got[key], want[key])
			}
		}
	})
}

// With the document as key, the messages of one partition key stay in one partition, and
// a tombstone follows each delete.
func TestTombstones(t *testing.T) {
	eachBroker(t, func(t *testing.T, brokers string) {
		changes := createTopic(t, brokers, nil)
		byDocument := func(s *Settings) { s.Key, s.Tombstones = keyDocument, true }
		var batch []trigger.Change
		for i := range 20 {
			batch = append(batch, triggertest.Upsert(order(fmt.Sprint(i), "ada"), "ada"))
		}
		batch = append(batch, triggertest.Delete("7", "ada"))
		if v := triggertest.Deliver(t, opened(t, changes.set, byDocument), batch...); v.Err != nil {
			t.Fatal(v)
		}
		records := changes.records(t, brokers)
		if len(records) != 22 {
			t.Fatalf("%d records, want 22", len(records))
		}
		for _, r := range records {
			if r.Partition != records[0].Partition {
				t.Errorf("document %s is in partition %d, and another one in %d", r.Key, r.Partition, records[0].Partition)
			}
		}
		deleted, tombstone := records[20], records[21]
		if string(deleted.Key) != `["ada","7"]` || !strings.Contains(string(deleted.Value), `"op":"d"`) {
			t.Errorf("the delete is %s: %s", deleted.Key, deleted.Value)
		}
		if string(tombstone.Key) != `["ada","7"]` || tombstone.Value != nil || header(tombstone, "halley-id") != header(deleted, "halley-id") {
			t.Errorf("the tombstone is %s: %q", tombstone.Key, tombstone.Value)
		}
	})
}

func TestCompression(t *testing.T) {
	eachBroker(t, func(t *testing.T, brokers string) {
		for codec := range codecs {
			changes := createTopic(t, brokers, nil)
			handle := opened(t, changes.set, func(s *Settings) { s.Compression = codec })
			if v := triggertest.Deliver(t, handle, triggertest.Upsert(order("1", "ada"), "ada")); v.Err != nil {
				t.Errorf("%s: %v", codec, v)
			}
			if got := len(changes.records(t, brokers)); got != 1 {
				t.Errorf("%s: %d records", codec, got)
			}
		}
	})
}

func sized(id string, size int) trigger.Change {
	return triggertest.Upsert(fmt.Sprintf(`{"id":%q,"_etag":%q,"fill":%q}`, id, id, strings.Repeat("x", size)), id)
}

func TestTooLargeIsGivenUp(t *testing.T) {
	eachBroker(t, func(t *testing.T, brokers string) {
		changes := createTopic(t, brokers, nil)
		handle := opened(t, changes.set, func(s *Settings) { s.MaxMessageBytes = 20_000 })
		v := triggertest.Deliver(t, handle, sized("small", 10), sized("large", 20_000), sized("fits", 18_000))
		if !v.GivenUp || len(v.Failed) != 1 || v.Failed[0].ID() != "large" || !strings.Contains(fmt.Sprint(v.Err), "MAX_MESSAGE_BYTES is 20000") {
			t.Errorf("verdict: %v", v)
		}
		if got := len(changes.records(t, brokers)); got != 2 {
			t.Errorf("%d records, want 2", got)
		}
	})
}

// If the topic takes less than the setting says, messages that were sent together are
// refused together, so none is given up.
func TestRefusedByTheTopicIsRetried(t *testing.T) {
	eachBroker(t, func(t *testing.T, brokers string) {
		limit := "5000"
		changes := createTopic(t, brokers, map[string]*string{"max.message.bytes": &limit})
		handle := opened(t, changes.set)
		v := triggertest.Deliver(t, handle, sized("large", 20_000))
		if v.GivenUp || len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), "set MAX_MESSAGE_BYTES to the max.message.bytes of the topic") {
			t.Errorf("verdict: %v", v)
		}
		if v := triggertest.Deliver(t, handle, sized("small", 10)); v.Err != nil {
			t.Errorf("verdict after a refusal: %v", v)
		}
		if got := len(changes.records(t, brokers)); got != 1 {
			t.Errorf("%d records, want 1", got)
		}
	})
}

func TestBrokerIsDown(t *testing.T) {
	t.Parallel()
	handle := opened(t, func(s *Settings) { s.Brokers, s.PublishTimeout = "127.0.0.1:1", handlers.Interval(time.Second) })
	v := triggertest.Deliver(t, handle, sized("1", 1), sized("2", 1))
	if v.GivenUp || len(v.Failed) != 2 || !strings.Contains(fmt.Sprint(v.Err), "publish 2 changes: ") {
		t.Errorf("verdict: %v", v)
	}
}

func TestTopicIsMissing(t *testing.T) {
	t.Parallel()
	handle := opened(t, topic{brokers: embedded(t), name: "halley-missing"}.set)
	v := triggertest.Deliver(t, handle, sized("1", 1))
	if v.GivenUp || len(v.Failed) != 1 || !strings.Contains(fmt.Sprint(v.Err), "create the topic") {
		t.Errorf("verdict: %v", v)
	}
}

func TestContextHasEnded(t *testing.T) {
	t.Parallel()
	brokers := embedded(t)
	changes := createTopic(t, brokers, nil)
	handle := opened(t, changes.set)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := handle(ctx, trigger.NewBatch(sized("1", 1))); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if got := len(changes.records(t, brokers)); got != 0 {
		t.Errorf("%d records", got)
	}
}

// refuse has the broker answer produce requests for a partition with an error.
func refuse(t testing.TB, cluster *kfake.Cluster, partition int32, with *kerr.Error) {
	t.Helper()
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce := request.(*kmsg.ProduceRequest)
		response := produce.ResponseKind().(*kmsg.ProduceResponse)
		refused := false
		for _, of := range produce.Topics {
			answer := kmsg.NewProduceResponseTopic()
			answer.Topic, answer.TopicID = of.Topic, of.TopicID
			for _, p := range of.Partitions {
				part := kmsg.NewProduceResponseTopicPartition()
				part.Partition = p.Partition
				if p.Partition == partition {
					refused = true
					part.ErrorCode = with.Code
				}
				answer.Partitions = append(answer.Partitions, part)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, refused
	})
}

// If one partition takes nothing, exactly the changes of its keys are delivered again.
func TestOnePartitionFails(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := cluster.ListenAddrs()[0]
	changes := createTopic(t, brokers, nil)
	refuse(t, cluster, 0, kerr.TopicAuthorizationFailed)
	byKey := kgo.StickyKeyPartitioner(nil).ForTopic(changes.name)
	handle := opened(t, changes.set)
	keys := map[int][]string{}
	for i := range 12 {
		key := fmt.Sprint("c", i)
		p := byKey.Partition(&kgo.Record{Key: fmt.Appendf(nil, "[%q]", key)}, partitions)
		keys[p] = append(keys[p], key)
	}
	var batch []trigger.Change
	for _, key := range append(keys[0], keys[1]...) {
		batch = append(batch, triggertest.Upsert(order(key, key), key))
	}
	if len(keys[0]) == 0 || len(keys[1]) == 0 {
		t.Fatalf("keys by partition are %v", keys)
	}
	// The answer is for all partitions of a request, so each partition is sent alone.
	for _, part := range [][]trigger.Change{batch[:len(keys[0])], batch[len(keys[0]):]} {
		v := triggertest.Deliver(t, handle, part...)
		refused := part[0].ID() == keys[0][0]
		if v.GivenUp || (len(v.Failed) > 0) != refused || refused && !errors.Is(v.Err, kerr.TopicAuthorizationFailed) {
			t.Errorf("verdict: %v", v)
		}
	}
	if got := len(changes.records(t, brokers)); got != len(keys[1]) {
		t.Errorf("%d records, want %d", got, len(keys[1]))
	}
}

// A refusal that passes is retried by the client, without a duplicate.
func TestClientRetries(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	brokers := cluster.ListenAddrs()[0]
	changes := createTopic(t, brokers, nil)
	lost := 0
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if lost++; lost > 2 {
			return nil, nil, false
		}
		return nil, errors.New("connection is cut"), true
	})
	var sinks handlerstest.Sinks
	env := environment
	env.Measure = sinks.Measure
	handle := handlerstest.Under(t, handlerstest.Entry("kafka", Open, changes.set), env)
	if v := triggertest.Deliver(t, handle, sized("1", 1), sized("2", 1)); v.Err != nil {
		t.Errorf("verdict: %v", v)
	}
	if total := sinks.Of("kafka"); total.OK == 0 || total.Errors != 2 || total.Retries != 2 || total.Rows != 2 {
		t.Errorf("measured %+v", total)
	}
	if got := len(changes.records(t, brokers)); got != 2 || lost < 3 {
		t.Errorf("%d records after %d requests", got, lost)
	}
}
