package delivery

import (
	"context"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
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
		records := &retryRecords{serviceNow: time.Now}
		records.loadProperty("")
		s := &isolation{records: records, confirmOwnership: func(context.Context) error { return nil }}
		if err := s.announce(t.Context(), &group{items: test.items}, test.alone); err != nil {
			t.Fatal(err)
		}
		property := records.encodeProperty()
		if charged := strings.Contains(property, `"crashes":1`); charged != test.charged || !strings.Contains(property, `"inFlight":true`) {
			t.Errorf("%s: the lease names %s", name, property)
		}
	}
}
