package delivery

import (
	"context"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

func TestOrderlyReleaseTakesBackOnlyItsOwnAnnouncements(t *testing.T) {
	r := &retryRecords{serviceNow: time.Now}
	r.loadProperty(`[{"first":"7/x","last":"9/y","size":4,"crashes":2,"inFlight":true}]`)
	c := &Item{Change: feed.Change{Item: cosmos.Item{LSN: 9, ID: "doc"}}}
	in := &isolation{suspectSlot: make(chan struct{}, 1), records: r, confirmOwnership: func(context.Context) error { return nil }}
	r.saveGroup([]*Item{c}, RetryState{Crashes: 1})
	if err := in.announce(t.Context(), 0, &group{items: []*Item{c}, retry: RetryState{Crashes: 1}}, true); err != nil {
		t.Fatal(err)
	}
	if got := r.byName[c.Name(nil)]; got.Crashes != 2 || !got.InFlight {
		t.Errorf("before the call the lease says %+v", got)
	}
	r.endAnnouncements()
	if got := r.byName[c.Name(nil)]; got.Crashes != 1 || got.InFlight {
		t.Errorf("after an orderly release it says %+v", got)
	}
	if got := r.byName["7/x"]; got.Crashes != 2 || !got.InFlight {
		t.Errorf("of another change it says %+v", got)
	}
}
