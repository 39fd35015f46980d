package deadletter

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
)

var monday = time.Date(2026, 3, 2, 12, 0, 0, 123456789, time.UTC)

// sample returns a dead letter with every field set.
func sample(function, id string) trigger.DeadLetter {
	return trigger.DeadLetter{
		ID: id, Function: function, Account: "games", Database: "db", Container: "results", Range: "0", Epoch: 3, LSN: 17, Key: `["k"]`,
		Operation: trigger.Upsert, DocumentID: id, Document: json.RawMessage(`{"id":"` + id + `"}`), Written: monday.Truncate(time.Second),
		Error: "cannot <take> it", Stack: "goroutine 1 [running]", Attempts: 10, Time: monday,
	}
}

// of is the source of the samples of a function.
func of(function string) trigger.DeadLetterSource { return sample(function, "").Source() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func list(t testing.TB, s trigger.DeadLetters, function string) []trigger.DeadLetter {
	t.Helper()
	return listOf(t, s, of(function))
}

func listOf(t testing.TB, s trigger.DeadLetters, source trigger.DeadLetterSource) []trigger.DeadLetter {
	t.Helper()
	var all []trigger.DeadLetter
	for d, err := range s.List(t.Context(), source) {
		must(t, err)
		all = append(all, d)
	}
	return all
}

func ids(all []trigger.DeadLetter) []string {
	ids := []string{}
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

func same(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// spoiling damages a dead letter without using its store. do returns the text
// that the error must contain.
type spoiling struct {
	name     string
	do       func(*testing.T, trigger.DeadLetter) string
	keepsKey bool // of the letter, for Holds
}

// contract tests the guarantees of every store. The first call of open opens an
// empty store; later calls open the same store as another process would.
func contract(t *testing.T, open func(t *testing.T) trigger.DeadLetters, spoilings ...spoiling) {
	s := open(t)
	t.Run("empty", func(t *testing.T) {
		same(t, ids(list(t, s, "unknown")), []string{})
		holds, err := s.Holds(t.Context(), of("unknown"), `["k"]`)
		must(t, err)
		if holds {
			t.Error("holds a key of nothing")
		}
		must(t, s.Delete(t.Context(), sample("unknown", "absent")))
	})
	t.Run("durable, whole and stored once", func(t *testing.T) {
		want := sample("once", "a")
		want.LSN, want.Epoch, want.Blocked = math.MaxInt64, math.MaxInt64-1, true
		must(t, s.Put(t.Context(), want))
		later := want
		later.Time, later.Range, later.Epoch, later.Attempts = want.Time.Add(time.Hour), "7", 9, 3
		must(t, open(t).Put(t.Context(), later))
		same(t, list(t, open(t), "once"), []trigger.DeadLetter{want})
		must(t, s.Delete(t.Context(), want))
		must(t, s.Delete(t.Context(), want))
		same(t, ids(list(t, open(t), "once")), []string{})
		must(t, s.Put(t.Context(), later))
		same(t, list(t, open(t), "once"), []trigger.DeadLetter{later})
	})
	t.Run("order", func(t *testing.T) {
		var want []string
		var all []trigger.DeadLetter
		for i, p := range []struct {
			after time.Duration
			token string
			lsn   int64
		}{{0, "0", 9}, {0, "0", 10}, {0, "05C1-FF", 1}, {0, "1", 2}, {1, "0", 1}, {time.Second, "", 0}, {24 * time.Hour, "0", 1}} {
			d := sample("order", fmt.Sprintf("letter %d", i))
			d.Time, d.Range, d.LSN = monday.Add(p.after), p.token, p.lsn
			want, all = append(want, d.ID), append(all, d)
		}
		for _, i := range []int{4, 0, 6, 2, 5, 3, 1} {
			must(t, s.Put(t.Context(), all[i]))
		}
		same(t, ids(list(t, open(t), "order")), want)
		for range s.List(t.Context(), of("order")) { // a consumer may stop early
			break
		}
		var left []string
		for d, err := range s.List(t.Context(), of("order")) { // deletes while listing
			must(t, err)
			must(t, s.Delete(t.Context(), d))
			left = append(left, d.ID)
		}
		same(t, left, want)
		same(t, ids(list(t, open(t), "order")), []string{})
	})
	t.Run("functions and keys", func(t *testing.T) { contractScopes(t, s) })
	t.Run("containers", func(t *testing.T) { contractContainers(t, s) })
	t.Run("documents", func(t *testing.T) { contractDocuments(t, s, open) })
	t.Run("concurrent", func(t *testing.T) { contractConcurrent(t, s, open) })
	t.Run("cancelled", func(t *testing.T) { contractCancelled(t, s) })
	for _, damage := range spoilings {
		t.Run("damaged: "+damage.name, func(t *testing.T) { contractDamage(t, s, open, damage) })
	}
	t.Run("rejected", func(t *testing.T) {
		for _, d := range []trigger.DeadLetter{sample("rejected", ""), sample("rejected\xff", "a")} {
			if err := s.Put(t.Context(), d); err == nil {
				t.Errorf("%q of %q was stored", d.ID, d.Function)
			}
		}
	})
}

// contractScopes tests functions with similar or hostile names.
func contractScopes(t *testing.T, s trigger.DeadLetters) {
	functions := []string{"", "f", "F", "f/g", "f-g", "../../etc/passwd", `..\x`, "a_b..0", "nul\x00l", "%2e%2e/", "名前", strings.Repeat("long", 200), "con", "f' OR 1=1"}
	for _, f := range functions {
		d := sample(f, "same id")
		d.Key = `["` + fmt.Sprint(len(f)) + `"]`
		must(t, s.Put(t.Context(), d))
	}
	for _, f := range functions {
		all := list(t, s, f)
		if len(all) != 1 || all[0].Function != f {
			t.Errorf("function %q has %d letters", f, len(all))
			continue
		}
		for key, want := range map[string]bool{all[0].Key: true, `["other"]`: false, all[0].Key[:3]: false, "": false} {
			holds, err := s.Holds(t.Context(), of(f), key)
			must(t, err)
			if holds != want {
				t.Errorf("function %q holds %q: %t", f, key, holds)
			}
		}
	}
	for _, f := range functions {
		d := list(t, s, f)[0]
		must(t, s.Delete(t.Context(), d))
		holds, err := s.Holds(t.Context(), of(f), d.Key)
		must(t, err)
		if holds {
			t.Errorf("function %q still holds %q", f, d.Key)
		}
	}
}

// contractContainers tests functions of one name on several containers: none sees or
// deletes the dead letters of another.
func contractContainers(t *testing.T, s trigger.DeadLetters) {
	var all []trigger.DeadLetter
	for i, at := range [][3]string{
		{"games", "db", "results"}, {"games", "db", "others"}, {"games", "other", "results"}, {"others", "db", "results"}, {"games", "dbr", "esults"}, {"", "", ""},
	} {
		d := sample("containers", "same id")
		d.Account, d.Database, d.Container = at[0], at[1], at[2]
		d.Key = fmt.Sprintf(`["%d"]`, i)
		must(t, s.Put(t.Context(), d))
		all = append(all, d)
	}
	for i, d := range all {
		for _, o := range all {
			holds, err := s.Holds(t.Context(), d.Source(), o.Key)
			must(t, err)
			if holds != (d.Key == o.Key) {
				t.Errorf("%v holds %s: %t", d.Source(), o.Key, holds)
			}
		}
		for left := range all {
			n := 0
			for found, err := range s.List(t.Context(), all[left].Source()) {
				must(t, err)
				same(t, found, all[left])
				n++
			}
			if n == 1 != (left >= i) {
				t.Errorf("%v has %d letters after %d deletes", all[left].Source(), n, i)
			}
		}
		must(t, s.Delete(t.Context(), d))
	}
}

// large returns 2 MB that do not compress well.
func large() []byte {
	b := []byte(`{"id":"large","text":"`)
	for i := uint32(1); len(b) < 2<<20-2; i = i*1664525 + 1013904223 {
		b = append(b, ' '+byte(i>>24)%90)
	}
	return append(bytes.ReplaceAll(bytes.ReplaceAll(b, []byte(`\`), []byte("-")), []byte(`"`), []byte("'")), `"}`...)
}

func contractDocuments(t *testing.T, s trigger.DeadLetters, open func(*testing.T) trigger.DeadLetters) {
	for i, document := range []string{
		`{"id":"plain"}`,
		"{ \"spaces\" :\t1 ,\r\n\"number\": 1.00e+2, \"big\": 123456789012345678901234567890 }",
		`{"twice":1,"twice":2,"escaped":"\u003c\u0000\ud800 \/","html":"<&>"}`,
		"{\"separators\":\"\u2028\u2029\"}",
		"not JSON\x00at all\n\nL 00000001 00000000 \x7f",
		"\xff\xfe{\"id\":\"\xc3\x28\"}",
		"",
		strings.Repeat("\x01", 400_000),
		string(large()),
		string(append([]byte{0xff}, large()[1:]...)),
		`{"zeros":"` + strings.Repeat("0", 2<<20-12) + `"}`,
	} {
		d := sample("documents", fmt.Sprint("document ", i))
		d.Document = []byte(document)
		must(t, s.Put(t.Context(), d))
		must(t, s.Put(t.Context(), d))
		got := list(t, open(t), "documents")
		if len(got) != 1 || string(got[0].Document) != document {
			t.Fatalf("document %d did not come back as it was (%d letters)", i, len(got))
		}
		must(t, s.Delete(t.Context(), got[0]))
		got[0].Document, d.Document = nil, nil // cmp takes seconds for them
		same(t, got[0], d)
		same(t, len(list(t, s, "documents")), 0)
	}
	contractImages(t, s)
	d := sample("documents", "text that is not UTF-8")
	d.Error = "bad \xff byte"
	must(t, s.Put(t.Context(), d))
	d.Error = "bad \ufffd byte"
	same(t, list(t, s, "documents"), []trigger.DeadLetter{d})
}

// contractImages tests changes of all-versions mode. A missing image differs
// from an empty one.
func contractImages(t *testing.T, s trigger.DeadLetters) {
	old := large()
	for i, d := range []trigger.DeadLetter{
		{Operation: trigger.Replace, Document: json.RawMessage(`{"v":2}`), Previous: json.RawMessage(`{"v": 1}`)},
		{Operation: trigger.Delete, Previous: json.RawMessage("{\"v\":\"\xff\"}"), DocumentKey: json.RawMessage(`["k" ]`)},
		{Operation: trigger.Expire, DocumentKey: json.RawMessage("[\"\xfe\"]")},
		{Operation: trigger.Delete},
		{Operation: trigger.Create, Document: json.RawMessage{}, Previous: json.RawMessage{}, DocumentKey: json.RawMessage{}},
		{Operation: trigger.Replace, Document: old, Previous: old[1:]},
	} {
		want := sample("images", fmt.Sprint(i))
		want.Operation, want.Document, want.Previous, want.DocumentKey = d.Operation, d.Document, d.Previous, d.DocumentKey
		must(t, s.Put(t.Context(), want))
		all := list(t, s, "images")
		must(t, s.Delete(t.Context(), want))
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
		same(t, all[0], want)
	}
	same(t, len(list(t, s, "images")), 0)
}

func contractConcurrent(t *testing.T, s trigger.DeadLetters, open func(*testing.T) trigger.DeadLetters) {
	stores := []trigger.DeadLetters{s, open(t), open(t)}
	const letters = 12
	var all sync.WaitGroup
	for i := range letters * len(stores) { // each letter once through every store
		all.Go(func() {
			d := sample("concurrent", fmt.Sprintf("%02d", i%letters))
			d.LSN = int64(i % letters)
			if err := stores[i/letters].Put(t.Context(), d); err != nil {
				t.Error(err)
			}
			if _, err := stores[i/letters].Holds(t.Context(), of("concurrent"), d.Key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	found := list(t, s, "concurrent")
	if got := ids(found); len(got) != letters || !slices.IsSorted(got) {
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
	same(t, ids(list(t, open(t), "concurrent")), []string{})
}

// contractDamage damages the oldest of three dead letters.
func contractDamage(t *testing.T, s trigger.DeadLetters, open func(*testing.T) trigger.DeadLetters, damage spoiling) {
	var all []trigger.DeadLetter
	for i, id := range []string{"a", "b", "c"} {
		d := sample("damage "+damage.name, id)
		d.Key, d.Time = `["`+id+`"]`, d.Time.Add(time.Duration(i)*time.Hour)
		must(t, s.Put(t.Context(), d))
		all = append(all, d)
	}
	want := damage.do(t, all[0])
	for _, s := range []trigger.DeadLetters{s, open(t)} {
		var got []string
		for d, err := range s.List(t.Context(), all[0].Source()) {
			if err == nil {
				got = append(got, d.ID)
				continue
			}
			got = append(got, "error")
			if !errors.Is(err, trigger.ErrDamaged) || !isDamage(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("damage of %s: %v", want, err)
			}
		}
		same(t, got, []string{"b", "c", "error"})
		for i, d := range all {
			holds, err := s.Holds(t.Context(), d.Source(), d.Key)
			must(t, err)
			if (i > 0 || damage.keepsKey) && !holds {
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

func contractCancelled(t *testing.T, s trigger.DeadLetters) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := sample("cancelled", "a")
	if err := s.Put(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("put: %v", err)
	}
	same(t, ids(list(t, s, "cancelled")), []string{})
	must(t, s.Put(t.Context(), d))
	if err := s.Delete(ctx, d); !errors.Is(err, context.Canceled) {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Holds(ctx, d.Source(), d.Key); !errors.Is(err, context.Canceled) {
		t.Errorf("holds: %v", err)
	}
	failed := 0
	for _, err := range s.List(ctx, of("cancelled")) {
		if failed++; !errors.Is(err, context.Canceled) {
			t.Errorf("list: %v", err)
		}
	}
	if failed != 1 {
		t.Errorf("list ended with %d pairs, want its error", failed)
	}
	same(t, ids(list(t, s, "cancelled")), []string{"a"})
}
