package position

import (
	"slices"
	"testing"
	"time"

	"halley/trigger"
)

func TestVersionsAreOrdered(t *testing.T) {
	ordered := []Position{
		{Time: 0, LSN: 0},
		{Time: 1_700_000_000, LSN: 7, Epoch: 9},
		{Time: 1_700_000_000, LSN: 8, Epoch: 1},
		{Time: 1_700_000_000, LSN: 8, Epoch: 2},
		{Time: 1_700_000_001, LSN: 3, Epoch: 1}, // in another physical range
		{Time: 8_000_000_000, LSN: 1 << 40},
	}
	for i, p := range ordered {
		for j, q := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got := p.Compare(q); got != want {
				t.Errorf("%+v compared with %+v is %d, want %d", p, q, got, want)
			}
		}
	}
	versions := make([]int64, len(ordered))
	for i, p := range ordered {
		versions[i] = p.Version()
	}
	if !slices.IsSorted(versions) || versions[len(versions)-1] < 0 {
		t.Errorf("versions %d are not in order", versions)
	}
	if versions[2] != versions[3] {
		t.Errorf("a redelivery in a higher epoch has version %d, not %d", versions[3], versions[2])
	}
}

func TestPositionDoesNotDependOnLease(t *testing.T) {
	c := trigger.Change{LSN: 12, Time: time.Unix(1_700_000_000, 0)}
	if got := Of(trigger.Batch{Epoch: 4}, c); got != (Position{1_700_000_000, 12, 4}) {
		t.Errorf("position is %+v", got)
	}
	if got := Of(trigger.Batch{Epoch: 1}, trigger.Change{}).Version(); got != 0 {
		t.Errorf("version of a change without time and LSN is %d", got)
	}
}
