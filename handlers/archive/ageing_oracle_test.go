package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// The oracle: clients write, modify what they read and delete, hosts are killed around each
// creation of a file and while changes come in between. No document ages that is not archived.
func TestNoDocumentAgesUnarchived(t *testing.T) {
	for _, kind := range []Ageing{AgeingTTL, AgeingDelete} {
		t.Run(string(kind), func(t *testing.T) {
			eachMode(t, func(t *testing.T, f trigger.Function) {
				for seed := range handlerstest.ShortOrLong(2, 5) {
					newAgeingStory(t, f, kind, uint64(seed)).play()
				}
			})
		})
	}
}

// ageingStory is one history with its trouble, and the contents that the oracle expects.
type ageingStory struct {
	t       *testing.T
	w       *triggertest.World
	random  *rand.Rand
	store   *shelf
	kind    Ageing
	isAll   bool
	n       int
	last    map[string]int // the last number of each document that a client has not deleted
	written map[string]map[int]bool
	trouble int // blobs until the next trouble
	host    *triggertest.Host
}

const poisoned = "poisoned"

func newAgeingStory(t *testing.T, f trigger.Function, kind Ageing, seed uint64) *ageingStory {
	f.MaxItemsPerInvocation = 4
	w := triggertest.NewWorld(t, &triggertest.Options{Ranges: 2, Function: f})
	s := &ageingStory{
		t: t, w: w, random: rand.New(rand.NewPCG(seed, 27)), store: &shelf{memory: memory{}}, kind: kind,
		isAll: f.ChangeFeedMode == cosmos.ModeAllVersions, last: map[string]int{}, written: map[string]map[int]bool{}, trouble: -1,
	}
	w.Host(func(context.Context, trigger.Batch) error { return nil }).Drain()
	s.store.around = s.meet
	return s
}

// meet kills the host or writes a document around the creation of a file.
func (s *ageingStory) meet(bool) error {
	s.trouble--
	if s.trouble != 0 {
		return nil
	}
	if s.random.IntN(2) == 0 {
		for range 3 {
			s.write()
		}
		return nil
	}
	s.host.Kill()
	return errors.New("killed")
}

func (s *ageingStory) play() {
	s.t.Helper()
	s.put(poisoned, nil)
	for step := range 20 {
		for range s.random.IntN(4) {
			s.write()
		}
		s.trouble = s.random.IntN(5)
		s.drain()
		if step == 10 {
			s.w.Split(s.w.Ranges()[0])
		}
	}
	s.store.around = nil
	for range 3 {
		s.drain()
	}
	s.check()
}

// drain delivers to a process of its own, which may be killed.
func (s *ageingStory) drain() {
	a := New(s.store, &Options{Format: JSONLines})
	a.AgeOut(ageingOptions(s.w, s.kind))
	s.host = s.w.Host(func(ctx context.Context, b trigger.Batch) error {
		for _, c := range b.Changes {
			if c.ID() == poisoned {
				return trigger.Skip(errors.New("poisoned"))
			}
		}
		return a.Handle(ctx, b)
	})
	s.host.Drain()
}

// write is the write of a client.
func (s *ageingStory) write() {
	id := fmt.Sprint("d", s.random.IntN(8))
	var found json.RawMessage
	for _, document := range s.w.Documents() {
		if string(cosmos.Property(document, "id")) == fmt.Sprintf("%q", id) {
			found = document
		}
	}
	switch {
	case found != nil && s.random.IntN(6) == 0:
		s.w.Delete(id, id)
		delete(s.last, id)
	case found != nil && s.random.IntN(2) == 0:
		s.put(id, found)
	default:
		s.put(id, nil)
	}
}

// put writes a document, or what a client has read with a new number.
func (s *ageingStory) put(id string, found json.RawMessage) {
	s.n++
	s.last[id] = s.n
	if s.written[id] == nil {
		s.written[id] = map[int]bool{}
	}
	s.written[id][s.n] = true
	if found == nil {
		found = json.RawMessage(fmt.Sprintf(`{"id":%q}`, id))
	}
	s.w.Put(withNumber(s.t, found, s.n))
}

func (s *ageingStory) check() {
	s.t.Helper()
	archived := numbers(s.t, s.store)
	living := map[string]json.RawMessage{}
	for _, document := range s.w.Documents() {
		living[strings.Trim(string(cosmos.Property(document, "id")), `"`)] = document
	}
	if poison := string(living[poisoned]); poison == "" || strings.Contains(poison, "ttl") || len(archived[poisoned]) > 0 {
		s.t.Errorf("poisoned document %s, archived %v", poison, archived[poisoned])
	}
	for id, n := range s.last {
		if id == poisoned {
			continue
		}
		if archived[id][n] != 1 {
			s.t.Errorf("%s: the last version %d is archived %d times", id, n, archived[id][n])
		}
		if isAged := s.kind == AgeingDelete && living[id] == nil || strings.Contains(string(living[id]), `"ttl"`); !isAged {
			s.t.Errorf("%s has not aged: %s", id, living[id])
		}
	}
	for id, all := range s.written {
		for n := range all {
			if count := archived[id][n]; id != poisoned && (count > 1 || s.isAll && count != 1) {
				s.t.Errorf("%s: version %d is archived %d times", id, n, count)
			}
		}
	}
}
