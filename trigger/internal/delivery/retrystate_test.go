package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

func TestOrderlyReleaseTakesBackOnlyItsOwnAnnouncements(t *testing.T) {
	r := newTestRange(t)
	const earlier = `{"first":"7/x","last":"9/y","size":4,"crashes":2,"inFlight":true}`
	r.config.SavedRetries = "[" + earlier + "]"
	d := r.delivery()
	c := &Item{Change: feed.Change{Item: cosmos.Item{LSN: 9, ID: "doc"}}}
	l := d.lanes[0]
	l.retries.saveGroup([]*Item{c}, RetryState{Crashes: 1})
	if err := l.announce(t.Context(), 0, &group{items: []*Item{c}, retry: RetryState{Crashes: 1}}, true); err != nil {
		t.Fatal(err)
	}
	name := c.Name(r.config.KeyPaths)
	property := d.RetryProperty()
	if announced := fmt.Sprintf(`"first":%q,"last":%[1]q,"size":1,"crashes":2`, name); !strings.Contains(property, announced) || strings.Count(property, `"inFlight":true`) != 2 {
		t.Errorf("before the call the lease says %s", property)
	}
	d.EndAnnouncements()
	if got, want := d.RetryProperty(), fmt.Sprintf(`[%s,{"first":%q,"last":%[2]q,"size":1,"crashes":1}]`, earlier, name); got != want {
		t.Errorf("after an orderly release it says %s, want %s", got, want)
	}
}

// A group that hung is given up without a further call. A change between its first and its
// last was in no call, as its key waited: the next owner calls the handler with it.
func TestOnlyChangesThatHungAreGivenUpUncalled(t *testing.T) {
	for name, test := range map[string]struct {
		hung []int // places in the page
		dead []string
	}{
		"the same changes":   {[]int{0, 1, 2}, []string{"1", "2", "3"}},
		"without the second": {[]int{0, 2}, []string{"1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestRange(t)
				r.config.NoBisection, r.config.MaxAttempts = true, 1
				r.handle = func([]*Item, int) error { return nil }
				pages := changes(3, "a", "b", "c")
				var items []*Item
				for _, i := range test.hung {
					items = append(items, &Item{Change: feed.Change{Item: pages[0].Items[i]}})
				}
				former := r.delivery()
				former.retries.saveGroup(items, RetryState{Tries: 1, Attempts: 1, Hung: true})
				r.config.SavedRetries = former.RetryProperty()
				if err := r.run(pages); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(r.deadIDs, test.dead) {
					t.Errorf("dead-lettered %q, want %q", r.deadIDs, test.dead)
				}
			})
		})
	}
}
