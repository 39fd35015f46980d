package mqtt

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"halley/handlers"
	"halley/handlers/push"
)

// message is what is published.
type message struct {
	topic   string
	payload []byte
	tag     string
	retain  bool
	ttl     time.Duration
}

// broker is one connection to a broker, which is made when it is needed. It is safe for
// concurrent use; calls that need a new connection share it.
type broker struct {
	address  *url.URL
	tls      *tls.Config // nil without TLS
	server   string      // in words, for errors
	clientID string
	timeout  time.Duration
	slot     chan struct{} // capacity 1: held by the call that connects
	meter    *handlers.Meter

	mu      sync.Mutex // guards current and closed
	current *link
	closed  bool
}

// link is one connection and its client.
type link struct {
	*paho.Client
	conn net.Conn
}

// newBroker returns a broker, with TLS unless config is nil.
func newBroker(address *url.URL, config *tls.Config, clientID string, timeout time.Duration) *broker {
	return &broker{address: address, tls: config, server: "MQTT broker " + address.Host, clientID: clientID + "-" + rand.Text()[:12], timeout: timeout, slot: make(chan struct{}, 1)}
}

// keepAlive is the interval of pings in seconds.
const keepAlive = 30

// publish returns when the broker has acknowledged the message. If the connection was
// lost since it was last used, it connects once more. An error is not a timeout of a
// device: it fails the call.
func (b *broker) publish(ctx context.Context, m message) error {
	l, err := b.client(ctx)
	if err != nil {
		return err
	}
	answer, err := l.Publish(ctx, m.packet())
	if answer == nil && err != nil && isDone(l) && ctx.Err() == nil {
		if l, err = b.client(ctx); err != nil {
			return err
		}
		b.meter.Retried()
		answer, err = l.Publish(ctx, m.packet())
	}
	switch {
	case answer != nil && answer.ReasonCode >= firstFailure:
		return b.judge(answer)
	case err != nil:
		_ = l.conn.Close() // it may be dead without a sign; the next call connects again
		return fmt.Errorf("%s: publish: %v", b.server, err)
	}
	return nil
}

func (m message) packet() *paho.Publish {
	seconds := uint32(m.ttl / time.Second)
	format := byte(1) // UTF-8
	return &paho.Publish{
		QoS: 1, Retain: m.retain, Topic: m.topic, Payload: m.payload,
		Properties: &paho.PublishProperties{
			MessageExpiry: &seconds, ContentType: "application/json", PayloadFormat: &format,
			User: paho.UserProperties{{Key: "tag", Value: m.tag}},
		},
	}
}

// firstFailure is the first reason code of a failure, by section 2.4 of the standard.
const firstFailure = 0x80

// judge reads the reason code of an acknowledgement.
func (b *broker) judge(answer *paho.PublishResponse) error {
	reason := fmt.Sprintf("%s refused it with reason code 0x%02X", b.server, answer.ReasonCode)
	if answer.Properties != nil && answer.Properties.ReasonString != "" {
		reason += fmt.Sprintf(": %q", answer.Properties.ReasonString)
	}
	switch answer.ReasonCode {
	case packets.PubackTopicNameInvalid, packets.PubackPayloadFormatInvalid:
		return fmt.Errorf("%w: %s", push.ErrUnusable, reason)
	case packets.PubackNotAuthorized:
		reason += ": allow the user to publish to the topic"
	}
	return errors.New(reason)
}

// client returns a connection that stands, as far as this host knows.
func (b *broker) client(ctx context.Context) (*link, error) {
	if l := b.connected(); l != nil {
		return l, nil
	}
	select {
	case b.slot <- struct{}{}:
		defer func() { <-b.slot }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: no connection: %v", b.server, ctx.Err())
	}
	if l := b.connected(); l != nil { // of the call that held the slot
		return l, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	l, err := b.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %v", b.server, err)
	}
	return l, nil
}

// connected returns the current client if its connection stands.
func (b *broker) connected() *link {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil || isDone(b.current) {
		return nil
	}
	return b.current
}

func isDone(l *link) bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

func (b *broker) connect(ctx context.Context) (*link, error) {
	conn, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok { // the library bounds only the wait for the answer
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	l := &link{conn: conn}
	l.Client = paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(conn), PacketTimeout: b.timeout})
	receiveMaximum := uint16(1) // nothing is received; the default reserves memory for 65,535 messages
	request := &paho.Connect{ClientID: b.clientID, KeepAlive: keepAlive, CleanStart: true, Properties: &paho.ConnectProperties{ReceiveMaximum: &receiveMaximum}}
	if user := b.address.User; user != nil {
		request.UsernameFlag, request.Username = true, user.Username()
		password, ok := user.Password()
		request.PasswordFlag, request.Password = ok, []byte(password)
	}
	answer, err := l.Connect(ctx, request)
	if err != nil { // the connection is closed
		if answer != nil {
			err = fmt.Errorf("connection refused with reason code 0x%02X: %w", answer.ReasonCode, err)
		}
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		disconnect(l)
		return nil, err
	}
	if !b.keep(l) {
		disconnect(l)
		return nil, errors.New("the handler is closed")
	}
	return l, nil
}

func (b *broker) dial(ctx context.Context) (net.Conn, error) {
	if b.tls != nil {
		return (&tls.Dialer{Config: b.tls}).DialContext(ctx, "tcp", b.address.Host)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", b.address.Host)
}

// keep makes a connection the current one. It returns false if the broker was closed
// meanwhile.
func (b *broker) keep(l *link) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.current = l
	}
	return !b.closed
}

func (b *broker) close() {
	b.mu.Lock()
	b.closed = true
	l := b.current
	b.mu.Unlock()
	if l != nil && !isDone(l) {
		disconnect(l)
	}
}

// disconnect tells the broker that the connection ends in good order, and waits for the
// client's goroutines. If the connection is lost already, the broker need not be told.
func disconnect(l *link) {
	_ = l.Disconnect(&paho.Disconnect{ReasonCode: packets.DisconnectNormalDisconnection})
	<-l.Done()
}
