package main

// waitingKeys are planted bugs in the judge of keys that fail, in outages of the sink, and in
// batches that wait.
var waitingKeys = []mutant{
	{"outage-outlasts-its-end", "after an outage each key is called within the longest wait of a retry", []edit{
		{"trigger/internal/delivery/sink.go", "s.pauseUntil = now.Add(p.wait(failures))", "s.pauseUntil = now.Add(20 * p.wait(failures))"},
	}},
	{"judge-any-repeats", "the judge counts saved changes that are delivered again after a kill", []edit{
		{"tests/history/repeats.go", "if len(t.repeats) == c.limits.Window+1 {", "if len(t.repeats) < 0 {"},
	}},
	{"judge-all-repeats", "the judge excuses what was handled since the last save", []edit{
		{"tests/history/repeats.go", "case !change.ended.Before(t.saved) ||", "case t.saved.IsZero() ||"},
	}},
	{"judge-buffered-repeats", "the judge excuses what only the memory of a sink has", []edit{
		{"tests/history/repeats.go", "change.unsaved ||", "false ||"},
	}},
	{"batch-waits-while-reading-is-stopped", "a batch does not wait while a limit has stopped reading", []edit{
		{"trigger/internal/delivery/batching.go", "q.isStalled, q.config.Lanes == 1 && !q.mayRead():", "q.isStalled:"},
	}},
	{"lanes-wait-while-reading-is-stopped", "the batches of all lanes do not wait while a limit has stopped reading", []edit{
		{"trigger/internal/delivery/batching.go", "q.isStalled, ", ""},
	}},
	{"batch-cut-while-a-call-runs", "a batch waits while a call runs that may let reading continue", []edit{
		{"trigger/internal/delivery/dispatch.go", "s.lanesAtRest.Load() == int64(s.config.Lanes)", "s.lanesAtRest.Load() >= 0"},
	}},
	{"judge-seek-to-the-same-place", "a seek to the same position makes the judge expect all changes again", []edit{
		{"tests/history/seeks.go", "e.Op == Seek && e.Position <= l.position", "e.Op == Seek && e.Position < l.position"},
	}},
	{"judge-seek-trusts-old-deliveries", "the judge counts only deliveries since a seek", []edit{
		{"tests/history/seeks.go", "&& !change.delivered.After(s.at)", "&& change.delivered.IsZero()"},
	}},
	{"judge-old-version-last", "the judge sees that a key ends with an old change", []edit{
		{"tests/history/foreign.go", "k.newest >= k.top ||", "k.newest > 0 ||"},
	}},
	{"judge-idle-owner", "the judge sees that an owner is idle while a change of a free key waits", []edit{
		{"tests/history/apart.go", "if idle > apartDelay {", "if idle > time.Hour {"},
	}},
}
