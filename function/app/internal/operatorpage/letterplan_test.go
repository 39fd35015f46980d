package operatorpage

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/function/app/internal/account"
	"halley/function/app/internal/apptest"
	"halley/function/app/internal/page"
	"halley/function/app/internal/settings"
	"halley/trigger"
)

// memoryStore keeps dead letters in memory.
type memoryStore struct {
	trigger.DeadLetters
	mu      sync.Mutex
	records []trigger.DeadLetter
}

func (s *memoryStore) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return trigger.SelectDeadLetters(slices.Values(s.records), q)
}

func (s *memoryStore) Delete(_ context.Context, d trigger.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(other trigger.DeadLetter) bool { return other.ID == d.ID })
	return nil
}

// operatorOf returns an operator of one function with n dead letters of two keys each.
func operatorOf(t *testing.T, n int, handled *[]string) (*Operator, *memoryStore) {
	t.Helper()
	apptest.CleanEnv(t, apptest.Complete("CosmosDB", "AccountEndpoint=https://games.documents.azure.com;AccountKey=c2VjcmV0;", "HALLEY_FUNCTIONS", "leaderboard", "HALLEY_DEAD_LETTERS", "container"))
	s, err := settings.Load(settings.Source{Handlers: apptest.Handlers()})
	if err != nil {
		t.Fatal(err)
	}
	at, err := account.CommandClients().Open(s.Functions[0])
	if err != nil {
		t.Fatal(err)
	}
	fn := s.Functions[0].TriggerFunction(at.Monitored)
	fn.HandlerTimeout = time.Minute
	var mu sync.Mutex // replayed keys are handled side by side
	fn.Handler = func(_ context.Context, b trigger.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		*handled = append(*handled, b.Changes[0].ID())
		return nil
	}
	store := &memoryStore{}
	for i := range n {
		store.records = append(store.records, trigger.DeadLetter{
			Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: fmt.Sprint("letter", i), Function: "leaderboard",
			Account: fn.DeadLetterSource().Account, Database: fn.DeadLetterSource().Database, Container: fn.DeadLetterSource().Container,
			Key: fmt.Sprintf(`["player-%d"]`, i/2), DocumentID: fmt.Sprint(i), Document: []byte(fmt.Sprintf(`{"id":"%d"}`, i)),
			Time: time.Unix(1_790_000_000+int64(i), 0), Error: fmt.Sprintf("sink %d is full", i%5),
		})
	}
	fn.DeadLetters = store
	return &Operator{settings: s, opened: func(string) (trigger.Function, error) { return fn, nil }}, store
}

// A plan says which dead letters it is about before anything is done, and then exactly these are
// replayed, copied and discarded.
func TestPlanOfSelectedDeadLetters(t *testing.T) {
	var handled []string
	o, store := operatorOf(t, 12, &handled)
	wanted := page.Selection{Function: "leaderboard", IDs: []string{"letter3", "letter1", "letter8"}}
	plan, err := o.planReplay(t.Context(), page.Request{Select: wanted})
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(plan.Effects, "\n")
	for _, says := range []string{"3 dead letters, selected by function leaderboard, the viewer: 3", "of 3 keys, given up between 2026-09-21T14:13:21Z and 2026-09-21T14:13:28Z", "2: sink 3 is full. 1: sink 1 is full."} {
		if !strings.Contains(said, says) {
			t.Errorf("the plan lacks %q:\n%s", says, said)
		}
	}
	var copied bytes.Buffer
	if err := o.exportDeadLetters(t.Context(), &copied, wanted); err != nil || strings.Count(copied.String(), "\n") != 3 || !strings.Contains(copied.String(), `"id":"letter8"`) {
		t.Errorf("the copy is %s, %v", &copied, err)
	}
	if len(handled) != 0 || len(store.records) != 12 || plan.Count != 3 {
		t.Fatalf("the plan has done something: %v", handled)
	}
	if result, err := plan.Do(t.Context()); err != nil || result != "3 dead letters handled" {
		t.Errorf("%q, %v", result, err)
	}
	slices.Sort(handled)
	if strings.Join(handled, " ") != "1 3 8" || len(store.records) != 9 {
		t.Errorf("%v were replayed, %d are left", handled, len(store.records))
	}
	wanted.IDs = []string{"letter0", "letter11"}
	if plan, err = o.planDiscard(t.Context(), page.Request{Select: wanted}); err != nil || plan.Confirm != "2" || plan.Export != "api/v1/letters.jsonl?function=leaderboard&ids=letter0%2Cletter11" {
		t.Fatalf("%+v, %v", plan, err)
	}
	if result, err := plan.Do(t.Context()); err != nil || result != "2 dead letters deleted" || len(store.records) != 7 {
		t.Errorf("%q, %v, %d are left", result, err, len(store.records))
	}
}

// A plan of all dead letters is bounded, says so, and takes the oldest.
func TestPlanIsBounded(t *testing.T) {
	o, _ := operatorOf(t, maxPlanned+5, new([]string))
	b, err := o.bindLetters(t.Context(), page.Request{Select: page.Selection{Function: "leaderboard"}})
	if err != nil || len(b.ids) != maxPlanned || b.ids[0] != "letter0" || len(b.notes) != 1 || !strings.Contains(b.notes[0], "the oldest 10000") {
		t.Errorf("%d dead letters, notes %q, %v", len(b.ids), b.notes, err)
	}
}
