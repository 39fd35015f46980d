package main

// verbsOfHandlers are planted bugs in the answers of handlers and in their judge.
var verbsOfHandlers = []mutant{
	{"probes-in-any-order", "writers that wait for one probe have an order", []edit{
		{"trigger/internal/lease/gate.go", "return g.probeAt.Add(turn), false", "return g.probeAt, turn < 0"},
	}},
	{"judge-trusts-buffers", "the judge does not take a buffered change for a stored one", []edit{
		{"tests/history/check.go", "if e.Op == Buffered {", "if false {"},
	}},
	{"judge-keeps-dead-buffers", "what a dead host has buffered is lost", []edit{
		{"tests/history/sinks.go", "change.handled, change.unsaved = false, false", "change.handled, change.unsaved = true, false"},
	}},
	{"judge-any-order", "the judge reports a call that is not in feed order", []edit{
		{"tests/history/sinks.go", "e.LSN < last.LSN &&", "e.LSN < 0 &&"},
	}},
	{"judge-given-up-together", "the judge reports a batch that was given up whole", []edit{
		{"tests/history/sinks.go", "if b.changes > 1 {", "if b.changes > 1000 {"},
	}},
}
