package triggertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"halley/trigger"
	"halley/trigger/triggertest"
)

// order is the document of the examples, with the partition key /customer.
type order struct {
	ID       string `json:"id"`
	Customer string `json:"customer"`
	Items    int    `json:"items"`
}

// shop is the sink of the examples: the items of each order.
type shop struct {
	mu    sync.Mutex
	items map[string]placed
}

type placed struct {
	items      int
	epoch, lsn int64
}

// handle stores the newest version of each order. An older version, or one that a former
// owner of the range delivers late, is refused by its epoch and position.
func (s *shop) handle(_ context.Context, b trigger.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range b.Changes {
		var o order
		if err := c.Decode(&o); err != nil {
			return trigger.Skip(trigger.Failed(err, c))
		}
		stored := s.items[o.ID]
		if b.Epoch > stored.epoch || b.Epoch == stored.epoch && c.LSN >= stored.lsn {
			s.items[o.ID] = placed{o.Items, b.Epoch, c.LSN}
		}
	}
	return nil
}

func (s *shop) state() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := map[string]int{}
	for id, p := range s.items {
		items[id] = p.items
	}
	return items
}

// One call, without a host.
func ExampleDeliver() {
	var t *testing.T // of the test function
	s := &shop{items: map[string]placed{}}
	verdict := triggertest.Deliver(t, s.handle,
		triggertest.Upsert(order{"1", "ada", 3}, "ada"),
		triggertest.Upsert(`{"id": "2", "items": "many"}`, "bob"),
	)
	if len(verdict.Handled) != 1 || !verdict.GivenUp || verdict.Failed[0].ID() != "2" {
		t.Error(verdict)
	}
}

// A later owner of the range delivers.
func ExampleCall() {
	var t *testing.T // of the test function
	s := &shop{items: map[string]placed{}}
	triggertest.Call{Epoch: 2}.Deliver(t, s.handle, triggertest.Upsert(order{"1", "ada", 3}, "ada"))
	triggertest.Deliver(t, s.handle, triggertest.Upsert(order{"1", "ada", 1}, "ada"))
	if s.items["1"].items != 3 {
		t.Error("a former owner has overwritten the order")
	}
}

// The sink ends up the same, whatever happens on the way.
func ExampleConverges() {
	var t *testing.T // of the test function
	triggertest.Converges(t, triggertest.Scenario{
		PartitionKey: "/customer",
		Document: func(random *rand.Rand, id, customer string) any {
			return order{id, customer, random.IntN(10)}
		},
		Open: func(testing.TB, *triggertest.World) triggertest.Sink {
			s := &shop{items: map[string]placed{}} // one for all processes
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) { return s.handle, nil },
				State: s.state,
			}
		},
	})
}

// A story: a host dies in the middle of its work, and a call fails for good.
func ExampleWorld() {
	var t *testing.T // of the test function
	w := triggertest.NewWorld(t, &triggertest.Options{PartitionKey: "/customer"})
	s := &shop{items: map[string]placed{}}
	w.Put(order{"1", "ada", 3})
	w.Put(`{"id": "2", "customer": "bob", "items": "many"}`)

	var first *triggertest.Host
	first = w.Host(func(ctx context.Context, b trigger.Batch) error {
		first.Kill()
		return errors.New("does not count")
	})
	first.Drain()
	w.Host(s.handle).Drain()

	w.RequireDelivered()
	for _, d := range w.DeadLetters() {
		fmt.Println(d.DocumentID, d.Error)
	}
}
