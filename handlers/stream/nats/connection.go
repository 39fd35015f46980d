package nats

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"halley/handlers"
)

const (
	dialTime      = 5 * time.Second
	reconnectWait = time.Second
)

// connection is made in the background, and again whenever it is lost. The goroutine of
// [connect] owns client and err until ready is closed; afterwards they do not change.
type connection struct {
	stop   context.CancelFunc // ends the first attempt to connect
	ready  chan struct{}
	client *natsgo.Conn
	err    error // of the first attempt, if it can never succeed

	lastFailure atomic.Pointer[error] // of an attempt to connect; nil before the first one failed
}

// connect begins to connect. The caller closes the connection.
func connect(servers []handlers.URL, login []natsgo.Option, log *zap.Logger) *connection {
	ctx, stop := context.WithCancel(context.Background())
	c := &connection{stop: stop, ready: make(chan struct{})}
	options := append([]natsgo.Option{
		natsgo.Name("halley"),
		natsgo.Timeout(dialTime),
		natsgo.SetCustomDialer(dialer{ctx}),
		natsgo.RetryOnFailedConnect(true),
		natsgo.MaxReconnects(-1),
		natsgo.ReconnectWait(reconnectWait),
		natsgo.IgnoreAuthErrorAbort(), // a server may learn of a user later
		natsgo.ReconnectBufSize(-1),   // so that no message is sent after its call has ended
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { log.Warn("NATS connection", zap.Error(err)) }),
		natsgo.ReconnectErrHandler(func(_ *natsgo.Conn, err error) { c.lastFailure.Store(&err) }),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost", zap.Error(err))
			}
		}),
	}, login...)
	var urls []string
	for _, server := range servers {
		urls = append(urls, server.Reveal())
	}
	go func() {
		defer close(c.ready)
		c.client, c.err = natsgo.Connect(strings.Join(urls, ","), options...)
	}()
	return c
}

// dialer dials until its context ends.
type dialer struct{ ctx context.Context }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTime}).DialContext(d.ctx, network, address)
}

// stream returns JetStream on the connection when the first attempt to connect has ended.
func (c *connection) stream(ctx context.Context) (jetstream.JetStream, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to NATS: %w", context.Cause(ctx))
	}
	if c.err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", c.err)
	}
	if !c.client.IsConnected() {
		return nil, c.explain(natsgo.ErrDisconnected)
	}
	return jetstream.New(c.client)
}

// explain adds to an error why the servers are not connected.
func (c *connection) explain(err error) error {
	if c.client.IsConnected() {
		return err
	}
	if failure := c.lastFailure.Load(); failure != nil {
		return fmt.Errorf("%w, and the last attempt to connect failed: %w", err, *failure)
	}
	return err
}

func (c *connection) maxPayload() int64 { return c.client.MaxPayload() }

// close ends the connection. No call of the handler is running.
func (c *connection) close() error {
	c.stop()
	<-c.ready
	if c.client != nil {
		c.client.Close()
	}
	return nil
}
