package main

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"halley/function/app"
)

const (
	natsURL = "HALLEY_NATS_URL" // names real servers
	natsTag = "natsserver"      // of builds with a server
)

// startNATS creates a stream that keeps all messages, on the servers of the setting or, in a
// build with the tag natsserver, on one in this process.
func startNATS(s *stage) (*part, error) {
	url, err := natsServer(s)
	if err != nil {
		return nil, err
	}
	connection, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	s.onClose(func() error { connection.Close(); return nil })
	js, err := jetstream.New(connection)
	if err != nil {
		return nil, err
	}
	return &part{
		settings: map[string]string{natsURL: url},
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

// compareStream compares the stream with the account. A stream of real servers may have
// documents of earlier runs as well.
func compareStream(ctx context.Context, js jetstream.JetStream, written []document) (string, error) {
	log, messages, err := readStream(ctx, js)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d messages in the JetStream stream RESULTS end with the last version of all %d documents, %d were repeated", messages, len(written), log.repeated), log.versions.of(written).equal(written)
}
