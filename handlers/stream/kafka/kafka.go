// Package kafka publishes changes to a topic of Kafka, or of a service with its protocol
// such as Azure Event Hubs, as messages of package stream, which states the rules for
// ids, deletes, expiries and order.
//
// A batch is handled when all in-sync replicas have all its messages. The partition of a
// message is the one that Kafka's own producer selects for its partition key as key
// (murmur2), so that the messages of one key are in one partition, in order. The number
// of partitions must not be changed while keys may be redelivered.
//
// The producer is idempotent: within a process no message is stored twice by a retry of
// the client. A change that is delivered again, by this process or another one, is stored
// again, with the same id in the header halley-id and in source.id. Kafka does not drop
// it: a consumer drops ids that it has seen, or compares positions.
//
// The topic must exist. A batch fails if the brokers
// cannot be reached or do not acknowledge in time. A message that is larger than
// MAX_MESSAGE_BYTES is given up. If the topic takes less than that setting says, its
// refusal is an error like any other, because it is one for all messages that were sent
// together.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"halley/handlers"
	"halley/handlers/stream"
	"halley/trigger"
)

// Open returns the handler. It does not connect, so the brokers may start later.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	p, err := open(env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	env.OfferProbe(handlers.Probe{What: "topic " + p.topic + " at " + s.Brokers, Try: func(ctx context.Context) error { return p.probe(ctx, env.Prefix) }})
	return p.handle, p.close, nil
}

func open(env handlers.Env, s Settings) (*producer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	topic, err := s.topic(env.Database, env.ContainerName)
	if err != nil {
		return nil, err
	}
	options, err := s.options(topic)
	if err != nil {
		return nil, err
	}
	meter := env.Meter("kafka")
	if meter != nil {
		options = append(options, kgo.WithHooks(requestHook{meter}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("BROKERS or another one cannot be used: %w", err)
	}
	return &producer{
		encoder:  stream.Encoder{Database: env.Database, Container: env.ContainerName, UpsertOp: s.UpsertOp},
		client:   client,
		topic:    topic,
		settings: s,
		meter:    meter,
	}, nil
}

// producer publishes batches. It is safe for concurrent use.
type producer struct {
	encoder  stream.Encoder
	client   *kgo.Client
	topic    string
	settings Settings
	meter    *handlers.Meter
}

// requestHook measures the requests that publish records. The client repeats one that has
// failed.
type requestHook struct{ meter *handlers.Meter }

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (h requestHook) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, request kgo.BrokerE2E) {
	if key != int16(kmsg.Produce) {
		return
	}
	h.meter.Ended(time.Now().Add(-request.DurationE2E()), request.Err())
	if request.Err() != nil {
		h.meter.Retried()
	}
}

func (p *producer) handle(ctx context.Context, b trigger.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.settings.PublishTimeout))
	defer cancel()
	messages, err := p.encoder.Messages(b)
	if err != nil {
		return err
	}
	failures := p.publish(ctx, messages)
	p.meter.Wrote(stream.Published(failures))
	return stream.Verdict(messages, failures)
}

// acknowledgement is the end of one record.
type acknowledgement struct {
	message int // index
	err     error
}

// publish hands all messages to the client in order, and waits until each has ended or the
// context has. failures has the error of each message. A message that is under way when
// the context ends may still be stored.
func (p *producer) publish(ctx context.Context, messages []stream.Message) (failures []error) {
	failures = make([]error, len(messages))
	open := make([]int, len(messages))                            // records without an end, by message
	ended := make(chan acknowledgement, maxRecords*len(messages)) // so that no promise waits
	pending := 0
	for i, m := range messages {
		records := p.records(m)
		if size := sizeOf(records[0]) + batchOverhead; size > int(p.settings.MaxMessageBytes) {
			failures[i] = fmt.Errorf("%w: %d bytes with its batch, and MAX_MESSAGE_BYTES is %d", stream.ErrTooLarge, size, p.settings.MaxMessageBytes)
			continue
		}
		for _, record := range records {
			open[i]++
			pending++
			p.client.Produce(ctx, record, func(_ *kgo.Record, err error) { ended <- acknowledgement{i, explain(err)} })
		}
	}
	for ; pending > 0; pending-- {
		select {
		case one := <-ended:
			open[one.message]--
			failures[one.message] = errors.Join(failures[one.message], one.err)
		case <-ctx.Done():
			for i := range messages {
				if open[i] > 0 {
					failures[i] = errors.Join(failures[i], fmt.Errorf("no acknowledgement: %w", ctx.Err()))
				}
			}
			return failures
		}
	}
	return failures
}

// maxRecords is the number of records of a message: its own and a tombstone.
const maxRecords = 2

// records returns the record of a message, and its tombstone. Their time is that of
// publication: topics delete records by their age, and a change may be old.
func (p *producer) records(m stream.Message) []*kgo.Record {
	record := &kgo.Record{Key: m.Key, Value: m.Value, Headers: []kgo.RecordHeader{
		{Key: stream.HeaderID, Value: []byte(m.ID)}, {Key: stream.HeaderKey, Value: m.Key},
	}}
	if p.settings.Key == keyDocument {
		record.Key = m.DocumentKey()
	}
	if !m.Deleted || !bool(p.settings.Tombstones) {
		return []*kgo.Record{record}
	}
	tombstone := *record
	tombstone.Value = nil
	return []*kgo.Record{record, &tombstone}
}

func sizeOf(r *kgo.Record) int {
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

// byPartitionKey selects the partition that Kafka's own producer selects if the message's
// partition key is the key of the record.
func byPartitionKey() kgo.Partitioner {
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		byKey := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
		return func(r *kgo.Record, n int) int {
			return byKey.Partition(&kgo.Record{Key: r.Headers[len(r.Headers)-1].Value}, n)
		}
	})
}

// explain adds the fix to an error that needs one.
func explain(err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w: create the topic", err)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: set MAX_MESSAGE_BYTES to the max.message.bytes of the topic", err)
	}
	return err
}

// probeTime bounds the probe.
const probeTime = 5 * time.Second

// probe tries whether the topic exists.
func (p *producer) probe(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if err := p.client.Ping(ctx); err != nil {
		return fmt.Errorf("%w: start the brokers, or correct %sBROKERS and the settings of TLS and SASL", err, prefix)
	}
	request := kmsg.NewPtrMetadataRequest()
	topicRequest := kmsg.NewMetadataRequestTopic()
	topicRequest.Topic = &p.topic
	request.Topics = append(request.Topics, topicRequest)
	response, err := request.RequestWith(ctx, p.client)
	if err != nil {
		return fmt.Errorf("ask for topic %s: %w", p.topic, err)
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return fmt.Errorf("%w: create topic %s, or correct %sTOPIC", err, p.topic, prefix)
		}
	}
	return nil
}

// close fails messages that a call has left, and waits for their ends.
func (p *producer) close() error {
	p.client.Close()
	return nil
}
