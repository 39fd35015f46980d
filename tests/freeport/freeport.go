// Package freeport chooses ports for processes that are told theirs before they listen, as the
// Functions host tells its handler.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Find chooses from these ports, which are below those that Linux (32768), macOS and Windows
// (49152) give to connections and to listeners on port 0: one of those can be taken before
// the process listens. .ci/run has its servers on 20000 and above.
const (
	first = 11_000
	end   = 20_000
)

// Find returns a port of 127.0.0.1 that is free, and that the system gives to no process by
// itself.
func Find() (int, error) {
	var err error
	for range 100 {
		n := first + rand.IntN(end-first)
		var listener net.Listener
		if listener, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n)); err == nil {
			return n, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port: %w", err)
}
