// Package nats publishes changes to a stream of NATS JetStream, as messages of package
// stream, which states the rules for ids, deletes, expiries and order.
//
// A batch is handled when the stream has stored all its messages. Messages of different
// partition keys are published at the same time, those of one key one after the other:
// a message is published when the one before is stored.
//
// Nats-Msg-Id is the id of the message, so that a stream drops a message that it has
// stored within its duplicate window (2 minutes unless the stream sets it). After the
// window, for example when a host continues after a longer pause, a change is stored
// again, with the same id.
//
// The stream must exist. A batch fails if no stream takes the subject, the servers cannot
// be reached, or an acknowledgement does not arrive in time. A message that is larger than
// the servers or the stream take is given up.
package nats

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"halley/handlers"
	"halley/handlers/stream"
	"halley/trigger"
)

// Open returns the handler. It connects in the background, so the servers may start later.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	if err := s.check(env.Database, env.ContainerName); err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	login, err := s.login()
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	p := &publisher{
		encoder:    stream.Encoder{Database: env.Database, Container: env.ContainerName, UpsertOp: s.UpsertOp},
		subject:    s.Subject,
		timeout:    time.Duration(s.PublishTimeout),
		connection: connect(s.servers(), login, env.Log()),
		meter:      env.Meter("nats"),
	}
	env.OfferProbe(handlers.Probe{What: fmt.Sprintf("JetStream at %v", s.servers()), Try: func(ctx context.Context) error { return p.probe(ctx, env.Prefix) }})
	return p.handle, p.connection.close, nil
}

// publisher publishes batches. It is safe for concurrent use.
type publisher struct {
	encoder    stream.Encoder
	subject    string // template
	timeout    time.Duration
	connection *connection
	meter      *handlers.Meter
}

// maxParallel is the number of messages of a batch that wait for their acknowledgement
// at a time.
const maxParallel = 256

func (p *publisher) handle(ctx context.Context, b trigger.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	messages, err := p.encoder.Messages(b)
	if err != nil {
		return err
	}
	js, err := p.connection.stream(ctx)
	if err != nil {
		return err
	}
	failures := p.publishAll(ctx, js, messages)
	p.meter.Wrote(stream.Published(failures))
	return stream.Verdict(messages, failures)
}

// publishAll publishes the messages of different keys at the same time. failures has the
// error of each message.
func (p *publisher) publishAll(ctx context.Context, js jetstream.JetStream, messages []stream.Message) (failures []error) {
	failures = make([]error, len(messages))
	byKey := make(map[string][]int, len(messages))
	for i, m := range messages {
		byKey[string(m.Key)] = append(byKey[string(m.Key)], i)
	}
	places := make(chan struct{}, maxParallel)
	var keys sync.WaitGroup
	for _, indexes := range byKey {
		places <- struct{}{}
		keys.Go(func() {
			defer func() { <-places }()
			p.publishKey(ctx, js, messages, indexes, failures)
		})
	}
	keys.Wait()
	return failures
}

// publishKey publishes the messages of one key, until one fails for another reason than
// its size.
func (p *publisher) publishKey(ctx context.Context, js jetstream.JetStream, messages []stream.Message, indexes []int, failures []error) {
	for n, i := range indexes {
		err := p.publish(ctx, js, messages[i])
		failures[i] = err
		if err != nil && !errors.Is(err, stream.ErrTooLarge) {
			for _, later := range indexes[n+1:] {
				failures[later] = err
			}
			return
		}
	}
}

func (p *publisher) publish(ctx context.Context, js jetstream.JetStream, m stream.Message) error {
	to, err := subject(p.subject, p.encoder.Database, p.encoder.Container, m.Key)
	if err != nil {
		return fmt.Errorf("%w: its subject %w", stream.ErrTooLarge, err) // settings are checked, so it is the key
	}
	began := time.Now()
	_, err = js.PublishMsg(ctx, &natsgo.Msg{
		Subject: to,
		Data:    m.Value,
		Header:  natsgo.Header{jetstream.MsgIDHeader: {m.ID}, stream.HeaderKey: {string(m.Key)}},
	})
	p.meter.Ended(began, err)
	switch {
	case errors.Is(err, natsgo.ErrMaxPayload):
		return fmt.Errorf("%w: %d bytes, the servers take %d with headers (max_payload)", stream.ErrTooLarge, len(m.Value), p.connection.maxPayload())
	case errors.Is(err, jetstream.ErrStreamMessageExceedsMaximum):
		return fmt.Errorf("%w: %d bytes, more than the stream takes (max_msg_size)", stream.ErrTooLarge, len(m.Value))
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream of JetStream takes subject %q: create one", to)
	case err != nil:
		return p.connection.explain(err)
	}
	return nil
}

// probe tries whether a stream takes the subject.
func (p *publisher) probe(ctx context.Context, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	js, err := p.connection.stream(ctx)
	if err != nil {
		return fmt.Errorf("%w: start the servers, or correct %sURL", err, prefix)
	}
	to, err := subject(p.subject, p.encoder.Database, p.encoder.Container, []byte(`["key"]`))
	if err != nil {
		return err
	}
	name, err := js.StreamNameBySubject(ctx, to)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("no stream takes subject %q: create one, or correct %sSUBJECT", to, prefix)
	}
	if err != nil {
		return p.connection.explain(err)
	}
	if _, err = js.Stream(ctx, name); err != nil {
		return fmt.Errorf("stream %s: %w", name, p.connection.explain(err))
	}
	return nil
}

// probeTime bounds the probe.
const probeTime = 3 * time.Second
