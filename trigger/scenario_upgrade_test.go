package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/stall"
)

// laterVersion makes a host one of a later version, whose lease documents and postponed records
// have form 2: it changes what the host stores and reads. If downgrades is set, it still reads
// form 2, and writes form 1 again.
type laterVersion struct {
	countingTransport
	owner      string
	downgrades bool
}

func (v laterVersion) Do(r *http.Request) (*http.Response, error) {
	if isLeaseReplace(r) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		var document map[string]any
		if err := json.Unmarshal(body, &document); err != nil {
			return nil, err
		}
		properties, _ := document["properties"].(map[string]any)
		isOwn := document["Owner"] == v.owner || document["Owner"] == nil // a request of a handover leaves the form as it is
		if properties != nil && isOwn && !v.downgrades {
			properties["halley.form"] = "2"
			if body, err = json.Marshal(document); err != nil {
				return nil, err
			}
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	resp, err := v.countingTransport.Do(r)
	if err != nil || !strings.Contains(r.URL.Path, "/colls/leases/docs") {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, written := range []string{`"halley.form":"2",`, `,"halley.form":"2"`} {
		body = bytes.ReplaceAll(body, []byte(written), nil)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, err
}

// laterStore is a store as a later version uses it.
type laterStore struct {
	*memoryStore
	downgrades bool
}

func (s laterStore) Put(ctx context.Context, d DeadLetter) error {
	if d.IsPostponed() && !s.downgrades {
		d.Version = DeadLetterVersion + 1
	}
	return s.memoryStore.Put(ctx, d)
}

func (s laterStore) Query(_ context.Context, q DeadLetterQuery) (DeadLetterPage, error) {
	records := s.all()
	for i := range records {
		records[i].Version = DeadLetterVersion
	}
	return SelectDeadLetters(slices.Values(records), q)
}

// Hosts of this version hand over to those of a later one and back, under load: while stored
// forms are newer, hosts of this version leave the ranges alone and say so. Nothing is lost, and
// each key keeps its order, also those with a postponed change.
func TestVersionsGoUpAndDownUnderLoad(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		store, postponed := &memoryStore{}, map[string]bool{}
		handler := func(owner string) Handler {
			record := w.recorder(owner)
			return func(ctx context.Context, b Batch) error {
				w.mu.Lock()
				id := b.Changes[0].ID()
				isFirst := strings.HasPrefix(id, "later") && !postponed[id]
				postponed[id] = true
				w.mu.Unlock()
				if isFirst {
					return RetryAfter(errLater, 40*time.Second)
				}
				return record(ctx, b)
			}
		}
		one := func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 }
		present := func(owner string) *Host { return w.host(owner, handler(owner), withoutLogger, withStore(store), one) }
		later := func(owner string, downgrades bool) *Host {
			return w.hostOn(laterVersion{countingTransport{w}, owner, downgrades}, owner, handler(owner), withoutLogger,
				func(f *Function, _ *Options) {
					f.DeadLetters, f.MaxItemsPerInvocation = laterStore{store, downgrades}, 1
				})
		}
		n := 0
		load := func(d time.Duration) {
			for range d / time.Second {
				n++
				w.write(fmt.Sprint("player", n%7), fmt.Sprint("doc", n%7))
				if n%10 == 0 {
					w.write(fmt.Sprint("waiting", n), fmt.Sprint("later", n))
				}
				time.Sleep(time.Second)
			}
		}
		leftAlone := func(h *Host) (ranges int) {
			for _, r := range h.Status().Functions[0].Ranges {
				if len(r.Stalls) > 0 && r.Stalls[0].Kind == stall.NewerForm && strings.Contains(r.Problem, "written by a newer version of Halley") {
					ranges++
				}
			}
			return ranges
		}
		deliveredBy := func(owner string) (count int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, d := range w.delivered {
				if d.owner == owner {
					count++
				}
			}
			return count
		}

		a := present("a")
		stopA := w.startHost(a)
		load(time.Minute)
		stopB := w.startHost(later("b", false)) // a rolling upgrade
		load(time.Minute)
		if leftAlone(a) == 0 {
			t.Errorf("the host of this version says %+v", a.Status().Functions[0].Ranges)
		}
		stopA()
		load(2 * time.Minute)
		c := present("c") // an upgrade that is taken back too early
		stopC := w.startHost(c)
		load(time.Minute)
		stopB()
		load(2 * time.Minute)
		if deliveredBy("c") > 0 || leftAlone(c) != 2 {
			t.Errorf("%d delivered by a host that does not know the form; it says %+v", deliveredBy("c"), c.Status().Functions[0].Ranges)
		}
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items})
		must(t, err)
		for _, lag := range lags {
			if len(lag.Stalls) == 0 || lag.Stalls[0].Kind != stall.NewerForm || lag.Known {
				t.Errorf("the lag does not name the newer form: %+v", lag)
			}
		}
		stopD := w.startHost(later("d", true)) // the way back: the later version writes form 1 again
		load(3 * time.Minute)
		stopD()
		load(2 * time.Minute)
		if deliveredBy("c") == 0 || leftAlone(c) != 0 {
			t.Errorf("%d delivered by the host of this version after the way back; it says %+v", deliveredBy("c"), c.Status().Functions[0].Ranges)
		}
		time.Sleep(2 * time.Minute)
		stopC()
		w.checkComplete(20)
		if left := store.all(); len(left) > 0 {
			t.Errorf("%d postponed changes are left", len(left))
		}
	})
}

// Postponed changes of a later form keep a host away from their range alone, also if the lease does
// not tell of the form. The host leaves what the lease says of them, tells why the range waits, and
// does not take the range again and again.
func TestPostponedChangeOfALaterFormKeepsItsRange(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		store := &memoryStore{}
		w.writeMany("doc", 20)
		later := w.host("later", func(_ context.Context, b Batch) error {
			if b.Changes[0].ID() == "doc1" {
				return RetryAfter(errLater, time.Hour)
			}
			return nil
		}, withoutLogger, func(f *Function, _ *Options) { f.DeadLetters, f.MaxItemsPerInvocation = laterStore{store, false}, 1 })
		stop := w.startHost(later)
		time.Sleep(time.Minute)
		stop()
		postponed := map[string]string{}
		for token, l := range w.leaseDocuments() {
			postponed[token] = l.properties["halley.postponed"]
		}

		w.writeMany("doc", 20)
		h := w.host("a", w.recorder("a"), withoutLogger, withStore(store))
		stop = w.startHost(h)
		time.Sleep(5 * time.Minute)
		var waiting []string
		for _, r := range h.Status().Functions[0].Ranges {
			if len(r.Stalls) > 0 && r.Stalls[0].Kind == stall.NewerForm && strings.Contains(r.Problem, "written by a newer version of Halley") {
				waiting = append(waiting, r.Range)
			}
		}
		w.mu.Lock()
		for _, d := range w.delivered {
			if d.doc.ID == "doc1" || slices.Contains(waiting, d.token) {
				t.Errorf("%s was delivered from range %s", d.doc.ID, d.token)
			}
		}
		count := len(w.delivered)
		w.mu.Unlock()
		if len(waiting) != 1 || count == 0 {
			t.Fatalf("%d delivered, problems of ranges %v: %+v", count, waiting, h.Status().Functions[0].Ranges)
		}
		if n := w.eventCount(EventAcquired); n > 4+10 { // of both hosts; a cooldown is 26 s at least
			t.Errorf("leases were acquired %d times", n)
		}
		if l := w.leaseDocuments()[waiting[0]]; l.properties["halley.postponed"] != postponed[waiting[0]] || !strings.HasPrefix(postponed[waiting[0]], "1 ") {
			t.Errorf("the lease says %q of postponed changes, and said %q", l.properties["halley.postponed"], postponed[waiting[0]])
		}
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items})
		must(t, err)
		for _, lag := range lags {
			isNamed := slices.ContainsFunc(lag.Stalls, func(s stall.Stall) bool { return s.Kind == stall.NewerForm })
			if isNamed != (lag.Range == waiting[0]) {
				t.Errorf("the lag of range %s says %+v", lag.Range, lag.Stalls)
			}
		}
		stop()
	})
}

// testdata/forms has what each version of the stored forms has left behind: a lease whose owner was
// killed, with the failure history of "poison" and the finished changes behind it, and the
// postponed change "later". A host continues where it ended.
func TestStoredFormsOfAllVersionsAreRead(t *testing.T) {
	for form := range DeadLetterVersion {
		t.Run(fmt.Sprint("form ", form+1), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				directory := fmt.Sprintf("testdata/forms/%d/", form+1)
				read := func(name string, to any) {
					text, err := os.ReadFile(directory + name)
					must(t, err)
					must(t, json.Unmarshal(text, to))
				}
				var document map[string]any
				var record DeadLetter
				read("lease.json", &document)
				read("postponed.json", &record)
				store := &memoryStore{deadLetters: []DeadLetter{record}}
				w.createStamp(".info")
				w.writeMany("doc", 5)
				w.write("p", "poison")
				w.write("l", "later")
				w.writeMany("more", 3)
				_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey(document["id"].(string)), document)
				must(t, err)
				attempts := 0
				stop := w.startHost(w.host("b", func(ctx context.Context, b Batch) error {
					if b.Changes[0].ID() == "poison" && attempts == 0 {
						attempts = b.Attempt
					}
					return w.recorder("b")(ctx, b)
				}, withoutLogger, withStore(store), func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 1 }))
				time.Sleep(2 * time.Minute)
				if got := fmt.Sprint(w.deliveredIDs()); got != "[poison]" || attempts != 4 {
					t.Errorf("delivered %s, poison in attempt %d; want [poison] in attempt 4", got, attempts)
				}
				time.Sleep(time.Hour)
				stop()
				if got := fmt.Sprint(w.deliveredIDs()); got != "[poison later]" || len(store.all()) > 0 {
					t.Errorf("an hour later %s, %d records left", got, len(store.all()))
				}
			})
		})
	}
}
