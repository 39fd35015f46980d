package triggertest

import (
	"errors"
	"io"
	"net"
	"sync"
)

// Wire returns an address on loopback, host and port, that leads to the server at address. A
// handler under [Converges] whose sink is a server connects through it: then connections are
// cut, too, at each point of a call, one after the other. A request does not arrive, or its
// answer does not, and the sink has its effect. So also a handler whose store calls do not
// have the context of its call meets trouble in the middle of its effect.
func (w *World) Wire(address string) string {
	w.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.wires.mu.Lock()
	w.wires.used = true
	w.wires.mu.Unlock()
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the world has ended
			}
			serving.Go(func() { w.wires.carry(conn, address) })
		}
	})
	w.t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			w.t.Error(err)
		}
		w.wires.close()
		serving.Wait()
	})
	return listener.Addr().String()
}

// wires are the connections of a world's [World.Wire]. mu guards the fields.
type wires struct {
	mu        sync.Mutex
	used      bool
	closed    bool
	remaining int // messages in both directions until all connections are cut; 0: they are not
	open      map[net.Conn]bool
}

// arm has all connections cut instead of carrying the message with a number, from 1 on.
func (w *wires) arm(message int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remaining = message
}

// disarm reports whether the connections were cut since arm.
func (w *wires) disarm() (cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cut = w.remaining == 0
	w.remaining = 0
	return cut
}

// carry connects a client to a server until one of them, or the wire, closes.
func (w *wires) carry(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		_ = client.Close() // as if the server had not been reached
		return
	}
	if !w.add(client, server) {
		return
	}
	var copying sync.WaitGroup
	for _, ends := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			w.copy(ends[1], ends[0])
			w.remove(client, server)
		})
	}
	copying.Wait()
}

// copy carries what arrives, until an end is closed.
func (w *wires) copy(to io.Writer, from io.Reader) {
	message := make([]byte, 64<<10)
	for {
		n, err := from.Read(message)
		if n > 0 && !w.passes() {
			return
		}
		if _, written := to.Write(message[:n]); errors.Join(err, written) != nil {
			return
		}
	}
}

// passes counts a message, and cuts all connections if it is the one to cut at.
func (w *wires) passes() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.remaining == 0 {
		return true
	}
	if w.remaining--; w.remaining > 0 {
		return true
	}
	w.closeAll()
	return false
}

// add keeps a pair of connections, unless the world has ended.
func (w *wires) add(pair ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[net.Conn]bool{}
	}
	for _, conn := range pair {
		w.open[conn] = true
	}
	if w.closed {
		w.closeAll()
	}
	return !w.closed
}

func (w *wires) remove(pair ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range pair {
		if w.open[conn] {
			delete(w.open, conn)
			_ = conn.Close() // the other end may be closed already
		}
	}
}

func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.closeAll()
}

// closeAll closes all connections. The caller holds mu.
func (w *wires) closeAll() {
	for conn := range w.open {
		_ = conn.Close() // likewise
	}
	clear(w.open)
}
