package triggertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// TestDeadLetters tests that a dead letter store keeps the contract of
// [trigger.DeadLetters]. The first call of open opens an empty store; later calls open the
// same store as another process would. The documents of the tests are not always JSON, nor
// UTF-8, and some have 2 MB.
//
// Each damage is done to one dead letter, without the store. A store that holds data which can
// be damaged has some.
func TestDeadLetters(t *testing.T, open func(t *testing.T) trigger.DeadLetters, damages ...DeadLetterDamage) {
	s := letterStore{open(t), open}
	t.Run("empty", s.testEmpty)
	t.Run("durable, whole and stored once", s.testOnce)
	t.Run("kinds", s.testKinds)
	t.Run("order", s.testOrder)
	t.Run("order of a key", s.testKeyOrder)
	t.Run("pages", s.testPages)
	t.Run("pages after a put", s.testPagesAfterPut)
	t.Run("filters", s.testFilters)
	t.Run("functions and keys", s.testScopes)
	t.Run("containers", s.testContainers)
	t.Run("documents", s.testDocuments)
	t.Run("images", s.testImages)
	t.Run("concurrent", s.testConcurrent)
	t.Run("cancelled", s.testCancelled)
	t.Run("rejected", s.testRejected)
	for _, damage := range damages {
		t.Run("damaged: "+damage.Name, func(t *testing.T) { s.testDamage(t, damage) })
	}
}

// DeadLetterDamage damages a dead letter without using its store, for [TestDeadLetters].
type DeadLetterDamage struct {
	Name string
	// Do damages the dead letter and returns a text that the error about it must contain.
	Do func(*testing.T, trigger.DeadLetter) string
	// KeepsKey says that the key of the dead letter can still be read, so that Holds counts it.
	KeepsKey bool
}

// letterStore is a store in a test.
type letterStore struct {
	trigger.DeadLetters
	open func(t *testing.T) trigger.DeadLetters
}

// letterTime is the time of sample letters.
var letterTime = time.Date(2026, 3, 2, 12, 0, 0, 123456789, time.UTC)

// sampleLetter returns a dead letter with every field of dead letters set.
func sampleLetter(function, id string) trigger.DeadLetter {
	return trigger.DeadLetter{
		Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead,
		ID: id, Function: function, Account: "games", Database: "db", Container: "results", Range: "0", Epoch: 3, LSN: 17, Key: `["k"]`,
		Operation: cosmos.OperationUpsert, DocumentID: id, Document: json.RawMessage(`{"id":"` + id + `"}`), Written: letterTime.Truncate(time.Second),
		Error: "cannot <take> it", Stack: "goroutine 1 [running]", Attempts: 10, Time: letterTime, Order: 5,
	}
}

// postponedLetter returns a postponed change with every field of these set.
func postponedLetter(function, id string) trigger.DeadLetter {
	d := sampleLetter(function, id)
	d.Kind, d.Due, d.Since, d.Postponed = trigger.RecordPostponed, letterTime.Add(time.Hour), letterTime.Add(-time.Hour), 2
	return d
}

// deadOf is the query of the dead letters of a function.
func deadOf(function string) trigger.DeadLetterQuery {
	return trigger.DeadLetterQuery{Source: sampleLetter(function, "").Source(), Kind: trigger.RecordDead}
}

func mustLetter(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func sameLetters(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// put stores records.
func (s letterStore) put(t *testing.T, letters ...trigger.DeadLetter) {
	t.Helper()
	for _, d := range letters {
		mustLetter(t, s.Put(t.Context(), d))
	}
}

// reopened is the store as another process opens it.
func (s letterStore) reopened(t *testing.T) letterStore { return letterStore{s.open(t), s.open} }

// found returns the records of all pages of a query.
func (s letterStore) found(t *testing.T, q trigger.DeadLetterQuery) (all []trigger.DeadLetter) {
	t.Helper()
	for d, err := range trigger.AllDeadLetters(t.Context(), s, q) {
		mustLetter(t, err)
		all = append(all, d)
	}
	return all
}

// checkIDs fails the test if a query finds other records, or in another order.
func (s letterStore) checkIDs(t *testing.T, q trigger.DeadLetterQuery, want ...string) {
	t.Helper()
	if got := idsOf(s.found(t, q)); !slices.Equal(got, want) {
		t.Errorf("%+v finds %q, want %q", q, got, want)
	}
}

func idsOf(letters []trigger.DeadLetter) (ids []string) {
	for _, d := range letters {
		ids = append(ids, d.ID)
	}
	return ids
}

// checkHolds fails the test if Holds answers otherwise.
func (s letterStore) checkHolds(t *testing.T, source trigger.DeadLetterSource, key string, want bool) {
	t.Helper()
	got, err := s.Holds(t.Context(), source, key)
	mustLetter(t, err)
	if got != want {
		t.Errorf("%v holds %q: %v, want %v", source, key, got, want)
	}
}

func (s letterStore) testEmpty(t *testing.T) {
	s.checkIDs(t, deadOf("unknown"))
	s.checkHolds(t, deadOf("unknown").Source, `["k"]`, false)
	mustLetter(t, s.Delete(t.Context(), sampleLetter("unknown", "absent")))
}

func (s letterStore) testOnce(t *testing.T) {
	want := sampleLetter("once", "a")
	want.LSN, want.Epoch, want.Order, want.Blocked = math.MaxInt64, math.MaxInt64-1, math.MinInt64+1, true
	s.put(t, want)
	later := want
	later.Time, later.Range, later.Epoch, later.Attempts, later.Order = want.Time.Add(time.Hour), "7", 9, 3, math.MaxInt64
	s.reopened(t).put(t, later)
	sameLetters(t, s.reopened(t).found(t, deadOf("once")), []trigger.DeadLetter{want})
	mustLetter(t, s.Delete(t.Context(), want))
	mustLetter(t, s.Delete(t.Context(), want))
	s.reopened(t).checkIDs(t, deadOf("once"))
	s.put(t, later)
	sameLetters(t, s.reopened(t).found(t, deadOf("once")), []trigger.DeadLetter{later})
}

// testKinds tests that a query finds the records of its kind alone, and that only dead
// letters hold a key.
func (s letterStore) testKinds(t *testing.T) {
	dead, first, other := sampleLetter("late", "dead"), postponedLetter("late", "first"), postponedLetter("late", "other")
	other.Key, other.Time = `["other"]`, letterTime.Add(1)
	first.Time = letterTime.Add(2)
	follower := first
	follower.ID, follower.Blocked, follower.Postponed, follower.Since, follower.Time = "behind", true, 0, time.Time{}, letterTime.Add(3)
	s.put(t, follower, dead, first, other)
	reopened := s.reopened(t)
	postponed := deadOf("late")
	postponed.Kind = trigger.RecordPostponed
	reopened.checkIDs(t, deadOf("late"), "dead")
	sameLetters(t, reopened.found(t, postponed), []trigger.DeadLetter{other, first, follower})
	reopened.checkHolds(t, dead.Source(), dead.Key, true)
	reopened.checkHolds(t, dead.Source(), other.Key, false)
	mustLetter(t, s.Delete(t.Context(), dead))
	reopened.checkHolds(t, dead.Source(), dead.Key, false)
	mustLetter(t, s.Delete(t.Context(), first))
	reopened.checkIDs(t, postponed, "other", "behind")
	for _, kind := range []trigger.RecordKind{"", "others"} {
		if _, err := s.Query(t.Context(), trigger.DeadLetterQuery{Source: dead.Source(), Kind: kind}); err == nil {
			t.Errorf("a query of the kind %q is answered", kind)
		}
	}
}

// testScopes tests functions with similar or hostile names.
func (s letterStore) testScopes(t *testing.T) {
	functions := []string{"", "f", "F", "f/g", "f-g", "../../etc/passwd", `..\x`, "a_b..0", "nul\x00l", "%2e%2e/", "名前", strings.Repeat("long", 200), "con", "f' OR 1=1"}
	for _, f := range functions {
		d := sampleLetter(f, "same id")
		d.Key = `["` + fmt.Sprint(len(f)) + `"]`
		s.put(t, d)
	}
	for _, f := range functions {
		all := s.found(t, deadOf(f))
		if len(all) != 1 || all[0].Function != f {
			t.Errorf("function %q has %d letters", f, len(all))
			continue
		}
		for key, want := range map[string]bool{all[0].Key: true, `["other"]`: false, all[0].Key[:3]: false, "": false} {
			s.checkHolds(t, deadOf(f).Source, key, want)
		}
	}
	for _, f := range functions {
		d := s.found(t, deadOf(f))[0]
		mustLetter(t, s.Delete(t.Context(), d))
		s.checkHolds(t, d.Source(), d.Key, false)
	}
}

// testContainers tests functions of one name on several containers: none sees or
// deletes the dead letters of another.
func (s letterStore) testContainers(t *testing.T) {
	var all []trigger.DeadLetter
	for i, names := range [][3]string{
		{"games", "db", "results"}, {"games", "db", "others"}, {"games", "other", "results"}, {"others", "db", "results"}, {"games", "dbr", "esults"}, {"", "", ""},
	} {
		d := sampleLetter("containers", "same id")
		d.Account, d.Database, d.Container = names[0], names[1], names[2]
		d.Key = fmt.Sprintf(`["%d"]`, i)
		s.put(t, d)
		all = append(all, d)
	}
	for i, d := range all {
		for _, o := range all {
			if o.Key == d.Key || i == 0 {
				s.checkHolds(t, d.Source(), o.Key, d.Key == o.Key)
			}
		}
		for place, letter := range all {
			found := s.found(t, trigger.DeadLetterQuery{Source: letter.Source(), Kind: trigger.RecordDead})
			switch {
			case len(found) == 1 != (place >= i):
				t.Errorf("%v has %d letters after %d deletes", letter.Source(), len(found), i)
			case len(found) == 1:
				sameLetters(t, found[0], letter)
			}
		}
		mustLetter(t, s.Delete(t.Context(), d))
	}
}

func (s letterStore) testConcurrent(t *testing.T) {
	stores := []letterStore{s, s.reopened(t), s.reopened(t)}
	const letters = 12
	var all sync.WaitGroup
	for i := range letters * len(stores) { // each letter once through every store
		all.Go(func() {
			d := sampleLetter("concurrent", fmt.Sprintf("%02d", i%letters))
			d.LSN = int64(i % letters)
			if err := stores[i/letters].Put(t.Context(), d); err != nil {
				t.Error(err)
			}
			if _, err := stores[i/letters].Holds(t.Context(), d.Source(), d.Key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found := s.found(t, deadOf("concurrent"))
	if got := idsOf(found); len(got) != letters || !slices.IsSorted(got) {
		t.Errorf("dead letters %v", got)
	}
	for i, d := range found {
		all.Go(func() {
			if err := stores[i%len(stores)].Delete(t.Context(), d); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.reopened(t).checkIDs(t, deadOf("concurrent"))
}

func (s letterStore) testCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := sampleLetter("cancelled", "a")
	if err := s.Put(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	s.checkIDs(t, deadOf("cancelled"))
	s.put(t, d)
	if err := s.Delete(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Holds(ctx, d.Source(), d.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("holds: %v", err)
	}
	if _, err := s.Query(ctx, deadOf("cancelled")); !errors.Is(err, context.Canceled) || errors.Is(err, trigger.ErrDamaged) {
		t.Errorf("query: %v", err)
	}
	s.checkIDs(t, deadOf("cancelled"), "a")
}

// testRejected tests records that could not be found again, and one of a later version of
// Halley.
func (s letterStore) testRejected(t *testing.T) {
	later, unversioned, other := sampleLetter("rejected", "later"), sampleLetter("rejected", "unversioned"), sampleLetter("rejected", "other")
	later.Version, unversioned.Version, other.Kind = trigger.DeadLetterVersion+1, 0, "other"
	for _, d := range []trigger.DeadLetter{sampleLetter("rejected", ""), sampleLetter("rejected\xff", "a"), later, unversioned, other} {
		if err := s.Put(t.Context(), d); err == nil {
			t.Errorf("%q of %q was stored, version %d, kind %q", d.ID, d.Function, d.Version, d.Kind)
		}
	}
	s.checkIDs(t, deadOf("rejected"))
}
