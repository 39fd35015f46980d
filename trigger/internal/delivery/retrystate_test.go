package delivery

import (
	"context"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

func TestOrderlyReleaseTakesBackOnlyItsOwnCrash(t *testing.T) {
	r := &retries{now: time.Now}
	r.load(`[{"change":"7/x","last":"9/y","size":4,"deaths":2}]`)
	c := &Item{Change: feed.Change{Item: cosmos.Item{LSN: 9, ID: "doc"}}}
	in := &isolation{slot: make(chan struct{}, 1), retries: r, confirm: func(context.Context) error { return nil }}
	if err := in.enter(t.Context(), &group{items: []*Item{c}}, 0); err != nil {
		t.Fatal(err)
	}
	in.leave()
	if got := r.known[c.Name()]; got.Crashes != 1 {
		t.Errorf("before the call the lease says %+v", got)
	}
	r.clearCrash(in.suspect)
	if got := r.known[c.Name()]; got.Crashes != 0 {
		t.Errorf("after an orderly release it says %+v", got)
	}
	if got := r.known["7/x"]; got.Crashes != 2 {
		t.Errorf("of another change it says %+v", got)
	}
}
