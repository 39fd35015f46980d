package main

// storeCalls are planted bugs in calls of the dead letter store that break, and in what the
// range remembers of its letters.
var storeCalls = []mutant{
	{"store-panic-ends-process", "a panic of the dead letter store is a failed request", []edit{
		{"trigger/deadletterwrite.go", "if v := recover(); v != nil {\n\t\t\terr = errors.New(redact", "if v := any(nil); v != nil {\n\t\t\terr = errors.New(redact"},
	}},
	{"store-goexit-is-success", "a call of the store that ends its goroutine has stored nothing", []edit{
		{"trigger/deadletterwrite.go", "callErr := errStoreGoexit", "var callErr error"},
	}},
	{"covered-letter-loaded", "a change that a request covers while its key is loaded is not delivered again", []edit{
		{"trigger/internal/delivery/postponed.go", "s.letters.deleted[stored.LetterID] ||", "func() bool { uncovered = k.uncovered.letterIDs(); return s.letters.deleted[stored.LetterID] }() ||"},
	}},
	{"uncovered-keys-not-counted", "keys that wait for a request count among the postponed ones", []edit{
		{"trigger/internal/delivery/postponed.go", "\treturn maxPostponed - keys\n", "\tuncovered, _ := k.uncovered.total()\n\treturn maxPostponed - keys + uncovered\n"},
	}},
	{"read-ahead-without-list", "an owner that knows no letters of earlier ones does not tell what these had read", []edit{
		{"trigger/internal/delivery/delivery.go", "changes < 0 || !d.hasStored.Load() ||", "changes < 0 ||"},
	}},
	{"stall-after-postponing", "a failure is over when its change is postponed", []edit{
		{"trigger/failurestats.go", "s.postponing[lane].Attempt > 1 &&", "s.postponing[lane].Attempt < 0 &&"},
	}},
	{"no-stall-without-room", "a handler that postpones more keys than a range may have is a problem", []edit{
		{"trigger/failurestats.go", "if asked {", "if asked && lane < delivery.AllLanes {"},
	}},
	{"unreadable-after-stop", "after a stop the status names no lease", []edit{
		{"trigger/restarting.go", "r.pausedRanges, r.unreadable, r.freeRanges, ", "r.pausedRanges, _, r.freeRanges, "},
	}},
}
