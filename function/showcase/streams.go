package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"halley/function/app"
)

const (
	subject   = "halley." + database + "." + results
	startTime = 10 * time.Second // for a server

	topicPartitions = 4
)

// startNATS starts a NATS server with JetStream, whose stream keeps all messages.
func startNATS(s *stage) (*part, error) {
	directory, err := os.MkdirTemp("", "halley-nats")
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { return os.RemoveAll(directory) })
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: directory, NoLog: true, NoSigs: true})
	if err != nil {
		return nil, err
	}
	broker.Start()
	s.onClose(func() error {
		broker.Shutdown()
		broker.WaitForShutdown()
		return nil
	})
	if !broker.ReadyForConnections(startTime) {
		return nil, errors.New("the NATS server did not start")
	}
	connection, err := nats.Connect(broker.ClientURL())
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { connection.Close(); return nil })
	js, err := jetstream.New(connection)
	if err != nil {
		return nil, err
	}
	return &part{
		settings: map[string]string{"HALLEY_NATS_URL": broker.ClientURL()},
		prepare: func(ctx context.Context, _ *app.DevRun) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "RESULTS", Subjects: []string{subject}})
			return err
		},
		read: func(ctx context.Context) (versions, error) {
			log, _, err := readStream(ctx, js)
			if err != nil {
				return nil, err
			}
			return log.versions, nil
		},
		compare: func(ctx context.Context, written []document) (string, error) { return compareStream(ctx, js, written) },
	}, nil
}

// readStream reads all messages of the stream.
func readStream(ctx context.Context, js jetstream.JetStream) (log *newest, messages uint64, err error) {
	stream, err := js.Stream(ctx, "RESULTS")
	if err != nil {
		return nil, 0, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, 0, err
	}
	consumer, err := js.OrderedConsumer(ctx, "RESULTS", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, 0, err
	}
	log = newNewest()
	for range info.State.Msgs {
		message, err := consumer.Next()
		if err != nil {
			return nil, 0, err
		}
		if err := log.add(message.Data()); err != nil {
			return nil, 0, err
		}
	}
	return log, info.State.Msgs, nil
}

func compareStream(ctx context.Context, js jetstream.JetStream, written []document) (string, error) {
	log, messages, err := readStream(ctx, js)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d messages in the JetStream stream RESULTS end with the last version of all %d documents, %d were repeated", messages, len(written), log.repeated), log.versions.equal(written)
}

// startKafka starts an embedded Kafka broker with a topic of four partitions, unless the
// setting names real brokers.
func startKafka(s *stage) (*part, error) {
	settings := map[string]string{"HALLEY_KAFKA_TOPIC": subject}
	brokers := os.Getenv("HALLEY_KAFKA_BROKERS")
	if brokers == "" {
		cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(topicPartitions, subject))
		if err != nil {
			return nil, err
		}
		s.onClose(func() error { cluster.Close(); return nil })
		brokers = strings.Join(cluster.ListenAddrs(), ",")
		settings["HALLEY_KAFKA_BROKERS"] = brokers
	}
	return &part{
		settings: settings,
		read:     func(ctx context.Context) (versions, error) { return readTopic(ctx, strings.Split(brokers, ",")) },
		compare: func(ctx context.Context, written []document) (string, error) {
			return compareTopic(ctx, strings.Split(brokers, ","), written)
		},
	}, nil
}

// compareTopic reads the topic until all documents are there, or ctx ends. A topic of
// real brokers may have other documents as well.
func compareTopic(ctx context.Context, brokers []string, written []document) (string, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(subject), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	log := newNewest()
	ours := map[string]bool{}
	for _, d := range written {
		ours[d.ID] = true
	}
	messages := 0
	for {
		fetched := client.PollFetches(ctx)
		for record := range fetched.RecordsAll() {
			if err := log.add(record.Value); err != nil {
				return "", err
			}
			messages++
		}
		found := versions{}
		for id, version := range log.versions {
			if ours[id] {
				found[id] = version
			}
		}
		if err := found.equal(written); err == nil || ctx.Err() != nil {
			return fmt.Sprintf("%d messages in the Kafka topic %s end with the last version of all %d documents, %d were repeated", messages, subject, len(written), log.repeated), err
		}
	}
}

// readTopic reads the embedded broker's topic to its end, which a record without a value
// marks in each partition.
func readTopic(ctx context.Context, brokers []string) (versions, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(subject), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for partition := range int32(topicPartitions) {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: subject, Partition: partition}).FirstErr(); err != nil {
			return nil, err
		}
	}
	log := newNewest()
	for ends := 0; ends < topicPartitions; {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err0(); err != nil {
			return nil, err
		}
		for record := range fetched.RecordsAll() {
			if record.Value == nil {
				ends++
			} else if err := log.add(record.Value); err != nil {
				return nil, err
			}
		}
	}
	return log.versions, nil
}
