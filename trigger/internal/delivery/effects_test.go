package delivery

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// The effects of each verdict on a group of the changes 1 to 4, whose keys are a, b, a and c,
// and on a group of one key with later changes. The file has one line for each effect.
func TestEffects(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	policy := Policy{RetryPolicy: RetryPolicy{RetryMin: time.Second, RetryMax: time.Minute}, GiveUpPolicy: GiveUpPolicy{MaxAttempts: 3, BreakerLimit: 10}, DeadLetters: true}
	var items []*Item
	for i, key := range []uint64{'a', 'b', 'a', 'c'} {
		items = append(items, &Item{Seq: int64(i + 1), orderKey: key, hasKey: true})
	}
	one := func(seq int64) *Item { return &Item{Seq: seq, orderKey: 'a', hasKey: true} }
	fresh := func() *group { return &group{items: items} }
	waiting := func() *group { return &group{items: items, keys: orderKeys(items)} }
	single := func(r RetryState) *group {
		return &group{items: []*Item{one(1)}, keys: map[uint64]bool{'a': true}, retry: r, later: &group{items: []*Item{one(2), one(3)}, keys: map[uint64]bool{'a': true}}}
	}
	stored := one(1)
	stored.stored = &StoredChange{LetterID: "letter", DeadLetter: DeadLetter{Attempts: 1, Postponed: 4}}
	working, broken := &sinkHealth{hasSucceeded: true}, &sinkHealth{}
	for _, key := range []uint64{'x', 'y', 'z'} {
		broken.failed(map[uint64]bool{key: true}, false, 1, now, policy)
	}
	later := func(changes ...*Item) map[*Item]time.Duration {
		postponed := map[*Item]time.Duration{}
		for _, c := range changes {
			postponed[c] = time.Hour
		}
		return postponed
	}
	var text strings.Builder
	for _, test := range []struct {
		name    string
		group   *group
		verdict Verdict
		sink    *sinkHealth
		room    int
	}{
		{"all handled, fresh", fresh(), Verdict{Outcome: Handled}, working, 0},
		{"all handled, a retry", waiting(), Verdict{Outcome: Handled}, working, 0},
		{"handled, with later changes of the key", single(RetryState{}), Verdict{Outcome: Handled}, working, 0},
		{"all failed, the sink works", fresh(), Verdict{Outcome: Failed, Err: errBad}, working, 0},
		{"all failed, nothing is known of the sink", fresh(), Verdict{Outcome: Failed, Err: errBad}, &sinkHealth{}, 0},
		{"all failed in an outage", waiting(), Verdict{Outcome: Failed, Err: errBad}, broken, 0},
		{"some failed", waiting(), Verdict{Outcome: Failed, Err: errBad, FailedItems: items[2:]}, broken, 0},
		{"one failed", fresh(), Verdict{Outcome: Failed, Err: errBad, FailedItems: items[1:2]}, working, 0},
		{"halved by its handler", fresh(), Verdict{Outcome: Halved, Err: errBad}, working, 0},
		{"given up by its handler", waiting(), Verdict{Outcome: GivenUp, Err: errBad, FailedItems: items[1:2]}, working, 0},
		{"the last attempt of a key", single(RetryState{Attempts: 2, Failures: 2}), Verdict{Outcome: Failed, Err: errBad}, working, 0},
		{"a further failure of a key", single(RetryState{Attempts: 1, Failures: 1}), Verdict{Outcome: Failed, Err: errBad}, working, 0},
		{"the handler hangs", fresh(), Verdict{Outcome: Hung, Err: errBad}, working, 0},
		{"its owner stops", fresh(), Verdict{Outcome: Interrupted, Err: errBad, FailedItems: items[1:]}, working, 0},
		{"postponed, one change", fresh(), Verdict{Outcome: Failed, Err: errBad, FailedItems: items[1:2], Postponed: later(items[1])}, working, 1},
		{"postponed, a change and one behind it", waiting(), Verdict{Outcome: Failed, Err: errBad, Postponed: later(items[0]), FailedItems: items}, working, 1},
		{"postponed, no room for the second key", waiting(), Verdict{Outcome: Failed, Err: errBad, Postponed: later(items[0], items[1]), FailedItems: items[:2]}, working, 1},
		{"postponed, with later changes of the key", single(RetryState{}), Verdict{Outcome: Failed, Err: errBad, FailedItems: nil, Postponed: map[*Item]time.Duration{}}, working, 1},
		{"postponed again", &group{items: []*Item{stored}, keys: map[uint64]bool{'a': true}}, Verdict{Outcome: Failed, Err: errBad, FailedItems: []*Item{stored}, Postponed: later(stored)}, working, 0},
	} {
		if test.group.later != nil && test.verdict.Postponed != nil {
			test.verdict.FailedItems, test.verdict.Postponed = test.group.items, later(test.group.items[0])
		}
		s := callState{policy: policy, sink: test.sink, room: test.room, now: now, serviceNow: now, postponed: map[uint64]bool{}}
		if stored := test.group.items[0].stored; stored != nil {
			s.postponed['a'] = true
		}
		fmt.Fprintf(&text, "%s\n", test.name)
		for _, e := range effectsOf(test.group, test.verdict, s) {
			fmt.Fprintf(&text, "  %s\n", describeEffect(e, now))
		}
	}
	const golden = "testdata/effects.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the effects are\n%s\nbut %s (written with -update) has\n%s", text.String(), golden, want)
	}
}

func describeEffect(e effect, now time.Time) string {
	text := e.kind.String()
	group := func(name string, items []*Item) {
		for _, c := range items {
			name += fmt.Sprintf(" %d%c", c.Seq, rune(c.orderKey))
		}
		text += name
	}
	group("", e.items)
	for _, key := range slices.Sorted(maps.Keys(e.keys)) {
		text += fmt.Sprintf(" key %c", rune(key))
	}
	if e.group != nil {
		group("", e.group.items)
		for later := e.group.later; later != nil; later = later.later {
			group(", then", later.items)
		}
	}
	if l := e.letter; l != nil {
		text += fmt.Sprintf(" in %s, attempts %d, postponed %d", l.Due.Sub(now), l.Attempts, l.Postponed)
	}
	if a := e.action; a != nil {
		text += fmt.Sprintf(", failures of the sink %d, wait %s, attempts %d", a.Failures, a.Wait.Round(time.Second), a.Retry.Attempts)
	}
	return text
}

func (k effectKind) String() string {
	return [...]string{"finish", "accept", "postpone", "follow", "free", "fail", "resume", "wait", "give up", "release"}[k]
}
