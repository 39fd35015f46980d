package triggertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"halley/trigger"
)

// serveTable serves a table on loopback until the test ends. A request is a line: a batch
// as JSON, which is written in a transaction and answered with the difference that it makes
// to the total; or a difference to add to the total.
func serveTable(t testing.TB, sink *table) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, sink.serve(lines.Bytes()))
				}
			})
		}
	})
	t.Cleanup(func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
		serving.Wait()
	})
	return listener.Addr().String()
}

// served is a change as a request has it.
type served struct {
	ID         string
	Balance    int
	Deleted    bool
	Epoch, LSN int64
}

func (t *table) serve(request []byte) (difference int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changes []served
	if json.Unmarshal(request, &changes) != nil {
		_ = json.Unmarshal(request, &difference) // the other request
		t.rows["total"] = row{Balance: t.rows["total"].Balance + difference}
		return difference
	}
	for _, c := range changes {
		r := row{c.Balance, c.Deleted, c.Epoch, c.LSN}
		if stored, found := t.rows[c.ID]; !found || stored.isBefore(r) {
			difference += r.Balance - stored.Balance
			t.rows[c.ID] = r
		}
	}
	return difference
}

// wiredScenario has a handler that reaches its sink through a wire, and does not pass the
// context of its calls on. If forgets is set, it adds to the total after the transaction.
func wiredScenario(forgets bool) Scenario {
	s := scenario(startMirror)
	s.Open = func(t testing.TB, w *World) Sink {
		sink := &table{rows: map[string]row{}}
		address := w.Wire(serveTable(t, sink))
		return Sink{
			Start: func() (trigger.Handler, func() error) {
				return func(_ context.Context, b trigger.Batch) error { return requestTable(address, b, forgets) }, nil
			},
			State: sink.state,
		}
	}
	return s
}

func requestTable(address string, b trigger.Batch, forgets bool) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	var changes []served
	for _, c := range b.Changes {
		r, err := rowOf(b, c)
		if err != nil {
			return err
		}
		changes = append(changes, served{c.ID(), r.Balance, r.deleted, r.epoch, r.lsn})
	}
	request, _ := json.Marshal(changes) // it has no other values than texts and numbers
	answers := bufio.NewReader(conn)
	fmt.Fprintf(conn, "%s\n", request)
	difference, err := answers.ReadString('\n')
	if err != nil || !forgets {
		return err
	}
	fmt.Fprint(conn, difference)
	_, err = answers.ReadString('\n')
	return err
}

// Connections are cut between two requests of a call.
func TestCutConnectionsFindSecondRequest(t *testing.T) {
	if found := failuresOf(t, func(t testing.TB) { Converges(t, wiredScenario(true)) }); !strings.Contains(found, "each of which fails at a later point of its effect") {
		t.Errorf("failures: %s", found)
	}
	Converges(t, wiredScenario(false))
}
