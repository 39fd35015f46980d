package main

import "slices"

// all are the planted bugs, grouped by the part of the runtime.
var all = slices.Concat(ownership, checkpoints, splits, bootstraps, delivery, protocol, edges, operators, messages, postponements, settings, surfaceCalls, surfaceReports, surfaceSettings, judgements, bounds, verbsOfHandlers, stores, verdicts, hosts, storeCalls, finishedLeases, sharedLSNs, keyMarks, flushCalls, waitingKeys, policies, letterQueries, leaseSources, callersErrors, handlerCallbacks, pageSearches, recordedForms, neighbours, answers, pagePositions, pageGrowth, recreations, accountProofs, snapshots, secretValues, otherClients, programs, ageing, upgrades, failovers, directRequests)

var ownership = []mutant{
	{"no-if-match", "a stale checkpoint is never written", []edit{
		{"trigger/internal/lease/store.go", "doc, l.etag)", `doc, "")`},
	}},
	{"delete-without-if-match", "only the owner retires a lease", []edit{
		{"trigger/internal/lease/store.go", "s.container.Delete(ctx, l.id, l.partitionKey, l.etag)", "s.container.Delete(ctx, l.id, l.partitionKey, \"\")"},
	}},
	{"owner-by-name", "two processes with the same owner name are two owners", []edit{
		{"trigger/internal/lease/document.go", "return ownership{owner: l.owner, incarnation: l.properties[incarnationProperty], epoch: l.Epoch()}", "return ownership{owner: l.owner}"},
	}},
	{"adopt-any-etag", "after a conflict, a host gives up a lease that another host owns", []edit{
		{"trigger/internal/lease/write.go", "if fresh.ownership() != w.acquiredLease.ownership() {", "if fresh.ownership() == (ownership{}) {"},
	}},
	{"epoch-not-raised", "one owner per epoch", []edit{
		{"trigger/internal/lease/acquire.go", "next.raiseEpoch(l, nextEpoch(l, now))", "next.raiseEpoch(l, max(l.Epoch(), 1))"},
	}},
	{"epoch-reset-at-release", "an epoch never decreases", []edit{
		{"trigger/internal/lease/write.go", "delete(l.properties, expirationProperty)", "delete(l.properties, expirationProperty)\n\t\tdelete(l.properties, epochProperty)"},
	}},
	{"no-self-fence", "no delivery begins on a lease that may have expired", []edit{
		{"trigger/internal/lease/writer.go", "\t\tif trusted {", "\t\tif trusted || true {"},
	}},
	{"loss-not-noticed", "no delivery begins after the lease is lost", []edit{
		{"trigger/internal/lease/writer.go", "\t\tif loss := w.Err(); loss != nil {\n\t\t\treturn loss\n\t\t}\n\t\tif trusted {", "\t\tif trusted {"},
	}},
	{"trust-from-the-answer", "trust in a lease begins when its write is sent", []edit{
		{"trigger/internal/lease/write.go", "w.adoptLease(next, sent, number)", "_ = sent\n\t\tw.adoptLease(next, time.Now(), number)"},
	}},
	{"trust-after-reading-back", "if the answer to an acquisition is lost, the lease is trusted after the next write", []edit{
		{"trigger/internal/lease/acquire.go", "return fresh, time.Time{}, nil", "return fresh, sent, nil"},
	}},
	{"trust-without-margin", "trust ends before the expiration does", []edit{
		{"trigger/internal/lease/writer.go", "trustedFor: expiration - expiration/10", "trustedFor: 2 * expiration"},
	}},
	{"duplicate-lease-not-released", "a range has one owner, even if it has two lease documents", []edit{
		{"trigger/internal/lease/set.go", "\t\ts.requestDuplicate(ctx, l)", "\t\t_ = l"},
	}},
	{"duplicate-lease-of-one-name", "a range has one owner, even if two processes of one name hold its two lease documents", []edit{
		{"trigger/internal/lease/duplicate.go", "l.properties[incarnationProperty] != incarnation", "!strings.HasPrefix(incarnation, l.owner+\"/\")"},
	}},
	{"request-of-own-name-ignored", "an owner releases its lease to another process of its name", []edit{
		{"trigger/internal/lease/write.go", "requester != \"\" {\n\t\tw.releaseOnce", "requester != \"\" && requester != w.acquiredLease.owner {\n\t\tw.releaseOnce"},
	}},
	{"duplicate-lease-by-position", "if a range has two lease documents, all hosts use the one acquired last", []edit{
		{"trigger/internal/lease/duplicate.go", "cmp.Compare(b.Epoch(), a.Epoch()), ", ""},
	}},
	{"unclaimed-lease-not-taken", "leases that under-loaded hosts do not take may be taken by any host", []edit{
		{"trigger/internal/lease/balance.go", "if v.Free && v.Unclaimed &&", "if false &&"},
	}},
	{"share-requested-at-once", "hosts that start together count each other before they request their shares", []edit{
		{"trigger/internal/lease/joining.go", "isFirst := j.looks == 0", "isFirst := true\n\tj.joined = true"},
	}},
	{"joining-never-ends", "a host requests its share after an acquire interval, however many hosts appear", []edit{
		{"trigger/internal/lease/joining.go", "j.looks == joinLooks,", "false,"},
	}},
	{"joining-looks-late", "a host that joins looks again soon", []edit{
		{"trigger/internal/lease/joining.go", "return acquireInterval / joinLooks", "return acquireInterval"},
	}},
	{"joining-waits-for-an-interval", "a host that joins has its share before the next acquire interval", []edit{
		{"trigger/runner.go", "next := time.NewTimer(wait)", "next := time.NewTimer(max(wait, r.host.options.LeaseAcquireInterval))"},
	}},
	{"joining-leaves-free-leases", "a host that joins acquires free leases at once", []edit{
		{"trigger/internal/lease/joining.go", "steps = otherSteps", "steps = nil"},
	}},
	{"same-leases-requested", "hosts that plan at the same time request different leases", []edit{
		{"trigger/internal/lease/balance.go", "len(group.tokens)*place/len(hosts))", "0*place)"},
	}},
	{"same-lease-requested-first", "hosts that start at the same time request different leases, by which the others count them", []edit{
		{"trigger/internal/lease/joining.go", "chosen := hashOf(me) % uint64(len(steps))", "chosen := hashOf(me) * 0"},
	}},
	{"request-ends-at-a-checkpoint", "a lease is requested although its owner writes it", []edit{
		{"trigger/internal/lease/set.go", "|| attempt == requestAttempts {", "|| attempt > 0 {"},
	}},
	{"request-overwrites-a-request", "a lease that another host has requested meanwhile is left to it", []edit{
		{"trigger/internal/lease/handover.go", " && l.properties[handoverProperty] == older.properties[handoverProperty]", ""},
	}},
	{"write-without-etag", "a lease is never written without If-Match", []edit{
		{"trigger/internal/lease/store.go", "if resp.ETag == \"\" {", "if false {"},
	}},
	{"write-waits-forever", "a lease survives if one answer does not come", []edit{
		{"trigger/internal/lease/write.go", "context.WithTimeout(ctx, w.trustedFor/2)", "context.WithTimeout(ctx, time.Hour)"},
	}},
	{"suspend-not-noticed", "after its machine was suspended, a host confirms its lease before it delivers", []edit{
		{"trigger/internal/lease/writestate.go", "&& wall < limit && wall > -limit", "|| wall < 0"},
	}},
	{"wall-clock-expiry", "no host's clock decides who owns a lease", []edit{
		{"trigger/internal/lease/store.go", "func (s *leaseStore) serviceNow() time.Time { return s.container.Client().Now() }", "func (s *leaseStore) serviceNow() time.Time { return time.Now() }"},
		{"trigger/internal/lease/set.go", "return s.cfg.Leases.Client().Now()", "return time.Now()"},
	}},
	{"expiry-ignores-rounding", "a lease is not taken early although its time has whole seconds", []edit{
		{"trigger/internal/lease/document.go", "l.written.Add(l.expiration(expiration) + time.Second)", "l.written.Add(l.expiration(expiration) - time.Second)"},
	}},
	{"announced-expiration-ignored", "if owner and reader have different expirations, the longer one holds", []edit{
		{"trigger/internal/lease/document.go", "return max(own, min(d, longestExpiration))", "return own"},
	}},
	{"handover-in-mid-batch", "a handover happens after the running batch", []edit{
		{"trigger/worker.go", "stopReading(errHandedOver)", "w.endWork(errHandedOver)"},
	}},
	{"busy-owner-robbed", "a lease is not taken from a busy owner that renews it", []edit{
		{"trigger/internal/lease/balance.go", "Free: l.Free(now, expiration), Halley", "Free: l.Free(now, expiration) || l.properties[busyProperty] != \"\", Halley"},
	}},
	{"lease-acquired-after-a-stop", "nothing is acquired after a stop", []edit{
		{"trigger/balancing.go", "\t\tif ctx.Err() != nil {\n\t\t\treturn\n\t\t}\n\t\tworking.Go(", "\t\tworking.Go("},
		{"trigger/internal/lease/acquire.go", "\tif cause := context.Cause(ctx); cause != nil {\n\t\treturn nil, cause\n\t}\n\tif err := s.afterFailover", "\tif err := s.afterFailover"},
	}},
	{"hung-handler-keeps-the-lease", "a host gives up a range if its handler does not return", []edit{
		{"trigger/invoke.go", "late := time.NewTimer(grace)", "late := time.NewTimer(100 * grace)"},
	}},
}

var checkpoints = []mutant{
	{"checkpoint-before-handling", "a checkpoint covers only handled changes", []edit{
		{"trigger/internal/delivery/lane.go", "v := l.calls.CallHandler(", "l.finishItems(g.items)\n\tv := l.calls.CallHandler("},
	}},
	{"read-position-is-saved", "a checkpoint covers only handled changes", []edit{
		{"trigger/reading.go", "\tif w.rangeStats.countPage(page) {\n", "\tw.held.Advance(page.Continuation, time.Now())\n\tif w.rangeStats.countPage(page) {\n"},
	}},
	{"empty-page-acknowledged-at-once", "a checkpoint does not pass changes that are read but not handled", []edit{
		{"trigger/reading.go", "\t\tw.rangeDelivery.CaughtUp()\n", "\t\tw.rangeDelivery.CaughtUp()\n\t\tw.held.Advance(page.Continuation, time.Now())\n"},
	}},
	{"etag-of-304-ignored", "an answer without changes also moves the position", []edit{
		{"trigger/internal/feed/reader.go", "if !idle || moved {", "if !idle && moved {"},
	}},
	{"inner-position-one-too-far", "a position inside a page has nothing unhandled before it", []edit{
		{"trigger/internal/delivery/page.go", "feed.QuotedLSN(c.lsnBefore)", "feed.QuotedLSN(c.LSN)"},
	}},
	{"inner-position-in-a-transaction", "a transaction is never divided by a checkpoint", []edit{
		{"trigger/internal/delivery/page.go", "if items[next].LSN != items[first].LSN {", "if next > 0 {"},
	}},
	{"inner-position-of-a-merged-range", "positions inside pages are written only if tokens are LSNs", []edit{
		{"trigger/internal/delivery/progress.go", "!p.isMerged && feed.NamesPositions(page, p.taken.position)", "len(page.Items) > 0"},
	}},
	{"lagging-replica-moves-back", "an answer of a replica that lags does not move a position back", []edit{
		{"trigger/internal/delivery/progress.go", "return !p.isMerged && feed.IsLess(position, earlier)", "return false"},
	}},
	{"release-without-checkpoint", "a release saves the position of the handled changes", []edit{
		{"trigger/internal/lease/write.go", "\t\tchange(next)\n", "\t\tnext.continuation = w.lease.continuation\n\t\tchange(next)\n"},
	}},
	{"drain-stops-after-a-page", "a drain ends when it has caught up", []edit{
		{"trigger/internal/feed/reader.go", "if idle && r.UntilCaughtUp {", "if r.UntilCaughtUp {"},
	}},
	{"drain-calls-behind-idle", "a range that cannot be read is not caught up", []edit{
		{"trigger/drain.go", "return nil, false, err\n", "return nil, true, nil\n"},
	}},
	{"end-of-context-is-success", "a cancelled call has not handled its changes", []edit{
		{"trigger/handling.go", "err := w.invokeHandler(held, w.function.Handler, b)", "err := w.invokeHandler(held, w.function.Handler, b)\n\tif held.Err() != nil {\n\t\terr = nil\n\t}"},
	}},
}

var bootstraps = []mutant{
	{"marker-first", "when the marker exists, leases cover every key", []edit{
		{"trigger/internal/lease/bootstrap.go", "\tlock, err := c.takeLock(ctx)", "\tif _, err := c.store.createStamp(ctx, stamp{ID: c.store.markerID()}); err != nil {\n\t\treturn err\n\t}\n\tlock, err := c.takeLock(ctx)"},
	}},
	{"bootstrap-outlasts-its-lock", "two bootstraps do not create leases together", []edit{
		{"trigger/internal/lease/bootstrap.go", "taken.Add(lockTTL-lockMargin)", "taken.Add(time.Hour)"},
	}},
	{"gap-filled-at-once", "a coverage gap is filled when two passes have seen it", []edit{
		{"trigger/internal/lease/audit.go", "\t\treturn a.gapsSeen[p.Span]\n", "\t\treturn true\n"},
	}},
	{"gap-filled-from-now", "if a lease was deleted, its range is read again from the function's start", []edit{
		{"trigger/internal/lease/audit.go", "c.fillGaps(ctx, since,", "c.fillGaps(ctx, time.Time{},"},
	}},
	{"epoch-of-a-filled-gap-restarts", "an epoch never decreases", []edit{
		{"trigger/internal/lease/bootstrap.go", "strconv.FormatInt(c.store.serviceNow().Unix(), 10)", "strconv.FormatInt(0, 10)"},
	}},
	{"start-now-not-saved", "\"now\" is the time of the bootstrap", []edit{
		{"trigger/internal/feed/source.go", "return page.Continuation, nil", `return "", nil`},
	}},
	{"deleted-lease-from-now", "a deleted lease is created again at its acknowledged position", []edit{
		{"trigger/internal/lease/restore.go", "next.setMode(lost.mode)\n", "next.setMode(lost.mode)\n\tif at, err := s.Locate(ctx, lost); err == nil {\n\t\tnext.continuation, _ = s.cfg.StartToken(ctx, at, s.Now())\n\t}\n"},
	}},
	{"deleted-lease-from-the-start", "a deleted lease is created again at its acknowledged position", []edit{
		{"trigger/internal/lease/restore.go", "next.owner, next.continuation = \"\", l.continuation", "next.owner, next.continuation = \"\", \"\""},
	}},
	{"audit-before-owners", "the owner of a deleted lease restores it before an audit fills the gap", []edit{
		{"trigger/internal/lease/set.go", "return s.auditAfter(ctx, s.cfg.AcquireInterval+2*secondAuditDelay)", "return s.auditAfter(ctx, secondAuditDelay)"},
	}},
	{"namesakes-count-against-most", "processes with one owner's name take the most leases each", []edit{
		{"trigger/internal/lease/set.go", "\t\t\tlimits.Max++\n", ""},
	}},
	{"requested-lease-of-a-namesake-not-counted", "a process takes the most leases that it may have, and no more", []edit{
		{"trigger/internal/lease/set.go", " && v.RequestedBy == \"\" {", " {"},
	}},
	{"unreadable-lease-is-a-gap", "an invalid lease document is ignored, but its keys are not a gap", []edit{
		{"trigger/internal/lease/audit.go", "for _, i := range invalid {", "for _, i := range invalid[:0] {"},
	}},
}

var delivery = []mutant{
	{"bisection-drops-a-half", "every change is handled", []edit{
		{"trigger/internal/delivery/effects.go", "for _, part := range parts {", "for _, part := range parts[:1] {"},
	}},
	{"bisection-second-half-first", "order per key", []edit{
		{"trigger/internal/delivery/group.go", "later := &group{items: g.items[half:],", "later := &group{items: g.items[:half:half],"},
		{"trigger/internal/delivery/group.go", "{{items: g.items[:half:half],", "{{items: g.items[half:],"},
	}},
	{"filtered-changes-keep-failures", "failures of a change that the feed does not show any more are forgotten", []edit{
		{"trigger/internal/delivery/retrystate.go", "\tif len(t.saved) == 0 {\n\t\treturn\n\t}\n\tfirst := t.firstLSNs()\n\tfor i := range page {", "\tif len(t.saved) == 0 || len(page) == 0 {\n\t\treturn\n\t}\n\tfirst := t.firstLSNs()\n\tfor i := range page {"},
	}},
	{"filtered-changes-ask-for-a-write", "filtered changes cost no lease write", []edit{
		{"trigger/internal/delivery/progress.go", "p.schedule.nextSave(p.reached.seq+p.asideDone, time.Now()))", "time.Now())"},
	}},
	{"unreadable-document-filtered", "nothing is dropped because it cannot be judged", []edit{
		{"trigger/internal/filter/filter.go", "return end == notJSON || results != 0", "return end != notJSON && results != 0"},
	}},
	{"delete-without-image-filtered", "nothing is dropped because it cannot be judged", []edit{
		{"trigger/filter.go", "return document == nil || compiled.Passes(document)", "return document != nil && compiled.Passes(document)"},
	}},
	{"queued-change-overtakes", "order per key, although other keys continue while one is retried", []edit{
		{"trigger/internal/delivery/admit.go", "case k.Waits, k.Place != PlaceFree && k.DueSoon:", "case k.Place != PlaceFree && k.DueSoon:"},
		{"trigger/internal/delivery/keys.go", "case state.Waits:", "case false:"},
	}},
	{"later-change-retried-first", "order per key, although other keys continue while one is retried", []edit{
		{"trigger/internal/delivery/batching.go", "return cmp.Compare(a.Seq, b.Seq)", "return cmp.Compare(b.Seq, a.Seq)"},
	}},
	{"success-resets-other-keys", "the retries of a failing key wait longer each time, although other keys succeed", []edit{
		{"trigger/internal/delivery/lane.go", "\tl.sink.succeeded()\n", "\tl.sink.succeeded()\n\tfor _, g := range l.keys.groups {\n\t\tg.retry.Failures, g.due = 0, time.Now()\n\t}\n"},
	}},
	{"waiting-change-holds-its-page", "a change that waits to be retried does not hold its page in memory", []edit{
		{"trigger/internal/delivery/progress.go", "\t\t\tcopied += kept[i].copiedBytes\n\t\t\treleased = append(released, c.inPage.leave(c)...)\n", "\t\t\tcopied += kept[i].copiedBytes\n"},
	}},
	{"outage-not-noticed", "an outage of the sink costs few calls", []edit{
		{"trigger/internal/delivery/sink.go", "return s.freshFailed && len(s.failedKeys) >= outageGroups", "return false"},
	}},
	{"poison-keys-look-like-an-outage", "a failing key delays the other keys of its range only a little", []edit{
		{"trigger/internal/delivery/sink.go", "return r.Failures > 0 && !s.isOutage()", "return false"},
	}},
	{"halves-count-as-new-failures", "a failing key delays the other keys of its range only a little", []edit{
		{"trigger/internal/delivery/sink.go", "return !s.isOutage() && haveCommonKey(s.allFailed, keys)", "return false"},
	}},
	{"attempt-after-the-last", "a dead letter has had the configured number of attempts", []edit{
		{"trigger/internal/delivery/retrystate.go", "if p.MaxAttempts <= 0 || r.Attempts < p.MaxAttempts {", "if true {"},
	}},
	{"partial-failure-inverted", "exactly the failed changes are redelivered", []edit{
		{"trigger/verdict.go", "return p.partial.failedChanges[number]", "return !p.partial.failedChanges[number]"},
	}},
	{"panic-is-success", "a panic is a failed attempt", []edit{
		{"trigger/invoke.go", "err = &PanicError{Value: v, Stack: []byte(cleanStack())}", "_ = &PanicError{Value: v, Stack: []byte(cleanStack())}"},
	}},
	{"dead-letter-not-awaited", "a dead letter is durable before the range moves on", []edit{
		{"trigger/internal/delivery/store.go", "if err := k.askStore(ctx, k.laneIndex, func(ctx context.Context) error { return k.deadLetters.Put(ctx, c, letter) }); err != nil {\n\t\treturn err\n\t}", "go k.askStore(ctx, k.laneIndex, func(ctx context.Context) error { return k.deadLetters.Put(ctx, c, letter) })"},
	}},
	{"failed-put-is-a-success", "while the dead letter store fails, the range waits", []edit{
		{"trigger/internal/delivery/store.go", "err := request()\n\t\tif err == nil {", "err := request()\n\t\tif err == nil || true {"},
	}},
	{"exhausted-without-a-store-drops", "changes are dropped only if a setting says so", []edit{
		{"trigger/internal/delivery/effects.go", "\tparts := []*group{g}\n\tif a.Step == Split {", "\tif !p.DeadLetters && a.Retry.Attempts >= 10 {\n\t\treturn append([]effect{{kind: effectFinish, items: g.items}}, endOf(g)...)\n\t}\n\tparts := []*group{g}\n\tif a.Step == Split {"},
	}},
	{"skip-without-a-store-drops", "changes are dropped only if a setting says so", []edit{
		{"trigger/internal/delivery/store.go", "<-ctx.Done() // nothing is dropped unless a setting asks for it\n\t\treturn context.Cause(ctx)", "l.finishItems(items)\n\t\treturn nil"},
	}},
	{"breaker-never-opens", "when every change fails, the range pauses", []edit{
		{"trigger/internal/delivery/retrypolicy.go", "lane.GivenUp >= p.BreakerLimit", "lane.GivenUp < 0"},
	}},
	{"blocked-key-forgotten", "if a change is dead-lettered, later changes of its key follow it", []edit{
		{"trigger/internal/delivery/store.go", "\t\tif k.config.BlockKeys {\n\t\t\tk.blockedKeys.addChange", "\t\tif false {\n\t\t\tk.blockedKeys.addChange"},
	}},
	{"blocked-keys-from-listing-only", "a new dead letter blocks its key even if the store does not list it yet", []edit{
		{"trigger/internal/delivery/blocked.go", "\tcase time.Since(key.lastPut) < StoreLag:\n\t\treturn BlockCertain\n", ""},
	}},
	{"damaged-dead-letter-ends-the-list", "a damaged dead letter does not stop a range", []edit{
		{"trigger/deadletterlists.go", "case errors.Is(err, ErrDamaged):", "case errors.Is(err, ErrDamaged) && false:"},
	}},
	{"crashes-not-counted", "a change that crashes its process is dead-lettered", []edit{
		{"trigger/internal/lease/acquire.go", "fmt.Sprint(l.UncleanExits() + 1)", "fmt.Sprint(l.UncleanExits())"},
	}},
	{"suspect-not-recorded-first", "a suspect is recorded in the lease before it is delivered", []edit{
		{"trigger/internal/delivery/isolation.go", "return s.calls.ConfirmOwnership(ctx)", "return nil"},
	}},
	{"suspect-without-announcement", "a process that crashes between calls makes no change a suspect", []edit{
		{"trigger/internal/delivery/lane.go", "g := l.resumeGroup(batch)\n\tif !g.suspect {", "g := l.resumeGroup(batch)\n\tif g.suspect = g.suspect || l.isolation.isAnnouncing(); !g.suspect {"},
	}},
	{"concurrent-suspects", "a crash is attributed to one change", []edit{
		{"trigger/host.go", "make(chan struct{}, 1)", "make(chan struct{}, 1000)"},
	}},
	{"crash-charged-to-all-suspects", "a crash is charged only to a change that was alone in the process", []edit{
		{"trigger/internal/delivery/isolation.go", "if alone && len(g.items) == 1 {", "if len(g.items) == 1 {"},
	}},
	{"announcing-ends-too-early", "an owner announces its calls until it has finished all changes that the owner before it can have read", []edit{
		{"trigger/internal/delivery/isolation.go", "mostAhead: int64(c.mostTaken())", "mostAhead: 1"},
	}},
	{"versions-of-one-name", "two versions in one transaction are two changes", []edit{
		{"trigger/internal/feed/change.go", "if c.Operation != \"\" {", "if false {"},
	}},
	{"later-changes-charged", "a later change is not charged with failures of a group", []edit{
		{"trigger/internal/delivery/batching.go", "min(limit, q.retries.groupLength(resumed, q.items))", "min(limit, max(resumed.Size, 1))"},
	}},
	{"half-of-hanging-group-is-hung", "only the hanging change is dead-lettered for it", []edit{
		{"trigger/internal/delivery/retrypolicy.go", "a.Retry.Hung = !p.splitsGroup(len(g.items))\n\t\tif a.Retry.Hung {", "a.Retry.Hung = true\n\t\tif !p.splitsGroup(len(g.items)) {"},
	}},
	{"announcement-outlives-its-call", "a change whose call has failed is not a suspect of the next owner", []edit{
		{"trigger/internal/delivery/retrystate.go", "\tt.saved[r.First] = r\n\tdelete(t.announced, r.First)\n", "\tt.saved[r.First] = r\n"},
	}},
	{"inbox-out-of-order", "order per key, although several pages wait for a busy lane", []edit{
		{"trigger/internal/delivery/dispatch.go", "append(waiting, items...)", "append(items, waiting...)"},
	}},
	{"suspect-charged-for-a-stop", "a change is not dead-lettered because its owners were stopped", []edit{
		{"trigger/internal/delivery/retrystate.go", "clear(t.announced)", "_ = t.announced"},
	}},
	{"attempts-forgotten", "attempts of one owner count for the next one", []edit{
		{"trigger/worker.go", "SavedRetries: l.Property(lease.RetriesProperty),", `SavedRetries: "",`},
	}},
	{"interrupted-is-a-failure", "a call that was interrupted by its owner's end is not an attempt", []edit{
		{"trigger/internal/delivery/lane.go", "if v.Outcome != Hung && context.Cause(held) != nil {", "if false {"},
	}},
	{"hung-call-is-not-an-attempt", "a change is dead-lettered if its calls never return", []edit{
		{"trigger/internal/delivery/lane.go", "l.retries.saveGroup(e.items, e.action.Retry)\n", "if v.Outcome != Hung {\n\t\t\t\tl.retries.saveGroup(e.items, e.action.Retry)\n\t\t\t}\n"},
	}},
	{"blocked-keys-not-loaded", "a new owner knows the blocked keys", []edit{
		{"trigger/deadletterlists.go", "keys.AddChange(delivery.BlockedChange{", "_ = (delivery.BlockedChange{"},
	}},
	{"blocked-keys-loaded-once", "a host that acquires a range knows the keys that its former owner has blocked", []edit{
		{"trigger/sharedlists.go", "if l.newest.number > number {", "if l.newest.number > 0 {"},
	}},
	{"blocked-keys-of-an-older-list", "dead letters are listed after the lease was seen to be released", []edit{
		{"trigger/balancing.go", "lease.NewIndex(leases), r.deadLetterLists.begun.Load()}", "lease.NewIndex(leases), 0}"},
	}},
	{"lanes-by-document", "order per key", []edit{
		{"trigger/internal/feed/change.go", "h := fnvOffset\n", "h := hashText(fnvOffset, []byte(c.Document))\n"},
	}},
	{"kept-bytes-reused", "a handler may keep its changes", []edit{
		{"trigger/worker.go", "if handedOver && (!w.function.ReuseBuffers ||", "if handedOver && (false ||"},
	}},
	{"lent-bytes-reused-early", "changes that are lent stay as they are until the handler returns", []edit{
		{"trigger/internal/delivery/page.go", "if o.unfinished > 0 {", "if o.unfinished < 0 {"},
	}},
	{"no-memory-budget", "pages that are read ahead fit the byte budget", []edit{
		{"trigger/internal/feed/budget.go", "items, bytes, ok := b.grant(reserved, maxItems); ok {", "items, bytes := maxItems, int64(0); items > 0 {"},
		{"trigger/internal/feed/budget.go", "case extra <= 0:", "case extra != 0:"},
	}},
	{"memory-of-others", "ranges that keep their pages do not stop the others", []edit{
		{"trigger/internal/feed/budget.go", "case reserved.pages == 0:\n\t\treturn 1, each, true", "case reserved.pages == 0 && freeBytes >= each:\n\t\treturn 1, each, true"},
	}},
	{"shared-bytes-reused-early", "the bytes of a page that functions share are used again when all have released it", []edit{
		{"trigger/cosmos/buffer.go", "b.shares.Add(-1) >= 0", "b.shares.Add(-1) > 0"},
	}},
	{"shared-bytes-not-kept", "a function that lends its changes does not reuse bytes that another one's handler may keep", []edit{
		{"trigger/cosmos/buffer.go", "if b.handedOn.Swap(false) {", "if b.handedOn.Swap(false) && false {"},
	}},
	{"shared-pages-in-the-way", "pages that wait for another function take no memory that a range needs", []edit{
		{"trigger/internal/feed/kept.go", "b.keptBytes > max(min(b.byteLimit/2, b.byteLimit-b.usedBytes), 0)", "b.keptBytes > b.byteLimit"},
	}},
	{"shared-answer-kept-too-long", "an answer without changes does not serve another function after its poll delay", []edit{
		{"trigger/internal/feed/shared.go", "time.Since(a.kept.since) < request.maxAge &&", ""},
	}},
	{"shared-answer-behind-a-write", "an answer without changes does not serve another function after a newer session", []edit{
		{"trigger/internal/feed/shared.go", "a.kept.page.SessionToken == request.container.SessionToken(request.Range)", "request.Range.ID != \"\""},
	}},
	{"shared-answer-twice", "an answer without changes serves another function once", []edit{
		{"trigger/internal/feed/shared.go", "return a.request > reader.request &&", "return"},
	}},
	{"shared-answer-delays-changes", "a function that got another one's answer polls as early as if it had read on its own", []edit{
		{"trigger/internal/feed/reader.go", "min(r.wait-age, r.UntilPoll())", "min(r.wait, r.UntilPoll())"},
	}},
	{"shared-cancellation", "a reader that is stopped does not stop those that wait for its request", []edit{
		{"trigger/internal/feed/shared.go", "if (!isOver || throttled) && !errors.Is(", "_ = throttled\n\t\tif !errors.Is("},
	}},
	{"buffers-without-bound", "idle ranges keep no memory of large pages", []edit{
		{"trigger/cosmos/bufferpool.go", "p.freeBytes+bytes > maxPooled", "bytes > maxPooled"},
	}},
	{"reclaimed-while-in-use", "the memory of a page is not used again while one of its documents is in use", []edit{
		{"trigger/cosmos/bufferpool.go", "runtime.SetFinalizer(unsafe.SliceData(memory), func(first *byte) {\n\t\tp.mu.Lock()\n\t\tdefer p.mu.Unlock()\n", "runtime.KeepAlive(p)\n\tfunc(first *byte) {\n"},
		{"trigger/cosmos/bufferpool.go", "size\n\t\t}\n\t})", "size\n\t\t}\n\t}(unsafe.SliceData(memory))"},
	}},
	{"reclaimed-without-bound", "an idle process keeps little memory of earlier pages", []edit{
		{"trigger/cosmos/bufferpool.go", "p.reclaimedBytes+p.newBytes+size > maxReclaimed", "p.reclaimedBytes < 0"},
		{"trigger/cosmos/bufferpool.go", "p.reclaimedBytes+size <= maxReclaimed", "p.reclaimedBytes >= 0"},
	}},
	{"reclaimed-until-documents-are-kept", "documents that are kept do not end the use of other memory", []edit{
		{"trigger/cosmos/bufferpool.go", "c.pool.newBytes = 0", "_ = c.pool.newBytes"},
	}},
	{"reclaimed-and-refused", "a page that the read-ahead has room for is not refused because of memory that is larger", []edit{
		{"trigger/cosmos/buffer.go", "if cap(b.bytes) > n && !admit(cap(b.bytes)) {\n\t\tb.bytes = nil\n\t}", "if cap(b.bytes) > n && !admit(cap(b.bytes)) {\n\t\treturn ErrNotAdmitted\n\t}"},
	}},
	{"reclaimed-lost-to-small-pages", "small pages leave the memory of large ones", []edit{
		{"trigger/cosmos/bufferpool.go", "p == nil || most < minReclaimed", "p == nil"},
	}},
	{"reclaimed-too-large", "a document that is kept does not hold the memory of a much larger page", []edit{
		{"trigger/cosmos/bufferpool.go", "&& cap(memory) <= most", ""},
	}},
	{"reclaimed-in-the-way", "memory of pages of another size is given up", []edit{
		{"trigger/cosmos/bufferpool.go", "if !fits && i > 0 {", "if !fits {"},
	}},
	{"checksum-not-checked", "a damaged dead letter is detected", []edit{
		{"trigger/deadletter/frame.go", "castagnoli(), f.payload) != sum {", "castagnoli(), f.payload) != sum && f.end < 0 {"},
	}},
	{"partial-dead-letter-stays", "a partly written dead letter is removed", []edit{
		{"trigger/deadletter/journal.go", "return errors.Join(err, j.file.Truncate(end))", "return err"},
	}},
	{"replay-removes-first", "a replay removes a dead letter only when its change is handled", []edit{
		{"trigger/replay.go", "if err := recoverPanic(ctx, r.handler, batch); err != nil {", "_ = r.store.Delete(ctx, d)\n\t\tif err := recoverPanic(ctx, r.handler, batch); err != nil {"},
	}},
}

var protocol = []mutant{
	{"throttle-not-waited", "after a 429, a host waits for the time in the answer", []edit{
		{"trigger/cosmos/retry.go", "retryDecision{action: throttle, wait: retryAfter(resp)}", "retryDecision{action: throttle, wait: 1}"},
	}},
	{"unknown-write-repeated", "a write that may have been applied is not repeated", []edit{
		{"trigger/cosmos/retry.go", "case op.write:\n\t\treturn retryDecision{outcomeUnknown: true, ", "case op.write:\n\t\treturn retryDecision{action: backoff, "},
	}},
	{"failed-write-repeated", "a write that may have been applied is not repeated", []edit{
		{"trigger/cosmos/retry.go", "if op.write {\n\t\t\treturn retryDecision{outcomeUnknown: true}\n\t\t}", ""},
	}},
	{"wrong-count-accepted", "an incomplete page is discarded", []edit{
		{"trigger/cosmos/scan.go", "s.count >= 0 && s.count != int64(len(s.items))", "s.count < -1"},
	}},
	{"mark-of-next-blocks-trusted", "a page is split at the bounds of its documents", []edit{
		{"trigger/cosmos/json.go", "marks == 0 || byteAt(t.b, end)", "byteAt(t.b, end)"},
	}},
	{"throttled-range-given-up", "a range whose feed is throttled is kept", []edit{
		{"trigger/internal/feed/reader.go", "f.sinceThrottle = 0", "_ = 0"},
		{"trigger/internal/feed/reader.go", "if throttled { // likewise", "if throttled && failed.inRow < maxReadFailures { // likewise"},
	}},
	{"session-not-continued", "a host does not read a range behind its own earlier reads", []edit{
		{"trigger/cosmos/feed.go", "cmp.Or(r.SessionToken, c.sessions.token(r.Range))", "cmp.Or(r.SessionToken, \"\")"},
	}},
	{"session-of-parent-forgotten", "the children of a split continue the session of their parent", []edit{
		{"trigger/cosmos/session.go", "switch parent, found := s.byRange[id]; {", "switch parent, found := s.byRange[r.ID+id]; {"},
	}},
	{"one-date-believed", "one wrong Date header does not move the service's clock", []edit{
		{"trigger/cosmos/clock.go", "case lead.Abs() <= maxLead:", "case lead >= -maxLead:"},
	}},
	{"charge-of-reads-not-paid", "feed reads cost no more request units than their function may spend", []edit{
		{"trigger/limiter.go", "b.tokens += reserved - charge", "_ = reserved"},
	}},
	{"retries-not-paid", "retries count against the rate", []edit{
		{"trigger/internal/delivery/effects.go", "&group{items: failed, keys: g.keys,", "&group{isPaid: g.isPaid, items: failed, keys: g.keys,"},
	}},
	{"limit-taken-for-a-stall", "a range that waits for a limit of its function is not reported as stalled", []edit{
		{"trigger/stallwatch.go", "if s.isHeldBack(lane) {", "if _ = lane; s.isClosed {"},
	}},
	{"older-position-read", "an answer from an older position is not delivered", []edit{
		{"trigger/internal/feed/reader.go", "return IsLess(page.Continuation, continuation)", "return IsLess(page.Continuation, continuation) && len(continuation) == 0"},
	}},
	{"older-first-page-delivered", "an answer from an older position is not delivered", []edit{
		{"trigger/drain.go", "case waiting, first.NotModified, feed.IsStale(first, position, l.ByKeys()):", "case waiting, first.NotModified:"},
	}},
	{"position-does-not-advance", "a feed whose position does not move is not read forever", []edit{
		{"trigger/internal/feed/reader.go", "if !page.NotModified && page.Continuation == continuation && !r.isPastEnd {", "if false {"},
	}},
	{"retry-holds-an-unread-range", "a range that cannot be read is given up although a change of it is being retried", []edit{
		{"trigger/worker.go", "} else { // the next owner reads on", "} else if errors.Is(readErr, lease.ErrSplit) { // the next owner reads on"},
	}},
}

var edges = []mutant{
	{"empty-answer", "every invocation is answered with JSON", []edit{
		{"function/app/internal/hosting/answer.go", "_, _ = w.Write(data)", "if status != http.StatusOK {\n\t\t_, _ = w.Write(data)\n\t}"},
		{"function/app/internal/hosting/answer.go", "w.Header().Set(\"Content-Length\", fmt.Sprint(len(data)))\n", ""},
	}},
	{"any-host", "only this machine can invoke", []edit{
		{"function/app/internal/functions/invocation.go", "if !handlers.IsLoopback(r.Host) {", "if !handlers.IsLoopback(r.Host) && r.Host == \"\" {"},
	}},
	{"failed-drain-is-success", "a timer invocation without progress fails", []edit{
		{"function/app/internal/hosting/drainer.go", "case s.Changes == 0 && s.Retries > 0:", "case s.Changes < 0:"},
	}},
	{"renewal-as-long-as-the-lease", "intervals that cannot work are refused", []edit{
		{"trigger/validate.go", "o.LeaseRenewInterval >= o.LeaseExpirationInterval/2", "o.LeaseRenewInterval > o.LeaseExpirationInterval"},
	}},
	{"lambda-failure-is-success", "if a Lambda function fails, its changes are redelivered", []edit{
		{"trigger/awslambda/awslambda.go", "return describeError(err)", "_ = describeError(err)\n\treturn nil"},
	}},
}
