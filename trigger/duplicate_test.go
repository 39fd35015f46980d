package trigger

import (
	"fmt"
	"testing"
	"time"
)

// TestOneLeasePerToken: two documents may name one range where leases are keyed
// by partitionKey, since .NET gave them random ones for a while.
func TestOneLeasePerToken(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		f := w.host("a", w.record("a")).functions[0]
		must(t, f.prepare(t.Context()))
		time.Sleep(10 * time.Minute)
		now := f.store.now()
		doc := func(name, token, continuation, owner string, age time.Duration) *lease {
			return &lease{id: name, token: token, continuation: continuation, owner: owner, written: now.Add(-age)}
		}
		tests := []struct {
			name   string
			leases []*lease
			want   string
		}{
			{"the one that is behind", []*lease{doc("x", "0", `"9"`, "", 0), doc("y", "0", `"5"`, "", 0)}, "[y]"},
			{"no checkpoint is furthest behind", []*lease{doc("x", "0", `"9"`, "", 0), doc("y", "0", "", "", 0)}, "[y]"},
			{"what is worked on stays", []*lease{doc("x", "0", `"9"`, "b", time.Second), doc("y", "0", `"5"`, "", 0)}, "[x]"},
			{"a dead owner does not count", []*lease{doc("x", "0", `"9"`, "b", 5*time.Minute), doc("y", "0", `"5"`, "", 0)}, "[y]"},
			{"other tokens stay", []*lease{doc("x", "1", `"9"`, "", 0), doc("y", "0", `"5"`, "", 0)}, "[y x]"},
		}
		for _, test := range tests {
			var kept []string
			for _, l := range f.onePerToken(test.leases, time.Minute) {
				kept = append(kept, l.id)
			}
			if got := fmt.Sprint(kept); got != test.want {
				t.Errorf("%s: kept %s, want %s", test.name, got, test.want)
			}
		}
	})
}
