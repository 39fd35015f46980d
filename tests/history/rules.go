package history

import (
	"maps"
	"slices"
)

// Rule names a promise that a history can break.
type Rule string

const (
	NoLoss      Rule = "no loss"    // every document's last version is delivered
	NoPhantom   Rule = "phantom"    // every delivered change was written
	Order       Rule = "order"      // first deliveries of a key increase; an owner does not redeliver a change that it handled
	OneCall     Rule = "one call"   // an owner has one running call for each key
	NoGap       Rule = "no gap"     // if an owner restarts at an earlier change, it redelivers every change after it
	Ownership   Rule = "ownership"  // one host per lease and epoch, one per key when the fleet is calm; deliveries only while the lease is certainly held
	Checkpoints Rule = "checkpoint" // no lease is written with a position past a change that is not handled
	Monotone    Rule = "monotone"   // position and epoch of a lease and its children never fall
	Coverage    Rule = "coverage"   // the leases cover the key space; they overlap only while a parent and its children both exist
	Duplicates  Rule = "duplicates" // a change is not redelivered if it was checkpointed when the lease was acquired
	Takeover    Rule = "takeover"   // the leases of a dead host have another owner in time
	Churn       Rule = "churn"      // when there are no faults, no lease changes its owner
	Untried     Rule = "untried"    // a change is dead-lettered only if a handler has seen it or its key is blocked
	Memory      Rule = "memory"     // no host holds more than its budget

	PromptStop       Rule = "prompt stop"       // a host that is asked to stop acquires nothing more, and stops within its grace and a second
	NoRobbery        Rule = "no robbery"        // an owner that renews its lease keeps it, even if another host has requested it
	PromptHandover   Rule = "prompt handover"   // the host that requested a lease reads its feed within a second of the release
	ThrottleWaited   Rule = "throttle waited"   // a throttled feed costs no lease, and is read soon after the throttle ends
	LeaseReturns     Rule = "lease returns"     // a lease that is deleted under a running owner exists again soon, at the stored position
	ForwardOnly      Rule = "forward only"      // one answer with an older position or a wrong date moves nothing
	QuickRestart     Rule = "quick restart"     // a host that is killed between handler calls makes no change a suspect
	SuspectsApart    Rule = "suspects apart"    // a function does not wait for a suspect of another function or range
	KeysApart        Rule = "keys apart"        // a failing key does not delay the reading of other keys either
	Repeats          Rule = "repeats"           // after an owner that was killed only a limited number of saved changes is redelivered
	SeekRepeats      Rule = "seek repeats"      // after a seek all changes behind the position are delivered again
	NewestLast       Rule = "newest last"       // the last delivery of each key is its newest change
	OtherKeysPrompt  Rule = "other keys prompt" // a failing key delays the other keys of its range only a little
	PoisonDecided    Rule = "poison decided"    // a change that always fails is dead-lettered after the waits of its attempts
	ExactAttempts    Rule = "exact attempts"    // a dead letter has had the configured number of attempts
	Window           Rule = "window"            // after an orderly release only a limited number of handled changes is redelivered
	DeadRequest      Rule = "dead request"      // a handover request does not extend the lease of a dead owner
	BusyRangePrompt  Rule = "busy range prompt" // changes of a busy range are delivered at once
	IdleRangePolls   Rule = "idle range polls"  // an idle range is polled no more often than its setting
	PausedRange      Rule = "paused range"      // an owner stops soon after a pause, and no host acquires a paused lease
	RateKept         Rule = "rate kept"         // n changes take a host at least (n - a second's worth) / rate
	UnitsKept        Rule = "units kept"        // feed reads cost a host no more request units than its function may spend
	PostponedOrder   Rule = "postponed order"   // no later change of a key is delivered while an earlier one is postponed
	PostponedEarly   Rule = "postponed early"   // a postponed change is not delivered before it is due
	PostponedPrompt  Rule = "postponed prompt"  // an owner delivers a postponed change when it is due, whatever else it has to do
	PromptAfterStart Rule = "prompt start"      // a process that replaces a killed one soon reads changes
	FeedOrder        Rule = "feed order"        // the changes of each call are in feed order
	Advances         Rule = "advances"          // two owners in a row that handle the first changes behind a position move it
	GivenUpAlone     Rule = "given up alone"    // a batch that is given up without a name is halved until its changes are alone
)

// Tally counts the cases in which a rule was judged, and those that broke it.
type Tally struct {
	Judged int `json:"judged,omitempty"`
	Broken int `json:"broken,omitempty"`
}

// Tallies are the counts of the rules that were judged.
type Tallies map[Rule]Tally

// Add adds the counts of another run.
func (t Tallies) Add(o Tallies) {
	for rule, n := range o {
		t[rule] = Tally{t[rule].Judged + n.Judged, t[rule].Broken + n.Broken}
	}
}

// Rules returns the rules with a count, sorted.
func (t Tallies) Rules() []Rule { return slices.Sorted(maps.Keys(t)) }

func (r *Report) count(rule Rule, judged, broken int) {
	if r.Tallies == nil {
		r.Tallies = Tallies{}
	}
	r.Tallies.Add(Tallies{rule: {judged, broken}})
}
