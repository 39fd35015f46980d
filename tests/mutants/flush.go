package main

// flushCalls are planted bugs in the call of Function.Flush at the end of the work on a range.
var flushCalls = []mutant{
	{"flush-not-called", "Function.Flush has its effect", []edit{
		{"trigger/runner.go", "\tpasses, _ := f.Filter.compile()", "\tf.Flush = nil\n\tpasses, _ := f.Filter.compile()"},
	}},
	{"flush-after-release", "the host has the lease while Flush runs", []edit{
		{"trigger/worker.go", "\terr = w.flush(w.owned, err)\n", ""},
		{"trigger/worker.go", "\tw.rangeStats.close()\n\treason,", "\terr = w.flush(w.caller, err)\n\tw.rangeStats.close()\n\treason,"},
	}},
	{"flush-after-split", "the children of a split begin behind what Flush has made durable", []edit{
		{"trigger/worker.go", "\terr = w.flush(w.owned, err)\n", ""},
		{"trigger/worker.go", "\tw.held.Stop()\n", "\terr = w.flush(w.owned, err)\n\tw.held.Stop()\n"},
	}},
	{"flush-nil-not-counted", "a Flush that returns nil counts as a request for a checkpoint", []edit{
		{"trigger/flushing.go", "err = w.rangeDelivery.RequestCheckpoint(ctx, w.callsAnswered.Load())", "_ = w.rangeDelivery"},
	}},
	{"flush-error-saves", "a Flush that fails saves nothing", []edit{
		{"trigger/flushing.go", "\tif err == nil {\n\t\terr = w.rangeDelivery.RequestCheckpoint(ctx, w.callsAnswered.Load())", "\tif true {\n\t\terr = errors.Join(err, w.rangeDelivery.RequestCheckpoint(ctx, w.callsAnswered.Load()))"},
	}},
	{"flush-on-lost-lease", "Flush is not called when the lease is lost", []edit{
		{"trigger/flushing.go", "err := w.held.WaitTrusted(ctx)", "err := context.Cause(ctx)\n\tif w.held.Err() != nil {\n\t\terr = nil\n\t}"},
	}},
	{"flush-next-to-hung-call", "Flush is not called next to a handler call that was left behind", []edit{
		{"trigger/flushing.go", " || w.rangeStats.hasHungCall()", ""},
	}},
	{"flush-of-nothing", "Flush is not called if no handler call was made", []edit{
		{"trigger/flushing.go", "w.callsAnswered.Load() == 0 || ", ""},
	}},
	{"flush-outlives-lease", "the context of Flush ends when the lease is lost", []edit{
		{"trigger/flushing.go", "\t\t\tstop(loss)\n", "\t\t\t_ = loss\n"},
	}},
	{"flush-outlives-trust", "the context of Flush ends when another host may have acquired the lease", []edit{
		{"trigger/flushing.go", "\t\t\tstop(errTrustEnded)\n", "\t\t\t_ = errTrustEnded\n"},
	}},
	{"flush-delays-stop", "a stop ends the context of Flush", []edit{
		{"trigger/flushing.go", "context.WithTimeout(w.stop.flush, w.callTimeout)", "context.WithTimeout(context.WithoutCancel(w.stop.flush), w.callTimeout)"},
	}},
	{"flush-gets-no-time", "a handler call that uses all of its time at a stop leaves some to Flush", []edit{
		{"trigger/stopbudget.go", "outlive(ctx, grace-grace/10)", "outlive(ctx, grace-grace/5)"},
	}},
	{"flush-keeps-letters", "a Flush that returns nil covers postponed changes", []edit{
		{"trigger/internal/delivery/uncovered.go", "d.uncovered.coveredBy(answered + 1)", "d.uncovered.coveredBy(0 * answered)"},
	}},
	{"flush-not-told", "an event tells of Flush", []edit{
		{"trigger/flushing.go", "w.emitEvent(Event{Kind: EventFlushed,", "_ = (Event{Kind: EventFlushed,"},
	}},
	{"flush-failure-not-shown", "the lease says that Flush has failed", []edit{
		{"trigger/flushing.go", "w.rangeStats.setProblem(flushLane, stall.Flushing, err)", "_ = stall.Flushing"},
	}},
	{"flush-failure-not-summed", "the summary of a drain says that Flush has failed", []edit{
		{"trigger/drain.go", "w.flushErr != nil", "false"},
	}},
	{"closed-next-to-flush", "Closed is not called while Flush runs", []edit{
		{"trigger/flushing.go", "w.callbackRuns = isHung || errors.Is(err, errLeftBehind)", "_ = errLeftBehind"},
	}},
	{"flush-with-automatic-checkpoints", "Flush is refused if handled changes are saved anyway", []edit{
		{"trigger/validate.go", "f.Flush != nil && !f.Checkpoint.Manual", "false"},
	}},
}
