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
		"too early by an owner that lost the range before": {func(e []Event) []Event {
			for i := range e[8:] { // e[8] postpones in the epoch of a later owner
				if e[8+i].Kind == End && e[8+i].Verdict == Postponed {
					e[8+i].Epoch = 3
				}
			}
			e[12].Time = e[12].Time.Add(-time.Second)
			return e
		}, ""},
		"too early by the owner of another lease of the range": {func(e []Event) []Event {
			for i := range e[8:] { // e[8] postpones under the other lease
				if e[8+i].Kind == End && e[8+i].Verdict == Postponed {
					e[8+i].Range = "1"
				}
			}
			e[12].Time = e[12].Time.Add(-time.Second)
			return e
		}, ""},
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
		"delivered once more, as it was stored once more": {func(e []Event) []Event {
			late, again, over := e[8], e[12], e[13]
			late.Time, again.Call, over.Call = e[13].Time, 4, 4
			return append(append(e[:14:14], late, again, over), e[14:]...)
		}, ""},
		"delivered once more": {func(e []Event) []Event {
			again, over := e[12], e[13]
			again.Call, over.Call = 4, 4
			return append(append(e[:14:14], again, over), e[14:]...)
		}, Order},
		"delivered from a late letter of an earlier owner, and from its owner's": {func(e []Event) []Event {
			late, again, over := e[8], e[12], e[13]
			late.Epoch, again.Call, over.Call = 1, 4, 4
			e = append(e[:14:14], append([]Event{again, over}, e[14:]...)...)
			return append(append(e[:8:8], late), e[8:]...)
		}, ""},
		"stored once more when it was handled": {func(e []Event) []Event { // a write that was left behind
			late := e[8]
			late.Time = e[13].Time
			return append(append(e[:14:14], late), e[14:]...)
		}, ""},
		"stored again in the call of its redelivery": {func(e []Event) []Event {
			again := e[8]
			again.Time, again.Due = e[12].Time, e[12].Time.Add(time.Minute)
			return append(append(e[:13:13], again), e[14:]...)
		}, PostponedOrder},
		"passed over by a foreign owner": {func(e []Event) []Event {
			third := Event{Kind: Write, Key: "k", Seq: 3, ID: "z", LSN: 3, Hash: "10", Time: e[10].Time}
			taken, call, moved, freed, acquired := e[10], e[12], e[10], e[10], e[3]
			taken.Op, taken.Host, taken.Owner, taken.Time = ForeignTake, "net", "net", e[10].Time.Add(time.Second)
			call.Seq, call.ID, call.LSN, call.Host, call.Call, call.Time = 3, "z", 3, "net", 4, taken.Time
			over := Event{Kind: End, Call: 4, Verdict: Handled, Host: "net", Range: "0", Epoch: 2, Time: taken.Time}
			moved.Op, moved.Host, moved.Owner, moved.Position, moved.Time = ForeignMove, "net", "net", 3, taken.Time
			freed.Op, freed.Host, freed.Owner, freed.Position, freed.Time = ForeignRelease, "net", "", 3, taken.Time
			acquired.Epoch, acquired.Position, acquired.Time, acquired.Sent = 3, 3, taken.Time.Add(time.Second), taken.Time.Add(time.Second)
			for i := 11; i < len(e); i++ {
				e[i].Epoch, e[i].Position = 3, 3*min(e[i].Position, 1)
			}
			return append(append(e[:11:11], third, taken, call, over, moved, freed, acquired), e[11:]...)
		}, ""},
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

// busyHistory is a history in which the first change is delivered some time after it is due,
// and calls of half a second with other changes are made one after the other until then.
// calls says with what verdict each ends, and whether it is a retry.
func busyHistory(position int64, calls func(n int) (verdict Verdict, attempt int), late time.Duration) []Event {
	events := postponedHistory()
	acquire := 3
	for i := range events {
		if events[i].Kind == Lease && i > acquire {
			events[i].Position = position
		}
	}
	due, end := events[:12:12], events[12:]
	from := end[0].Time
	lease := events[11]
	var between []Event
	for n := 0; time.Duration(n)*time.Second/2 < late; n++ {
		verdict, attempt := calls(n)
		began := from.Add(time.Duration(n) * time.Second / 2)
		key, lsn := "o"+string(rune('a'+n)), int64(10+n)
		write := Event{Kind: Write, Key: key, Seq: 1, ID: key, LSN: lsn, Hash: "10", Time: from.Add(-time.Second)}
		delivery := Event{Kind: Delivery, Key: key, Seq: 1, ID: key, LSN: lsn, Host: "a.1", Range: "0", Epoch: 2, Attempt: attempt, Call: int64(100 + n), Time: began}
		over := Event{Kind: End, Call: int64(100 + n), Verdict: verdict, Host: "a.1", Range: "0", Epoch: 2, Time: began.Add(time.Second / 2)}
		between = append(between, write, delivery, over)
		if verdict != Handled {
			delivery.Call, delivery.Attempt, over.Call, over.Verdict = delivery.Call+1000, attempt+1, over.Call+1000, Handled
			delivery.Time = over.Time
			between = append(between, delivery, over)
		}
	}
	for i := range end {
		end[i].Time = end[i].Time.Add(late)
	}
	lease.Time, lease.Sent = from.Add(late), from.Add(late)
	return append(append(due, between...), append([]Event{lease}, end...)...)
}

func TestPostponedChangeOfBusyOwner(t *testing.T) {
	limits := Limits{Expiration: time.Minute, AcquireInterval: 13 * time.Second, RenewInterval: 17 * time.Second, Poll: 5 * time.Second}
	fresh := func(int) (Verdict, int) { return Handled, 1 }
	tests := map[string]struct {
		calls func(int) (Verdict, int)
		late  time.Duration
		begun int64 // position at which the owner began
		want  bool
	}{
		"soon":                             {calls: fresh, late: 3 * time.Second, begun: 1},
		"behind a backlog":                 {calls: fresh, late: 6 * time.Second, begun: 1, want: true},
		"behind what it has to read again": {calls: fresh, late: 6 * time.Second},
		"behind retries":                   {calls: func(n int) (Verdict, int) { return Handled, 1 + n%2 }, late: 6 * time.Second, begun: 1},
		"in an outage": {calls: func(n int) (Verdict, int) {
			if n == 1 {
				return Failed, 1
			}
			return Handled, 1
		}, late: 6 * time.Second, begun: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			events := busyHistory(2, test.calls, test.late)
			events[1].Position, events[3].Position = test.begun, test.begun
			var got []Violation
			for _, v := range limits.Check(events).Violations {
				if v.Rule == PostponedPrompt {
					got = append(got, v)
				}
			}
			if len(got) > 0 != test.want {
				t.Errorf("violations %v", got)
			}
		})
	}
}
