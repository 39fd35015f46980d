// Package loopback serves stand-ins for outside services, such as a push service, to
// processes of this machine, for development and tests.
package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is an HTTP server on a loopback address.
type Server struct {
	listener net.Listener
	server   *http.Server
	stop     context.CancelFunc
	served   chan error
}

// Listen listens on addr, which must be a loopback address such as 127.0.0.1:0. The caller
// calls Serve, then Close.
func Listen(addr string) (*Server, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%s is not a loopback address", addr), listener.Close())
	}
	return &Server{listener: listener, served: make(chan error, 1)}, nil
}

// Origin returns the server's URL without a path.
func (s *Server) Origin() string { return "http://" + s.listener.Addr().String() }

// Serve begins to answer requests, until Close.
func (s *Server) Serve(handler http.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.server = &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	go func() { s.served <- s.server.Serve(s.listener) }()
}

// Close ends the contexts of running requests, and waits until these are answered and the
// server has stopped.
func (s *Server) Close() error {
	s.stop()
	err := s.server.Shutdown(context.Background())
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
