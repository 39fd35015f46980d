package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// sink receives the writes of a handler: the ids, in order.
type sink struct {
	mu    sync.Mutex
	taken []string
	fixed bool
}

// handle fails on poison documents until fixed is set.
func (s *sink) handle(_ context.Context, b trigger.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []string
	for _, c := range b.Changes {
		var doc struct{ ID string }
		if err := c.Decode(&doc); err != nil {
			return err
		}
		if strings.HasPrefix(doc.ID, "poison") && !s.fixed {
			return errors.New("cannot take " + doc.ID)
		}
		batch = append(batch, doc.ID)
	}
	s.taken = append(s.taken, batch...)
	return nil
}

// inApp runs a test with an account of monitored items and leases, and with a
// store as a host of that account would use it.
func inApp(t *testing.T, test func(t *testing.T, client *cosmos.Client, store trigger.DeadLetters)) {
	for name, open := range map[string]func(*testing.T, *cosmos.Client) trigger.DeadLetters{
		"container of the leases": func(t *testing.T, c *cosmos.Client) trigger.DeadLetters {
			return newContainer(t, c.Container("db", "leases"), 0, 50)
		},
		"directory": func(t *testing.T, _ *cosmos.Client) trigger.DeadLetters { return newDirectory(t, t.TempDir(), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				account, err := emulator.New(nil)
				must(t, err)
				defer account.Close()
				cred, err := cosmos.KeyCredential(emulator.Key)
				must(t, err)
				client, err := cosmos.NewClient(account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
				must(t, err)
				must(t, client.CreateDatabase(t.Context(), "db"))
				for id, path := range map[string]string{"items": "/player", "leases": "/id"} {
					must(t, client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
						ID: id, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{path}}, Throughput: 20_000,
					}))
				}
				test(t, client, open(t, client))
			})
		})
	}
}

func write(t *testing.T, c *cosmos.Client, player, id string) {
	t.Helper()
	_, err := c.Container("db", "items").Upsert(t.Context(), cosmos.NewPartitionKey(player), map[string]string{"id": id, "player": player})
	must(t, err)
}

// scores is the source of the dead letters of drain's function.
func scores(c *cosmos.Client) trigger.DeadLetterSource {
	return trigger.Function{FeedSource: trigger.FeedSource{Name: "scores", Container: c.Container("db", "items")}}.DeadLetterSource()
}

func drain(t *testing.T, c *cosmos.Client, f trigger.Function) trigger.Summary {
	t.Helper()
	f.Name, f.Container, f.StartFrom = "scores", c.Container("db", "items"), trigger.FromBeginning()
	h, err := trigger.New(c.Container("db", "leases"), []trigger.Function{f}, &trigger.Options{Owner: "a"})
	must(t, err)
	summary, err := h.Drain(t.Context())
	must(t, err)
	return summary
}

func TestPoisonIsDeadLetteredAndOthersAreHandled(t *testing.T) {
	inApp(t, func(t *testing.T, client *cosmos.Client, store trigger.DeadLetters) {
		want := map[string]bool{}
		for i := range 60 {
			id := fmt.Sprintf("good %d", i)
			if i == 30 {
				write(t, client, "unlucky", "poison")
			}
			write(t, client, fmt.Sprint("player ", i%7), id)
			want[id] = true
		}
		var s sink
		f := trigger.Function{FeedSource: trigger.FeedSource{Name: "f"}, Handler: s.handle, DeadLetters: store, GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 3}}
		if summary := drain(t, client, f); summary.DeadLetters != 1 || summary.Changes != 60 || summary.Behind != 0 {
			t.Errorf("summary %+v", summary)
		}
		slices.Sort(s.taken)
		same(t, s.taken, slices.Sorted(maps.Keys(want)))

		all := listOf(t, store, scores(client))
		if len(all) != 1 {
			t.Fatalf("dead letters %v", ids(all))
		}
		d := all[0]
		if d.Key != `["unlucky"]` || d.Error != "cannot take poison" || d.Attempts < 3 || d.Epoch < 1 || d.LSN == 0 || !json.Valid(d.Document) {
			t.Errorf("letter %+v", d)
		}
		holds, err := store.Holds(t.Context(), d.Source(), d.Key)
		must(t, err)
		if !holds {
			t.Error("does not hold the key")
		}

		done, err := trigger.Replay(t.Context(), store, scores(client), s.handle, nil)
		must(t, err)
		same(t, done, trigger.Replayed{Failed: 1})
		same(t, len(listOf(t, store, scores(client))), 1)
		s.fixed, s.taken = true, nil
		done, err = trigger.Replay(t.Context(), store, scores(client), s.handle, nil)
		must(t, err)
		same(t, done, trigger.Replayed{Handled: 1})
		same(t, s.taken, []string{"poison"})
		same(t, len(listOf(t, store, scores(client))), 0)

		if summary := drain(t, client, f); summary.Changes != 0 { // the letters disturb no lease
			t.Errorf("second drain %+v", summary)
		}
	})
}

// Later changes of a key follow its dead letter into the store, and are handled
// in order when they are replayed.
func TestBlockedKeysAreReplayedInOrder(t *testing.T) {
	inApp(t, func(t *testing.T, client *cosmos.Client, store trigger.DeadLetters) {
		var s sink
		f := trigger.Function{FeedSource: trigger.FeedSource{Name: "f"}, Handler: s.handle, DeadLetters: store, GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 2, BlockKeys: true}}
		write(t, client, "unlucky", "poison")
		write(t, client, "unlucky", "later 1")
		write(t, client, "other", "good")
		drain(t, client, f)
		write(t, client, "unlucky", "later 2") // for a host that finds the key in the store
		drain(t, client, f)
		same(t, s.taken, []string{"good"})
		same(t, len(listOf(t, store, scores(client))), 3)
		s.fixed = true
		done, err := trigger.Replay(t.Context(), store, scores(client), s.handle, nil)
		must(t, err)
		same(t, done, trigger.Replayed{Handled: 3})
		write(t, client, "unlucky", "later 3")
		drain(t, client, f)
		same(t, s.taken, []string{"good", "poison", "later 1", "later 2", "later 3"})
		same(t, len(listOf(t, store, scores(client))), 0)
	})
}

// A host acquires its range three times in a short time, and the store has more records than
// fit on a page of a list. Each time it knows the keys that wait, also those of a moment ago.
func TestNextOwnerKnowsTheNewestOfManyWaitingKeys(t *testing.T) {
	reject := map[string]func(error) error{
		"postponed": func(err error) error { return trigger.RetryAfter(err, time.Hour) },
		"blocked":   trigger.Skip,
	}
	for name, rejected := range reject {
		t.Run(name, func(t *testing.T) {
			inApp(t, func(t *testing.T, client *cosmos.Client, store trigger.DeadLetters) {
				var s sink
				f := trigger.Function{
					FeedSource: trigger.FeedSource{Name: "f"}, DeadLetters: store, GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true},
					BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 1},
					Handler:     func(ctx context.Context, b trigger.Batch) error { return rejected(s.handle(ctx, b)) },
				}
				for i := range 120 {
					write(t, client, fmt.Sprint("early ", i), fmt.Sprint("poison ", i))
				}
				drain(t, client, f)
				write(t, client, "late", "poison late")
				drain(t, client, f)
				write(t, client, "late", "follows")
				write(t, client, "other", "good")
				drain(t, client, f)
				same(t, s.taken, []string{"good"})
			})
		})
	}
}
