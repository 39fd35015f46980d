package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/triggertest"
)

// stepping is a store whose process is killed at a step: one that changes the store, or the
// moment after it. It keeps the names before each step.
type stepping struct {
	Store
	t         testing.TB
	left      int // steps before the kill; -1 is none
	isAfter   bool
	snapshots [][]string
}

var errStopped = errors.New("process was killed")

func (s *stepping) step(change func() error) error {
	s.snapshots = append(s.snapshots, names(s.t, s.Store))
	if s.left == 0 && !s.isAfter {
		return errStopped
	}
	if err := change(); err != nil {
		return err
	}
	if s.left == 0 {
		return errStopped
	}
	s.left--
	return nil
}

func (s *stepping) Create(ctx context.Context, name string, body []byte, contentType string) (existed bool, err error) {
	err = s.step(func() error {
		existed, err = s.Store.Create(ctx, name, body, contentType)
		return err
	})
	return existed, err
}

func (s *stepping) Delete(ctx context.Context, name string) error {
	return s.step(func() error { return s.Store.Delete(ctx, name) })
}

// memory is a store of one test, which waits for no disk.
type memory map[string][]byte

func (m memory) Create(_ context.Context, name string, body []byte, _ string) (existed bool, err error) {
	if _, ok := m[name]; ok {
		return true, nil
	}
	m[name] = body
	return false, nil
}

func (m memory) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if strings.HasPrefix(name, prefix) && !yield(name, nil) {
				return
			}
		}
	}
}

func (m memory) Read(_ context.Context, name string) ([]byte, error) {
	if body, ok := m[name]; ok {
		return body, nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Delete(_ context.Context, name string) error {
	delete(m, name)
	return nil
}

// manyBlobs writes blobs of two closed partitions and an open one. Some changes are in two.
func manyBlobs(t *testing.T, store Store, options *Options) {
	t.Helper()
	a := New(store, options)
	var batches []trigger.Batch
	for i := range 8 {
		lsn, at := int64(10*i), noon.Add(time.Duration(i%2)*time.Hour)
		x, y := changeAt(fmt.Sprint("x", i), lsn, at), changeAt(fmt.Sprint("y", i), lsn+1, at)
		batches = append(batches, batchOf(fmt.Sprint(i%3), x, y), batchOf("10", y, changeAt("z", lsn+2, at)))
	}
	for _, b := range append(batches, batchOf("0", changeAt("open", 99, noon.Add(2*time.Hour)), changeAt("open", 98, noon.Add(2*time.Hour)))) {
		if err := a.Handle(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// changesOf returns the changes of each blob.
func changesOf(t *testing.T, store Store, into map[string][]string) {
	t.Helper()
	for _, name := range names(t, store) {
		records, err := readBlob(t.Context(), store, name)
		if err != nil {
			t.Fatal(err)
		}
		into[name] = nil
		for _, r := range records {
			into[name] = append(into[name], r.Change)
		}
	}
}

// Compact is killed at each of its steps. What readers find stays the same, and another run
// completes it: then each change is stored once, in one blob of its closed partition.
func TestCompactionIsKilledAtEachStep(t *testing.T) {
	closed, options := noon.Add(2*time.Hour), &Options{Prefix: "a/", Format: JSONLines}
	for point := 0; ; point++ { // before a step, and after it
		stored := memory{}
		manyBlobs(t, stored, options)
		want := read(t, stored, "a/")
		blobs := map[string][]string{}
		changesOf(t, stored, blobs)
		killed := &stepping{Store: stored, t: t, left: point / 2, isAfter: point%2 == 1}
		_, err := New(killed, options).Compact(t.Context(), closed)
		requireSame(t, want, read(t, stored, "a/"))
		changesOf(t, stored, blobs)
		if err := New(stored, options).Handle(t.Context(), batchOf("0", changeAt("x0", 0, noon), changeAt("y0", 1, noon))); err != nil {
			t.Fatal(err) // a redelivery
		}
		again := &stepping{Store: stored, t: t, left: -1}
		if _, err := New(again, options).Compact(t.Context(), closed); err != nil {
			t.Fatal(err)
		}
		requireSame(t, want, read(t, stored, "a/"))
		changesOf(t, stored, blobs)
		requireNoGap(t, len(want), blobs, append(append(killed.snapshots, again.snapshots...), names(t, stored)))
		if got := names(t, stored); len(got) != 3 {
			t.Errorf("point %d: blobs are %q, want one of each partition", point, got)
		}
		if err == nil {
			break // the last step was before
		}
		if !errors.Is(err, errStopped) {
			t.Fatal(err)
		}
	}
}

// A change that comes late joins a compacted blob, whose name is then another one.
func TestLateChangesAreCompacted(t *testing.T) {
	stored, options := memory{}, &Options{Format: JSONLines}
	a := New(stored, options)
	for _, change := range []trigger.Change{changeAt("x", 7, noon), changeAt("y", 8, noon), changeAt("late", 1, noon)} {
		if err := a.Handle(t.Context(), batchOf("0", change)); err != nil {
			t.Fatal(err)
		}
		steps := &stepping{Store: stored, t: t, left: -1}
		blobs, present := map[string][]string{}, len(read(t, stored, ""))
		changesOf(t, stored, blobs)
		if _, err := New(steps, options).Compact(t.Context(), noon.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		changesOf(t, stored, blobs)
		requireNoGap(t, present, blobs, append(steps.snapshots, names(t, stored)))
		if got := names(t, stored); len(got) != 1 {
			t.Errorf("blobs are %q", got)
		}
	}
}

func requireSame(t *testing.T, want, got []Record) {
	t.Helper()
	order := func(a, b Record) int { return strings.Compare(a.Change, b.Change) }
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.EqualFunc(want, got, func(a, b Record) bool {
		return a.Change == b.Change && a.ID == b.ID && a.LSN == b.LSN && a.Time.Equal(b.Time) && bytes.Equal(a.Document, b.Document)
	}) {
		t.Fatalf("changes are %v, want %v", idsOf(got), idsOf(want))
	}
}

// requireNoGap has readers list names in order while blobs are replaced: a part of the names
// at one step, and the rest at a later one. Each finds all changes.
func requireNoGap(t *testing.T, changes int, blobs map[string][]string, snapshots [][]string) {
	t.Helper()
	for i, first := range snapshots {
		for _, second := range snapshots[i:] {
			for _, cut := range append(first, "") {
				found := map[string]bool{}
				for _, name := range first {
					if name <= cut {
						maps.Insert(found, setOf(blobs[name]))
					}
				}
				for _, name := range second {
					if name > cut {
						maps.Insert(found, setOf(blobs[name]))
					}
				}
				if len(found) != changes {
					t.Fatalf("a reader that lists %q, and %q after %q, finds %d changes of %d", first, second, cut, len(found), changes)
				}
			}
		}
	}
}

func setOf(changes []string) func(func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		for _, change := range changes {
			if !yield(change, true) {
				return
			}
		}
	}
}

// A partition with more documents than memory allows has several blobs, and a further run
// changes nothing.
func TestCompactedBlobsAreBounded(t *testing.T) {
	eachStore(t, func(t *testing.T, store Store, _ map[string]string) {
		manyBlobs(t, store, &Options{Prefix: "a/"})
		want := read(t, store, "a/")
		a := New(store, &Options{Prefix: "a/"})
		a.compactedBytes = 300 // about six documents
		var runs []string
		for range 4 {
			done, err := a.Compact(t.Context(), noon.Add(24*time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, fmt.Sprint(done.Partitions, done.Replaced > done.Blobs, done.Blobs > done.Partitions))
			requireSame(t, want, read(t, store, "a/"))
		}
		if runs[0] != "2 true true" || runs[3] != "0 false false" {
			t.Errorf("runs are %q", runs)
		}
	})
}

// Columns of the settings are in compacted blobs, with their values.
func TestCompactedBlobsHaveColumns(t *testing.T) {
	var columns Columns
	if err := columns.Decode("n:long=/n"); err != nil {
		t.Fatal(err)
	}
	store := Directory(t.TempDir())
	options := &Options{Prefix: "a/", Format: JSONLines, Columns: columns}
	manyBlobs(t, store, options)
	a := New(store, options)
	if _, err := a.Compact(t.Context(), noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	body, err := store.Read(t.Context(), names(t, store)[0])
	if err != nil {
		t.Fatal(err)
	}
	if text := unzip(t, body); !strings.Contains(text, `"n":61`) {
		t.Errorf("the compacted blob has no column n: %s", text)
	}
}

func TestPartitionsEnd(t *testing.T) {
	for path, want := range map[string]string{
		"dt=2026-11-22/hour=23/": "2026-11-23T00:00:00Z", "dt=2026-12-31/": "2027-01-01T00:00:00Z", "dt=2026-11-22/hour=24/": "", "other/": "",
	} {
		end, ok := partitionEnd(path)
		if ok != (want != "") || ok && end.Format(time.RFC3339) != want {
			t.Errorf("%s ends %v, %v; want %s", path, end, ok, want)
		}
	}
}

// The command compacts what is checkpointed, and nothing of a range that is behind.
func TestCompactCommand(t *testing.T) {
	directory := t.TempDir()
	t.Setenv("HALLEY_ARCHIVE_DIRECTORY", directory)
	w := triggertest.NewWorld(t, nil)
	settings, err := entry.Load()
	if err != nil {
		t.Fatal(err)
	}
	inspect := func(context.Context, string) (handlers.Inspection, error) {
		client := clientOf(t, w, w.Account()) // one that has seen the account's clock does not follow Advance at once
		return handlers.Inspection{
			Settings: settings, Leases: client.Container(triggertest.Database, "leases"),
			Function: trigger.Function{FeedSource: trigger.FeedSource{Name: "test", Container: client.Container(triggertest.Database, triggertest.Container)}},
		}, nil
	}
	run := func(arguments ...string) (string, error) {
		var out bytes.Buffer
		c := Command(inspect)
		c.SetArgs(append([]string{"compact"}, arguments...))
		c.SetOut(&out)
		c.SetErr(&out)
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "no host has run the function yet") {
		t.Errorf("before the first host: %v", err)
	}
	w.Put(`{"id":"now"}`)
	w.Host(New(Directory(directory), &Options{Prefix: "archive/"}).Handle).Drain()
	closed := time.Now().Add(-48 * time.Hour)
	handle := New(Directory(directory), &Options{Prefix: "archive/"}).Handle
	for n := range 3 {
		if err := handle(t.Context(), batchOf("0", changeAt("old", int64(n), closed))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run("--margin", "-1s"); err == nil || !strings.Contains(err.Error(), "must not be below 0") {
		t.Errorf("a negative margin: %v", err)
	}
	if out, err := run("--margin", "96h"); err != nil || !strings.HasPrefix(out, "0 files of 0 partitions") {
		t.Errorf("within the margin: %q, %v", out, err)
	}
	w.Put(`{"id":"behind"}`)
	w.Advance(96 * time.Hour)
	if out, err := run(); err != nil || !strings.HasPrefix(out, "0 files of 0 partitions") {
		t.Errorf("while a range is behind: %q, %v", out, err)
	}
	w.Host(handle).Drain()
	if out, err := run(); err != nil || !strings.HasPrefix(out, "3 files of 1 partitions") || !strings.HasSuffix(out, "are replaced by 1\n") {
		t.Errorf("when all is archived: %q, %v", out, err)
	}
	if got := idsOf(read(t, Directory(directory), "archive/")); len(got) != 5 {
		t.Errorf("archived %q", got)
	}
	settings = &struct{}{}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "--function archive: not an archive") {
		t.Errorf("another handler's settings: %v", err)
	}
}
