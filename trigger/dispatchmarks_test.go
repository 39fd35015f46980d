package trigger

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A message that never arrives delays its range by ten minutes and one tick at most.
func TestLostMessageIsSentAgainAfterTenMinutes(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"))
		dispatched(t, h)
		for range 59 {
			time.Sleep(10 * time.Second)
			if tokens, _ := dispatched(t, h); len(tokens) != 0 {
				t.Fatal("a second message while the mark lasts")
			}
		}
		time.Sleep(11 * time.Second)
		if tokens, _ := dispatched(t, h); len(tokens) != 1 {
			t.Error("no message after ten minutes")
		}
	})
}

// Host a crashes in a call. Its lease expires as if there were no messages: the mark of
// the next message does not prolong it, and the next owner knows of the crash.
func TestMarkDoesNotProlongLeaseOfDeadOwner(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		var dead atomic.Bool
		ctx, kill := context.WithCancel(t.Context())
		a := w.hostOn(hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			return nil, errors.New("the process is dead"), dead.Load()
		}}, "a", func(ctx context.Context, _ Batch) error {
			dead.Store(true)
			kill()
			<-ctx.Done()
			return ctx.Err()
		}, withoutLogger)
		tick := w.host("tick", w.recorder("tick"))
		tokens, _ := dispatched(t, tick)
		_, _ = a.DrainRange(ctx, "test", tokens[0])
		killed := time.Now()
		var announced bool
		b := w.host("b", func(ctx context.Context, batch Batch) error {
			announced = strings.Contains(w.leaseDocuments()["0"].properties[retriesProperty], "{")
			return w.recorder("b")(ctx, batch)
		})
		for {
			time.Sleep(5 * time.Second)
			tokens, _ := dispatched(t, tick)
			if len(tokens) == 0 {
				continue
			}
			if l := w.leaseDocuments()["0"]; l.owner != "a" || l.properties[dispatchedProperty] == "" {
				t.Errorf("owner %q, mark %q", l.owner, l.properties[dispatchedProperty])
			}
			time.Sleep(2 * time.Second)
			if s := drained(t, b, tokens[0]); s.Drained != 1 {
				t.Errorf("drain after the crash: %+v", s)
			}
			break
		}
		if took := time.Since(killed); took > 75*time.Second {
			t.Errorf("taken over after %v", took)
		}
		if !announced {
			t.Error("the next owner does not know that the one before has crashed")
		}
		w.checkComplete(10)
	})
}

// A message whose range has changes, but whose lease cannot be acquired, ends the mark. If it
// cannot, it is an error, so that the message comes back before the mark has ended by itself.
func TestMessageThatCannotAcquireIsNotLost(t *testing.T) {
	for name, test := range map[string]struct {
		refuses  func(lease string) bool
		comeBack bool
	}{
		"acquisitions are refused": {func(lease string) bool { return strings.Contains(lease, `"Owner":"a"`) }, false},
		"all writes are refused":   {func(string) bool { return true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 10)
				tick := w.host("tick", w.recorder("tick"))
				tokens, _ := dispatched(t, tick)
				var refusing atomic.Bool
				refusing.Store(true)
				a := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
					if r.Method != http.MethodPut || !refusing.Load() || !test.refuses(bodyOf(t, r)) {
						return nil, nil, false
					}
					return nil, errors.New("connection refused"), true
				}}, "a", w.recorder("a"), withoutLogger)
				s, err := a.DrainRange(t.Context(), "test", tokens[0])
				if s.Behind != 1 || (err != nil) != test.comeBack {
					t.Errorf("%+v, %v", s, err)
				}
				refusing.Store(false)
				if test.comeBack {
					drained(t, a, tokens[0])
				} else if tokens, _ := dispatched(t, tick); len(tokens) != 1 {
					t.Error("the next tick sends no message")
				} else {
					drained(t, a, tokens[0])
				}
				w.checkComplete(10)
			})
		})
	}
}

// A message that has nothing to do leaves no mark that would keep the next one back.
func TestUselessMessageRemovesMark(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"))
		drained(t, h, "0")
		mark := func() {
			t.Helper()
			l := w.leaseDocuments()["0"].clone()
			now := w.leases.Client().Now().Unix()
			l.properties[dispatchedProperty] = fmt.Sprintf("%d %d ", now, now)
			w.replaceLease(l)
		}
		mark()
		if s := drained(t, h, "0"); s.Idle != 1 {
			t.Errorf("idle: %+v", s)
		}
		w.checkUnmarked()

		mark()
		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "sink is being moved")
		w.apply(c, plan, err)
		if s := drained(t, h, "0"); s.Skipped != 1 {
			t.Errorf("paused: %+v", s)
		}
		w.checkUnmarked()
		plan, err = c.PlanResume(t.Context())
		w.apply(c, plan, err)

		release := make(chan struct{})
		slow := w.host("slow", func(context.Context, Batch) error { <-release; return nil }, func(f *Function, _ *Options) { f.HandlerTimeout = time.Second })
		w.write("doc1", "doc1")
		if s, _ := slow.DrainRange(t.Context(), "test", "0"); s.Behind != 1 {
			t.Errorf("stuck: %+v", s)
		}
		close(release)
		mark()
		if s := drained(t, slow, "0"); s.Skipped != 1 {
			t.Errorf("cooling: %+v", s)
		}
		w.checkUnmarked()
		drained(t, h, "0")
		w.checkComplete(0)
	})
}

// An operator restores a lease with its mark while the message's drain owns the range, which
// finds that out as it saves a position, or as late as it releases the lease.
func TestRestoredMarkEndsWithItsMessage(t *testing.T) {
	for name, pause := range map[string]time.Duration{"at a checkpoint": time.Second, "at the release": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 10)
				var marked *leaseDocument
				record := w.recorder("a")
				a := w.host("a", func(ctx context.Context, b Batch) error {
					restored := marked
					if marked = nil; restored != nil {
						restored.etag = w.leaseDocuments()[restored.token].etag
						w.replaceLease(restored)
					}
					time.Sleep(pause)
					return record(ctx, b)
				}, func(f *Function, _ *Options) { f.MaxItemsPerInvocation, f.Checkpoint.Every = 1, 1 })
				tokens, _ := dispatched(t, a)
				marked = w.leaseDocuments()[tokens[0]]
				s, err := a.DrainRange(t.Context(), "test", tokens[0])
				if isLate := s.Drained == 1; err != nil || isLate != (pause == 0) {
					t.Errorf("%+v, %v", s, err)
				}
				if tokens, _ := dispatched(t, a); len(tokens) != 1 {
					t.Fatal("the next tick sends no message")
				}
				drained(t, a, tokens[0])
				w.checkComplete(10)
			})
		})
	}
}

// A drain whose lease is gone has done its work: its message is not repeated.
func TestDeletedLeaseIsNoFailedMessage(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		record := w.recorder("a")
		a := w.host("a", func(ctx context.Context, b Batch) error {
			if l := w.leaseDocuments()["0"]; l != nil {
				if err := w.deleteLease(l); err != nil {
					t.Error(err)
				}
			}
			return record(ctx, b)
		})
		if s, err := a.DrainRange(t.Context(), "test", "0"); err != nil || s.Changes != 10 {
			t.Errorf("%+v, %v", s, err)
		}
	})
}

// By the clock of the host that sends a message the owner of the lease is dead; by that of
// the host that gets the message it is alive.
func TestMessageOfHostWhoseClockIsAheadIsSentAgain(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"))
		drained(t, h, "0")
		w.write("doc10", "doc10")
		l := w.leaseDocuments()["0"].clone()
		now := w.leases.Client().Now().Unix()
		l.owner, l.properties[dispatchedProperty] = "dead", fmt.Sprintf("%d %d dead", now, now)
		w.replaceLease(l)
		if s := drained(t, h, "0"); s.Skipped != 1 {
			t.Errorf("held: %+v", s)
		}
		time.Sleep(time.Minute + 2*time.Second)
		if tokens, _ := dispatched(t, h); len(tokens) != 1 {
			t.Fatal("no message when the owner is dead by all clocks")
		}
		drained(t, h, "0")
		w.checkComplete(0)
	})
}

// A drain that is stopped while it works is done: its range gets its next message from the timer.
func TestStoppedDrainIsNoFailedMessage(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		ctx, stop := context.WithCancel(t.Context())
		record := w.recorder("a")
		a := w.host("a", func(call context.Context, b Batch) error {
			stop()
			return record(call, b)
		}, func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 5 })
		tokens, _ := dispatched(t, a)
		if s, err := a.DrainRange(ctx, "test", tokens[0]); err != nil || s.Behind != 1 || s.Changes == 0 {
			t.Errorf("%+v, %v", s, err)
		}
		tokens, _ = dispatched(t, a)
		drained(t, a, tokens[0])
		w.checkComplete(10)
	})
}
