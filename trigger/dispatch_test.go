package trigger

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

const dispatchedProperty = "halley.dispatched"

// dispatched returns the tokens of the ranges for which a host sends messages.
func dispatched(t *testing.T, h *Host) (tokens []string, s Summary) {
	t.Helper()
	tasks, s, err := h.Dispatch(t.Context())
	must(t, err)
	for _, task := range tasks {
		if task.Function != "test" {
			t.Errorf("task %+v", task)
		}
		tokens = append(tokens, task.Range)
	}
	slices.Sort(tokens)
	return tokens, s
}

// drained drains one range.
func drained(t *testing.T, h *Host, token string) Summary {
	t.Helper()
	s, err := h.DrainRange(t.Context(), "test", token)
	must(t, err)
	return s
}

func TestDispatchSendsOneMessageForEachRangeWithWork(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		a, b := w.host("a", w.recorder("a")), w.host("b", w.recorder("b"))
		if tokens, s := dispatched(t, a); len(tokens) != 0 || s.Ranges != 4 || s.Idle != 4 {
			t.Errorf("before the first change: %v, %+v", tokens, s)
		}
		oldCounts := w.countRequests()
		w.writeMany("doc", 100)
		tokens, s := dispatched(t, a)
		if fmt.Sprint(tokens) != "[0 1 2 3]" || s.Behind != 4 || s.Lag != 100 {
			t.Errorf("messages %v, %+v", tokens, s)
		}
		if got := w.countRequests().minus(oldCounts); got.writes != 4 || got.feed != 4 {
			t.Errorf("four messages cost %+v", got)
		}
		now := w.leases.Client().Now().Unix()
		for token, l := range w.leaseDocuments() {
			position, _, _ := strings.Cut(l.properties[dispatchedProperty], " ")
			if seconds, err := strconv.ParseInt(position, 10, 64); err != nil || now-seconds > 1 || l.owner != "" {
				t.Errorf("lease %s: mark %q at %d, owner %q", token, l.properties[dispatchedProperty], now, l.owner)
			}
		}
		for _, h := range []*Host{a, b} {
			if repeated, s := dispatched(t, h); len(repeated) != 0 || s.Behind != 4 {
				t.Errorf("messages while the first are on their way: %v, %+v", repeated, s)
			}
		}
		for _, token := range tokens {
			if s := drained(t, b, token); s.Drained != 1 || s.Changes == 0 {
				t.Errorf("range %s: %+v", token, s)
			}
		}
		w.checkComplete(0)
		w.checkUnmarked()
		w.write("doc7", "doc7")
		if tokens, s := dispatched(t, a); len(tokens) != 1 || s.Idle != 3 {
			t.Errorf("messages for one more change: %v, %+v", tokens, s)
		}
	})
}

// checkUnmarked fails the test if a lease has a mark.
func (w *world) checkUnmarked() {
	w.t.Helper()
	for token, l := range w.leaseDocuments() {
		if mark := l.properties[dispatchedProperty]; mark != "" {
			w.t.Errorf("lease %s still has the mark %q", token, mark)
		}
	}
}

// Ranges that a host holds or an operator has paused get no message, and a message for one
// has no effect.
func TestHeldAndPausedRangesGetNoMessage(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		h := w.host("a", w.recorder("a"))
		dispatched(t, h)
		c := w.control(nil)
		plan, err := c.PlanPause(t.Context(), "sink is being moved")
		w.apply(c, plan, err)
		if s := drained(t, h, "0"); s.Skipped != 1 {
			t.Errorf("paused: %+v", s)
		}
		if tokens, s := dispatched(t, h); len(tokens) != 0 || s.Skipped != 2 {
			t.Errorf("messages for paused ranges: %v, %+v", tokens, s)
		}
		plan, err = c.PlanResume(t.Context())
		w.apply(c, plan, err)
		if tokens, _ := dispatched(t, h); len(tokens) != 2 {
			t.Errorf("messages after the pause: %v", tokens)
		}
		stop := w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(time.Minute)
		w.writeMany("more", 20)
		if tokens, s := dispatched(t, h); len(tokens) != 0 || s.Skipped != 2 {
			t.Errorf("messages for held ranges: %v, %+v", tokens, s)
		}
		if s := drained(t, h, "0"); s.Skipped != 1 {
			t.Errorf("held: %+v", s)
		}
		time.Sleep(time.Minute)
		stop()
		w.checkComplete(0)
		w.checkUnmarked()
	})
}

// A host processes many messages at once, some of them twice: each change is delivered
// once, and the leases are listed a few times.
func TestManyMessagesAtOnceDeliverOnce(t *testing.T) {
	inWorld(t, 16, func(t *testing.T, w *world) {
		w.writeMany("doc", 200)
		var lists atomic.Int64
		h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			time.Sleep(3 * time.Millisecond)
			if isLeaseQuery(r) {
				lists.Add(1)
			}
			return nil, nil, false
		}}, "a", withDelay(20*time.Millisecond, w.recorder("a")))
		tokens, _ := dispatched(t, h)
		lists.Store(0)
		var mu sync.Mutex
		var total Summary
		var working sync.WaitGroup
		for _, token := range slices.Concat(tokens, tokens) {
			working.Go(func() {
				s := drained(t, h, token)
				mu.Lock()
				defer mu.Unlock()
				total.Add(s)
			})
		}
		working.Go(func() { dispatched(t, h) })
		working.Wait()
		if total.Drained != 16 || total.Skipped+total.Idle != 16 || total.Behind != 0 {
			t.Errorf("%+v", total)
		}
		if n := lists.Load(); n > 4 {
			t.Errorf("33 calls listed the leases %d times", n)
		}
		w.checkComplete(0)
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never released", used)
		}
	})
}

// The children of a range that splits get messages of their own.
func TestChildrenOfSplitGetMessages(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 50)
		h := w.host("a", w.recorder("a"))
		tokens, _ := dispatched(t, h)
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		w.writeMany("more", 50)
		time.Sleep(time.Minute)
		if s := drained(t, h, tokens[0]); s.Ranges != 1 || s.Behind != 0 {
			t.Errorf("parent: %+v", s)
		}
		children, _ := dispatched(t, h)
		if len(children) != 2 {
			t.Fatalf("messages for the children: %v", children)
		}
		if s := drained(t, h, "0"); s.Ranges != 0 {
			t.Errorf("second message of the parent: %+v", s)
		}
		for _, token := range children {
			drained(t, h, token)
		}
		w.checkComplete(0)
	})
}

// A range that has split needs an owner, which creates the leases that follow, even if
// it has no changes.
func TestIdleRangeThatSplitGetsMessage(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"))
		drained(t, h, "0")
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		for range 3 { // the second looks at the ranges again
			tokens, _ := dispatched(t, h)
			for _, token := range tokens {
				drained(t, h, token)
			}
			time.Sleep(10 * time.Second)
		}
		if n := len(w.leaseDocuments()); n != 2 {
			t.Errorf("%d leases after the split", n)
		}
		w.checkComplete(0)
	})
}

// If the lease changes between the list and the mark, the range has another host or
// another message.
func TestChangedLeaseGetsNoMessage(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		other := w.host("b", w.recorder("b"))
		var taken atomic.Bool
		h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if isFeedRead(r) && taken.CompareAndSwap(false, true) {
				drained(t, other, "0")
			}
			return nil, nil, false
		}}, "a", w.recorder("a"))
		if tokens, s := dispatched(t, h); len(tokens) != 0 || s.Skipped != 1 {
			t.Errorf("messages %v, %+v", tokens, s)
		}
		w.checkComplete(0)
		w.checkUnmarked()
	})
}

// If the answer to the mark is lost, the message is sent: the mark may stand.
func TestMessageIsSentIfAnswerToMarkIsLost(t *testing.T) {
	for _, applied := range []bool{true, false} {
		t.Run(fmt.Sprint("applied ", applied), func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.writeMany("doc", 10)
				var cut atomic.Bool
				h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
					if isLeaseReplace(r) && applied && !cut.Load() {
						resp, err := w.account.Do(r)
						if err == nil {
							resp.Body.Close()
						}
					}
					if isLeaseReplace(r) {
						cut.Store(true)
					}
					return nil, io.ErrUnexpectedEOF, cut.Load()
				}}, "a", w.recorder("a"), withoutLogger)
				if tokens, s := dispatched(t, h); len(tokens) != 1 || s.Behind != 1 {
					t.Errorf("messages %v, %+v", tokens, s)
				}
				drained(t, w.host("b", w.recorder("b")), "0")
				w.checkComplete(0)
				w.checkUnmarked()
			})
		})
	}
}

func TestUnreadableRangeGetsNoMessage(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		h := w.host("a", w.recorder("a"), withoutLogger)
		remove := w.account.Inject(emulator.Fault{Header: map[string]string{"A-IM": "."}, Range: "1", Status: 400})
		if tokens, s := dispatched(t, h); fmt.Sprint(tokens) != "[0]" || s.Behind != 2 || s.Problem == "" {
			t.Errorf("one unreadable: %v, %+v", tokens, s)
		}
		drained(t, h, "0")
		remove()
		w.account.Inject(emulator.Fault{Header: map[string]string{"A-IM": "."}, Status: 400})
		if tasks, _, err := h.Dispatch(t.Context()); err == nil || len(tasks) != 0 {
			t.Errorf("all unreadable: %v, %v", tasks, err)
		}
		if _, err := h.DrainRange(t.Context(), "test", "1"); err == nil {
			t.Error("drain of an unreadable range is no error")
		}
	})
}

// If one function cannot be worked on, the others get their messages.
func TestDispatchServesOthersIfOneFunctionCannotStart(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		h := w.hostOf(t, Options{},
			Function{FeedSource: FeedSource{Name: "lost", Container: w.client().Container("db", "nowhere")}, Handler: failAlways}, Function{FeedSource: FeedSource{Name: "working"}, Handler: w.recorder("a")})
		tasks, s, err := h.Dispatch(t.Context())
		if err == nil || !strings.Contains(err.Error(), `"lost"`) || len(tasks) != 2 || tasks[0].Function != "working" || s.Ranges != 2 {
			t.Errorf("%v, %+v, %v", tasks, s, err)
		}
	})
}

// A dispatch that is out of time still returns the ranges that it has marked.
func TestDispatchReturnsMarkedRangesWhenTimeIsUp(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("doc", 100)
		_, err := w.host("b", failAlways, withoutLogger, func(f *Function, _ *Options) { f.StartFrom = FromBeginning() }).DrainRange(t.Context(), "test", "none")
		must(t, err)
		h := w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			if id := r.Header.Get("x-ms-documentdb-partitionkeyrangeid"); isFeedRead(r) && (id == "0" || id == "1") {
				return loseRequest(r)
			}
			return nil, nil, false
		}}, "a", w.recorder("a"), withoutLogger)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		tasks, s, err := h.Dispatch(ctx)
		if err != nil || len(tasks) != 2 || s.Behind != 4 {
			t.Errorf("%v, %+v, %v", tasks, s, err)
		}
	})
}

// A drain of a range stops at the end of its own context, and not at that of another.
func TestDrainsOfOneHostStopSeparately(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 200)
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return w.recorder("a")(ctx, b)
		}, func(f *Function, _ *Options) { f.MaxItemsPerInvocation, f.PageItems = 1, 1 })
		short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var first, second Summary
		var working sync.WaitGroup
		working.Go(func() { first, _ = h.DrainRange(short, "test", "0") })
		working.Go(func() { second, _ = h.DrainRange(t.Context(), "test", "1") })
		working.Wait()
		if first.Behind != 1 || first.Changes == 0 || second.Drained != 1 {
			t.Errorf("first %+v, second %+v", first, second)
		}
		drained(t, h, "0")
		w.checkComplete(0)
	})
}

// A lease of a .NET host without a position gets a message, because only an owner can
// give it one.
func TestLeaseWithoutPositionGetsMessage(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		l := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		l.body["Mode"] = "Full-Fidelity Feed"
		w.createLease(l)
		h := w.host("a", (&versionHistory{}).handler(), allVersions)
		if tokens, _ := dispatched(t, h); len(tokens) != 1 {
			t.Errorf("messages %v", tokens)
		}
		drained(t, h, "0")
		if l := w.leaseDocuments()["0"]; l.continuation == "" {
			t.Error("the lease still has no position")
		}
	})
}

// An older library drops the mark with the other properties: one more message is sent.
func TestDroppedMarkCostsOneMessage(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		h := w.host("a", w.recorder("a"))
		dispatched(t, h)
		l := w.leaseDocuments()["0"].clone()
		l.properties = nil
		w.replaceLease(l)
		tokens, _ := dispatched(t, h)
		if len(tokens) != 1 {
			t.Errorf("messages %v", tokens)
		}
		if s := drained(t, h, "0"); s.Drained != 1 {
			t.Errorf("first message: %+v", s)
		}
		if s := drained(t, h, "0"); s.Idle != 1 {
			t.Errorf("second message: %+v", s)
		}
		w.checkComplete(0)
	})
}
