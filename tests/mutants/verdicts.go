package main

// verdicts are planted bugs in the meaning of a handler's answer.
var verdicts = []mutant{
	{"released-changes-first", "a batch is in feed order", []edit{
		{"trigger/internal/delivery/batching.go", "mergeItems(queued, q.items, func(c *Item) int64 { return c.Seq })", "append(queued, q.items...)"},
	}},
	{"loaded-changes-by-key", "postponed changes of several keys are delivered in feed order", []edit{
		{"trigger/internal/delivery/postponed.go", "mergeItems(loaded.items, g.items, func(c *Item) int64 { return c.LSN })", "append(loaded.items, g.items...)"},
	}},
	{"failed-from-anywhere", "an error that names a change of another call fails the whole batch", []edit{
		{"trigger/verdict.go", "return slices.Contains(numbers, e.firstFailed)", "return true"},
	}},
	{"changes-numbered-by-call", "a change of another call is not taken for one of this call", []edit{
		{"trigger/change.go", "return callNumbers.Add(int64(n)) - int64(n) + 1", "return 1"},
	}},
	{"failed-from-by-sorted-place", "a verdict goes by the batch as delivered", []edit{
		{"trigger/handling.go", "numbers[i] = b.firstNumber + int64(i)", "numbers[i] = b.Changes[i].callNumber"},
	}},
	{"request-covers-later-calls", "a checkpoint covers no call that returns after its request", []edit{
		{"trigger/internal/delivery/requested.go", "p.stretches[0].answered < p.request {", "p.stretches[0].answered <= p.request+1 {"},
	}},
	{"request-at-return", "a checkpoint is requested at the moment at which the handler asks", []edit{
		{"trigger/handling.go", "Requested: b.checkpoint.requested.Load()}", "Requested: b.checkpoint.requested.Load() * (w.callsAnswered.Load() + 1)}"},
	}},
	{"request-for-all", "a handled change needs a request", []edit{
		{"trigger/internal/delivery/requested.go", "c.answered = v.Answered", "c.answered = 0 * v.Answered"},
	}},
	{"skip-gives-up-neighbours", "a batch that is given up without a name is halved", []edit{
		{"trigger/verdict.go", "if halves && len(numbers)", "if halves && false && len(numbers)"},
	}},
	{"halving-despite-the-setting", "without bisection a batch is given up as a whole", []edit{
		{"trigger/handling.go", "noBisection: w.function.NoBisection", "noBisection: false"},
	}},
	{"halving-waits", "a batch that is given up without a name is halved at once", []edit{
		{"trigger/internal/delivery/retrypolicy.go", "a.Step, a.Retry = Split, g.retry.forPart()", "a.afterFailure(g, v.Err, lane, p, now)"},
	}},
	{"halving-is-a-stall", "a range whose batches are halved at once is not stalled", []edit{
		{"trigger/failurestats.go", "if !isPostponing && v.Outcome != delivery.Halved {", "if !isPostponing {"},
	}},
	{"partly-handled-not-counted", "changes that a failed call handled count", []edit{
		{"trigger/failurestats.go", "s.rangeStatus.Changes += e.Handled", ""},
	}},
	{"skip-without-a-name-when-gone", "while its receiver is gone, the webhook gives all changes up in one call", []edit{
		{"handlers/webhook/sender.go", "trigger.Skip(trigger.Failed(errGone, b.Changes...))", "trigger.Skip(errGone)"},
	}},
	{"partly-handled-not-in-metrics", "metrics count the changes that a failed call handled", []edit{
		{"function/app/internal/metrics/metrics.go", "float64(e.Handled), e.Function, outcomeDelivered)", "float64(e.Handled), e.Function, outcome)"},
	}},
	{"uncovered-letter-deleted", "a postponed change stays in the store until a request covers it", []edit{
		{"trigger/internal/delivery/uncovered.go", "\t\tk.uncovered.add(handled)\n\t\tk.finishItems(handled)\n\t\treturn nil", "\t\treturn k.finish(ctx, handled)"},
	}},
	{"uncovered-letter-loaded", "a postponed change that waits for a request is not delivered again by its owner", []edit{
		{"trigger/internal/delivery/postponed.go", "|| uncovered[stored.LetterID]", "|| uncovered == nil"},
	}},
	{"uncovered-letter-forgotten", "a range with a postponed change that waits for a request is drained again", []edit{
		{"trigger/internal/delivery/postponed.go", "\tkeys, due = s.uncovered.total()\n", ""},
	}},
	{"covered-letter-kept", "a request removes the postponed changes that it covers from the store", []edit{
		{"trigger/internal/delivery/uncovered.go", "if letter.answered < requested {", "if false {"},
	}},
}
