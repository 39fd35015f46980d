// Package contract tests the guarantees of a dead letter store, for the tests of every
// store.
package contract

import (
	"bytes"
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

// Monday is the time of samples.
var Monday = time.Date(2026, 3, 2, 12, 0, 0, 123456789, time.UTC)

// Sample returns a dead letter with every field set.
func Sample(function, id string) trigger.DeadLetter {
	return trigger.DeadLetter{
		ID: id, Function: function, Account: "games", Database: "db", Container: "results", Range: "0", Epoch: 3, LSN: 17, Key: `["k"]`,
		Operation: cosmos.OperationUpsert, DocumentID: id, Document: json.RawMessage(`{"id":"` + id + `"}`), Written: Monday.Truncate(time.Second),
		Error: "cannot <take> it", Stack: "goroutine 1 [running]", Attempts: 10, Time: Monday,
	}
}

// Of is the source of the samples of a function.
func Of(function string) trigger.DeadLetterSource { return Sample(function, "").Source() }

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// List returns the dead letters of a function, as Of describes it.
func List(t testing.TB, s trigger.DeadLetters, function string) []trigger.DeadLetter {
	t.Helper()
	return ListOf(t, s, Of(function))
}

// ListOf returns the dead letters of a source, and ends the test on an error.
func ListOf(t testing.TB, s trigger.DeadLetters, source trigger.DeadLetterSource) []trigger.DeadLetter {
	t.Helper()
	var all []trigger.DeadLetter
	for d, err := range s.List(t.Context(), source) {
		Must(t, err)
		all = append(all, d)
	}
	return all
}

// IDs returns the ids of dead letters.
func IDs(all []trigger.DeadLetter) []string {
	ids := []string{}
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

// Same fails the test if got differs from want.
func Same(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Spoiling damages a dead letter without using its store. Do returns the text
// that the error must contain.
type Spoiling struct {
	Name     string
	Do       func(*testing.T, trigger.DeadLetter) string
	KeepsKey bool // of the letter, for Holds
}

// Test tests the guarantees of every store. The first call of open opens an
// empty store; later calls open the same store as another process would.
func Test(t *testing.T, open func(t *testing.T) trigger.DeadLetters, spoilings ...Spoiling) {
	s := open(t)
	t.Run("empty", func(t *testing.T) {
		Same(t, IDs(List(t, s, "unknown")), []string{})
		holds, err := s.Holds(t.Context(), Of("unknown"), `["k"]`)
		Must(t, err)
		if holds {
			t.Error("holds a key of nothing")
		}
		Must(t, s.Delete(t.Context(), Sample("unknown", "absent")))
	})
	t.Run("durable, whole and stored once", func(t *testing.T) {
		want := Sample("once", "a")
		want.LSN, want.Epoch, want.Blocked = math.MaxInt64, math.MaxInt64-1, true
		Must(t, s.Put(t.Context(), want))
		later := want
		later.Time, later.Range, later.Epoch, later.Attempts = want.Time.Add(time.Hour), "7", 9, 3
		Must(t, open(t).Put(t.Context(), later))
		Same(t, List(t, open(t), "once"), []trigger.DeadLetter{want})
		Must(t, s.Delete(t.Context(), want))
		Must(t, s.Delete(t.Context(), want))
		Same(t, IDs(List(t, open(t), "once")), []string{})
		Must(t, s.Put(t.Context(), later))
		Same(t, List(t, open(t), "once"), []trigger.DeadLetter{later})
	})
	t.Run("postponed", func(t *testing.T) {
		dead, first, other := Sample("late", "dead"), Sample("late", "first"), Sample("late", "other")
		first.Due, first.Since, first.Postponed, first.Time = Monday.Add(time.Hour), Monday, 2, Monday.Add(2)
		other.Due, other.Key, other.Time = Monday.Add(time.Minute), `["other"]`, Monday.Add(1)
		behind := first
		behind.ID, behind.Blocked, behind.Postponed, behind.Since, behind.Time = "behind", true, 0, time.Time{}, Monday.Add(3)
		for _, d := range []trigger.DeadLetter{behind, dead, first, other} {
			Must(t, s.Put(t.Context(), d))
		}
		holds := func(key string, want bool) {
			t.Helper()
			got, err := open(t).Holds(t.Context(), Of("late"), key)
			Must(t, err)
			if got != want {
				t.Errorf("holds %s: %v, want %v", key, got, want)
			}
		}
		postponed := func(key string, want ...trigger.DeadLetter) {
			t.Helper()
			var all []trigger.DeadLetter
			for d, err := range open(t).Postponed(t.Context(), Of("late"), key) {
				Must(t, err)
				all = append(all, d)
			}
			Same(t, all, want)
		}
		Same(t, IDs(List(t, open(t), "late")), []string{"dead", "other", "first", "behind"})
		postponed("", other, first, behind)
		postponed(dead.Key, first, behind)
		holds(dead.Key, true)
		holds(other.Key, false)
		Must(t, s.Delete(t.Context(), dead))
		holds(dead.Key, false)
		Must(t, s.Delete(t.Context(), first))
		postponed(dead.Key, behind)
		postponed(`["unknown"]`)
	})
	t.Run("order", func(t *testing.T) {
		var want []string
		var all []trigger.DeadLetter
		for i, p := range []struct {
			after time.Duration
			token string
			lsn   int64
		}{{0, "0", 9}, {0, "0", 10}, {0, "05C1-FF", 1}, {0, "1", 2}, {1, "0", 1}, {time.Second, "", 0}, {24 * time.Hour, "0", 1}} {
			d := Sample("order", fmt.Sprintf("letter %d", i))
			d.Time, d.Range, d.LSN = Monday.Add(p.after), p.token, p.lsn
			want, all = append(want, d.ID), append(all, d)
		}
		for _, i := range []int{4, 0, 6, 2, 5, 3, 1} {
			Must(t, s.Put(t.Context(), all[i]))
		}
		Same(t, IDs(List(t, open(t), "order")), want)
		for range s.List(t.Context(), Of("order")) { // a consumer may stop early
			break
		}
		var left []string
		for d, err := range s.List(t.Context(), Of("order")) { // deletes while listing
			Must(t, err)
			Must(t, s.Delete(t.Context(), d))
			left = append(left, d.ID)
		}
		Same(t, left, want)
		Same(t, IDs(List(t, open(t), "order")), []string{})
	})
	t.Run("functions and keys", func(t *testing.T) { testScopes(t, s) })
	t.Run("containers", func(t *testing.T) { testContainers(t, s) })
	t.Run("documents", func(t *testing.T) { testDocuments(t, s, open) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, s, open) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, s) })
	for _, damage := range spoilings {
		t.Run("damaged: "+damage.Name, func(t *testing.T) { testDamage(t, s, open, damage) })
	}
	t.Run("rejected", func(t *testing.T) {
		for _, d := range []trigger.DeadLetter{Sample("rejected", ""), Sample("rejected\xff", "a")} {
			if err := s.Put(t.Context(), d); err == nil {
				t.Errorf("%q of %q was stored", d.ID, d.Function)
			}
		}
	})
}

// testScopes tests functions with similar or hostile names.
func testScopes(t *testing.T, s trigger.DeadLetters) {
	functions := []string{"", "f", "F", "f/g", "f-g", "../../etc/passwd", `..\x`, "a_b..0", "nul\x00l", "%2e%2e/", "名前", strings.Repeat("long", 200), "con", "f' OR 1=1"}
	for _, f := range functions {
		d := Sample(f, "same id")
		d.Key = `["` + fmt.Sprint(len(f)) + `"]`
		Must(t, s.Put(t.Context(), d))
	}
	for _, f := range functions {
		all := List(t, s, f)
		if len(all) != 1 || all[0].Function != f {
			t.Errorf("function %q has %d letters", f, len(all))
			continue
		}
		for key, want := range map[string]bool{all[0].Key: true, `["other"]`: false, all[0].Key[:3]: false, "": false} {
			holds, err := s.Holds(t.Context(), Of(f), key)
			Must(t, err)
			if holds != want {
				t.Errorf("function %q holds %q: %t", f, key, holds)
			}
		}
	}
	for _, f := range functions {
		d := List(t, s, f)[0]
		Must(t, s.Delete(t.Context(), d))
		holds, err := s.Holds(t.Context(), Of(f), d.Key)
		Must(t, err)
		if holds {
			t.Errorf("function %q still holds %q", f, d.Key)
		}
	}
}

// testContainers tests functions of one name on several containers: none sees or
// deletes the dead letters of another.
func testContainers(t *testing.T, s trigger.DeadLetters) {
	var all []trigger.DeadLetter
	for i, at := range [][3]string{
		{"games", "db", "results"}, {"games", "db", "others"}, {"games", "other", "results"}, {"others", "db", "results"}, {"games", "dbr", "esults"}, {"", "", ""},
	} {
		d := Sample("containers", "same id")
		d.Account, d.Database, d.Container = at[0], at[1], at[2]
		d.Key = fmt.Sprintf(`["%d"]`, i)
		Must(t, s.Put(t.Context(), d))
		all = append(all, d)
	}
	for i, d := range all {
		for _, o := range all {
			holds, err := s.Holds(t.Context(), d.Source(), o.Key)
			Must(t, err)
			if holds != (d.Key == o.Key) {
				t.Errorf("%v holds %s: %t", d.Source(), o.Key, holds)
			}
		}
		for left := range all {
			n := 0
			for found, err := range s.List(t.Context(), all[left].Source()) {
				Must(t, err)
				Same(t, found, all[left])
				n++
			}
			if n == 1 != (left >= i) {
				t.Errorf("%v has %d letters after %d deletes", all[left].Source(), n, i)
			}
		}
		Must(t, s.Delete(t.Context(), d))
	}
}

// Large returns 2 MB that do not compress well.
func Large() []byte {
	b := []byte(`{"id":"large","text":"`)
	for i := uint32(1); len(b) < 2<<20-2; i = i*1664525 + 1013904223 {
		b = append(b, ' '+byte(i>>24)%90)
	}
	return append(bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(`\`), []byte("-")), []byte(`"`), []byte("'")), `"}`...)
}

func testDocuments(t *testing.T, s trigger.DeadLetters, open func(*testing.T) trigger.DeadLetters) {
	for i, document := range []string{
		`{"id":"plain"}`,
		"{ \"spaces\" :\t1 ,\r\n\"number\": 1.00e+2, \"big\": 123456789012345678901234567890 }",
		`{"twice":1,"twice":2,"escaped":"\u003c\u0000\ud800 \/","html":"<&>"}`,
		"{\"separators\":\"\u2028\u2029\"}",
		"not JSON\x00at all\n\nL 00000001 00000000 \x7f",
		"\xff\xfe{\"id\":\"\xc3\x28\"}",
		"",
		strings.Repeat("\x01", 400_000),
		string(Large()),
		string(append([]byte{0xff}, Large()[1:]...)),
		`{"zeros":"` + strings.Repeat("0", 2<<20-12) + `"}`,
	} {
		d := Sample("documents", fmt.Sprint("document ", i))
		d.Document = []byte(document)
		Must(t, s.Put(t.Context(), d))
		Must(t, s.Put(t.Context(), d))
		got := List(t, open(t), "documents")
		if len(got) != 1 || string(got[0].Document) != document {
			t.Fatalf("document %d did not come back as it was (%d letters)", i, len(got))
		}
		Must(t, s.Delete(t.Context(), got[0]))
		got[0].Document, d.Document = nil, nil // cmp takes seconds for them
		Same(t, got[0], d)
		Same(t, len(List(t, s, "documents")), 0)
	}
	testImages(t, s)
	d := Sample("documents", "text that is not UTF-8")
	d.Error = "bad \xff byte"
	Must(t, s.Put(t.Context(), d))
	d.Error = "bad \ufffd byte"
	Same(t, List(t, s, "documents"), []trigger.DeadLetter{d})
}

// testImages tests changes of all-versions mode. A missing image differs
// from an empty one.
func testImages(t *testing.T, s trigger.DeadLetters) {
	old := Large()
	for i, d := range []trigger.DeadLetter{
		{Operation: cosmos.OperationReplace, Document: json.RawMessage(`{"v":2}`), Previous: json.RawMessage(`{"v": 1}`)},
		{Operation: cosmos.OperationDelete, Previous: json.RawMessage("{\"v\":\"\xff\"}"), DocumentKey: json.RawMessage(`["k" ]`)},
		{Operation: cosmos.OperationExpire, DocumentKey: json.RawMessage("[\"\xfe\"]")},
		{Operation: cosmos.OperationDelete},
		{Operation: cosmos.OperationCreate, Document: json.RawMessage{}, Previous: json.RawMessage{}, DocumentKey: json.RawMessage{}},
		{Operation: cosmos.OperationReplace, Document: old, Previous: old[1:]},
	} {
		want := Sample("images", fmt.Sprint(i))
		want.Operation, want.Document, want.Previous, want.DocumentKey = d.Operation, d.Document, d.Previous, d.DocumentKey
		Must(t, s.Put(t.Context(), want))
		all := List(t, s, "images")
		Must(t, s.Delete(t.Context(), want))
		if len(all) != 1 {
			t.Fatalf("%d letters", len(all))
		}
		for name, image := range map[string][2]*json.RawMessage{
			"document": {&all[0].Document, &want.Document}, "previous": {&all[0].Previous, &want.Previous}, "key": {&all[0].DocumentKey, &want.DocumentKey},
		} {
			if !bytes.Equal(*image[0], *image[1]) || (*image[0] == nil) != (*image[1] == nil) {
				t.Errorf("letter %d: the %s did not come back as it was", i, name)
			}
			*image[0], *image[1] = nil, nil
		}
		Same(t, all[0], want)
	}
	Same(t, len(List(t, s, "images")), 0)
}

func testConcurrent(t *testing.T, s trigger.DeadLetters, open func(*testing.T) trigger.DeadLetters) {
	stores := []trigger.DeadLetters{s, open(t), open(t)}
	const letters = 12
	var all sync.WaitGroup
	for i := range letters * len(stores) { // each letter once through every store
		all.Go(func() {
			d := Sample("concurrent", fmt.Sprintf("%02d", i%letters))
			d.LSN = int64(i % letters)
			if err := stores[i/letters].Put(t.Context(), d); err != nil {
				t.Error(err)
			}
			if _, err := stores[i/letters].Holds(t.Context(), Of("concurrent"), d.Key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found := List(t, s, "concurrent")
	if got := IDs(found); len(got) != letters || !slices.IsSorted(got) {
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
	Same(t, IDs(List(t, open(t), "concurrent")), []string{})
}

// testDamage damages the oldest of three dead letters.
func testDamage(t *testing.T, s trigger.DeadLetters, open func(*testing.T) trigger.DeadLetters, damage Spoiling) {
	var all []trigger.DeadLetter
	for i, id := range []string{"a", "b", "c"} {
		d := Sample("damage "+damage.Name, id)
		d.Key, d.Time = `["`+id+`"]`, d.Time.Add(time.Duration(i)*time.Hour)
		Must(t, s.Put(t.Context(), d))
		all = append(all, d)
	}
	want := damage.Do(t, all[0])
	for _, s := range []trigger.DeadLetters{s, open(t)} {
		var got []string
		for d, err := range s.List(t.Context(), all[0].Source()) {
			if err == nil {
				got = append(got, d.ID)
				continue
			}
			got = append(got, "error")
			if !errors.Is(err, trigger.ErrDamaged) || !strings.Contains(err.Error(), want) {
				t.Errorf("damage of %s: %v", want, err)
			}
		}
		Same(t, got, []string{"b", "c", "error"})
		for i, d := range all {
			holds, err := s.Holds(t.Context(), d.Source(), d.Key)
			Must(t, err)
			if (i > 0 || damage.KeepsKey) && !holds {
				t.Errorf("does not hold the key of %s", d.ID)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range open(t).List(ctx, all[0].Source()) {
		if last != nil {
			t.Errorf("after the end of the list: %v", err)
		}
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) || errors.Is(last, trigger.ErrDamaged) {
		t.Errorf("a list that was cancelled ended with %v", last)
	}
}

func testCancelled(t *testing.T, s trigger.DeadLetters) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := Sample("cancelled", "a")
	if err := s.Put(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	Same(t, IDs(List(t, s, "cancelled")), []string{})
	Must(t, s.Put(t.Context(), d))
	if err := s.Delete(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Holds(ctx, d.Source(), d.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("holds: %v", err)
	}
	failed := 0
	for _, err := range s.List(ctx, Of("cancelled")) {
		if failed++; !errors.Is(err, context.Canceled) {
			t.Errorf("list: %v", err)
		}
	}
	if failed != 1 {
		t.Errorf("list ended with %d pairs, want its error", failed)
	}
	Same(t, IDs(List(t, s, "cancelled")), []string{"a"})
}
