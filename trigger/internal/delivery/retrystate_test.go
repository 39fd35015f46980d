package delivery

import (
	"fmt"
	"strings"
	"testing"

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
