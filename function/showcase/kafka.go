package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	subject   = "halley." + database + "." + results
	startTime = 10 * time.Second // for a server

	topicPartitions = 4
)

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
	messages := 0
	for {
		fetched := client.PollFetches(ctx)
		for record := range fetched.RecordsAll() {
			if err := log.add(record.Value); err != nil {
				return "", err
			}
			messages++
		}
		if err := log.versions.of(written).equal(written); err == nil || ctx.Err() != nil {
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
