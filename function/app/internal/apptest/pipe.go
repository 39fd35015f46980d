package apptest

import (
	"context"
	"net"
)

// PipeListener accepts the connections of Dial, which stay in memory: a server on it can run
// in a bubble of testing/synctest.
type PipeListener struct {
	dialed chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

// ListenOnPipe returns an open listener.
func ListenOnPipe() *PipeListener {
	l := &PipeListener{dialed: make(chan net.Conn)}
	l.closed, l.close = context.WithCancel(context.Background())
	return l
}

// Dial returns a connection once it is accepted. It is the DialContext of an http.Transport.
func (l *PipeListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.dialed <- server:
		return client, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (l *PipeListener) Accept() (net.Conn, error) {
	select {
	case server := <-l.dialed:
		return server, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener].
func (l *PipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// Close implements [net.Listener].
func (l *PipeListener) Close() error {
	l.close()
	return nil
}
