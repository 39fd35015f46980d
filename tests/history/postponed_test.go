package history

import (
	"testing"
	"time"
)

// A key's first change is postponed by a minute; the second one follows it.
func postponedHistory() []Event {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := at.Add(time.Minute)
	lease := func(op Op, after time.Duration, position int64) Event {
		return Event{Kind: Lease, Op: op, Time: at.Add(after), Sent: at.Add(after), Host: "a.1", Owner: "a", Range: "0", Epoch: 2, Min: "", Max: "FF", Position: position}
	}
	create := lease(Create, 0, 0)
	create.Owner, create.Epoch = "", 1
	return []Event{
		{Kind: Host, Op: Started, Host: "a.1", Owner: "a", Time: at},
		create, {Kind: Lease, Op: Marker, Time: at}, lease(Acquire, time.Second, 0),
		{Kind: Write, Key: "k", Seq: 1, ID: "x", LSN: 1, Hash: "10", Time: at.Add(2 * time.Second)},
		{Kind: Write, Key: "k", Seq: 2, ID: "y", LSN: 2, Hash: "10", Time: at.Add(2 * time.Second)},
		{Kind: Delivery, Key: "k", Seq: 1, ID: "x", LSN: 1, Host: "a.1", Range: "0", Epoch: 2, Attempt: 1, Call: 1, Time: at.Add(3 * time.Second)},
		{Kind: End, Call: 1, Verdict: Failed, Host: "a.1", Range: "0", Epoch: 2, Time: at.Add(3 * time.Second)},
		{Kind: End, Verdict: Postponed, Failed: []Ref{{"k", 1}}, Due: due, Range: "0", Epoch: 2, Time: at.Add(4 * time.Second)},
		{Kind: End, Verdict: Postponed, Op: BlockedKey, Failed: []Ref{{"k", 2}}, Due: due, Range: "0", Epoch: 2, Time: at.Add(5 * time.Second)},
		lease(Checkpoint, 6*time.Second, 2),
		lease(Renew, 59*time.Second, 2),
		{Kind: Delivery, Key: "k", Seq: 1, ID: "x", LSN: 1, Host: "a.1", Range: "0", Epoch: 2, Attempt: 2, Call: 2, Time: due},
		{Kind: End, Call: 2, Verdict: Handled, Host: "a.1", Range: "0", Epoch: 2, Time: due},
		{Kind: Delivery, Key: "k", Seq: 2, ID: "y", LSN: 2, Host: "a.1", Range: "0", Epoch: 2, Attempt: 1, Call: 3, Time: due},
		{Kind: End, Call: 3, Verdict: Handled, Host: "a.1", Range: "0", Epoch: 2, Time: due},
	}
}

func TestPostponedChanges(t *testing.T) {
	limits := Limits{Expiration: time.Minute, AcquireInterval: 13 * time.Second, RenewInterval: 17 * time.Second, Poll: 5 * time.Second}
	tests := map[string]struct {
		change func([]Event) []Event
		want   Rule // "" is none
	}{
		"as it should be": {func(e []Event) []Event { return e }, ""},
		"too early": {func(e []Event) []Event {
			e[12].Time = e[12].Time.Add(-time.Second)
			return e
		}, PostponedEarly},
		"too late": {func(e []Event) []Event {
			for i := 12; i < len(e); i++ {
				e[i].Time = e[i].Time.Add(20 * time.Second)
			}
			return e
		}, PostponedPrompt},
		"after a later change": {func(e []Event) []Event {
			e[12], e[13], e[14], e[15] = e[14], e[15], e[12], e[13]
			return e
		}, PostponedOrder},
		"never": {func(e []Event) []Event { return e[:12] }, NoLoss},
		"never tried": {func(e []Event) []Event {
			return append(e[:6:6], e[8:]...)
		}, Untried},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report := limits.Check(test.change(postponedHistory()))
			rules := map[Rule]bool{}
			for _, v := range report.Violations {
				rules[v.Rule] = true
			}
			if test.want == "" && len(rules) > 0 || test.want != "" && !rules[test.want] {
				t.Errorf("violations %v, want rule %q", report.Violations, test.want)
			}
		})
	}
}
