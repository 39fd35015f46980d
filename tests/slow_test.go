package tests

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slowness is a proxy of Redis that delays every request, so that a handler call
// takes a while and can be interrupted.
type slowness struct {
	listener net.Listener
	backend  string
	delay    atomic.Int64 // nanoseconds
	running  sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	blocked chan struct{} // of requests after the allowed ones, until resume; nil: all are allowed
	allowed int
}

// slowly delays handlers that write to the board by at least delay per batch.
func (b *board) slowly(t *testing.T, delay time.Duration) *slowness {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	s := &slowness{backend: u.Host}
	s.delay.Store(int64(delay))
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	u.Host = s.listener.Addr().String()
	b.url = u.String()
	s.running.Go(s.accept)
	t.Cleanup(s.close)
	return s
}

func (s *slowness) accept() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", s.backend)
		if err != nil {
			client.Close()
			continue
		}
		s.mu.Lock()
		s.conns = append(s.conns, client, server)
		s.mu.Unlock()
		s.running.Go(func() { s.forward(server, client) })
		s.running.Go(func() { defer client.Close(); _, _ = io.Copy(client, server) })
	}
}

// forward passes requests on, each after the current delay.
func (s *slowness) forward(server, client net.Conn) {
	defer server.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if d := time.Duration(s.delay.Load()); d > 0 {
			<-time.After(d)
		}
		if blocked := s.refuses(buffer[:n]); blocked != nil {
			<-blocked
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// blockAfter lets n more requests that name a game through. Each connection of a later one
// breaks when resume is called.
func (s *slowness) blockAfter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked, s.allowed = make(chan struct{}), n
}

// resume lets all requests through again.
func (s *slowness) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocked != nil {
		close(s.blocked)
		s.blocked = nil
	}
}

// refuses returns a channel to wait for if a request is not allowed.
func (s *slowness) refuses(request []byte) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocked == nil || !bytes.Contains(request, []byte("game-")) {
		return nil
	}
	if s.allowed--; s.allowed >= 0 {
		return nil
	}
	return s.blocked
}

// over ends the delay.
func (s *slowness) over() { s.delay.Store(0) }

func (s *slowness) close() {
	s.resume()
	s.listener.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}
