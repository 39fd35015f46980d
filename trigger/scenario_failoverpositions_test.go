package trigger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/stall"
)

// The monitored range fails over, and the region that takes over does not have the newest changes.
// The changes that get the LSNs of lost ones are delivered, in a new epoch. The range shows it by its
// version, or because no region has reached the position any more.
func TestChangesWithTheLSNsOfLostOnesAreDelivered(t *testing.T) {
	for name, manners := range map[string]emulator.Manners{
		"the version rises":             {},
		"the version rises, LSNs go on": {FailoverSkipsLSNs: true},
		"the feed is shorter":           {FailoverKeepsVersion: true},
		"the feed is shorter, refused":  {FailoverKeepsVersion: true, RefuseAhead: true},
	} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, manners, func(t *testing.T, w *world) {
				stop := w.startHost(w.host("a", w.recorder("a")))
				w.writeMany("before", 10)
				time.Sleep(30 * time.Second)
				w.pauseReplication(north)
				w.writeMany("lost", 10)
				time.Sleep(30 * time.Second)
				if got := w.deliveredDocuments(); got != 20 {
					t.Fatalf("%d documents delivered, want 20", got)
				}
				lostEpoch := w.delivered[19].epoch
				w.lose(10)
				w.writeMany("early", 3)
				time.Sleep(10 * time.Second)
				w.writeMany("after", 10)
				time.Sleep(20 * time.Second)
				if got := w.deliveredDocuments(); got != 33 {
					t.Errorf("%d documents delivered 20 s after the failover, want 33", got)
				}
				stop()
				w.checkComplete(0)
				if last := w.delivered[len(w.delivered)-1]; last.epoch <= lostEpoch {
					t.Errorf("they have epoch %d, and those before %d", last.epoch, lostEpoch)
				}
			})
		})
	}
}

// The account fails over, the version of the range's sessions stays, and the account is read minutes
// later: the changes since then are delivered again.
func TestFailoverThatTheAccountTellsLate(t *testing.T) {
	inRegions(t, emulator.Manners{FailoverKeepsVersion: true}, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 10)
		time.Sleep(6 * time.Minute)
		w.writeMany("known", 10)
		time.Sleep(10 * time.Second)
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		time.Sleep(4 * time.Second)
		restore := w.account.Inject(emulator.Fault{Method: "GET", Path: "/dbs/db/colls/items/docs", Status: 503}) // nothing is read until new changes have the LSNs
		must(t, w.account.FailOver(north, emulator.FailoverUnplanned))
		for i := range 10 {
			delete(w.written, fmt.Sprint("lost", i))
		}
		w.writeMany("after", 30)
		restore()
		time.Sleep(7 * time.Minute)
		stop()
		w.checkComplete(30)
	})
}

// The same in drains, each of which reads a page or two: what was kept before the account was last read is
// not delivered again.
func TestDrainsKnowWhatWasKeptBeforeTheAccountWasRead(t *testing.T) {
	inRegions(t, emulator.Manners{FailoverKeepsVersion: true}, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		drain := func(n int) {
			t.Helper()
			for range n {
				w.write("k", fmt.Sprint("d", w.deliveryCount()))
				_, err := h.Drain(t.Context())
				must(t, err)
				time.Sleep(10 * time.Second)
			}
		}
		drain(120)
		must(t, w.account.FailOver(north, emulator.FailoverPlanned))
		drain(40)
		w.checkComplete(70) // of the last ten minutes
	})
}

// Latest versions hide the version before a write that is lost with the failover: the document is
// back at its old LSN, which all regions had, and is delivered. The same goes for a delete.
func TestVersionsBehindLostWritesAreDelivered(t *testing.T) {
	for name, hide := range map[string]func(w *world){
		"replaced": func(w *world) { w.write("hidden", "hidden") },
		"deleted": func(w *world) {
			_, err := w.items.Delete(w.t.Context(), "hidden", cosmos.NewPartitionKey("hidden"), "")
			must(w.t, err)
		},
	} {
		for behind, others := range map[string]int{"at the end": 0, "with a backlog": 300} {
			t.Run(name+" "+behind, func(t *testing.T) {
				inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
					w.writeMany("before", 10)
					stop := w.startHost(w.host("a", w.recorder("a")))
					time.Sleep(30 * time.Second)
					restore := w.account.Inject(emulator.Fault{Method: "GET", Path: "/dbs/db/colls/items/docs", Status: 503})
					w.write("hidden", "hidden")
					w.writeMany("other", others)
					w.pauseReplication(north)
					hide(w)
					restore()
					time.Sleep(20 * time.Second)
					if w.seen("hidden", 1) {
						t.Fatal("the version is not hidden")
					}
					w.lose(0)
					time.Sleep(20 * time.Second)
					stop()
					if !w.seen("hidden", 1) {
						t.Error("the version that is back is not delivered")
					}
				})
			})
		}
	}
}

// seen reports whether a version of a document was delivered.
func (w *world) seen(id string, version int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.delivered, func(d delivered) bool { return d.doc.ID == id && d.doc.Version == version })
}

// A range that is behind fails over, and the service does not tell what all regions had. The time to
// which it is set back, by hand or by itself, is not after its position.
func TestPositionIsNotSetForward(t *testing.T) {
	for name, lostPosition := range map[string]string{"stall": "", "seek": "seek"} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, emulator.Manners{HideCommitted: true}, func(t *testing.T, w *world) {
				w.writeMany("early", 10)
				time.Sleep(3 * time.Hour)
				w.writeMany("late", 10)
				record, calls := w.recorder("a"), 0
				stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
					if calls++; calls == 1 {
						return record(ctx, b)
					}
					<-ctx.Done()
					return ctx.Err()
				}, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 5 }))
				time.Sleep(30 * time.Second)
				stop()
				w.failOver("items", north, emulator.FailoverPlanned)
				h := w.host("b", w.recorder("b"), func(f *Function, _ *Options) { f.LostPosition = lostPosition })
				stop = w.startHost(h)
				time.Sleep(30 * time.Second)
				if problem := h.Status().Functions[0].Ranges[0].Problem; !strings.HasSuffix(problem, "for example 1999-12-31T23:45:00Z") {
					t.Errorf("the advice is %s", problem)
				}
				time.Sleep(2 * time.Minute)
				stop()
				if lostPosition != "" {
					w.checkComplete(5)
				}
			})
		})
	}
}

// The monitored range fails over before the leases do, and the region of both is silent. The owner keeps
// its lease until it can be written, and reads again then.
func TestFailoverWhileTheLeasesAreSilent(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 10)
		time.Sleep(30 * time.Second)
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		time.Sleep(10 * time.Second)
		mend := w.silence(west)
		w.lose(10)
		w.writeMany("after", 10)
		time.Sleep(25 * time.Second)
		w.failOver("leases", north, emulator.FailoverUnplanned)
		time.Sleep(10 * time.Second)
		mend()
		if got := w.deliveredDocuments(); got != 30 {
			t.Errorf("%d documents are delivered 10 s after the leases are back, want 30", got)
		}
		stop()
		w.checkComplete(10)
	})
}

// The same, found by the next owner.
func TestNextOwnerFindsThatTheFeedHasFailedOver(t *testing.T) {
	inRegions(t, emulator.Manners{}, func(t *testing.T, w *world) {
		drain := func(want int) {
			t.Helper()
			summary, err := w.host("a", w.recorder("a")).Drain(t.Context())
			must(t, err)
			if summary.Changes != want || summary.Behind > 0 {
				t.Errorf("drained %+v, want %d changes", summary, want)
			}
		}
		w.writeMany("before", 10)
		drain(10)
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		drain(10)
		w.lose(10)
		w.writeMany("after", 5)
		drain(5)
		w.writeMany("later", 20)
		drain(20)
		w.checkComplete(0)
	})
}

// The service does not tell the committed LSN, and the feed is shorter than the position. The range
// says so, and LostPosition decides.
func TestPositionAheadOfTheAccount(t *testing.T) {
	for name, lostPosition := range map[string]string{"stall": "", "seek": "seek"} {
		t.Run(name, func(t *testing.T) {
			inRegions(t, emulator.Manners{FailoverKeepsVersion: true, HideCommitted: true}, func(t *testing.T, w *world) {
				h := w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.LostPosition = lostPosition })
				stop := w.startHost(h)
				w.writeMany("before", 10)
				time.Sleep(30 * time.Second)
				w.pauseReplication(north)
				w.writeMany("lost", 10)
				time.Sleep(30 * time.Second)
				w.lose(10)
				w.writeMany("after", 5)
				time.Sleep(30 * time.Second)
				status := h.Status().Functions[0].Ranges[0]
				if len(status.Stalls) != 1 || status.Stalls[0].Kind != stall.PositionAhead || !strings.Contains(status.Problem, "set it back to a time before that, for example ") {
					t.Errorf("status %+v", status)
				}
				time.Sleep(2 * time.Minute)
				if lostPosition == "" {
					w.writeMany("later", 20) // until the feed has passed the position
					time.Sleep(time.Minute)
					delivered := w.deliveredDocuments()
					stop()
					if delivered != 20 {
						t.Errorf("%d documents delivered, want 20", delivered)
					}
					return
				}
				stop()
				w.checkComplete(15)
			})
		})
	}
}

// A drain that finds a position ahead of its feed has not caught up.
func TestDrainIsNotCaughtUpAheadOfTheAccount(t *testing.T) {
	inRegions(t, emulator.Manners{FailoverKeepsVersion: true}, func(t *testing.T, w *world) {
		w.writeMany("before", 10)
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		_, err = w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.failOver("items", north, emulator.FailoverUnplanned)
		summary, err := w.host("a", w.recorder("a")).Drain(t.Context())
		if err == nil && (summary.Idle > 0 || summary.Drained > 0 || !strings.Contains(summary.Problem, "ahead of the account")) {
			t.Errorf("drained %+v, %v", summary, err)
		}
	})
}

// A queue spreads the ranges. The feed is shorter than the position, which the service refuses: a message
// is sent, so that an owner finds out.
func TestMessageForPositionThatIsRefused(t *testing.T) {
	inRegions(t, emulator.Manners{FailoverKeepsVersion: true, RefuseAhead: true}, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		tick := func() {
			t.Helper()
			tasks, _, err := h.Dispatch(t.Context())
			must(t, err)
			for _, task := range tasks {
				_, _ = h.DrainRange(t.Context(), task.Function, task.Range) // an error is repeated by the next tick
			}
		}
		w.writeMany("before", 10)
		tick()
		w.pauseReplication(north)
		w.writeMany("lost", 10)
		tick()
		w.lose(10)
		w.writeMany("after", 5)
		for range 20 {
			tick()
			time.Sleep(10 * time.Second)
		}
		w.checkComplete(10)
	})
}

// A region that lags is not taken for a failover: nothing stalls, and nothing is delivered twice.
func TestLaggingRegionIsNoFailover(t *testing.T) {
	options := emulator.Options{Regions: []string{west, north}, PartitionFailover: true, ReplicationLag: 3 * time.Second}
	inWorldOf(t, options, 1, func(t *testing.T, w *world) {
		cred, err := cosmos.KeyCredential(emulator.Key)
		must(t, err)
		client, err := cosmos.NewClient(w.account.Endpoint(), cred, &cosmos.ClientOptions{
			ClientOptions: w.clientOptions(), PreferredRegions: []string{north},
		})
		must(t, err)
		prefer := func(f *Function, _ *Options) { f.Container = client.Container("db", "items") }
		for i := range 20 {
			stop := w.startHost(w.host("a", w.recorder("a"), prefer))
			for j := range 10 {
				w.write(fmt.Sprint(i, j), fmt.Sprint(i, j))
				time.Sleep(300 * time.Millisecond)
			}
			time.Sleep(time.Duration(i) * time.Second)
			stop()
		}
		stop := w.startHost(w.host("a", w.recorder("a"), prefer))
		time.Sleep(10 * time.Second)
		stop()
		w.checkComplete(0)
	})
}
