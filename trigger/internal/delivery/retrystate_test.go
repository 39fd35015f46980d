package delivery

import (
	"context"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

func TestOrderlyReleaseTakesBackOnlyItsOwnCrash(t *testing.T) {
	r := &retryRecords{serviceNow: time.Now}
	r.loadProperty(`[{"change":"7/x","last":"9/y","size":4,"deaths":2}]`)
	c := &Item{Change: feed.Change{Item: cosmos.Item{LSN: 9, ID: "doc"}}}
	in := &isolation{suspectSlot: make(chan struct{}, 1), retries: r, confirmOwnership: func(context.Context) error { return nil }}
	if err := in.enterSlot(t.Context(), &group{items: []*Item{c}}, 0); err != nil {
		t.Fatal(err)
	}
	in.leaveSlot()
	if got := r.byName[c.Name()]; got.Crashes != 1 {
		t.Errorf("before the call the lease says %+v", got)
	}
	r.clearCrash(in.suspectName)
	if got := r.byName[c.Name()]; got.Crashes != 0 {
		t.Errorf("after an orderly release it says %+v", got)
	}
	if got := r.byName["7/x"]; got.Crashes != 2 {
		t.Errorf("of another change it says %+v", got)
	}
}
