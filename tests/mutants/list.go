package main

import "slices"

// all are the planted bugs, grouped by the part of the runtime.
var all = slices.Concat(ownership, checkpoints, splits, bootstraps, delivery, protocol, edges)

var ownership = []mutant{
	{"no-if-match", "a stale checkpoint is never written", []edit{
		{"trigger/store.go", "doc, l.etag)", `doc, "")`},
	}},
	{"delete-without-if-match", "only the owner retires a lease", []edit{
		{"trigger/store.go", "l.partitionKey, l.etag)\n\treturn err", "l.partitionKey, \"\")\n\treturn err"},
	}},
	{"owner-by-name", "two processes with the same owner name are two owners", []edit{
		{"trigger/lease.go", "return l.owner == id.owner && l.properties[incarnationProperty] == id.incarnation && l.epoch() == id.epoch", "return l.owner == id.owner"},
	}},
	{"adopt-any-etag", "after a conflict, a host gives up a lease that another host owns", []edit{
		{"trigger/keeper.go", "if !fresh.heldBy(k.id) {", "if fresh.heldBy(identity{}) {"},
	}},
	{"epoch-not-raised", "one owner per epoch", []edit{
		{"trigger/store.go", "me.epoch = l.epoch() + 1", "me.epoch = max(l.epoch(), 1)"},
	}},
	{"epoch-reset-at-release", "an epoch never decreases", []edit{
		{"trigger/keeper.go", "delete(l.properties, expirationProperty)", "delete(l.properties, expirationProperty)\n\t\tdelete(l.properties, epochProperty)"},
	}},
	{"no-self-fence", "no delivery begins on a lease that may have expired", []edit{
		{"trigger/keeper.go", "ok, written := k.trusted()\n\t\tif ok {", "ok, written := k.trusted()\n\t\tif ok || true {"},
	}},
	{"trust-from-the-answer", "trust in a lease begins when its write is sent", []edit{
		{"trigger/keeper.go", "k.adopt(next, sent, write)", "_ = sent\n\t\tk.adopt(next, time.Now(), write)"},
	}},
	{"trust-after-reading-back", "if the answer to an acquisition is lost, the lease is trusted after the next write", []edit{
		{"trigger/store.go", "return fresh, me, time.Time{}, nil", "return fresh, me, sent, nil"},
	}},
	{"trust-without-margin", "trust ends before the expiration does", []edit{
		{"trigger/keeper.go", "o.Expiration - o.Expiration/10", "2 * o.Expiration"},
	}},
	{"duplicate-lease-not-released", "a range has one owner, even if it has two lease documents", []edit{
		{"trigger/function.go", "\t\tf.vacate(ctx, l)", "\t\t_ = l"},
	}},
	{"duplicate-lease-by-position", "if a range has two lease documents, all hosts use the one acquired last", []edit{
		{"trigger/function.go", "cmp.Compare(b.epoch(), a.epoch()), ", ""},
	}},
	{"unclaimed-lease-not-taken", "leases that under-loaded hosts do not take may be taken by any host", []edit{
		{"trigger/balance.go", "if s.free && s.left &&", "if false &&"},
	}},
	{"write-without-etag", "a lease is never written without If-Match", []edit{
		{"trigger/store.go", "if resp.ETag == \"\" {", "if false {"},
	}},
	{"write-waits-for-ever", "a lease survives if one answer does not come", []edit{
		{"trigger/keeper.go", "context.WithTimeout(outer, k.trust/2)", "context.WithTimeout(outer, time.Hour)"},
	}},
	{"suspend-not-noticed", "after its machine was suspended, a host confirms its lease before it delivers", []edit{
		{"trigger/keeper.go", "&& wall < k.trust && wall > -k.trust", "|| wall < 0"},
	}},
	{"wall-clock-expiry", "no host's clock decides who owns a lease", []edit{
		{"trigger/store.go", "func (s *leaseStore) now() time.Time { return s.container.Client().Now() }", "func (s *leaseStore) now() time.Time { return time.Now() }"},
	}},
	{"expiry-ignores-rounding", "a lease is not taken early although its time has whole seconds", []edit{
		{"trigger/lease.go", "l.written.Add(expiration + time.Second)", "l.written.Add(expiration - time.Second)"},
	}},
	{"announced-expiration-ignored", "if owner and reader have different expirations, the longer one holds", []edit{
		{"trigger/lease.go", "expiration = max(expiration, d)", "_ = d"},
	}},
	{"handover-in-mid-batch", "a handover happens after the running batch", []edit{
		{"trigger/keeper.go", "k.yield(errHandedOver)", "k.lose(errHandedOver)"},
	}},
	{"stuck-handler-keeps-the-lease", "a host gives up a range if its handler does not return", []edit{
		{"trigger/delivery.go", "grace := time.NewTimer(w.f.host.opts.StuckGrace)", "grace := time.NewTimer(100 * w.f.host.opts.StuckGrace)"},
	}},
}

var checkpoints = []mutant{
	{"checkpoint-before-handling", "a checkpoint covers only handled changes", []edit{
		{"trigger/lane.go", "v, err := l.attempt(held, g)", "l.worker.finish(g.changes)\n\t\tv, err := l.attempt(held, g)"},
	}},
	{"read-position-is-saved", "a checkpoint covers only handled changes", []edit{
		{"trigger/reader.go", "\t\tposition = page.Continuation\n", "\t\tposition = page.Continuation\n\t\tw.keeper.advance(position, true)\n"},
	}},
	{"empty-page-acknowledged-at-once", "a checkpoint does not pass changes that are read but not handled", []edit{
		{"trigger/reader.go", "\t\tposition = page.Continuation\n", "\t\tposition = page.Continuation\n\t\tif idle {\n\t\t\tw.keeper.advance(position, true)\n\t\t}\n"},
	}},
	{"etag-of-304-ignored", "an answer without changes also moves the position", []edit{
		{"trigger/reader.go", "if !idle || moved {", "if !idle && moved {"},
	}},
	{"inner-position-one-too-far", "a position inside a page has nothing unhandled before it", []edit{
		{"trigger/progress.go", "quotedLSN(items[end-1].LSN)", "quotedLSN(items[end].LSN)"},
	}},
	{"inner-position-in-a-transaction", "a transaction is never divided by a checkpoint", []edit{
		{"trigger/progress.go", "for end > 0 && items[end-1].LSN == items[first].LSN {", "for false {"},
	}},
	{"inner-position-of-a-merged-range", "positions inside pages are written only if tokens are LSNs", []edit{
		{"trigger/progress.go", "inside: !byKeys && namesLSNs(page),", "inside: len(page.Items) > 0,"},
	}},
	{"release-without-checkpoint", "a release saves the position of the handled changes", []edit{
		{"trigger/keeper.go", "next.continuation = k.acknowledged", "if change == nil {\n\t\tnext.continuation = k.acknowledged\n\t}"},
	}},
	{"drain-stops-after-a-page", "a drain ends when it has caught up", []edit{
		{"trigger/reader.go", "if idle && w.drain {", "if w.drain {"},
	}},
	{"drain-calls-behind-idle", "a range that cannot be read is not caught up", []edit{
		{"trigger/drain.go", "return nil, false, err\n", "return nil, true, nil\n"},
	}},
	{"end-of-context-is-success", "a cancelled call has not handled its changes", []edit{
		{"trigger/delivery.go", "err := w.call(held, b)", "err := w.call(held, b)\n\tif held.Err() != nil {\n\t\terr = nil\n\t}"},
	}},
}

var splits = []mutant{
	{"children-at-the-read-position", "children begin at the parent's acknowledged position", []edit{
		{"trigger/worker.go", "readErr = w.read(reader, pages)", "readErr = w.read(reader, pages)\n\t\t\tif errors.Is(readErr, errSplit) {\n\t\t\t\tstopReading(readErr)\n\t\t\t}"},
		{"trigger/worker.go", "w.split(reader, held)", "w.split(held, held)"},
		{"trigger/worker.go", "parent.continuation = w.keeper.position()", "parent.continuation = w.tally.snapshot().Continuation"},
	}},
	{"split-without-confirmation", "a host that lost the lease creates no children", []edit{
		{"trigger/worker.go", "if err := w.keeper.prove(reader); err != nil {\n\t\treturn nil, err\n\t}", ""},
	}},
	{"ancestor-counts-as-child", "only leases inside the parent cover its children", []edit{
		{"trigger/worker.go", "inside, highest, err := w.f.inside(reader, parent)", "inside, highest, err := w.f.inside(reader, newLease(\"\", \"\", span{\"\", \"FF\"}, true))"},
	}},
	{"parent-deleted-first", "the leases cover every key at every moment", []edit{
		{"trigger/worker.go", "inside, highest, err := w.f.inside(reader, parent)", "_ = w.f.store.delete(held, w.keeper.lease)\n\tinside, highest, err := w.f.inside(reader, parent)"},
	}},
	{"child-epoch-of-its-parent", "a sink that fences by epoch accepts children and refuses late writes of their parent", []edit{
		{"trigger/worker.go", "strconv.FormatInt(highest+1, 10)", "strconv.FormatInt(highest-1, 10)"},
	}},
	{"child-overwrites", "the first creation of a child is not overwritten", []edit{
		{"trigger/store.go", "s.container.Create(ctx, s.newKey(id), doc)", "s.container.Upsert(ctx, s.newKey(id), doc)"},
	}},
	{"retired-child-created-again", "a retired child is not created again", []edit{
		{"trigger/worker.go", "range missing(parent, children, inside, w.f.store.prefix) {", "range children {"},
	}},
	{"child-next-to-its-parts", "children cover each key once", []edit{
		{"trigger/worker.go", "if gap.equals(c.span) {", "if gap.known() {"},
	}},
	{"child-not-fenced", "no child is created on a lease that may have expired", []edit{
		{"trigger/worker.go", "if err := w.keeper.await(held); err != nil {\n\t\t\treturn nil, err\n\t\t}\n", ""},
	}},
	{"child-epoch-not-raised", "an epoch rises from parent to child", []edit{
		{"trigger/topology.go", "fmt.Sprint(l.epoch() + 1)", "fmt.Sprint(0)"},
	}},
	{"merged-range-read-whole", "after a merge a lease reads its own keys", []edit{
		{"trigger/reader.go", "return l.span.intersect(spanOf(r))", "return spanOf(r)"},
	}},
	{"completing-split-is-final", "410/1007 means that a split is in progress", []edit{
		{"trigger/outcome.go", "substatus == 1002 || substatus == 1007", "substatus == 1002"},
		{"trigger/outcome.go", "status == 410 && substatus == 1000,", "status == 410 && (substatus == 1000 || substatus == 1007),"},
	}},
	{"recreated-container-not-noticed", "a position is not used on another container", []edit{
		{"trigger/reader.go", "ResourceID: f.store.monitoredRID,", ""},
	}},
}

var bootstraps = []mutant{
	{"marker-first", "when the marker exists, leases cover every key", []edit{
		{"trigger/bootstrap.go", "\t\tlock, err := f.lock(ctx)", "\t\tif _, err := f.store.createStamp(ctx, f.store.markerID(), nil); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tlock, err := f.lock(ctx)"},
	}},
	{"bootstrap-outlasts-its-lock", "two bootstraps do not create leases together", []edit{
		{"trigger/bootstrap.go", "taken.Add(lockTTL-lockMargin)", "taken.Add(time.Hour)"},
	}},
	{"gap-filled-at-once", "a coverage gap is filled when two passes have seen it", []edit{
		{"trigger/bootstrap.go", "\t\treturn f.suspects[p.span]\n", "\t\treturn true\n"},
	}},
	{"gap-filled-from-now", "if a lease was deleted, its range is read again from the function's start", []edit{
		{"trigger/bootstrap.go", "f.createMissing(ctx, f.begin(),", "f.createMissing(ctx, f.Start,"},
	}},
	{"epoch-of-a-filled-gap-restarts", "an epoch never decreases", []edit{
		{"trigger/bootstrap.go", "strconv.FormatInt(f.store.now().Unix(), 10)", "strconv.FormatInt(0, 10)"},
	}},
	{"start-now-not-saved", "\"now\" is the time of the bootstrap", []edit{
		{"trigger/bootstrap.go", "return page.Continuation, nil", "return \"\", nil"},
	}},
	{"unreadable-lease-is-a-gap", "an invalid lease document is ignored, but its keys are not a gap", []edit{
		{"trigger/bootstrap.go", "for _, b := range bad {", "for _, b := range bad[:0] {"},
	}},
}

var delivery = []mutant{
	{"bisection-drops-a-half", "every change is handled", []edit{
		{"trigger/lane.go", "return []*group{second, first}, sleep", "_ = second\n\t\treturn []*group{first}, sleep"},
	}},
	{"bisection-second-half-first", "order per key", []edit{
		{"trigger/lane.go", "return []*group{second, first}, sleep", "return []*group{first, second}, sleep"},
	}},
	{"partial-failure-inverted", "exactly the failed changes are redelivered", []edit{
		{"trigger/verdict.go", "if named[p.ordinal] ||", "if partial[0].which != nil && !named[p.ordinal] ||"},
	}},
	{"panic-is-success", "a panic is a failed attempt", []edit{
		{"trigger/delivery.go", "err = &PanicError{Value: v, Stack: debug.Stack()}", "_ = &PanicError{Value: v, Stack: debug.Stack()}"},
	}},
	{"dead-letter-not-awaited", "a dead letter is durable before the range moves on", []edit{
		{"trigger/bury.go", "if err := l.put(ctx, d); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tw.finish", "go func() { _ = l.put(ctx, d) }()\n\t\tw.finish"},
	}},
	{"failed-put-is-a-success", "while the dead letter store fails, the range waits", []edit{
		{"trigger/bury.go", "err := request()\n\t\tif err == nil {", "err := request()\n\t\tif err == nil || true {"},
	}},
	{"exhausted-without-a-store-drops", "changes are dropped only if a setting says so", []edit{
		{"trigger/lane.go", "return []*group{g}, sleep(ctx, wait)\n\t}\n\tif !g.paused", "l.worker.finish(g.changes)\n\t\treturn nil, nil\n\t}\n\tif !g.paused"},
	}},
	{"skip-without-a-store-drops", "changes are dropped only if a setting says so", []edit{
		{"trigger/bury.go", "return l.waitForStore(ctx, changes, cause)", "w.finish(changes)\n\t\treturn nil"},
	}},
	{"breaker-never-opens", "when every change fails, the range pauses", []edit{
		{"trigger/bury.go", "return b.limit > 0 && b.inARow >= b.limit", "return false"},
	}},
	{"blocked-key-forgotten", "if a change is dead-lettered, later changes of its key follow it", []edit{
		{"trigger/bury.go", "\tif w.f.ParkKeys {\n\t\tw.parked.add", "\tif false {\n\t\tw.parked.add"},
	}},
	{"blocked-keys-from-listing-only", "a new dead letter blocks its key even if the store does not list it yet", []edit{
		{"trigger/bury.go", "return maybe, maybe && time.Since(key.put) < storeLag", "return maybe, false"},
	}},
	{"damaged-dead-letter-ends-the-list", "a damaged dead letter does not stop a range", []edit{
		{"trigger/bury.go", "case errors.Is(err, ErrDamaged):", "case false:"},
	}},
	{"crashes-not-counted", "a change that crashes its process is dead-lettered", []edit{
		{"trigger/store.go", "next.properties[deathsProperty] = fmt.Sprint(l.deaths() + 1)", "next.properties[deathsProperty] = fmt.Sprint(min(l.deaths()+1, 1))"},
	}},
	{"suspect-not-recorded-first", "a suspect is recorded in the lease before it is delivered", []edit{
		{"trigger/lane.go", "if err := w.keeper.prove(ctx); err != nil {\n\t\tdone()\n\t\treturn nil, err\n\t}\n", ""},
	}},
	{"concurrent-suspects", "a crash is attributed to one change", []edit{
		{"trigger/host.go", "make(chan struct{}, 1)", "make(chan struct{}, 1000)"},
	}},
	{"suspect-until-the-page-is-over", "isolation mode lasts until the changes recorded in the lease are processed", []edit{
		{"trigger/delivery.go", "w.cautious = w.keeper.position() == w.lease.continuation", "w.cautious = false"},
	}},
	{"versions-of-one-name", "two versions in one transaction are two changes", []edit{
		{"trigger/trouble.go", "if c.item.Operation != \"\" {", "if false {"},
	}},
	{"later-changes-charged", "a later change is not charged with failures of a group", []edit{
		{"trigger/lane.go", "p.left != nil, left != nil && !left.holds(p):", "p.left != nil:"},
	}},
	{"half-of-hanging-group-is-stuck", "only the hanging change is dead-lettered for it", []edit{
		{"trigger/lane.go", "g.stuck = false // of the half", "g.stuck = true"},
	}},
	{"suspect-blamed-for-a-stop", "a change is not dead-lettered because its owners were stopped", []edit{
		{"trigger/trouble.go", "one.Deaths--", "_ = one.Deaths"},
	}},
	{"attempts-forgotten", "attempts of one owner count for the next one", []edit{
		{"trigger/function.go", "w.troubles.load(held.properties[troubleProperty])", "w.troubles.load(\"\")"},
	}},
	{"interrupted-is-a-failure", "a call that was interrupted by its owner's end is not an attempt", []edit{
		{"trigger/lane.go", "if cause := context.Cause(held); cause != nil {\n\t\tl.interrupted", "if cause := context.Cause(held); cause != nil && false {\n\t\tl.interrupted"},
	}},
	{"stuck-is-no-attempt", "a change is dead-lettered if its calls never return", []edit{
		{"trigger/lane.go", "\t\tl.stuck(g)\n\t\treturn nil, err", "\t\treturn nil, err"},
	}},
	{"blocked-keys-not-loaded", "a new owner knows the blocked keys", []edit{
		{"trigger/bury.go", "w.parked.add(d, time.Time{})", "_ = d"},
	}},
	{"lanes-by-document", "order per key", []edit{
		{"trigger/delivery.go", "h.Write([]byte(c.key))", "h.Write(c.item.Document)"},
	}},
	{"shared-bytes", "each attempt gets unmodified bytes of the feed", []edit{
		{"trigger/versions.go", "return json.RawMessage((*buffer)[from:len(*buffer):len(*buffer)])", "return json.RawMessage(raw[: len(*buffer)-from : len(*buffer)-from])"},
	}},
	{"no-memory-budget", "pages that are read ahead fit the byte budget", []edit{
		{"trigger/reader.go", "if of.bytes == 0 || b.used+size <= b.limit {", "if b.used >= 0 {"},
	}},
	{"checksum-not-checked", "a damaged dead letter is detected", []edit{
		{"trigger/deadletter/frame.go", "castagnoli, f.payload) != sum {", "castagnoli, f.payload) != sum && f.end < 0 {"},
	}},
	{"partial-dead-letter-stays", "a partly written dead letter is removed", []edit{
		{"trigger/deadletter/journal.go", "return errors.Join(err, j.file.Truncate(end))", "return err"},
	}},
	{"replay-removes-first", "a replay removes a dead letter only when its change is handled", []edit{
		{"trigger/deadletter.go", "if err := protect(ctx, handler, batch); err != nil {", "_ = store.Delete(ctx, d)\n\t\tif err := protect(ctx, handler, batch); err != nil {"},
	}},
}

var protocol = []mutant{
	{"throttle-not-waited", "after a 429, a host waits for the time in the answer", []edit{
		{"trigger/cosmos/retry.go", "retryDecision{action: throttle, wait: retryAfter(resp)}", "retryDecision{action: throttle, wait: 1}"},
	}},
	{"unknown-write-repeated", "a write that may have been applied is not repeated", []edit{
		{"trigger/cosmos/retry.go", "case op.write:\n\t\treturn retryDecision{outcomeUnknown: true}", "case op.write:\n\t\treturn retryDecision{action: backoff}"},
	}},
	{"failed-write-repeated", "a write that may have been applied is not repeated", []edit{
		{"trigger/cosmos/retry.go", "if op.write {\n\t\t\treturn retryDecision{outcomeUnknown: true}\n\t\t}", ""},
	}},
	{"wrong-count-accepted", "an incomplete page is discarded", []edit{
		{"trigger/cosmos/scan.go", "s.count >= 0 && s.count != int64(len(s.items))", "s.count < -1"},
	}},
	{"position-standing-still", "a feed whose position does not move is not read for ever", []edit{
		{"trigger/reader.go", "if !page.NotModified && page.Continuation == position {", "if false {"},
	}},
}

var edges = []mutant{
	{"empty-answer", "every invocation is answered with JSON", []edit{
		{"function/invocation.go", "_, _ = w.Write(data)", "if status != http.StatusOK {\n\t\t_, _ = w.Write(data)\n\t}"},
		{"function/invocation.go", "w.Header().Set(\"Content-Length\", fmt.Sprint(len(data)))\n", ""},
	}},
	{"any-host", "only this machine can invoke", []edit{
		{"function/invocation.go", "if !loopbackHost(r.Host) {", "if !loopbackHost(r.Host) && r.Host == \"\" {"},
	}},
	{"failed-drain-is-success", "a timer invocation without progress fails", []edit{
		{"function/tick.go", "case s.Changes == 0 && s.Retries > 0:", "case s.Changes < 0:"},
	}},
	{"renewal-as-long-as-the-lease", "intervals that cannot work are refused", []edit{
		{"trigger/validate.go", "o.LeaseRenewInterval >= o.LeaseExpirationInterval/2", "o.LeaseRenewInterval > o.LeaseExpirationInterval"},
	}},
	{"lambda-failure-is-success", "if a Lambda function fails, its changes are redelivered", []edit{
		{"trigger/awslambda/awslambda.go", "return describeError(err)", "_ = failed(err)\n\treturn nil"},
	}},
}
