package trigger

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// quietlyFromNow starts from now, and logs to a recorder.
func quietlyFromNow(logger *slog.Logger) func(*Function, *Options) {
	return func(f *Function, o *Options) { f.StartFrom, o.Logger = FromNow(), logger }
}

// The monitored container is created again while a host runs. The host reads it from its
// beginning, whatever its start is, and at no position of the former one.
func TestRecreatedContainerIsReadFromItsBeginning(t *testing.T) {
	for name, start := range map[string]Start{"now": FromNow(), "beginning": FromBeginning(), "continuation": FromContinuation(`"3"`)} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				logger, logged := recordLog(slog.LevelWarn)
				defer w.startHost(w.host("a", w.recorder("a"), func(f *Function, o *Options) { f.StartFrom, o.Logger = start, logger }))()
				time.Sleep(30 * time.Second)
				w.writeMany("former", 10)
				time.Sleep(30 * time.Second)
				w.mu.Lock()
				w.delivered = nil
				w.mu.Unlock()
				w.recreateContainer("items", "/player")
				w.writeMany("new", 20)
				time.Sleep(30 * time.Second)
				if got := w.deliveredDocuments(); got != 20 || w.deliveryCount() != 20 {
					t.Errorf("%d documents in %d deliveries, want the 20 of the new container", got, w.deliveryCount())
				}
				if n := logged.FilterMessageSnippet("reading it from its beginning").Len(); n != 1 {
					t.Errorf("%d lines tell of the new container", n)
				}
			})
		})
	}
}

// A host that starts later finds in the marker that the container is read from its beginning.
func TestStartOfRecreatedContainerIsKept(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		logger, _ := recordLog(slog.LevelError)
		h := w.host("a", w.recorder("a"), quietlyFromNow(logger))
		_, err := h.Drain(t.Context())
		must(t, err)
		w.recreateContainer("items", "/player")
		w.writeMany("new", 20)
		time.Sleep(10 * time.Second)
		_, _, err = h.Dispatch(t.Context()) // finds the container gone
		if !isContainerGone(err) {
			t.Errorf("dispatch: %v", err)
		}
		tasks, _, err := h.Dispatch(t.Context())
		if err != nil || len(tasks) != 1 {
			t.Errorf("dispatch of the new container: %v, %v", tasks, err)
		}
		_, err = w.host("b", w.recorder("b"), quietlyFromNow(logger)).Drain(t.Context())
		must(t, err)
		if got := w.deliveryCount(); got != 20 {
			t.Errorf("%d delivered, want 20", got)
		}
	})
}

// A warm process drains on a timer: the drain after either container was created again
// works, and DrainRange does so at its second call.
func TestWarmDrainsSurviveRecreatedContainers(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		logger, _ := recordLog(slog.LevelError)
		h := w.host("a", w.recorder("a"), quietlyFromNow(logger))
		drain := func(prefix string, n int) {
			t.Helper()
			w.delivered = nil
			w.writeMany(prefix, n)
			summary, err := h.Drain(t.Context())
			must(t, err)
			if w.deliveredDocuments() != n || summary.Changes != n || summary.Behind != 0 {
				t.Errorf("%s: %d documents, %+v", prefix, w.deliveredDocuments(), summary)
			}
		}
		_, err := h.Drain(t.Context())
		must(t, err)
		drain("first", 10)
		w.recreateContainer("items", "/player")
		drain("second", 20)
		w.recreateContainer("leases", "/id")
		w.delivered = nil
		w.writeMany("third", 30)
		summary, err := h.Drain(t.Context())
		must(t, err)
		if w.deliveredDocuments() != 50 || summary.Behind != 0 { // the positions are gone, and the container was read from its beginning
			t.Errorf("%d documents after the leases were dropped, %+v", w.deliveredDocuments(), summary)
		}
		w.recreateContainer("items", "/player")
		w.writeMany("fourth", 10)
		w.delivered = nil
		if _, err := h.DrainRange(t.Context(), "test", "0"); !isContainerGone(err) {
			t.Errorf("drain of a range of the former container: %v", err)
		}
		if _, err := h.DrainRange(t.Context(), "test", "0"); err != nil || w.deliveryCount() != 10 {
			t.Errorf("drain of a range of the new container: %d delivered, %v", w.deliveryCount(), err)
		}
	})
}

// All versions cannot be read from the beginning: the function begins now, and a warning names
// the gap.
func TestRecreatedContainerOfAllVersionsBeginsNow(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		logger, logged := recordLog(slog.LevelWarn)
		defer w.startHost(w.host("a", w.recorder("a"), allVersions, func(_ *Function, o *Options) { o.Logger = logger }))()
		time.Sleep(time.Minute)
		w.dropContainer("items")
		created := time.Now().Truncate(time.Second)
		must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Retention: 10 * time.Minute,
		}))
		w.writeMany("gap", 5)
		time.Sleep(30 * time.Second)
		w.writeMany("new", 5)
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.delivered {
			if !strings.HasPrefix(d.doc.ID, "new") {
				t.Errorf("%s delivered", d.doc.ID)
			}
		}
		lines := logged.FilterMessageSnippet("earlier changes of the new container are not delivered")
		if len(w.delivered) != 5 || lines.Len() != 1 {
			t.Fatalf("%d delivered, %d warnings", len(w.delivered), lines.Len())
		}
		fields := lines.All()[0].ContextMap()
		from, _ := fields["gapFrom"].(time.Time)
		until, _ := fields["gapUntil"].(time.Time)
		if !from.Equal(created) || !until.After(from) || until.Sub(from) > 30*time.Second || fields["container"] != "items" {
			t.Errorf("the warning names %v", fields)
		}
	})
}

// The lease container is created again while two hosts run, at once or after some time: each
// writes its positions into new leases.
func TestRecreatedLeaseContainerGetsPositions(t *testing.T) {
	for _, absent := range []time.Duration{0, 50 * time.Second} {
		t.Run(fmt.Sprint("absent for ", absent), func(t *testing.T) {
			inWorld(t, 8, func(t *testing.T, w *world) {
				logger, logged := recordLog(slog.LevelWarn)
				short := func(_ *Function, o *Options) {
					o.LeaseRenewInterval, o.LeaseExpirationInterval = 10*time.Second, 30*time.Second
				}
				defer w.startHost(w.host("a", w.recorder("a"), quietlyFromNow(logger), short))()
				time.Sleep(time.Minute)
				defer w.startHost(w.host("b", w.recorder("b"), quietlyFromNow(logger), short))()
				time.Sleep(3 * time.Minute)
				w.writeMany("before", 80)
				time.Sleep(time.Minute)
				w.dropContainer("leases")
				time.Sleep(absent)
				w.createContainer("leases", "/id")
				time.Sleep(30 * time.Second)
				leases := w.leaseDocuments()
				for token, l := range leases {
					if l.owner == "" || l.continuation == "" {
						t.Errorf("lease %s has owner %q at %q", token, l.owner, l.continuation)
					}
				}
				w.writeMany("after", 80)
				time.Sleep(10 * time.Second)
				w.checkComplete(0)
				if len(leases) != 8 {
					t.Errorf("%d leases", len(leases))
				}
				if n := logged.FilterMessageSnippet("marker document").Len(); n > 2 {
					t.Errorf("%d lines tell of the marker", n)
				}
			})
		})
	}
}

// Both containers are created again, so the positions that a host still holds belong to the
// former one.
func TestRecreatedContainersAreReadFromTheBeginning(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		logger, _ := recordLog(slog.LevelError)
		defer w.startHost(w.host("a", w.recorder("a"), quietlyFromNow(logger)))()
		time.Sleep(30 * time.Second)
		w.writeMany("former", 30)
		time.Sleep(30 * time.Second)
		w.mu.Lock()
		w.delivered = nil
		w.mu.Unlock()
		w.recreateContainer("leases", "/id")
		w.recreateContainer("items", "/player")
		w.writeMany("new", 20)
		time.Sleep(30 * time.Second)
		if got := w.deliveredDocuments(); got != 20 || w.deliveryCount() != 20 {
			t.Errorf("%d documents in %d deliveries, want the 20 of the new container", got, w.deliveryCount())
		}
	})
}

// A dropped container, of leases or of documents, ends the function with an error that names
// it, and the host after a minute.
func TestDroppedContainerEndsRun(t *testing.T) {
	for _, container := range []string{"items", "leases"} {
		for _, substatus := range []int{0, 1003} {
			t.Run(fmt.Sprint(container, " ", substatus), func(t *testing.T) {
				inWorld(t, 2, func(t *testing.T, w *world) {
					logger, logged := recordLog(slog.LevelWarn)
					h := w.host("a", w.recorder("a"), quietlyFromNow(logger))
					done := make(chan error, 1)
					go func() { done <- h.Run(t.Context()) }()
					time.Sleep(time.Minute)
					if substatus != 0 { // as older gateways answer
						defer w.account.Inject(emulator.Fault{Path: "colls/" + container, Status: 404, SubStatus: substatus})()
					} else {
						w.dropContainer(container)
					}
					time.Sleep(30 * time.Second)
					advice := `create it, or correct the names: database "db", container "` + container + `"`
					if problem := h.Status().Functions[0].Problem; !strings.Contains(problem, advice) {
						t.Errorf("status after 30 s: %q", problem)
					}
					if err := <-done; err == nil || !strings.Contains(err.Error(), advice) || cosmos.Classify(err) != cosmos.OutcomeContainerGone {
						t.Errorf("run ended with %v", err)
					}
					if n := logged.FilterMessageSnippet("marker document").Len(); n != 0 {
						t.Errorf("%d lines tell of the marker", n)
					}
				})
			})
		}
	}
}

// A document that is absent is not a reason to end: the lease comes back in its container.
func TestDeletedLeaseDoesNotEndFunction(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		logger, logged := recordLog(slog.LevelError)
		defer w.startHost(w.host("a", w.recorder("a"), quietlyFromNow(logger)))()
		time.Sleep(time.Minute)
		w.deleteLeases(true)
		time.Sleep(time.Minute)
		if n := logged.FilterMessageSnippet("function ended").Len(); n != 0 || len(w.leaseDocuments()) != 1 {
			t.Errorf("the function ended %d times, %d leases", n, len(w.leaseDocuments()))
		}
	})
}
