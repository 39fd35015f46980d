package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// writeSharedLSN writes one version of a document with the same id under each of some
// players, with bulk requests, until all of them have one LSN. It returns this LSN.
func (w *world) writeSharedLSN(id string, players ...string) int64 {
	w.t.Helper()
	for range 20 {
		w.sendBulk(id, players...)
		ranges, err := w.items.Ranges(w.t.Context())
		must(w.t, err)
		page, err := w.items.ReadFeed(w.t.Context(), cosmos.FeedRequest{Range: ranges[0]})
		must(w.t, err)
		lsns := map[int64]int{}
		for _, item := range page.Items {
			lsns[item.LSN]++
		}
		last := page.Items[len(page.Items)-1].LSN
		page.Release()
		if lsns[last] == len(players) {
			return last
		}
	}
	w.t.Fatal("no bulk request gave its documents one LSN")
	return 0
}

// sendBulk sends one bulk request that upserts a document under each player.
func (w *world) sendBulk(id string, players ...string) {
	w.t.Helper()
	var operations []map[string]any
	for _, player := range players {
		operations = append(operations, map[string]any{
			"operationType": "Upsert", "id": id, "partitionKey": fmt.Sprintf("[%q]", player), "resourceBody": document{ID: id, Player: player, Version: 1},
		})
	}
	text, err := json.Marshal(operations)
	must(w.t, err)
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.account.Endpoint()+"/dbs/db/colls/items/docs", strings.NewReader(string(text)))
	must(w.t, err)
	r.Header.Set("Authorization", emulatorToken())
	r.Header.Set("X-Ms-Cosmos-Is-Batch-Request", "true")
	r.Header.Set("X-Ms-Cosmos-Batch-Atomic", "false")
	r.Header.Set("X-Ms-Documentdb-Partitionkeyrangeid", "0")
	resp, err := w.account.Do(r)
	must(w.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("bulk: %s", resp.Status)
	}
}

// Two changes of one LSN have the same id under two keys, or two ids under one key. One
// of them always fails, or crashes its process, and no owner lasts until it is given up.
// The other one is not charged with its failures, and does not take its attempts away.
func TestChangesOfOneLSNHaveTheirOwnRetries(t *testing.T) {
	isOfPoison := func(c *Change) bool { return strings.Contains(string(c.Document), "poison") }
	for name, write := range map[string]func(w *world){
		"two keys, poison first": func(w *world) { w.writeSharedLSN("doc", "poison", "well") },
		"two keys, poison last":  func(w *world) { w.writeSharedLSN("doc", "well", "poison") },
		"two ids, poison last": func(w *world) {
			w.sendTransaction("p", `[{"operationType":"Create","resourceBody":{"id":"well","player":"p","version":1}},
				{"operationType":"Create","resourceBody":{"id":"poison","player":"p","version":1}}]`)
		},
	} {
		for _, crash := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", crash ", crash), func(t *testing.T) {
				inWorld(t, 1, func(t *testing.T, w *world) {
					write(w)
					store := &memoryStore{}
					stored := withStore(store, func(f *Function) { f.MaxItemsPerInvocation, f.MaxAttempts = 1, 12 })
					handled, record := 0, w.recorder("a")
					handle := func(ctx context.Context, b Batch) error {
						if isOfPoison(&b.Changes[0]) {
							return errPoison
						}
						if handled++; b.Attempt != 1 {
							t.Errorf("the other change is charged with %d attempts", b.Attempt-1)
						}
						return record(ctx, b)
					}
					if crash {
						drainWithCrashes(t, w, 25, isOfPoison, handle, stored)
					} else {
						for range 8 {
							ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
							_, err := w.host("a", handle, stored).Drain(ctx)
							cancel()
							must(t, err)
							time.Sleep(30 * time.Second) // the retry is due
						}
					}
					if len(store.deadLetters) != 1 || !strings.Contains(string(store.deadLetters[0].Document), "poison") || !crash && store.deadLetters[0].Attempts != 12 {
						t.Errorf("dead letters %+v, want the poison document after 12 attempts", store.deadLetters)
					}
					if handled < 1 {
						t.Error("the other change was not handled")
					}
					if kept := w.leaseDocuments()["0"].properties[retriesProperty]; kept != "" {
						t.Errorf("the lease still holds %s", kept)
					}
				})
			})
		}
	}
}

// A lease holds the attempts of changes under names without their keys, as written by an
// earlier version: they start from zero, and no change is lost or held up.
func TestAttemptsUnderNamesOfEarlierVersionsStartFromZero(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		t.Run(fmt.Sprint("in flight ", inFlight), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				lsn := w.writeSharedLSN("doc", "poison", "well")
				w.write("k", "later")
				store := &memoryStore{}
				stored := withStore(store, func(f *Function) { f.MaxItemsPerInvocation, f.MaxAttempts = 1, 3 })
				stopped, stop := context.WithCancel(t.Context())
				_, err := w.host("a", func(context.Context, Batch) error { stop(); return errPoison }, stored).Drain(stopped)
				must(t, err)
				h := fnv.New64a()
				h.Write([]byte("doc"))
				name := strconv.FormatInt(lsn, 10) + "/" + strconv.FormatUint(h.Sum64(), 36)
				w.editLease("0", func(d map[string]any) {
					setLeaseProperty(d, retriesProperty, fmt.Sprintf(`[{"first":%q,"last":%[1]q,"size":1,"tries":2,"attempts":2,"crashes":9,"inFlight":%t}]`, name, inFlight))
				})
				calls := 0
				_, err = w.host("a", func(ctx context.Context, b Batch) error {
					if strings.Contains(string(b.Changes[0].Document), "poison") {
						calls++
						return errPoison
					}
					return w.recorder("a")(ctx, b)
				}, stored).Drain(t.Context())
				must(t, err)
				if calls != 3 || len(store.deadLetters) != 1 || store.deadLetters[0].Attempts != 3 || w.deliveredDocuments() != 2 {
					t.Errorf("%d calls with the poison document, dead letters %+v, delivered %+v", calls, store.deadLetters, w.delivered)
				}
				if kept := w.leaseDocuments()["0"].properties[retriesProperty]; kept != "" {
					t.Errorf("the lease still holds %s", kept)
				}
			})
		})
	}
}

// A transaction of 30 documents has one LSN, and one of its documents crashes the
// process. All changes of the call are suspects, so that halving finds the crasher as
// fast as among changes with LSNs of their own.
func TestCrashInTransactionIsFoundByHalving(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		operations := make([]string, 30)
		for i := range operations {
			id := fmt.Sprint("doc", i)
			if i == 28 {
				id = "poison"
			}
			operations[i] = fmt.Sprintf(`{"operationType":"Create","resourceBody":{"id":%q,"player":"p","version":1}}`, id)
		}
		w.sendTransaction("p", "["+strings.Join(operations, ",")+"]")
		store := &memoryStore{}
		crashes := drainWithCrashes(t, w, 40, isPoison, w.recorder("a"), withStore(store))
		if n := w.deliveredDocuments(); fmt.Sprint(store.documentIDs()) != "[poison]" || n != 29 || crashes > 15 {
			t.Errorf("dead letters %v, %d of 29 others delivered, %d crashes", store.documentIDs(), n, crashes)
		}
	})
}
