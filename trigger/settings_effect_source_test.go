package trigger

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

// sourceSettings are the cases of names, the monitored container and the start.
func sourceSettings() []settingCase {
	startCase := func(start func(r *settingRun) Start, n float64) settingCase {
		return settingCase{
			field: "Function.StartFrom", quantity: "changes of 5, 4 an hour later, and 2 after the bootstrap",
			setOther: func(r *settingRun, f *Function, _ *Options) { f.StartFrom = start(r) },
			measure:  (*settingRun).changesFromStart, defaultBounds: exactly(2), otherBounds: exactly(n),
		}
	}
	filterCase := func(filter Filter, n float64) settingCase {
		return settingCase{
			field: "Function.Filter", quantity: "changes of 13",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.Filter = filter },
			measure:  (*settingRun).changesOfDrain, defaultBounds: exactly(13), otherBounds: exactly(n),
		}
	}
	return []settingCase{
		{
			field: "Function.Name", quantity: "events of function orders",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.Name = "orders" },
			measure: func(r *settingRun) (n float64) {
				r.changesOfDrain()
				for _, e := range r.events {
					if e.Function == "orders" {
						n++
					}
				}
				return n
			},
			defaultBounds: exactly(0), otherBounds: bounds{3, 100},
		},
		{
			field: "Function.LeasePrefix", quantity: "lease documents whose id begins with processor",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.LeasePrefix = "processor" },
			ranges:   2,
			measure:  func(r *settingRun) float64 { return r.leasesBeginningWith("processor") },
			// Leases of 2 ranges and the marker of the bootstrap.
			defaultBounds: exactly(0), otherBounds: exactly(3),
		},
		{
			field: "Function.LostPosition", quantity: "documents of 5 that the service kept, after a failover that lost 10",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.LostPosition = "seek" },
			account:  emulator.Options{Regions: []string{west, north}, PartitionFailover: true, Manners: emulator.Manners{FailoverKeepsVersion: true, HideCommitted: true}},
			measure:  (*settingRun).keptDocuments, defaultBounds: exactly(0), otherBounds: exactly(5),
		},
		{
			field: "Function.Container", quantity: "changes",
			setOther: func(r *settingRun, f *Function, _ *Options) {
				f.Container = r.client().Container("db", "others")
			},
			measure: func(r *settingRun) float64 {
				others := r.createContainer("others", 0)
				for _, id := range []string{"one", "two"} {
					r.upsertInto(others, id, nil)
				}
				return r.changesOfDrain()
			},
			defaultBounds: exactly(13), otherBounds: exactly(2),
		},
		{
			field: "Function.Handler", quantity: "calls of the other handler",
			setOther: func(r *settingRun, f *Function, _ *Options) {
				f.Handler = func(context.Context, Batch) error { r.note("call"); return nil }
			},
			measure:       func(r *settingRun) float64 { r.changesOfDrain(); return r.notes() },
			defaultBounds: exactly(0), otherBounds: exactly(1),
		},
		{
			field: "Function.ChangeFeedMode", quantity: "changes of 3 versions of a document",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.ChangeFeedMode = cosmos.ModeAllVersions },
			measure: func(r *settingRun) float64 {
				versions := r.createContainer("versions", time.Hour)
				scenario := func(f *Function, _ *Options) { f.StartFrom, f.Container = FromNow(), versions }
				r.drainOnce(handleAll, scenario)
				for range 3 {
					r.upsertInto(versions, "one", nil)
				}
				r.drainOnce(handleAll, scenario)
				return r.changeCount()
			},
			defaultBounds: exactly(1), otherBounds: exactly(3),
		},
		{
			field: "Function.SoftDeleteProperty", quantity: "deletes",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.SoftDeleteProperty = "gone" },
			measure: func(r *settingRun) (n float64) {
				r.upsertInto(r.items, "one", map[string]any{"gone": true})
				r.upsertInto(r.items, "two", map[string]any{"gone": false})
				r.drainOnce(func(_ context.Context, b Batch) error {
					for _, c := range b.Changes {
						if c.Operation == cosmos.OperationDelete && strings.Contains(string(c.Document), `"one"`) {
							n++
						}
					}
					return nil
				})
				return n
			},
			defaultBounds: exactly(0), otherBounds: exactly(1),
		},
		filterCase(Filter{`{"id":[{"prefix":"wanted"}]}`}, 3),
		filterCase(Filter{`{"id":[{"prefix":"wanted"}]}`, `{"id":["doc1","doc2"]}`}, 5),
		startCase(func(*settingRun) Start { return FromBeginning() }, 11),
		startCase(func(r *settingRun) Start { return FromTime(r.began.Add(30 * time.Minute)) }, 6),
		startCase(func(r *settingRun) Start { return FromContinuation(r.position) }, 6),
		{
			field: "Function.ResetLeases", quantity: "changes of a second drain",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.ResetLeases = true },
			measure: func(r *settingRun) float64 {
				first := r.changesOfDrain()
				r.drainOnce(handleAll)
				return r.changeCount() - first
			},
			defaultBounds: exactly(0), otherBounds: exactly(13),
		},
		{
			field: "Function.Opened", quantity: "calls for 3 ranges",
			setOther: func(r *settingRun, f *Function, _ *Options) {
				f.Opened = func(_ context.Context, info RangeInfo) { r.note("range " + info.Range.ID) }
			},
			ranges: 3, measure: (*settingRun).callbacksOfRun, defaultBounds: exactly(0), otherBounds: exactly(3),
		},
		{
			field: "Function.Closed", quantity: "calls for 3 ranges that a stop closes",
			setOther: func(r *settingRun, f *Function, _ *Options) {
				f.Closed = func(info RangeInfo, reason CloseReason, err error) {
					if reason == ClosedStopped && err == nil {
						r.note("range " + info.Range.ID)
					}
				}
			},
			ranges: 3, measure: (*settingRun).callbacksOfRun, defaultBounds: exactly(0), otherBounds: exactly(3),
		},
	}
}

// readingSettings are the cases of reads of the feed.
func readingSettings() []settingCase {
	idleReads := func(r *settingRun) float64 {
		stop := r.startHost(r.newHost(handleAll))
		defer stop()
		time.Sleep(time.Minute)
		return r.readsWithin(10 * time.Minute)
	}
	return []settingCase{
		{
			field: "Function.PageItems", quantity: "changes in the largest page asked for",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.PageItems = 7 },
			measure:  func(r *settingRun) float64 { return r.largestRequest(13) }, defaultBounds: exactly(100), otherBounds: exactly(7),
		},
		{
			field: "Function.PageItems", quantity: "changes in the largest page asked for, far behind",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.PageItems = 100 },
			measure:  func(r *settingRun) float64 { return r.largestRequest(250) }, defaultBounds: exactly(1000), otherBounds: exactly(100),
		},
		{
			field: "Function.ReuseBuffers", quantity: "documents whose bytes are used again after the call",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.ReuseBuffers = true },
			measure:  (*settingRun).reusedDocuments, defaultBounds: exactly(0), otherBounds: bounds{1, 50},
		},
		{
			field: "Function.FeedPollDelay", quantity: "reads of an idle range in 10 min",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.FeedPollDelay = time.Minute },
			measure:  idleReads, defaultBounds: bounds{119, 121}, otherBounds: bounds{9, 11},
		},
		{
			field: "Options.FeedPollDelay", quantity: "reads of an idle range in 10 min",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.FeedPollDelay = time.Minute },
			measure:  idleReads, defaultBounds: bounds{119, 121}, otherBounds: bounds{9, 11},
		},
		{
			field: "Function.FeedPollMin", quantity: "reads within 5 s after a change",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.FeedPollMin = 100 * time.Millisecond },
			measure: func(r *settingRun) float64 {
				stop := r.startHost(r.newHost(handleAll))
				defer stop()
				time.Sleep(21 * time.Second)
				r.write("one", "one")
				for r.callCount() == 0 {
					time.Sleep(time.Millisecond)
				}
				return r.readsWithin(5*time.Second - 10*time.Millisecond)
			},
			defaultBounds: bounds{8, 10}, otherBounds: bounds{4, 6}, // each wait is twice as long
		},
		{
			field: "Function.ReadRequestUnits", quantity: "reads of an idle range in a minute",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.ReadRequestUnits = 2 },
			measure: func(r *settingRun) float64 {
				stop := r.startHost(r.newHost(handleAll, func(f *Function, _ *Options) { f.FeedPollDelay = 100 * time.Millisecond }))
				defer stop()
				time.Sleep(time.Minute)
				return r.readsWithin(time.Minute)
			},
			defaultBounds: bounds{590, 610}, otherBounds: bounds{110, 130},
		},
		{
			field: "Function.MaxAhead", quantity: "changes handled behind one that is in a call",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.MaxAhead = 20 },
			measure: func(r *settingRun) float64 {
				r.write("slow", "slow")
				r.writeMany("doc", 200)
				record := r.recorder("a")
				r.runFor(10*time.Second, func(ctx context.Context, b Batch) error {
					if b.Changes[0].ID() == "slow" {
						return backoff.Sleep(ctx, time.Minute)
					}
					return record(ctx, b)
				}, func(f *Function, _ *Options) { f.PageItems, f.MaxItemsPerInvocation, f.Lanes = 5, 1, 4 })
				return float64(r.deliveredDocuments())
			},
			defaultBounds: bounds{140, 200}, otherBounds: bounds{10, 30}, // some wait behind it in its lane; pages are not divided
		},
	}
}

// checkpointSettings are the cases of saved positions.
func checkpointSettings() []settingCase {
	saves := func(other Checkpoint, field string, otherBounds bounds) settingCase {
		return settingCase{
			field: field, quantity: "saved positions in 6 s with 10 changes a second",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.Checkpoint = other },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 60)
				stop := r.startHost(r.newHost(withDelay(100*time.Millisecond, handleAll), changesOneByOne))
				defer stop()
				time.Sleep(6050 * time.Millisecond)
				return float64(r.eventCount(EventCheckpointed))
			},
			defaultBounds: bounds{29, 31}, otherBounds: otherBounds,
		}
	}
	return []settingCase{
		saves(Checkpoint{Interval: EachBatch}, "Function.Checkpoint", bounds{58, 61}),
		saves(Checkpoint{Every: 20}, "Checkpoint.Every", exactly(3)),
		saves(Checkpoint{Interval: 2 * time.Second}, "Checkpoint.Interval", bounds{3, 4}),
		{
			field: "Checkpoint.Manual", quantity: "changes delivered again after a request for a checkpoint at the 20th of 60",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.Checkpoint.Manual = true },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 60)
				n := 0
				r.drainOnce(func(_ context.Context, b Batch) error {
					if n++; n == 20 {
						b.Checkpoint()
					}
					return nil
				}, changesOneByOne)
				r.drainOnce(handleAll)
				return r.changeCount() - 60
			},
			defaultBounds: exactly(0), otherBounds: exactly(40),
		},
		{
			field: "Function.Flush", quantity: "changes delivered again after a drain that made no request",
			setOther: func(_ *settingRun, f *Function, _ *Options) {
				f.Flush = func(context.Context, RangeInfo) error { return nil }
			},
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 60)
				r.drainOnce(handleAll, manualCheckpoints)
				r.drainOnce(handleAll, manualCheckpoints)
				return r.changeCount() - 60
			},
			defaultBounds: exactly(60), otherBounds: exactly(0),
		},
		{
			field: "Function.SnapshotRead", quantity: "snapshots that the sink has seen end",
			setOther: func(r *settingRun, f *Function, _ *Options) {
				f.SnapshotRead = func(_ context.Context, s SnapshotEnd) error { r.noted = append(r.noted, s.Range.ID); return nil }
			},
			measure: func(r *settingRun) float64 {
				versions := r.createContainer("versions", time.Hour)
				r.upsertInto(versions, "one", nil)
				r.drainOnce(handleAll, fromSnapshot, func(f *Function, _ *Options) { f.Container = versions })
				return float64(len(r.noted))
			},
			defaultBounds: exactly(0), otherBounds: exactly(1),
		},
	}
}

// keptDocuments returns how many documents are delivered that were written after a failover that lost
// more, and that neither version nor region tells of.
func (r *settingRun) keptDocuments() float64 {
	stop := r.startHost(r.newHost(r.recorder("a")))
	r.pauseReplication(north)
	r.writeMany("lost", 10)
	time.Sleep(time.Minute)
	r.failOver("items", north, emulator.FailoverUnplanned)
	r.writeMany("kept", 5)
	time.Sleep(3 * time.Minute)
	stop()
	return float64(r.deliveredDocuments() - 10)
}

// changesOfDrain drains 13 documents, of which 3 are wanted, and returns the changes.
func (r *settingRun) changesOfDrain() float64 {
	r.t.Helper()
	r.writeMany("doc", 10)
	r.writeMany("wanted", 3)
	r.drainOnce(handleAll)
	return r.changeCount()
}

// largestRequest returns the changes in the largest page asked for by a drain of so many changes.
func (r *settingRun) largestRequest(changes int) (largest float64) {
	r.setOnRequest(func(q *http.Request) {
		if n, err := strconv.ParseFloat(q.Header.Get("X-Ms-Max-Item-Count"), 64); err == nil && isFeedRead(q) {
			largest = max(largest, n)
		}
	})
	r.writeMany("doc", changes)
	r.drainOnce(handleAll)
	return largest
}

// changesFromStart writes 5 documents, 4 an hour later, and 2 after the first drain. It
// returns the changes.
func (r *settingRun) changesFromStart() float64 {
	r.t.Helper()
	r.writeMany("old", 5)
	r.position = r.newestContinuation()
	time.Sleep(time.Hour)
	r.writeMany("later", 4)
	r.drainOnce(handleAll, fromNow)
	time.Sleep(time.Hour)
	r.writeMany("new", 2)
	r.drainOnce(handleAll, fromNow)
	return r.changeCount()
}

// callbacksOfRun runs a host for a minute and returns what its callbacks have noted.
func (r *settingRun) callbacksOfRun() float64 {
	r.runFor(time.Minute, handleAll)
	return r.notes()
}

// leasesBeginningWith returns the number of documents in the lease container after a
// drain.
func (r *settingRun) leasesBeginningWith(prefix string) (n float64) {
	r.t.Helper()
	r.changesOfDrain()
	query := cosmos.Query{
		Text: "SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)", Parameters: []cosmos.Parameter{{Name: "@prefix", Value: prefix}},
	}
	for page, err := range r.leases.Query(r.t.Context(), query) {
		must(r.t, err)
		n += float64(len(page.Items))
	}
	return n
}

// createContainer creates a monitored container, with a change feed policy if retention
// is not 0.
func (r *settingRun) createContainer(id string, retention time.Duration) *cosmos.Container {
	r.t.Helper()
	must(r.t, r.client().CreateContainer(r.t.Context(), "db", cosmos.ContainerDefinition{
		ID: id, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Retention: retention,
	}))
	return r.client().Container("db", id)
}

// readsWithin returns the reads of the feed in a time.
func (r *settingRun) readsWithin(d time.Duration) float64 {
	sentBefore := r.countRequests()
	time.Sleep(d)
	return float64(r.countRequests().minus(sentBefore).feed)
}

// reusedDocuments keeps the documents of 50 changes beyond their calls and returns how
// many have other bytes at the end.
func (r *settingRun) reusedDocuments() (n float64) {
	var kept [][]byte
	var copies []string
	keep := func(_ context.Context, b Batch) error {
		for _, c := range b.Changes {
			kept, copies = append(kept, c.Document), append(copies, string(c.Document))
		}
		return nil
	}
	for _, prefix := range []string{"a", "b", "c", "d", "e"} {
		r.writeMany(prefix, 10)
		r.drainOnce(keep, func(f *Function, _ *Options) { f.MaxItemsPerInvocation, f.PageItems = 3, 3 })
	}
	if len(kept) != 50 {
		must(r.t, errors.New("not all documents were delivered"))
	}
	for i := range kept {
		if string(kept[i]) != copies[i] {
			n++
		}
	}
	return n
}
