package main

// messages are bugs of the queue that spreads ranges over instances.
var messages = []mutant{
	{"mark-not-removed", "a host that acquires a lease removes its mark", []edit{
		{"trigger/internal/lease/store.go", "\tdelete(l.properties, dispatchedProperty)\n", ""},
	}},
	{"mark-of-useless-message", "a message with nothing to do does not keep the next one back", []edit{
		{"trigger/dispatch.go", " || acquired || r.worksOn", " || acquired || d.summary.Idle > 0 || r.worksOn"},
	}},
	{"mark-of-held-lease", "a message whose owner is dead by the sender's clock alone does not keep the next one back", []edit{
		{"trigger/dispatch.go", " || acquired || r.worksOn", " || acquired || d.summary.Skipped > 0 || r.worksOn"},
	}},
	{"second-message-disturbs-first", "of two messages for one range, the second leaves the mark to the first", []edit{
		{"trigger/dispatch.go", " || acquired || r.worksOn(token)", " || acquired"},
	}},
	{"mark-prolongs-lease", "a mark does not prolong the lease of a dead owner", []edit{
		{"trigger/internal/lease/parse.go", "writtenBeforeMark(l); marked {", "writtenBeforeMark(l); marked && lastWrite.IsZero() {"},
	}},
	{"mark-without-end", "a lost message delays its range by ten minutes at most", []edit{
		{"trigger/internal/lease/dispatch.go", "age < MarkDuration", "age < 10*MarkDuration"},
	}},
	{"newer-mark-removed", "an old message leaves the mark of a newer one", []edit{
		{"trigger/internal/lease/dispatch.go", "next.properties[dispatchedProperty] != mark", "next.properties[dispatchedProperty] != mark && false"},
	}},
	{"mark-of-dead-owner-stays", "a message that acquires nothing ends the mark of a dead owner's lease", []edit{
		{"trigger/internal/lease/dispatch.go", "next.owner != l.owner || ", "next.owner != \"\" || "},
	}},
	{"restored-mark-stays", "a message whose drain loses its lease to a document with the message's mark does not keep the next one back", []edit{
		{"trigger/drain.go", "if w.held.Err() != nil {", "if w.held.Err() != nil && acquired {"},
	}},
	{"restored-mark-of-other-clock-stays", "a restored mark of a host whose clock is ahead ends", []edit{
		{"trigger/internal/lease/dispatch.go", "time.Unix(epoch, 0).Add(requestDuration)", "time.Unix(epoch, 0)"},
	}},
	{"newer-mark-ends-with-lost-lease", "a drain that has lost its lease leaves the mark of a newer message", []edit{
		{"trigger/internal/lease/dispatch.go", " || m.at.After(time.Unix(epoch, 0).Add(requestDuration))", ""},
	}},
	{"dead-owner-lives-by-its-mark", "the end of a mark does not extend the life of a dead owner's lease", []edit{
		{"trigger/internal/lease/dispatch.go", "\tif l.owner != \"\" {\n", "\tif l.owner == \"\" {\n"},
	}},
	{"unsure-mark-without-message", "a range whose mark may stand gets its message", []edit{
		{"trigger/dispatch.go", "cosmos.Classify(err) != cosmos.OutcomeUnknown:", "cosmos.Classify(err) != cosmos.OutcomeSucceeded:"},
	}},
	{"messages-lost-with-error", "if one function cannot be looked at, the messages of the others are sent", []edit{
		{"function/app/internal/functions/fanout.go", "if err != nil && len(tasks) > 0 {", "if err != nil && tasks == nil {"},
	}},
	{"useless-message-fails", "a message that no retry can help is not delivered again", []edit{
		{"function/app/internal/functions/fanout.go", "errors.Is(r.Err, trigger.ErrNoFunction) {", "errors.Is(r.Err, trigger.ErrNoFunction) && ctx.Err() != nil {"},
	}},
}
