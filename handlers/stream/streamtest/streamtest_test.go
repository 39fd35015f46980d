package streamtest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A former owner publishes late: its message is new, and old.
func TestReplicaDropsLateMessages(t *testing.T) {
	r := NewReplica()
	apply := func(id string, epoch, lsn int, total int) {
		value := fmt.Sprintf(`{"before":null,"after":{"id":"1","total":%d},"op":"r","source":{"id":%q,"document":"1","key":["ada"],"epoch":%d,"lsn":%d}}`, total, id, epoch, lsn)
		r.Apply(t, id, `["ada"]`, []byte(value))
	}
	apply("b", 2, 11, 20)
	apply("a", 1, 10, 10) // by the former owner
	apply("c", 2, 12, 30)
	apply("b", 3, 11, 20) // again, by the next owner
	if d := cmp.Diff(any(map[string]any{`["ada"]1`: map[string]any{"id": "1", "total": 30.0}}), r.State()); d != "" {
		t.Error(d)
	}
}
