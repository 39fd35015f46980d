package main

// hosts are planted bugs in the life of a host: its start on a range, its failures and its
// end.
var hosts = []mutant{
	{"opened-before-renewals", "the lease is renewed while Opened runs", []edit{
		{"trigger/worker.go", "\tw.held.Start(w.stop.calls, w.host.writes)\n\topened := w.beginOpened(work.reading)\n", "\topened := w.beginOpened(work.reading)\n\t<-opened\n\tw.held.Start(w.stop.calls, w.host.writes)\n"},
		{"trigger/worker.go", "\tw.awaitOpened(work.reading, opened)\n", ""},
	}},
	{"opened-not-awaited", "no delivery begins before Opened has returned", []edit{
		{"trigger/worker.go", "\tw.awaitOpened(work.reading, opened)\n", "\tgo w.awaitOpened(work.reading, opened)\n"},
	}},
	{"opened-without-end", "a stop or a lost lease ends the context of Opened", []edit{
		{"trigger/opening.go", "w.function.Opened(ctx, info)", "w.function.Opened(context.WithoutCancel(ctx), info)"},
	}},
	{"opened-delays-stop", "a stop does not wait for Opened longer than its grace", []edit{
		{"trigger/opening.go", "\tcase <-w.stop.abandon.Done():\n", ""},
	}},
	{"opened-not-counted", "a call of Opened that was left behind counts as stuck", []edit{
		{"trigger/opening.go", "n := w.host.abandonedCalls.addCall(done)", "n := int64(1)"},
	}},
	{"closed-next-to-opened", "Closed is not called while Opened runs", []edit{
		{"trigger/worker.go", "w.function.Closed != nil && !w.callbackRuns", "w.function.Closed != nil"},
	}},
	{"opened-not-shown", "the status says that a range waits for Opened", []edit{
		{"trigger/opening.go", "w.rangeStats.callBegins(openedLane)", ""},
	}},
	{"opened-recovers-early", "pages that are read while Opened runs do not end its stall", []edit{
		{"trigger/opening.go", "_, opening := s.runningCalls[openedLane]", "opening := false"},
	}},
	{"lone-host-waits", "a host without others works on a failed range once its feed is well", []edit{
		{"trigger/runner.go", "!errors.Is(err, delivery.ErrNewerForm) && r.awaitReadable", "reasonOf(err) == ClosedStuck && r.awaitReadable"},
	}},
	{"failed-range-kept", "a failed range is left to hosts that have leases", []edit{
		{"trigger/runner.go", "r.isAlone = !r.leases.HasOtherHosts(leases)", "r.isAlone = true"},
	}},
	{"failed-range-not-probed", "a host that cannot read a range leaves it to a host that is idle", []edit{
		{"trigger/cooldown.go", "r.probeFeed(ctx, w) == nil", "true"},
	}},
	{"requester-not-counted", "a host that has requested a lease is another host", []edit{
		{"trigger/internal/lease/peers.go", "return isHeld || requester", "return isHeld || false && requester"},
	}},
	{"refusal-not-told", "a function says at once that an account refuses its credential", []edit{
		{"trigger/status.go", "cmp.Or(r.refusalError(), r.functionProblem, ", "cmp.Or(r.functionProblem, "},
	}},
	{"refused-forever", "Run ends if accounts refuse the credential of all functions for a minute", []edit{
		{"trigger/refusal.go", "if newRefusal.isLong() && r.endIfHopeless != nil {", "if false {"},
	}},
	{"refusal-ends-at-once", "Run does not end if accounts refuse the credential for less than a minute", []edit{
		{"trigger/refusal.go", "a.newest.Sub(a.Since) >= endPeriod", "a.newest.Sub(a.Since) >= endPeriod/8"},
	}},
	{"refusal-never-over", "a good answer ends a refusal", []edit{
		{"trigger/refusal.go", "\tslot.Store(newRefusal)\n", "\tif refused {\n\t\tslot.Store(newRefusal)\n\t}\n"},
	}},
	{"refusal-of-one-ends-all", "a function that is refused does not end the others", []edit{
		{"trigger/refusal.go", "newRefusal.isLong() && r.endIfHopeless != nil", "newRefusal.isLong() && !r.hasHope()"},
		{"trigger/restarting.go", "\t\tif !anyHope() {\n\t\t\tendHost(errAllEnded)\n\t\t}\n\t}\n", "\t\tendHost(errAllEnded)\n\t}\n"},
	}},
	{"refused-feed-not-probed", "a refusal of the monitored account alone is noticed", []edit{
		{"trigger/drain.go", "r.noteAnswer(useFeed, err)", ""},
		{"trigger/cooldown.go", "\t\tr.noteAnswer(useFeed, err)\n", ""},
		{"trigger/worker.go", "w.noteAnswer(useFeed, w.readErr)", ""},
	}},
	{"refusal-of-idle-host", "an idle host learns that the account accepts its credential again", []edit{
		{"trigger/runner.go", "\tr.verifyAccount(ctx)\n", ""},
	}},
	{"refused-connection-not-named", "the error of a run names the connection that is refused", []edit{
		{"function/app/internal/hosting/refused.go", "if names == nil {", "if true {"},
	}},
	{"refused-process-kept", "the continuous mode replaces a process whose credential is refused", []edit{
		{"function/app/internal/functions/continuous.go", "if errors.As(err, &refused) {", "if errors.As(err, &refused) && false {"},
	}},
	{"stopped-with-leases", "a host that has stopped shows no leases and no problem", []edit{
		{"trigger/restarting.go", "\tr.pausedRanges, r.unreadable, r.freeRanges, r.heldLeaseCount, r.stepBegan = nil, nil, nil, 0, time.Time{}\n", "\tr.stepBegan = time.Time{}\n"},
	}},
	{"stopped-with-problem", "a host that has stopped shows no leases and no problem", []edit{
		{"trigger/restarting.go", "clear(r.coolingRanges)", ""},
	}},
	{"refusal-without-account", "the error of a refused credential names the account", []edit{
		{"trigger/refusal.go", `return fmt.Sprintf("account %s refuses the credential since %s: %v", e.Account, e.Since.UTC().Format(time.RFC3339), e.Err)`, `return fmt.Sprintf("credential refused since %s: %v", e.Since.UTC().Format(time.RFC3339), e.Err)`},
	}},
	{"refusal-without-answer", "the error of a refused credential has the answer of the service", []edit{
		{"trigger/refusal.go", "Unwrap() error { return e.Err }", "Unwrap() error { return nil }"},
	}},
	{"requested-lease-not-watched", "a host watches what it has requested, although a watch has ended", []edit{
		{"trigger/balancing.go", "\t\t\tcase step.Watch:\n\t\t\t\tr.watchLease(ctx, pass, l)\n", "\t\t\tcase step.Watch:\n"},
	}},
	{"watch-ended-by-one-answer", "one answer that a requested lease is gone does not end its watch", []edit{
		{"trigger/internal/lease/set.go", "case errors.Is(err, ErrLost) && isGone:", "case errors.Is(err, ErrLost) && (isGone || true):"},
	}},
	{"released-range-waits-for-a-whole-poll", "a busy range that is handed over has no owner for a part of a second", []edit{
		{"trigger/internal/lease/set.go", "minHandoverPoll = 200 * time.Millisecond", "minHandoverPoll = 900 * time.Millisecond"},
	}},
	{"turns-end-with-answers", "steps without an answer hold up others for the length of a turn", []edit{
		{"trigger/internal/schedule/plan.go", "return since.Add(MaxTurn)", "return since.Add(time.Hour)"},
	}},
	{"steps-out-of-turn", "lease writes that fall due together need few connections", []edit{
		{"trigger/internal/schedule/plan.go", "|| len(l.running) == l.limit", "|| len(l.running) == 100*l.limit"},
	}},
	{"patient-steps-first", "a range with changes does not wait for the polls of all idle ones", []edit{
		{"trigger/internal/schedule/schedule.go", "case e.isPatient:", "case e.isPatient || true:"},
	}},
	{"requested-write-stays-patient", "a lease whose renewal waits for its turn is written when a write is requested", []edit{
		{"trigger/internal/schedule/schedule.go", "&& time.Until(due) < patience", "&& false"},
	}},
	{"write-again-at-once", "requests that come with the end of a write share the next one", []edit{
		{"trigger/internal/lease/writer.go", "if dueAt.Before(w.wroteAt) {", "if false {"},
	}},
	{"wake-lost-during-a-step", "a page that is read while delivery comes to rest is delivered at once", []edit{
		{"trigger/internal/schedule/schedule.go", "\tcase t.phase == taskRuns && isEarlier:\n\t\tt.nextAt = due\n", ""},
	}},
	{"idle-ranges-poll-at-moments-of-their-own", "the polls of idle ranges share a moment", []edit{
		{"trigger/host.go", "return period - time.Since(p.beat)%period", "return period"},
	}},
	{"stop-waits-for-the-next-poll", "a stop ends the wait of an idle range", []edit{
		{"trigger/worker.go", "\t\twork.reader.Hurry()\n", ""},
	}},
	{"own-leases-from-the-last-list", "a host forgets whose leases others held once it has listed none", []edit{
		{"trigger/internal/lease/store.go", "if l.owner == \"\" || l.owner != s.owner {", "if l.owner == \"\" {"},
	}},
	{"stop-tells-no-host", "a host that stops tells the others of the leases that it has released", []edit{
		{"trigger/runner.go", "\tr.leases.TellReleased(ctx)\n", "\t_ = ctx\n"},
	}},
	{"told-host-looks-later", "a host that is told of released leases acquires them at once", []edit{
		{"trigger/worker.go", "= w.runningCalls.latestEnd, r.balanceSoon", "= w.runningCalls.latestEnd, func() {}"},
	}},
	{"notice-stays", "the next write of an owner removes the notice of released leases", []edit{
		{"trigger/internal/lease/store.go", "\tdelete(l.properties, releasedProperty)\n", ""},
	}},
	{"notice-extends-life", "a notice of released leases does not extend the life of a dead owner's lease", []edit{
		{"trigger/internal/lease/notice.go", "\t\tnext.keepWritten(s.Now())\n", ""},
	}},
	{"all-stops-tell", "of many hosts that stop at a time only the first ones tell the others", []edit{
		{"trigger/internal/lease/balance.go", " || recent > 2*released {", " || recent == 0 {"},
	}},
	{"told-hosts-collide", "hosts that plan at the same time acquire different free leases", []edit{
		{"trigger/internal/lease/balance.go", "fromPlace(free, missingBefore(shares, held, me)%len(free))", "fromPlace(free, 0*missingBefore(shares, held, me))"},
	}},
	{"next-owner-polls-as-if-idle", "a range that was busy a moment ago is polled as often by its next owner", []edit{
		{"trigger/internal/feed/reader.go", "if !r.ChangedAt.IsZero() {", "if false {"},
	}},
}
