package trigger

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"halley/trigger/internal/delivery"
)

// listCall is a range that wants a list.
type listCall struct {
	got  sharedList[*delivery.BlockedKeys]
	done chan struct{}
}

func (c *listCall) hasReturned() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// listRig is a store whose lists end when the test says so.
type listRig struct {
	lists *sharedLists[*delivery.BlockedKeys]
	read  atomic.Int64 // lists that have begun
	end   chan error
}

// want asks for a list that begins from now on.
func (r *listRig) want(ctx context.Context) *listCall {
	c := &listCall{done: make(chan struct{})}
	number := r.lists.begun.Load()
	go func() {
		defer close(c.done)
		c.got = r.lists.listAfter(ctx, number, func() (*delivery.BlockedKeys, error) {
			r.read.Add(1)
			select {
			case err := <-r.end:
				return &delivery.BlockedKeys{}, err
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	}()
	synctest.Wait()
	return c
}

func inListRig(t *testing.T, test func(t *testing.T, r *listRig)) {
	synctest.Test(t, func(t *testing.T) {
		test(t, &listRig{lists: newSharedLists[*delivery.BlockedKeys](), end: make(chan error)})
	})
}

// Ranges that come while a list is running do not take that one: it may have passed
// the place of a dead letter that was put since.
func TestWaitingRangesShareNextList(t *testing.T) {
	inListRig(t, func(t *testing.T, r *listRig) {
		first := r.want(t.Context())
		var later []*listCall
		for range 5 {
			later = append(later, r.want(t.Context()))
		}
		r.end <- nil
		synctest.Wait()
		if !first.hasReturned() || first.got.err != nil || later[0].hasReturned() || r.read.Load() != 2 {
			t.Fatalf("first %+v, %d lists have begun", first.got, r.read.Load())
		}
		r.end <- nil
		synctest.Wait()
		for _, c := range later {
			if !c.hasReturned() || c.got.content == first.got.content || c.got.content != later[0].got.content {
				t.Errorf("returned %v with %+v", c.hasReturned(), c.got)
			}
		}
		if n := r.read.Load(); n != 2 {
			t.Errorf("%d lists for six ranges", n)
		}
	})
}

// A failed list is the failure of all ranges that wait for it; then each wants another.
func TestWaitingRangesShareFailedList(t *testing.T) {
	inListRig(t, func(t *testing.T, r *listRig) {
		broken := errors.New("broken")
		first, second, third := r.want(t.Context()), r.want(t.Context()), r.want(t.Context())
		r.end <- broken
		r.end <- broken
		synctest.Wait()
		for _, c := range []*listCall{first, second, third} {
			if !c.hasReturned() || !errors.Is(c.got.err, broken) {
				t.Errorf("returned %v with %+v", c.hasReturned(), c.got)
			}
		}
		nextCall := r.want(t.Context())
		r.end <- nil
		synctest.Wait()
		if !nextCall.hasReturned() || nextCall.got.err != nil || r.read.Load() != 3 {
			t.Errorf("again %+v, %d lists", nextCall.got, r.read.Load())
		}
	})
}

// If the range that lists is lost, another one lists in its place, and the loss is no
// failure of the others.
func TestLostRangeDoesNotEndListOfOthers(t *testing.T) {
	inListRig(t, func(t *testing.T, r *listRig) {
		ctx, lose := context.WithCancel(t.Context())
		waiting, leave := context.WithCancel(t.Context())
		lost, canceled, stays := r.want(ctx), r.want(waiting), r.want(t.Context())
		leave()
		synctest.Wait()
		if !canceled.hasReturned() || canceled.got.err == nil {
			t.Errorf("the range that left has %+v", canceled.got)
		}
		lose()
		synctest.Wait()
		if !lost.hasReturned() || lost.got.err == nil || stays.hasReturned() {
			t.Fatalf("the lost range has %+v", lost.got)
		}
		r.end <- nil
		synctest.Wait()
		if !stays.hasReturned() || stays.got.err != nil {
			t.Errorf("the range that stays has %+v", stays.got)
		}
	})
}
