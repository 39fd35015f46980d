package emulator

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// bothListener accepts connections of HTTP and of HTTPS at one port. Their first byte
// tells them apart: see RFC 8446, section 5.1.
type bothListener struct {
	net.Listener
	config   *tls.Config
	unused   *unusedConnections
	accepted chan acceptedConnection
	closing  sync.Once
	closed   chan struct{}
	running  sync.WaitGroup
}

type acceptedConnection struct {
	net.Conn
	err error // not nil if there is no connection
}

// handshakeRecord is the first byte of a connection of TLS. No request of HTTP begins with it.
const handshakeRecord = 22

// listenForBoth takes over a listener. Connections without a first byte are among the
// unused ones, which are closed together with the listener.
func listenForBoth(tcp net.Listener, config *tls.Config, unused *unusedConnections) *bothListener {
	l := &bothListener{Listener: tcp, config: config, unused: unused, accepted: make(chan acceptedConnection), closed: make(chan struct{})}
	l.running.Go(l.run)
	return l
}

// run accepts connections until the listener is closed. Another error waits until the
// server asks for the next connection, so that the server's pauses after errors hold.
func (l *bothListener) run() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			if !l.deliver(acceptedConnection{err: err}) {
				return
			}
			continue
		}
		l.unused.open.Store(c, nil)
		select {
		case <-l.closed:
			_ = c.Close() // closeAll has not seen it
		default:
		}
		l.running.Go(func() { l.sniff(c) })
	}
}

// sniff reads the first byte of a connection, and delivers the connection.
func (l *bothListener) sniff(c net.Conn) {
	begun := &begunConnection{Conn: c}
	_ = c.SetReadDeadline(time.Now().Add(headerTimeout))
	_, err := c.Read(begun.first[:])
	_ = c.SetReadDeadline(time.Time{})
	l.unused.open.Delete(c)
	if err != nil {
		_ = c.Close()
		return
	}
	accepted := acceptedConnection{Conn: begun}
	if begun.first[0] == handshakeRecord {
		accepted.Conn = tls.Server(begun, l.config)
	}
	if !l.deliver(accepted) {
		_ = c.Close()
	}
}

// deliver returns false if the listener is closed.
func (l *bothListener) deliver(a acceptedConnection) bool {
	select {
	case l.accepted <- a:
		return true
	case <-l.closed:
		return false
	}
}

// Accept returns a connection that has begun: a [*tls.Conn] if it is one of HTTPS.
func (l *bothListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.Conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close also closes the connections that have brought no request yet.
func (l *bothListener) Close() (err error) {
	l.closing.Do(func() {
		err = l.Listener.Close()
		close(l.closed)
		l.unused.closeAll()
	})
	return err
}

// wait closes the listener, and returns when nothing of it runs any more.
func (l *bothListener) wait() {
	_ = l.Close()
	l.running.Wait()
}

// begunConnection is a connection whose first byte was read before.
type begunConnection struct {
	net.Conn
	first [1]byte
	taken bool
}

func (c *begunConnection) Read(b []byte) (int, error) {
	if c.taken || len(b) == 0 {
		return c.Conn.Read(b)
	}
	c.taken = true
	return copy(b, c.first[:]), nil
}

// unusedConnections are those that have brought no request yet. Clients open them in
// advance, and [http.Server.Shutdown] would wait five seconds for their first request.
type unusedConnections struct{ open sync.Map }

// follow keeps the set, as a server's ConnState.
func (u *unusedConnections) follow(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		u.open.Store(c, nil)
		return
	}
	u.open.Delete(c)
}

func (u *unusedConnections) closeAll() {
	u.open.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close() // no request is lost
		return true
	})
}
