package main

// waitingKeys are planted bugs in the judge of keys that fail, and in outages of the sink.
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
