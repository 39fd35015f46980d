package archive

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// shelf is a store in memory that calls a function around each creation of a blob. An error
// before it keeps the blob from being created, one after it keeps its writer from knowing.
type shelf struct {
	memory
	mu     sync.Mutex
	around func(isAfter bool) error
}

func (s *shelf) Create(ctx context.Context, name string, body []byte, contentType string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.call(false); err != nil {
		return false, err
	}
	existed, err := s.memory.Create(ctx, name, body, contentType)
	return existed, errors.Join(err, s.call(true))
}

func (s *shelf) call(isAfter bool) error {
	if s.around == nil {
		return nil
	}
	return s.around(isAfter)
}

func ageingOptions(w *triggertest.World, kind Ageing) AgeingOptions {
	options := AgeingOptions{Kind: kind, Container: w.Client().Container(triggertest.Database, triggertest.Container), Place: "here", PerSecond: 100_000}
	if kind == AgeingTTL {
		options.After = time.Hour
	}
	return options
}

// newAged returns an archive whose documents age, and its store.
func newAged(w *triggertest.World, kind Ageing) (*Archive, *shelf) {
	store := &shelf{memory: memory{}}
	a := New(store, &Options{Format: JSONLines})
	a.AgeOut(ageingOptions(w, kind))
	return a, store
}

// eachMode runs a test in both modes of the feed.
func eachMode(t *testing.T, test func(t *testing.T, f trigger.Function)) {
	for name, mode := range map[string]cosmos.Mode{"latest version": cosmos.ModeLatestVersion, "all versions": cosmos.ModeAllVersions} {
		t.Run(name, func(t *testing.T) {
			test(t, trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: mode}})
		})
	}
}

// started returns a world whose function has begun to read.
func started(t *testing.T, f trigger.Function) *triggertest.World {
	w := triggertest.NewWorld(t, &triggertest.Options{Function: f})
	w.Host(func(context.Context, trigger.Batch) error { return nil }).Drain() // all versions begin now
	return w
}

func onlyDocument(t *testing.T, w *triggertest.World) json.RawMessage {
	t.Helper()
	documents := w.Documents()
	if len(documents) != 1 {
		t.Fatalf("documents %s, want one", documents)
	}
	return documents[0]
}

// A change that only sets the ttl is neither archived nor aged again, and the document expires.
func TestArchivedDocumentGetsTTL(t *testing.T) {
	eachMode(t, func(t *testing.T, f trigger.Function) {
		w := started(t, f)
		a, store := newAged(w, AgeingTTL)
		w.Advance(20 * time.Minute) // the clock of this machine is late
		w.Put(`{"id":"x","n":1,"text":"<&>","nested":{"b":1.50,"a":[]}}`)
		for range 3 {
			w.Host(a.Handle).Drain()
		}
		if all := read(t, store, ""); len(all) != 1 || string(cosmos.Property(all[0].Document, "n")) != "1" {
			t.Errorf("archived %+v, want one change", all)
		}
		document := onlyDocument(t, w)
		if ttl := string(cosmos.Property(document, "ttl")); ttl != "3600" {
			t.Errorf("ttl %s, want 3600: %s", ttl, document)
		}
		if text := string(cosmos.Property(document, "text")); text != `"<&>"` && text != `"\u003c\u0026\u003e"` {
			t.Errorf("text %s", text)
		}
		w.Advance(time.Hour + time.Second)
		if rest := w.Documents(); len(rest) != 0 {
			t.Errorf("documents %s, want none", rest)
		}
	})
}

func TestArchivedDocumentIsDeleted(t *testing.T) {
	w := started(t, trigger.Function{})
	a, store := newAged(w, AgeingDelete)
	w.Put(`{"id":"x","n":1}`)
	w.Host(a.Handle).Drain()
	if all := read(t, store, ""); len(all) != 1 || len(w.Documents()) != 0 {
		t.Errorf("archived %+v, documents %s", all, w.Documents())
	}
}

// A change between the archived version and its ageing wins, also if its client has kept the
// mark and the ttl of an earlier version.
func TestChangeInBetweenWins(t *testing.T) {
	eachMode(t, func(t *testing.T, f trigger.Function) {
		w := started(t, f)
		a, store := newAged(w, AgeingTTL)
		n, isChanging := 1, false
		store.around = func(isAfter bool) error {
			if isAfter && isChanging {
				isChanging = false
				n++
				w.Put(withNumber(t, onlyDocument(t, w), n))
			}
			return nil
		}
		w.Put(`{"id":"x","n":1}`)
		w.Host(a.Handle).Drain()
		for range 2 {
			n++
			isChanging = true
			w.Put(withNumber(t, onlyDocument(t, w), n))
			w.Host(a.Handle).Drain()
			w.Host(a.Handle).Drain()
			if isChanging {
				t.Fatal("nothing was archived")
			}
		}
		document := onlyDocument(t, w)
		if parsed, err := parseContent(document); err != nil || !parsed.isMarked(a.ager.archive) {
			t.Errorf("the document has not aged: %s (%v)", document, err)
		}
		if counts := numbers(t, store)["x"]; len(counts) != n || counts[n] != 1 {
			t.Errorf("versions archived so often: %v, want each of %d once", counts, n)
		}
	})
}

// withNumber is a document as a client writes it that has read and modified it.
func withNumber(t *testing.T, document json.RawMessage, n int) json.RawMessage {
	t.Helper()
	parsed, err := parseContent(document)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]any{markProperty: parsed.marks}
	for name, value := range parsed.properties {
		written[name] = value
	}
	written["n"] = n
	raw, err := json.Marshal(written)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// numbers counts the archived rows of each version of each document.
func numbers(t *testing.T, store Store) map[string]map[int]int {
	t.Helper()
	found := map[string]map[int]int{}
	for _, r := range read(t, store, "") {
		var n int
		if r.Document == nil {
			continue
		}
		if err := json.Unmarshal(cosmos.Property(r.Document, "n"), &n); err != nil {
			t.Fatal(err)
		}
		if found[r.ID] == nil {
			found[r.ID] = map[int]int{}
		}
		found[r.ID][n]++
	}
	return found
}

// A client that writes an archived version again, later, writes a version of its own.
func TestOldMarkIsNoOwnWrite(t *testing.T) {
	w := started(t, trigger.Function{})
	a, store := newAged(w, AgeingTTL)
	w.Put(`{"id":"x","n":1}`)
	w.Host(a.Handle).Drain()
	first := onlyDocument(t, w)
	w.Put(withNumber(t, first, 2))
	w.Host(a.Handle).Drain()
	w.Advance(time.Minute)
	w.Put(withNumber(t, first, 1)) // with the mark of the first version
	w.Host(a.Handle).Drain()
	if counts := numbers(t, store)["x"]; counts[1] != 2 || counts[2] != 1 {
		t.Errorf("versions archived so often: %v", counts)
	}
}

func TestOtherArchiveGetsAgedDocuments(t *testing.T) {
	w := started(t, trigger.Function{})
	a, _ := newAged(w, AgeingTTL)
	w.Put(`{"id":"x","n":1}`)
	w.Host(a.Handle).Drain()
	other, store := newAged(w, AgeingTTL)
	options := ageingOptions(w, AgeingTTL)
	options.Place = "there"
	other.AgeOut(options)
	document := onlyDocument(t, w)
	if err := other.Handle(t.Context(), trigger.NewBatch(triggertest.Upsert(string(document), "x"))); err != nil {
		t.Fatal(err)
	}
	if all := read(t, store, ""); len(all) != 1 {
		t.Errorf("archived %+v, want the document", all)
	}
	// Both have set the ttl: neither does it again.
	parsed, err := parseContent(onlyDocument(t, w))
	if err != nil || !parsed.isMarked(a.ager.archive) || !parsed.isMarked(other.ager.archive) {
		t.Errorf("marks %v (%v), want two", parsed.marks, err)
	}
}

func TestDocumentsThatDoNotAge(t *testing.T) {
	for name, test := range map[string]struct {
		document string
		change   func(f *trigger.Function, o *AgeingOptions)
	}{
		"ttl of its own": {`{"id":"x","n":1,"ttl":99999}`, nil},
		"soft-deleted":   {`{"id":"x","n":1,"gone":true}`, func(f *trigger.Function, _ *AgeingOptions) { f.SoftDeleteProperty = "gone" }},
		"dry run":        {`{"id":"x","n":1}`, func(_ *trigger.Function, o *AgeingOptions) { o.DryRun = true }},
		"dry delete":     {`{"id":"x","n":1}`, func(_ *trigger.Function, o *AgeingOptions) { o.DryRun, o.Kind = true, AgeingDelete }},
	} {
		t.Run(name, func(t *testing.T) {
			var f trigger.Function
			options := AgeingOptions{Kind: AgeingTTL}
			if test.change != nil {
				test.change(&f, &options)
			}
			w := started(t, f)
			a, store := newAged(w, options.Kind)
			aged := ageingOptions(w, options.Kind)
			aged.DryRun = options.DryRun
			a.AgeOut(aged)
			w.Put(test.document)
			w.Host(a.Handle).Drain()
			if document := string(onlyDocument(t, w)); strings.Contains(document, markProperty) || len(read(t, store, "")) != 1 {
				t.Errorf("document %s, archived %+v", document, read(t, store, ""))
			}
		})
	}
}

// A change that is dead-lettered or postponed is not archived, and its document does not age.
func TestUnarchivedDocumentStays(t *testing.T) {
	for name, verdict := range map[string]error{"dead-lettered": trigger.Skip(errors.New("refused")), "postponed": trigger.RetryAfter(errors.New("later"), time.Hour)} {
		for _, kind := range []Ageing{AgeingTTL, AgeingDelete} {
			t.Run(name+" "+string(kind), func(t *testing.T) {
				w := started(t, trigger.Function{})
				a, store := newAged(w, kind)
				store.around = func(isAfter bool) error {
					if isAfter {
						return nil
					}
					return verdict
				}
				w.Put(`{"id":"x","n":1}`)
				w.Host(a.Handle).Drain()
				if document := string(onlyDocument(t, w)); strings.Contains(document, "ttl") || len(w.DeadLetters())+len(w.Postponed()) != 1 {
					t.Errorf("document %s, dead letters %v, postponed %v", document, w.DeadLetters(), w.Postponed())
				}
			})
		}
	}
}

func TestAgeingIsBoundedEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pacer{interval: 10 * time.Millisecond}
		begin := time.Now()
		for range 11 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if passed := time.Since(begin); passed != 100*time.Millisecond {
			t.Errorf("11 documents in %v, want 100 ms", passed)
		}
	})
}

// Documents for which the time of the call does not suffice fail by their names.
func TestDocumentsBeyondTheBoundAreLeft(t *testing.T) {
	w := started(t, trigger.Function{})
	a, _ := newAged(w, AgeingTTL)
	a.ager.pacer.interval = time.Hour
	w.Put(`{"id":"x","n":1}`)
	w.Put(`{"id":"y","n":1}`)
	var changes []trigger.Change
	for _, document := range w.Documents() {
		changes = append(changes, triggertest.Upsert(string(document), strings.Trim(string(cosmos.Property(document, "id")), `"`)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v := triggertest.Deliver(t, func(_ context.Context, b trigger.Batch) error { return a.Handle(ctx, b) }, changes...)
	if len(v.Handled) != 1 || len(v.Failed) != 1 {
		t.Errorf("verdict %v, want one handled and one failed: %v", v, v.Err)
	}
}

func TestAgeingNeedsTimeToLive(t *testing.T) {
	w := started(t, trigger.Function{})
	if err := w.Client().CreateContainer(t.Context(), triggertest.Database, cosmos.ContainerDefinition{ID: "plain", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}); err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	setAll(t, map[string]string{"HALLEY_ARCHIVE_DIRECTORY": directory, "HALLEY_ARCHIVE_AGE_OUT": "ttl", "HALLEY_ARCHIVE_AGE_AFTER": "720h"})
	env := handlerstest.Env(w)
	env.ContainerName = "plain"
	var probes []handlers.Probe
	env.Probe = func(p handlers.Probe) { probes = append(probes, p) }
	handler := handlerstest.Under(t, entry, env)
	if len(probes) != 2 {
		t.Fatalf("%d probes, want those of the store and of the container", len(probes))
	}
	v := triggertest.Deliver(t, handler, triggertest.Upsert(`{"id":"x","_etag":"e"}`, "x"))
	for name, err := range map[string]error{"probe": probes[1].Try(t.Context()), "call": v.Err} {
		if err == nil || !strings.Contains(err.Error(), "set its defaultTtl to -1") {
			t.Errorf("%s: error %v, want one with its fix", name, err)
		}
	}
	if blobs := names(t, Directory(directory)); len(blobs) != 0 {
		t.Errorf("blobs %q, want none: each attempt would write some", blobs)
	}
}

// A client keeps the ttl of the first version. The second one is archived when more than half
// of it is over.
func TestLateArchiveIsReported(t *testing.T) {
	w := started(t, trigger.Function{})
	a, _ := newAged(w, AgeingTTL)
	core, logs := observer.New(zap.WarnLevel)
	a.ager.Logger = zap.New(core)
	w.Put(`{"id":"x","n":1}`)
	w.Host(a.Handle).Drain()
	for _, test := range []struct {
		late time.Duration
		want int
	}{{20 * time.Minute, 0}, {40 * time.Minute, 1}} {
		w.Put(withNumber(t, onlyDocument(t, w), int(test.late)))
		w.Advance(test.late)
		a.ager.skew.Add(int64(test.late / time.Second))
		w.Host(a.Handle).Drain()
		if got := logs.FilterMessageSnippet("the archive is late").Len(); got != test.want {
			t.Errorf("%d warnings after %v, want %d", got, test.late, test.want)
		}
	}
}
