package history

import (
	"testing"
	"time"
)

func TestOneCallForEachKey(t *testing.T) {
	delivery := func(call, seq, epoch int64, key, id string) Event {
		return Event{Kind: Delivery, Key: key, Seq: seq, ID: id, LSN: seq, Host: "x", Range: "0", Epoch: epoch, Attempt: 1, Call: call}
	}
	end := func(call int64) Event {
		return Event{Kind: End, Call: call, Verdict: Handled, Host: "x", Range: "0", Epoch: 1}
	}
	for name, test := range map[string]struct {
		events []Event
		byID   bool
		broken bool
	}{
		"one after the other":        {[]Event{delivery(1, 1, 1, "k", "a"), end(1), delivery(2, 2, 1, "k", "b"), end(2)}, false, false},
		"two changes of one call":    {[]Event{delivery(1, 1, 1, "k", "a"), delivery(1, 2, 1, "k", "b"), end(1)}, false, false},
		"at once":                    {[]Event{delivery(1, 1, 1, "k", "a"), delivery(2, 2, 1, "k", "b"), end(1), end(2)}, false, true},
		"at once, in another order":  {[]Event{delivery(2, 2, 1, "k", "b"), delivery(1, 1, 1, "k", "a"), end(2), end(1)}, false, true},
		"other keys at once":         {[]Event{delivery(1, 1, 1, "k", "a"), delivery(2, 1, 1, "l", "c"), end(1), end(2)}, false, false},
		"documents at once, by id":   {[]Event{delivery(1, 1, 1, "k", "a"), delivery(2, 2, 1, "k", "b"), end(1), end(2)}, true, false},
		"one document twice, by id":  {[]Event{delivery(1, 1, 1, "k", "a"), delivery(2, 1, 1, "k", "a"), end(1), end(2)}, true, true},
		"a call of an earlier epoch": {[]Event{delivery(1, 1, 1, "k", "a"), delivery(2, 2, 2, "k", "b"), end(2)}, false, false},
	} {
		s := newStory()
		s.add(Event{Kind: Write, Key: "k", Seq: 1, ID: "a", LSN: 1}).add(Event{Kind: Write, Key: "k", Seq: 2, ID: "b", LSN: 2}).add(Event{Kind: Write, Key: "l", Seq: 1, ID: "c", LSN: 3})
		for _, e := range test.events {
			s.add(e)
		}
		broken := false
		for _, v := range (Limits{Expiration: time.Minute, LanesByID: test.byID}).Check(s.events).Violations {
			broken = broken || v.Rule == OneCall
		}
		if broken != test.broken {
			t.Errorf("%s: broken %v, want %v", name, broken, test.broken)
		}
	}
}
