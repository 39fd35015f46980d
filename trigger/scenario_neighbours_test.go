package trigger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Monitored container, leases and dead letters may lie in one database with shared throughput,
// whose containers share one sequence of LSNs (recorded answers of a hosted account, October
// 2026): every lease write raises the LSN of the monitored range.

// inSharedWorld runs test in a bubble, on containers that share the throughput of their
// database. The container neighbour returns has the key /id, as leases have.
func inSharedWorld(t *testing.T, test func(t *testing.T, w *world, neighbour *cosmos.Container)) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(nil)
		must(t, err)
		defer account.Close()
		w := &world{t: t, account: account, written: map[string]int{}}
		must(t, w.clientOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if strings.HasSuffix(r.URL.Path, "/dbs") {
				r.Header.Set("x-ms-offer-throughput", "400")
			}
			return nil, nil, false
		}}).CreateDatabase(t.Context(), "db"))
		client := w.client()
		for id, path := range map[string]string{"items": "/player", "leases": "/id", "neighbour": "/id"} {
			must(t, client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{ID: id, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{path}}}))
		}
		w.items, w.leases = client.Container("db", "items"), client.Container("db", "leases")
		test(t, w, client.Container("db", "neighbour"))
	})
}

// writeNeighbours writes n documents to another container of the database.
func (w *world) writeNeighbours(neighbour *cosmos.Container, n int) {
	w.t.Helper()
	for i := range n {
		id := strconv.Itoa(i)
		_, err := neighbour.Upsert(w.t.Context(), cosmos.NewPartitionKey(id), map[string]string{"id": id})
		must(w.t, err)
	}
}

// countedLag returns the lag of the only range, as a person gets it.
func (w *world) countedLag() Lag {
	w.t.Helper()
	lags, err := CountLag(w.t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()})
	must(w.t, err)
	if len(lags) != 1 {
		w.t.Fatalf("%d lags", len(lags))
	}
	return lags[0]
}

// Ten changes among the writes of neighbours are ten changes for a person, and transactions
// for a scaler.
func TestNeighboursAreNotCountedAsChanges(t *testing.T) {
	inSharedWorld(t, func(t *testing.T, w *world, neighbour *cosmos.Container) {
		h := w.host("a", w.recorder("a"))
		w.writeMany("first", 1)
		_, err := h.Drain(t.Context())
		must(t, err)
		w.writeNeighbours(neighbour, 200)
		if l := w.countedLag(); l.Kind() != "exact" || l.Changes != 0 || l.Transactions != 0 {
			t.Errorf("only neighbours have written: %+v", l)
		}
		for range 10 {
			w.writeMany("doc"+strconv.Itoa(len(w.written)), 1)
			w.writeNeighbours(neighbour, 20)
		}
		time.Sleep(time.Minute)
		if l := w.countedLag(); l.Kind() != "exact" || l.Changes != 10 || l.Transactions != 210 || int(l.Seconds) != 60 {
			t.Errorf("counted: %+v", l)
		}
		if l := w.lagByRange()["0"]; l.Kind() != "at most" || l.Changes != 210 || l.Transactions != 210 {
			t.Errorf("estimated: %+v", l)
		}
		w.writeMany("more", 150)
		if l := w.countedLag(); l.Kind() != "at most" || l.Changes != 160 || l.Transactions != 360 {
			t.Errorf("more than are counted: %+v", l)
		}
		_, err = h.Drain(t.Context())
		must(t, err)
		if l := w.countedLag(); l.Kind() != "exact" || l.Changes != 0 {
			t.Errorf("drained: %+v", l)
		}
	})
}

// A host that works on ten changes tells ten in Pending, whatever its neighbours write.
func TestPendingChangesOfAHost(t *testing.T) {
	inSharedWorld(t, func(t *testing.T, w *world, neighbour *cosmos.Container) {
		open := make(chan struct{})
		h := w.host("a", func(ctx context.Context, b Batch) error {
			select {
			case <-open:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		w.writeMany("doc", 10)
		w.writeNeighbours(neighbour, 100)
		stop := w.startHost(h)
		time.Sleep(30 * time.Second)
		if r := h.Status().Functions[0].Ranges[0]; r.Pending != 10 || r.Behind < 110 {
			t.Errorf("working: pending %d, behind %d", r.Pending, r.Behind)
		}
		close(open)
		time.Sleep(30 * time.Second)
		if r := h.Status().Functions[0].Ranges[0]; r.Pending != 0 || r.Behind != 0 || !r.BehindKnown {
			t.Errorf("done: pending %d, behind %d", r.Pending, r.Behind)
		}
		stop()
	})
}

// letterNeighbour is a dead letter store that also writes to a container of the database.
type letterNeighbour struct {
	*memoryStore
	container *cosmos.Container
}

func (s letterNeighbour) Put(ctx context.Context, d DeadLetter) error {
	_, err := s.container.Upsert(ctx, cosmos.NewPartitionKey(d.ID), map[string]string{"id": d.ID})
	return errors.Join(err, s.memoryStore.Put(ctx, d))
}

// Lease writes raise the LSN of the monitored range, and with it the continuations of answers
// without changes. They cause no further write, and are no lag: an idle hour costs as many
// lease writes as with leases of their own, and idle drains cost none.
func TestOwnWritesFeedNoWrites(t *testing.T) {
	idleHour := func(w *world, store DeadLetters) (writes int) {
		h := w.host("a", failOnPoison(w.recorder("a")), func(f *Function, _ *Options) {
			f.DeadLetters, f.MaxAttempts, f.Checkpoint = store, 2, Checkpoint{Interval: time.Second}
		}, withoutLogger)
		w.writeMany("doc", 5)
		w.write("k", "poison")
		stop := w.startHost(h)
		time.Sleep(10 * time.Minute)
		before := w.countRequests()
		for range 60 {
			time.Sleep(time.Minute)
			if l := w.lagByRange()["0"]; l.Kind() != "exact" || l.Changes != 0 {
				w.t.Errorf("lag of an idle range: %+v", l)
			}
			if r := h.Status().Functions[0].Ranges[0]; r.Behind != 0 || r.Pending != 0 || !r.BehindKnown {
				w.t.Errorf("status of an idle range: %+v", r)
			}
		}
		writes = w.countRequests().minus(before).writes
		stop()
		before = w.countRequests()
		for range 20 {
			summary, err := h.Drain(w.t.Context())
			must(w.t, err)
			if summary.Idle != 1 || summary.Lag != 0 {
				w.t.Errorf("idle drain: %+v", summary)
			}
			time.Sleep(time.Minute)
		}
		if n := w.countRequests().minus(before).writes; n != 0 {
			w.t.Errorf("%d lease writes of idle drains", n)
		}
		if n := w.deliveryCount(); n != 5 {
			w.t.Errorf("%d delivered, want 5", n)
		}
		return writes
	}
	var apart, shared int
	inWorld(t, 1, func(t *testing.T, w *world) { apart = idleHour(w, &memoryStore{}) })
	inSharedWorld(t, func(t *testing.T, w *world, neighbour *cosmos.Container) {
		shared = idleHour(w, letterNeighbour{&memoryStore{}, neighbour})
	})
	if shared != apart || shared == 0 {
		t.Errorf("%d lease writes in an idle hour, %d with containers of their own", shared, apart)
	}
}

// emptyPages returns a client to whose reads of changes the feed answers some times without
// one, each time with a later continuation.
func (w *world) emptyPages(pages int) *cosmos.Client {
	return w.clientOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
		position, err := strconv.Atoi(strings.Trim(r.Header.Get("If-None-Match"), `"`))
		if err != nil || r.Header.Get("A-IM") == "" {
			return nil, nil, false
		}
		resp, err := w.account.Do(r)
		if err != nil || resp.StatusCode != http.StatusOK || position >= pages {
			return resp, err, true
		}
		resp.Header.Set("Etag", fmt.Sprintf(`"%d"`, position+1))
		resp.Body = io.NopCloser(strings.NewReader(`{"_rid":"x","Documents":[],"_count":0}`))
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
		return resp, nil, true
	}})
}

// An answer without changes that is not the end of the feed is not taken for it
// (azure-cosmos-dotnet-v3 #5114).
func TestEmptyPageIsNotTheEnd(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		w.write("k", "one")
		_, err := h.Drain(t.Context())
		must(t, err)
		for i := range 30 { // versions that the feed does not show
			w.write("k", strconv.Itoa(i%2))
		}
		for pages, want := range map[int]Lag{5: {Changes: 2, Exact: true, Known: true}, 30: {Changes: 1}} {
			source := FeedSource{Name: "test", Container: w.emptyPages(pages).Container("db", "items")}
			lags, err := CountLag(t.Context(), w.leases, source)
			must(t, err)
			if l := lags[0]; l.Changes != want.Changes || l.Kind() != want.Kind() || strings.Contains(l.Problem, "without changes") == l.Known {
				t.Errorf("%d pages without changes: %+v", pages, l)
			}
			empty := w.host("b", w.recorder("b"), func(f *Function, _ *Options) { f.Container = source.Container })
			tasks, summary, err := empty.Dispatch(t.Context())
			must(t, err)
			if len(tasks) != 1 || summary.Idle != 0 {
				t.Errorf("%d pages without changes: no message, %+v", pages, summary)
			}
			time.Sleep(time.Hour) // the mark of the message ends
		}
	})
}

// A plan to seek counts changes, not the transactions of neighbours.
func TestSeekCountsChanges(t *testing.T) {
	inSharedWorld(t, func(t *testing.T, w *world, neighbour *cosmos.Container) {
		h := w.host("a", w.recorder("a"))
		for i := range 90 {
			w.writeMany("doc"+strconv.Itoa(i)+"-", 1)
			w.writeNeighbours(neighbour, 3)
		}
		_, err := h.Drain(t.Context())
		must(t, err)
		c := w.control(nil)
		seek := func(to Start, ranges ...string) (repeated, skipped int64, exact bool) {
			t.Helper()
			plan, err := c.PlanSeek(t.Context(), to, ranges...)
			must(t, err)
			s := plan.Steps[0]
			if !s.Known {
				t.Errorf("step %+v", s)
			}
			return s.Repeated, s.Skipped, s.Exact
		}
		if repeated, skipped, exact := seek(FromBeginning()); repeated != 90 || skipped != 0 || !exact {
			t.Errorf("to the beginning: repeats %d, skips %d, exact %t", repeated, skipped, exact)
		}
		w.writeMany("later", 7)
		w.writeNeighbours(neighbour, 50)
		if repeated, skipped, exact := seek(FromNow()); repeated != 0 || skipped != 7 || !exact {
			t.Errorf("to now: repeats %d, skips %d, exact %t", repeated, skipped, exact)
		}
		w.writeMany("many", 1000)
		if repeated, skipped, exact := seek(FromNow()); repeated != 0 || skipped < 1007 || skipped > 1060 || exact {
			t.Errorf("to now, behind many: repeats %d, skips %d, exact %t", repeated, skipped, exact)
		}
	})
}
