package lease

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestOnePerTokenChoosesOneDuplicate(t *testing.T) {
	now := time.Now()
	doc := func(name, token, continuation, owner string, age time.Duration, epoch int64) *Lease {
		return &Lease{
			id: name, token: token, partitionKey: cosmos.NewPartitionKey(name), continuation: continuation,
			owner: owner, written: now.Add(-age), properties: map[string]string{epochProperty: strconv.FormatInt(epoch, 10)},
		}
	}
	tests := []struct {
		name   string
		leases []*Lease
		want   string
	}{
		{"the one with less progress", []*Lease{doc("x", "0", `"9"`, "", 0, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[y] [x]"},
		{"no checkpoint is least progress", []*Lease{doc("x", "0", `"9"`, "", 0, 0), doc("y", "0", "", "", 0, 0)}, "[y] [x]"},
		{"the one that a live host holds", []*Lease{doc("x", "0", `"9"`, "b", time.Second, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[x] [y]"},
		{"a dead owner does not count", []*Lease{doc("x", "0", `"9"`, "b", 5*time.Minute, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[y] [x]"},
		{"the one acquired last, even if a live host holds the other", []*Lease{doc("x", "0", `"5"`, "b", time.Second, 3), doc("y", "0", `"9"`, "", 0, 4)}, "[y] [x]"},
		{"the same one for every host", []*Lease{doc("y", "0", `"5"`, "", 0, 3), doc("x", "0", `"5"`, "", 0, 3)}, "[x] [y]"},
		{"other tokens stay", []*Lease{doc("x", "1", `"9"`, "", 0, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[y x] []"},
	}
	names := func(leases []*Lease) string {
		ids := []string{}
		for _, l := range leases {
			ids = append(ids, l.id)
		}
		return fmt.Sprint(ids)
	}
	for _, test := range tests {
		used, duplicates := onePerToken(test.leases, now, time.Minute)
		if got := names(used) + " " + names(duplicates); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
