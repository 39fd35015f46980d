package main

// storeCalls are planted bugs in calls of the dead letter store that break, and in what the
// range remembers of its letters.
var storeCalls = []mutant{
	{"store-panic-ends-process", "a panic of the dead letter store is a failed request", []edit{
		{"trigger/deadlettering.go", "if v := recover(); v != nil {\n\t\t\terr = errors.New(redact", "if v := any(nil); v != nil {\n\t\t\terr = errors.New(redact"},
	}},
	{"store-goexit-is-success", "a call of the store that ends its goroutine has stored nothing", []edit{
		{"trigger/deadlettering.go", "callErr := errStoreGoexit", "var callErr error"},
	}},
	{"covered-letter-loaded", "a change that a request covers while its key is loaded is not delivered again", []edit{
		{"trigger/internal/delivery/postponedload.go", "uncovered[stored.LetterID]", "l.uncovered.letterIDs()[stored.LetterID]"},
		{"trigger/internal/delivery/postponedload.go", "uncovered := l.uncovered.letterIDs() //", "_ = l.uncovered.letterIDs() //"},
	}},
	{"uncovered-keys-not-counted", "keys that wait for a request count among the postponed ones", []edit{
		{"trigger/internal/delivery/postponing.go", "keys+uncovered < maxPostponed", "keys+0*uncovered < maxPostponed"},
	}},
	{"unreadable-after-stop", "after a stop the status names no lease", []edit{
		{"trigger/runner.go", "r.pausedRanges, r.unreadable, r.freeRanges, r.heldLeaseCount = nil, nil, nil, 0", "r.pausedRanges, r.freeRanges, r.heldLeaseCount = nil, nil, 0"},
	}},
}
