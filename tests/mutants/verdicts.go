package main

// verdicts are planted bugs in the meaning of a handler's answer.
var verdicts = []mutant{
	{"released-changes-first", "a batch is in feed order", []edit{
		{"trigger/internal/delivery/lane.go", "mergeItems(queued, l.freshItems, func(c *Item) int64 { return c.Seq })", "append(queued, l.freshItems...)"},
	}},
	{"loaded-changes-by-key", "postponed changes of several keys are delivered in feed order", []edit{
		{"trigger/internal/delivery/postponedload.go", "mergeItems(loaded.items, g.items, func(c *Item) int64 { return c.LSN })", "append(loaded.items, g.items...)"},
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
		{"trigger/internal/delivery/requested.go", "w.answered >= r.request", "w.answered > r.request+1"},
	}},
	{"request-at-return", "a checkpoint is requested at the moment at which the handler asks", []edit{
		{"trigger/handling.go", "Requested: b.checkpoint.requested.Load()}", "Requested: b.checkpoint.requested.Load() * (w.callsAnswered.Load() + 1)}"},
	}},
	{"request-for-all", "a handled change needs a request", []edit{
		{"trigger/internal/delivery/requested.go", "c.answered = v.Answered", "c.answered = 0 * v.Answered"},
	}},
}
