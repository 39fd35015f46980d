package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/lease"
)

// inVersionsWorld runs test in a bubble, on a container that keeps all versions for an
// hour and allows a ttl in documents.
func inVersionsWorld(t *testing.T, ranges int, opts *emulator.Options, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		if opts == nil {
			opts = &emulator.Options{PreviousImages: true}
		}
		account, err := emulator.New(opts)
		must(t, err)
		defer account.Close()
		w := &world{t: t, account: account, written: map[string]int{}}
		client, ctx, off := w.client(), t.Context(), -1
		must(t, client.CreateDatabase(ctx, "db"))
		must(t, client.CreateContainer(ctx, "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Throughput: ranges * 10_000,
			DefaultTTL: &off, Retention: time.Hour,
		}))
		must(t, client.CreateContainer(ctx, "db", cosmos.ContainerDefinition{
			ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
		}))
		w.items, w.leases = client.Container("db", "items"), client.Container("db", "leases")
		test(t, w)
	})
}

// allVersions sets the mode of a function.
func allVersions(f *Function, _ *Options) {
	f.ChangeFeedMode, f.StartFrom = cosmos.ModeAllVersions, FromNow()
}

// versionHistory records the versions that a handler got, and those that were written.
type versionHistory struct {
	mu   sync.Mutex
	seen []string // per change: "id: operation before→after"; "-" is a missing image
	done []string // the same, as it was written
}

func (h *versionHistory) handler() Handler {
	return Versions(func(_ context.Context, versions []Version[document]) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, v := range versions {
			h.seen = append(h.seen, describeVersion(v.Change.ID(), v.Operation, versionText(v.Previous), versionText(v.Current)))
		}
		return nil
	})
}

func describeVersion(id string, operation cosmos.Operation, oldImage, newImage string) string {
	return fmt.Sprintf("%s: %s %s→%s", id, operation, oldImage, newImage)
}

func versionText(d *document) string {
	if d == nil {
		return "-"
	}
	return fmt.Sprint(d.Version)
}

// put writes the next version of a document, with its id as the player. A ttl other
// than 0 expires the document after that number of seconds.
func (h *versionHistory) put(w *world, id string, ttl int) {
	w.t.Helper()
	version := w.written[id] + 1
	doc := map[string]any{"id": id, "player": id, "version": version}
	if ttl != 0 {
		doc["ttl"] = ttl
	}
	operation, oldImage := cosmos.OperationCreate, "-"
	if _, err := w.items.Read(w.t.Context(), id, cosmos.NewPartitionKey(id)); err == nil {
		operation, oldImage = cosmos.OperationReplace, fmt.Sprint(version-1)
	}
	_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(id), doc)
	must(w.t, err)
	w.written[id] = version
	h.done = append(h.done, describeVersion(id, operation, oldImage, fmt.Sprint(version)))
	if ttl > 0 {
		h.done = append(h.done, describeVersion(id, cosmos.OperationExpire, fmt.Sprint(version), "-"))
	}
}

// remove deletes a document.
func (h *versionHistory) remove(w *world, id string) {
	w.t.Helper()
	_, err := w.items.Delete(w.t.Context(), id, cosmos.NewPartitionKey(id), "")
	must(w.t, err)
	h.done = append(h.done, describeVersion(id, cosmos.OperationDelete, fmt.Sprint(w.written[id]), "-"))
}

// checkComplete checks that every version was delivered once, and in order per document.
func (h *versionHistory) checkComplete(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	linesByID := func(lines []string) map[string][]string {
		grouped := map[string][]string{}
		for _, l := range lines {
			id, description, _ := strings.Cut(l, ": ")
			grouped[id] = append(grouped[id], description)
		}
		return grouped
	}
	seen, done := linesByID(h.seen), linesByID(h.done)
	for id := range done {
		if !slices.Equal(seen[id], done[id]) {
			t.Errorf("%s: saw  %v\n\twant %v", id, seen[id], done[id])
		}
	}
	if len(seen) != len(done) {
		t.Errorf("saw %d documents, want %d", len(seen), len(done))
	}
}

func TestAllVersionsArriveInOrder(t *testing.T) {
	inVersionsWorld(t, 2, nil, func(t *testing.T, w *world) {
		h := &versionHistory{}
		w.writeMany("before", 10) // written before the start
		stop := w.startHost(w.host("a", h.handler(), allVersions))
		time.Sleep(30 * time.Second)
		for i := range 12 {
			id := fmt.Sprint("doc", i)
			h.put(w, id, 0)
			h.put(w, id, 0)
			if i%3 == 0 {
				h.remove(w, id)
				h.put(w, id, 0)
			}
			if i%4 == 0 {
				h.put(w, id, 20)
			}
		}
		time.Sleep(time.Minute)
		h.checkComplete(t)
		for token, l := range w.leaseDocuments() {
			if l.mode != "Full-Fidelity Feed" || l.continuation == "" {
				t.Errorf("lease %s has mode %q at %s", token, l.mode, l.continuation)
			}
		}
		stop()
	})
}

func TestAllVersionsThroughSplitsAndRestarts(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		h := &versionHistory{}
		_, err := w.host("a", h.handler(), allVersions).Drain(t.Context()) // creates the leases
		must(t, err)
		stop := func() {}
		for round := range 8 {
			switch round % 4 {
			case 0:
				stop = w.startHost(w.host(fmt.Sprint("host", round), h.handler(), allVersions))
			case 1, 3:
				ranges, err := w.items.Ranges(t.Context())
				must(t, err)
				_, err = w.account.Split("db", "items", ranges[round%len(ranges)].ID)
				must(t, err)
			case 2:
				stop() // no host runs when the next range splits
			}
			for i := range 15 {
				id := fmt.Sprint("doc", i)
				h.put(w, id, 0)
				if (i+round)%5 == 0 {
					h.remove(w, id)
				}
				if (i+round)%7 == 0 {
					h.put(w, id, 1)
					time.Sleep(2 * time.Second)
				}
			}
			time.Sleep(20 * time.Second)
		}
		stop = w.startHost(w.host("last", h.handler(), allVersions))
		time.Sleep(5 * time.Minute)
		h.checkComplete(t)
		leases := w.leaseDocuments()
		if len(leases) != 5 {
			t.Errorf("%d leases after four splits", len(leases))
		}
		for token, l := range leases {
			if l.mode != "Full-Fidelity Feed" {
				t.Errorf("lease %s of a split has mode %q", token, l.mode)
			}
		}
		stop()
	})
}

func TestModeOfLeasesCannotBeSwitched(t *testing.T) {
	latest := func(f *Function, _ *Options) {}
	for _, tt := range []struct {
		name          string
		first, second func(*Function, *Options)
	}{
		{"to all versions", latest, allVersions},
		{"to latest version", allVersions, latest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
				_, err := w.host("a", w.recorder("a"), tt.first).Drain(t.Context())
				must(t, err)
				w.writeMany("doc", 3)
				err = w.host("b", w.recorder("b"), tt.second).Run(t.Context())
				if !errors.Is(err, lease.ErrSetup) || !strings.Contains(err.Error(), "Full-Fidelity Feed") || !strings.Contains(err.Error(), "reset the leases") {
					t.Errorf("run in the other mode: %v", err)
				}
				if _, err = w.host("b", w.recorder("b"), tt.second).Drain(t.Context()); !errors.Is(err, lease.ErrSetup) {
					t.Errorf("drain in the other mode: %v", err)
				}
				_, err = w.host("a", w.recorder("a"), tt.first).Drain(t.Context())
				must(t, err)
				w.checkComplete(0)
				reset := func(f *Function, o *Options) { tt.second(f, o); f.ResetLeases = true }
				_, err = w.host("b", w.recorder("b"), reset).Drain(t.Context())
				must(t, err)
			})
		})
	}
}

func TestAllVersionsNeedRetentionPolicy(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"), allVersions)
		if _, err := h.Drain(t.Context()); err == nil || !strings.Contains(err.Error(), "changeFeedPolicy") {
			t.Errorf("drain without a policy: %v", err)
		}
	})
	for _, start := range []Start{FromBeginning(), FromTime(time.Now())} {
		f := Function{FeedSource: FeedSource{Name: "f", Container: new(cosmos.Container), ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: start}, Handler: func(context.Context, Batch) error { return nil }}
		if _, err := f.complete(); err == nil || !strings.Contains(err.Error(), start.String()) {
			t.Errorf("all versions from %s: %v", start, err)
		}
	}
}

func TestSoftDeletesAndExpiriesInLatestVersionMode(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		var seen []string
		h := w.host("a", func(_ context.Context, b Batch) error {
			for _, c := range b.Changes {
				var d document
				if err := c.Decode(&d); err != nil {
					return err
				}
				seen = append(seen, describeVersion(d.ID, c.Operation, "", fmt.Sprint(d.Version)))
			}
			return nil
		}, func(f *Function, _ *Options) { f.SoftDeleteProperty = "deleted" })
		write := func(doc string) {
			_, err := w.items.Upsert(t.Context(), cosmos.NewPartitionKey("p"), json.RawMessage(doc))
			must(t, err)
		}
		stop := w.startHost(h)
		time.Sleep(time.Minute)
		write(`{"id":"a","player":"p","version":1}`)
		write(`{"id":"b","player":"p","version":1,"deleted":false}`)
		write(`{"id":"c","player":"p","version":1,"deleted":"yes"}`)
		time.Sleep(10 * time.Second)
		write(`{"id":"a","player":"p","version":2,"deleted":true,"ttl":60}`) // read, and expired later
		time.Sleep(10 * time.Second)
		_, err := w.items.Delete(t.Context(), "b", cosmos.NewPartitionKey("p"), "") // not in this mode of the feed
		must(t, err)
		time.Sleep(2 * time.Second)                                         // the host polls every five
		write(`{"id":"d","player":"p","version":1,"deleted":true,"ttl":1}`) // expires between two reads
		time.Sleep(2 * time.Minute)
		stop()
		want := []string{"a: upsert →1", "b: upsert →1", "c: upsert →1", "a: delete →2"}
		if !slices.Equal(seen, want) {
			t.Errorf("saw %v\nwant %v", seen, want)
		}
		if _, err := w.items.Read(t.Context(), "a", cosmos.NewPartitionKey("p")); !cosmos.IsNotFound(err) {
			t.Errorf("the document with a ttl: %v", err)
		}
	})
}

func TestDocumentsRefuseDeletes(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		store, versions := &memoryStore{}, []int{}
		handler := Documents(func(_ context.Context, docs []document) error {
			for _, d := range docs {
				versions = append(versions, d.Version)
			}
			return nil
		})
		host := func() *Host {
			return w.host("a", handler, allVersions, withoutLogger, withStore(store, func(f *Function) { f.MaxAttempts = 2 }))
		}
		_, err := host().Drain(t.Context())
		must(t, err)
		h := &versionHistory{}
		h.put(w, "doc", 0)
		h.remove(w, "doc")
		h.put(w, "doc", 0)
		_, err = host().Drain(t.Context())
		must(t, err)
		if !slices.Equal(versions, []int{1, 2}) || len(store.deadLetters) != 1 || !strings.Contains(store.deadLetters[0].Error, "use Versions") {
			t.Errorf("documents %v, dead letters %+v", versions, store.deadLetters)
		}
	})
}

func TestDeadLetteredDeletesReplay(t *testing.T) {
	for _, withoutPrevious := range []bool{false, true} {
		t.Run(fmt.Sprint("without previous images ", withoutPrevious), func(t *testing.T) {
			inVersionsWorld(t, 1, &emulator.Options{PreviousImages: !withoutPrevious}, func(t *testing.T, w *world) {
				store, h := &memoryStore{}, &versionHistory{}
				fail := func(_ context.Context, b Batch) error { return errPoison }
				block := func(f *Function) { f.MaxAttempts, f.BlockKeys, f.Lanes = 1, true, 3 }
				_, err := w.host("a", fail, allVersions).Drain(t.Context())
				must(t, err)
				h.put(w, "doc", 0)
				h.remove(w, "doc")
				h.put(w, "doc", 5)
				h.put(w, "other", 0)
				h.remove(w, "other")
				time.Sleep(10 * time.Second)
				_, err = w.host("a", fail, allVersions, withoutLogger, withStore(store, block)).Drain(t.Context())
				must(t, err)
				if len(store.deadLetters) != 6 {
					t.Fatalf("%d dead letters: %+v", len(store.deadLetters), store.deadLetters)
				}
				for _, d := range store.deadLetters {
					id := strings.Trim(d.Key, `[]"`)
					if id != d.DocumentID || (d.Operation == cosmos.OperationDelete || d.Operation == cosmos.OperationExpire) != (d.Document == nil) || withoutPrevious && d.Previous != nil {
						t.Errorf("dead letter %+v", d)
					}
				}
				done, err := Replay(t.Context(), store, w.source(), h.handler(), nil)
				must(t, err)
				if done != (Replayed{Handled: 6}) || len(store.deadLetters) != 0 {
					t.Errorf("replay %+v", done)
				}
				if withoutPrevious {
					for i, l := range h.done {
						head, images, _ := strings.Cut(l, "→")
						h.done[i] = head[:strings.LastIndexByte(head, ' ')] + " -→" + images
					}
				}
				h.checkComplete(t)
			})
		})
	}
}

// One transaction may create several versions of a document, all with one LSN.
func TestEachVersionOfTransactionIsDeadLettered(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		store, h := &memoryStore{}, &versionHistory{}
		giveUp := func(context.Context, Batch) error { return Skip(errPoison) }
		_, err := w.host("a", giveUp, allVersions).Drain(t.Context())
		must(t, err)
		w.sendTransaction("doc", `[
			{"operationType":"Create","resourceBody":{"id":"doc","player":"doc","version":1}},
			{"operationType":"Upsert","resourceBody":{"id":"doc","player":"doc","version":2}},
			{"operationType":"Delete","id":"doc"},
			{"operationType":"Create","resourceBody":{"id":"doc","player":"doc","version":3}}]`)
		h.done = []string{"doc: create -→1", "doc: replace 1→2", "doc: delete 2→-", "doc: create -→3"}
		_, err = w.host("a", giveUp, allVersions, withoutLogger, withStore(store)).Drain(t.Context())
		must(t, err)
		_, err = Replay(t.Context(), store, w.source(), h.handler(), nil)
		must(t, err)
		h.checkComplete(t)
	})
}

func TestVersionsReportImagesThatDoNotDecode(t *testing.T) {
	handler := Versions(func(context.Context, []Version[document]) error { return nil })
	for name, c := range map[string]Change{
		"create at lsn 7": {Operation: cosmos.OperationCreate, LSN: 7, Document: json.RawMessage(`{"version":"x"}`)},
		"delete at lsn 8": {Operation: cosmos.OperationDelete, LSN: 8, Previous: json.RawMessage(`{"version":"x"}`)},
	} {
		if err := handler(t.Context(), Batch{Changes: []Change{c}}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
