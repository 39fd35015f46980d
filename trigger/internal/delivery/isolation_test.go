package delivery

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// Two suspects may be in a call at the same time, as a suspect that has waited for
// too long is delivered without the slot. If the process ends, it is not known which
// of them crashed it.
func TestCrashIsChargedOnlyToChangeThatIsAlone(t *testing.T) {
	item := func(lsn int64) *Item { return &Item{Change: feed.Change{Item: cosmos.Item{LSN: lsn, ID: "a"}}} }
	for name, test := range map[string]struct {
		items   []*Item
		alone   bool
		charged bool
	}{
		"a single change, alone":     {[]*Item{item(1)}, true, true},
		"a single change, not alone": {[]*Item{item(1)}, false, false},
		"two changes, alone":         {[]*Item{item(1), item(2)}, true, false},
	} {
		l := newTestRange(t).delivery().lanes[0]
		if err := l.announce(t.Context(), 0, &group{items: test.items}, test.alone); err != nil {
			t.Fatal(err)
		}
		property := l.retries.encodeProperty()
		if charged := strings.Contains(property, `"crashes":1`); charged != test.charged || !strings.Contains(property, `"inFlight":true`) {
			t.Errorf("%s: the lease names %s", name, property)
		}
	}
}

// A call that returns is over, also with an error: if the owner ends later, the next one must
// not take its changes for suspects.
func TestFailedCallEndsItsAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.Announce, r.config.MaxItemsPerInvocation = true, 1
		d := r.delivery()
		r.handle = func([]*Item, int) error {
			if property := d.RetryProperty(); strings.Count(property, `"inFlight":true`) != 1 {
				t.Errorf("during call %d the lease says %s", r.calls, property)
			}
			if r.calls == 1 {
				return errBad
			}
			return nil
		}
		if err := r.deliver(d, changes(10, "a", "b")); err != nil {
			t.Fatal(err)
		}
		if r.calls != 3 || d.RetryProperty() != "" {
			t.Errorf("after %d calls the lease says %s", r.calls, d.RetryProperty())
		}
	})
}

// An owner whose predecessor vanished announces its calls until it has finished MaxAhead and a
// page of changes, which the predecessor may have read behind its continuation or, if it has
// saved what is finished behind that, behind this position.
func TestAnnouncingEndsBehindWhatTheFormerOwnerCanHaveRead(t *testing.T) {
	saved := finished.Value{Binding: finished.Binding{Continuation: "of another lease"}, Reached: 20}
	for property, want := range map[string]int{"": 15, saved.Encode(): 35} {
		synctest.Test(t, func(t *testing.T) {
			r := newTestRange(t)
			r.config.Announce, r.config.MaxItemsPerInvocation, r.config.MaxAhead, r.config.PageItems = true, 1, 10, 5
			r.config.SavedFinished = property
			d := r.delivery()
			var announced []int64
			r.handle = func(items []*Item, _ int) error {
				if d.RetryProperty() != "" {
					announced = append(announced, items[0].Seq)
				}
				return nil
			}
			if err := r.deliver(d, changes(1, strings.Split(strings.Repeat("k", 60), "")...)); err != nil {
				t.Fatal(err)
			}
			if n := len(announced); n != want || announced[n-1] != int64(want) {
				t.Errorf("with %q the calls %v are announced, want the first %d", property, announced, want)
			}
		})
	}
}

// rateCalls are the calls of a test whose function has a rate.
type rateCalls struct {
	*testRange
	pay func(changes int)
}

func (c rateCalls) WaitRate(_ context.Context, _, changes int) error {
	c.pay(changes)
	return nil
}

// A suspect waits for the function's rate before it takes the suspect slot, which others
// may need meanwhile, and pays once although it asks for the slot several times.
func TestSuspectWaitsForRateWithoutSuspectSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		pages := changes(10, "a", "b")
		first := (&Item{Change: feed.Change{Item: pages[0].Items[0]}}).Name(r.config.KeyPaths)
		r.config.SavedRetries = fmt.Sprintf(`[{"first":%q,"last":%q,"size":1,"inFlight":true}]`, first, first)
		r.config.Announce = true
		r.handle = func([]*Item, int) error { return nil }
		paid := 0
		calls := rateCalls{r, func(changes int) {
			paid += changes
			time.Sleep(time.Minute)
			if len(r.config.SuspectSlot) > 0 {
				t.Error("the suspect slot is held during the wait")
			}
		}}
		if err := r.deliver(New(r.config, calls, testStore{}), pages); err != nil {
			t.Fatal(err)
		}
		if paid != 2 || len(r.finished) != 2 {
			t.Errorf("paid for %d changes, %d are finished", paid, len(r.finished))
		}
	})
}

// Each attempt pays, also with a part of the batch.
func TestEveryCallWaitsForRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		paid, called := 0, 0
		r.handle = func(items []*Item, _ int) error {
			called += len(items)
			for _, c := range items {
				if c.Seq == 2 {
					return errBad
				}
			}
			return nil
		}
		calls := rateCalls{r, func(changes int) { paid += changes }}
		if err := r.deliver(New(r.config, calls, testStore{}), changes(10, "a", "b", "c", "d")); err != nil {
			t.Fatal(err)
		}
		if paid != called || r.calls < 5 {
			t.Errorf("%d calls with %d changes paid for %d", r.calls, called, paid)
		}
	})
}
