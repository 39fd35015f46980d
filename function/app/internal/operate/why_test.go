package operate

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"halley/trigger/stall"
)

// The most harmful cause is first, however long another one lasts, and ranges that share a
// reason share a cause, which is told of the range that waits longest.
func TestExplainOrdersCausesByHarm(t *testing.T) {
	now := time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)
	stalled := func(name string, kind stall.Kind, age time.Duration, text string) RangeView {
		s := stall.Stall{Kind: kind, Since: now.Add(-age), Text: text}
		return RangeView{Range: name, Owner: "host-1", Lag: LagTotal{Changes: 7, Exact: true, Known: true, Seconds: 90}, Renewed: now.Add(-4 * time.Second), Stalls: []stall.Stall{s}, Problem: s.Describe(now)}
	}
	both := stalled("9", stall.HandlerFails, time.Minute, "timeout")
	both.Stalls = append(both.Stalls, stall.Stall{Kind: stall.LeaseFails, Since: now.Add(-time.Second), Text: "429"})
	causes := Explain([]FunctionView{
		{Name: "board", Ranges: []RangeView{
			stalled("0", stall.Paused, time.Hour, "a look"), stalled("1", stall.HandlerFails, time.Minute, "range 1 refused"), {Range: "2"},
			stalled("3", stall.HandlerFails, 2*time.Minute, "range 3 refused"), stalled("4", stall.HandlerFails, 3*time.Minute, "other"),
			{Range: "5", Problem: "no answer"}, both,
		}},
		{Name: "push", Problem: "no account"},
		{Name: "mail", Ranges: []RangeView{stalled("0", stall.FeedFails, time.Second, "403"), stalled("1", stall.RateLimited, time.Hour, "")}},
	}, now)
	var titles []string
	for _, c := range causes {
		titles = append(titles, c.Title)
	}
	const want = `push: no progress
mail: no progress in 1 of 2 ranges: 0
board: no progress in 1 of 7 ranges: 9
board: no progress in 1 of 7 ranges: 4
board: no progress in 2 of 7 ranges: 1, 3
board: lag not known in 1 of 7 ranges: 5
board: no progress in 1 of 7 ranges: 0
mail: no progress in 1 of 2 ranges: 1`
	if got := strings.Join(titles, "\n"); got != want {
		t.Fatalf("causes\n%s\nwant\n%s", got, want)
	}
	shared := causes[4]
	if shared.Cause != "handler has failed for 2m0s, attempt 0, no limit: range 3 refused" || shared.Since != "2026-01-31T08:58:00Z, 2m0s ago" ||
		shared.Evidence != "range 3: owner host-1, lease written 4s ago, changes behind: 7, seconds behind: 90" || !strings.Contains(shared.Next, "repair the handler") {
		t.Errorf("%+v", shared)
	}
	if limit := causes[7]; !limit.isLimit || shared.isLimit {
		t.Errorf("limits: %v, %v", limit, shared)
	}
}

// Each kind of stall has its place in the order.
func TestEachStallHasItsHarm(t *testing.T) {
	seen := map[stall.Kind]bool{}
	for _, kind := range harmOrder {
		if seen[kind] {
			t.Errorf("%q is there twice", kind)
		}
		seen[kind] = true
	}
	source, err := os.ReadFile("../../../../trigger/stall/stall.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\t\w+ +Kind = "(\w+)"`).FindAllSubmatch(source, -1)
	if len(kinds) < 20 {
		t.Errorf("%d kinds of stall", len(kinds))
	}
	for _, kind := range kinds {
		if !seen[stall.Kind(kind[1])] {
			t.Errorf("%q is not there", kind[1])
		}
	}
}
