package main

// waitingKeys are planted bugs in the judge of keys that fail, in outages of the sink, and in
// batches that wait.
var waitingKeys = []mutant{
	{"outage-outlasts-its-end", "after an outage each key is called within the longest wait of a retry", []edit{
		{"trigger/internal/delivery/sink.go", "s.pauseUntil = now.Add(p.wait(failures))", "s.pauseUntil = now.Add(20 * p.wait(failures))"},
	}},
	{"retries-look-like-an-outage", "failing keys at the limit of reading are no outage", []edit{
		{"trigger/internal/delivery/sink.go", "return s.freshFailed && len", "return len"},
	}},
	{"judge-any-repeats", "the judge counts saved changes that are delivered again after a kill", []edit{
		{"tests/history/repeats.go", "if len(t.repeats) == c.limits.Window+1 {", "if len(t.repeats) < 0 {"},
	}},
	{"judge-all-repeats", "the judge excuses what was handled since the last save", []edit{
		{"tests/history/repeats.go", "!change.ended.Before(by.savedBefore)", "by.savedBefore.IsZero()"},
	}},
	{"judge-buffered-repeats", "the judge excuses what only the memory of a sink has", []edit{
		{"tests/history/repeats.go", "change.kept ||", "false ||"},
	}},
	{"batch-waits-while-reading-is-stopped", "a batch does not wait while a limit has stopped reading", []edit{
		{"trigger/internal/delivery/batching.go", "q.isStalled, q.config.Lanes == 1 && !q.mayRead():", "q.isStalled:"},
	}},
	{"rest-of-a-batch-waits-again", "what comes after released changes waits for one window at most", []edit{
		{"trigger/internal/delivery/batching.go", "q.items = q.items[n:]; !q.hasWaited {", "q.items = q.items[n:]; true {"},
	}},
	{"lanes-wait-while-reading-is-stopped", "the batches of all lanes do not wait while a limit has stopped reading", []edit{
		{"trigger/internal/delivery/batching.go", "q.isStalled, ", ""},
	}},
	{"batch-cut-while-a-call-runs", "a batch waits while a call runs that may let reading continue", []edit{
		{"trigger/internal/delivery/dispatch.go", "s.lanesAtRest.Load() == int64(s.config.Lanes)", "s.lanesAtRest.Load() >= 0"},
	}},
	{"limit-stops-reading", "waiting changes that reach a limit go to the store", []edit{
		{"trigger/internal/delivery/lane.go", "if hasRoom, err := l.makeRoom(ctx, now, l.config.Lanes == 1 && l.isLeaving(now)); hasRoom || err != nil {", "if hasRoom, err := false, error(nil); hasRoom || err != nil {"},
	}},
	{"lanes-leave-all-to-read-again", "the end of a drain with lanes leaves few changes that are to be read again", []edit{
		{"trigger/internal/delivery/dispatch.go", "l.makeRoom(ctx, time.Now(), true)", "l.makeRoom(ctx, time.Now(), false)"},
	}},
	{"loaded-keys-stop-reading", "waiting changes that come from the store stay there at a limit", []edit{
		{"trigger/internal/delivery/lane.go", "return l.unload(), nil", "return false, nil"},
	}},
	{"handled-change-keeps-keys-from-the-store", "a handled change that waits for a request is not the oldest waiting key", []edit{
		{"trigger/internal/delivery/progress.go", "\treturn first, unacknowledged\n", "\tif len(p.aside) > 0 {\n\t\tfirst = p.aside[0]\n\t}\n\treturn first, unacknowledged\n"},
	}},
	{"suspect-goes-to-the-store", "a suspect does not go to the store at a limit", []edit{
		{"trigger/internal/delivery/keys.go", "g.items[0].aside == first && !g.suspect {", "g.items[0].aside == first {"},
	}},
	{"parked-age-forgotten", "the age of a key that goes to the store at a limit travels with it", []edit{
		{"trigger/internal/delivery/postponed.go", "if !stored.Since.IsZero() {", "if stored.Attempts > 0 {"},
	}},
	{"lane-at-rest-makes-no-room", "a lane at rest makes room when a call of another lane has reached a limit", []edit{
		{"trigger/internal/delivery/lane.go", "\tl.stalled.Store(false) // after the call", "\t// after the call"},
	}},
	{"stored-batch-without-limit", "a batch of changes from the store keeps its size", []edit{
		{"trigger/internal/delivery/postponed.go", "p.batchLength(items, p.MaxItemsPerInvocation) == len(items)", "len(items) <= p.MaxItemsPerInvocation"},
	}},
	{"queue-stays-at-a-limit", "changes behind a key that is in the store follow it at a limit", []edit{
		{"trigger/internal/delivery/keys.go", "s.queue[0].aside == first && s.letters != nil", "s.queue[0].aside == nil && s.letters != nil"},
	}},
	{"parked-attempts-forgotten", "attempts of a key that goes to the store at a limit travel with it", []edit{
		{"trigger/internal/delivery/effects.go", "Due: serviceNow.Add(max(0, g.due.Sub(now))), Attempts: g.retry.Attempts}", "Due: serviceNow.Add(max(0, g.due.Sub(now)))}"},
	}},
	{"drain-leaves-all-to-read-again", "the end of a drain leaves few changes that are to be read again", []edit{
		{"trigger/internal/delivery/core.go", "isLeaving && unacknowledged > maxLeftBehind", "false"},
	}},
	{"retention-of-waiting-key", "a waiting key does not hold the position until it leaves the retention", []edit{
		{"trigger/retention.go", "_, _, past := w.pastRetention(retentionRelief, timestamp)", "_, _, past := w.pastRetention(retentionRelief, 0*timestamp)"},
	}},
	{"parts-wait-for-the-sink", "a success ends the wait of parts that have not failed alone", []edit{
		{"trigger/internal/delivery/lane.go", "\tl.keys.pullForward(time.Now())\n", "\tif l.sink.failures > 0 {\n\t\tl.keys.pullForward(time.Now())\n\t}\n"},
	}},
	{"group-by-its-ends", "a change that was in no call is not given up with a group that hung", []edit{
		{"trigger/internal/delivery/retrystate.go", "i > 0 && len(r.Members) > 0 &&", "i < 0 &&"},
	}},
	{"left-aside-ends-the-split", "a key that waits does not keep the lease of a range that is gone", []edit{
		{"trigger/worker.go", "if err != nil && !errors.Is(err, delivery.ErrLeftAside) {", "if err != nil {"},
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
	{"judge-gap-of-stored-change", "the judge does not ask a foreign owner for changes in the store", []edit{
		{"tests/history/keys.go", "!c.skipped && !c.inStore &&", "!c.skipped &&"},
	}},
	{"judge-idle-owner", "the judge sees that an owner is idle while a change of a free key waits", []edit{
		{"tests/history/apart.go", "if idle > apartDelay {", "if idle > time.Hour {"},
	}},
}
