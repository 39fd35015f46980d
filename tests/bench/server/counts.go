package main

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// counts are the requests so far, by kind, and the open connections.
type counts struct {
	mu          sync.Mutex
	requests    map[requestKind]int
	units       map[requestKind]float64
	connections int
}

// countedWriter remembers the status of an answer.
type countedWriter struct {
	http.ResponseWriter
	status int
}

func (w *countedWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// chargeHeader is in lower case, as the account writes the names of headers.
var chargeHeader = "x-ms-request-charge"

// add counts an answer with the request units in its head.
func (c *counts) add(kind requestKind, w *countedWriter) {
	if kind == feedRead && w.status == http.StatusNotModified {
		kind = emptyFeed
	}
	units := 0.0
	if charge := w.Header()[chargeHeader]; len(charge) > 0 {
		units, _ = strconv.ParseFloat(charge[0], 64)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requests == nil {
		c.requests, c.units = map[requestKind]int{}, map[requestKind]float64{}
	}
	c.requests[kind]++
	c.units[kind] += units
}

// follow counts open connections, as a server's ConnState.
func (c *counts) follow(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.connections++
	case http.StateClosed, http.StateHijacked:
		c.connections--
	}
}

// ServeHTTP answers with the counts as JSON: numbers of requests and of request units
// by kind, and the connections that are open.
func (c *counts) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"requests": c.requests, "units": c.units, "connections": c.connections})
}
