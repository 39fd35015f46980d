package main

// surfaceReports are planted bugs in the names by which package trigger tells things apart:
// events, close reasons, stalls, operations, actions and owners.
var surfaceReports = []mutant{
	{"acquired-not-told", "an event tells of each acquired lease", []edit{
		{"trigger/balancing.go", "r.emitEvent(Event{Kind: EventAcquired,", "_ = (Event{Kind: EventAcquired,"},
	}},
	{"delivered-told-as-failed", "an event tells of each batch that the handler accepted", []edit{
		{"trigger/handling.go", "Kind: EventDelivered, Range", "Kind: EventDeliveryFailed, Range"},
	}},
	{"failed-told-as-delivered", "an event tells of each call that failed", []edit{
		{"trigger/handling.go", "event.Kind = EventDeliveryFailed", "event.Kind = EventDelivered"},
	}},
	{"dead-letter-not-told", "an event tells of each dead letter", []edit{
		{"trigger/deadletterwrite.go", "w.emitEvent(Event{\n\t\tKind: EventDeadLettered,", "_ = (Event{\n\t\tKind: EventDeadLettered,"},
	}},
	{"postponed-not-told", "an event tells of each postponed change", []edit{
		{"trigger/deadletterwrite.go", "w.emitEvent(Event{\n\t\tKind: EventPostponed,", "_ = (Event{\n\t\tKind: EventPostponed,"},
	}},
	{"filtered-not-told", "an event tells of filtered changes", []edit{
		{"trigger/handling.go", "w.emitEvent(Event{Kind: EventFiltered,", "_ = (Event{Kind: EventFiltered,"},
	}},
	{"checkpoint-not-told", "an event tells of each saved position", []edit{
		{"trigger/worker.go", "w.emitEvent(Event{Kind: EventCheckpointed,", "_ = (Event{Kind: EventCheckpointed,"},
	}},
	{"split-told-as-release", "an event tells of a split", []edit{
		{"trigger/worker.go", "event := Event{Kind: EventSplit,", "event := Event{Kind: EventReleased,"},
	}},
	{"release-not-told", "an event tells of each released lease", []edit{
		{"trigger/worker.go", "w.emitEvent(released)", "_ = released"},
	}},
	{"caught-up-not-told", "an event tells of the first read that found nothing more", []edit{
		{"trigger/reading.go", "w.emitEvent(Event{Kind: EventCaughtUp,", "_ = (Event{Kind: EventCaughtUp,"},
	}},
	{"stall-not-told", "an event tells of a stalled range", []edit{
		{"trigger/stallwatch.go", "s.report(EventStalled, cause)", "_ = cause"},
	}},
	{"recovery-not-told", "an event tells that a stalled range makes progress again", []edit{
		{"trigger/stallwatch.go", "s.report(EventRecovered, *cause)", "_ = *cause"},
	}},
	{"stop-told-as-broken", "a range is closed as stopped if its host stops", []edit{
		{"trigger/event.go", "\t\treturn ClosedStopped\n", "\t\treturn ClosedBroken\n"},
	}},
	{"caught-up-told-as-stopped", "a drained range is closed as caught up", []edit{
		{"trigger/event.go", "\t\treturn ClosedCaughtUp\n", "\t\treturn ClosedStopped\n"},
	}},
	{"split-told-as-stopped", "a range that split is closed as gone", []edit{
		{"trigger/event.go", "\t\treturn ClosedGone\n", "\t\treturn ClosedStopped\n"},
	}},
	{"handover-told-as-stopped", "a range that another host requested is closed as handed over", []edit{
		{"trigger/event.go", "\t\treturn ClosedHandedOver\n", "\t\treturn ClosedStopped\n"},
	}},
	{"pause-told-as-handover", "a range that an operator paused is closed as paused", []edit{
		{"trigger/event.go", "\t\treturn ClosedPaused\n", "\t\treturn ClosedHandedOver\n"},
	}},
	{"loss-told-as-broken", "a range whose lease another host has is closed as lost", []edit{
		{"trigger/event.go", "\t\treturn ClosedLeaseLost\n", "\t\treturn ClosedBroken\n"},
	}},
	{"hang-told-as-broken", "a range whose handler hangs is closed as stuck", []edit{
		{"trigger/event.go", "\t\treturn ClosedStuck\n", "\t\treturn ClosedBroken\n"},
	}},
	{"broken-told-as-stopped", "a range that cannot be read is closed as broken", []edit{
		{"trigger/event.go", "\t\treturn ClosedBroken\n", "\t\treturn ClosedStopped\n"},
	}},
	{"failure-told-as-wait", "a stall tells that the handler fails", []edit{
		{"trigger/failurestats.go", "stall.Stall{Kind: stall.HandlerFails,", "stall.Stall{Kind: stall.RangeWaits,"},
	}},
	{"call-told-as-wait", "a stall tells of a long call", []edit{
		{"trigger/stall/stall.go", `"handler call running"`, `"waiting"`},
	}},
	{"store-told-as-wait", "a stall tells that the dead letter store fails", []edit{
		{"trigger/leasestatus.go", "return stall.StorePending\n", "return stall.RangeWaits\n"},
	}},
	{"breaker-told-as-wait", "a stall tells of the circuit breaker", []edit{
		{"trigger/leasestatus.go", "return stall.Breaker\n", "return stall.RangeWaits\n"},
	}},
	{"wait-told-as-breaker", "a range that waits without a store is told so", []edit{
		{"trigger/leasestatus.go", "return stall.RangeWaits\n", "return stall.Breaker\n"},
	}},
	{"throttle-told-as-failure", "a stall tells that the feed is throttled", []edit{
		{"trigger/leasestatus.go", "return stall.FeedThrottled\n", "return stall.FeedFails\n"},
	}},
	{"failure-told-as-throttle", "a stall tells that the feed cannot be read", []edit{
		{"trigger/leasestatus.go", "return stall.FeedFails\n", "return stall.FeedThrottled\n"},
	}},
	{"lease-told-as-feed", "a stall tells that the lease cannot be written", []edit{
		{"trigger/stats.go", "s.setProblem(leaseLane, stall.LeaseFails, err)", "s.setProblem(leaseLane, stall.FeedFails, err)"},
	}},
	{"silence-told-as-free", "a stall tells of a silent owner", []edit{
		{"trigger/lag.go", "stall.Stall{Kind: stall.OwnerSilent,", "stall.Stall{Kind: stall.NoOwner,"},
	}},
	{"free-told-as-silence", "a stall tells of a range without an owner", []edit{
		{"trigger/lag.go", "stall.Stall{Kind: stall.NoOwner, Since", "stall.Stall{Kind: stall.OwnerSilent, Since"},
	}},
	{"pause-told-as-wait", "a stall tells of a pause", []edit{
		{"trigger/leasestatus.go", "stall.Stall{Kind: stall.Paused, Since: p.Since.UTC()", "stall.Stall{Kind: stall.RangeWaits, Since: p.Since.UTC()"},
	}},
	{"rate-told-as-units", "a stall tells that the range waits for the rate", []edit{
		{"trigger/runner.go", "newLimiter(stall.RateLimited, f.Rate,", "newLimiter(stall.ReadsLimited, f.Rate,"},
	}},
	{"units-told-as-rate", "a stall tells that the range waits for request units", []edit{
		{"trigger/runner.go", "newLimiter(stall.ReadsLimited, f.ReadRequestUnits,", "newLimiter(stall.RateLimited, f.ReadRequestUnits,"},
	}},
	{"write-told-as-create", "a change of the latest-version mode is an upsert", []edit{
		{"trigger/change.go", "change.Operation = cosmos.OperationUpsert", "change.Operation = cosmos.OperationCreate"},
	}},
	{"soft-delete-told-as-upsert", "a soft delete is a delete", []edit{
		{"trigger/change.go", "change.Operation = cosmos.OperationDelete", "change.Operation = cosmos.OperationUpsert"},
	}},
	{"create-told-as-replace", "the first version of a document is a create", []edit{
		{"trigger/cosmos/envelope.go", "\t\titems[i], unknown = item, cmp.Or(unknown, form)\n", "\t\tif item.Operation == OperationCreate {\n\t\t\titem.Operation = OperationReplace\n\t\t}\n\t\titems[i], unknown = item, cmp.Or(unknown, form)\n"},
	}},
	{"replace-told-as-create", "a later version of a document is a replace", []edit{
		{"trigger/cosmos/envelope.go", "\t\titems[i], unknown = item, cmp.Or(unknown, form)\n", "\t\tif item.Operation == OperationReplace {\n\t\t\titem.Operation = OperationCreate\n\t\t}\n\t\titems[i], unknown = item, cmp.Or(unknown, form)\n"},
	}},
	{"expiry-told-as-delete", "a document that expires is not deleted by a program", []edit{
		{"trigger/cosmos/envelope.go", "return item.asDelete(m.TimeToLiveExpired)", `return item.asDelete(m.TimeToLiveExpired && m.ID == "")`},
	}},
	{"pause-not-applied", "a planned pause pauses", []edit{
		{"trigger/leases/control.go", "return set.Pause(ctx, s.lease, s.Reason)", "return ctx.Err()"},
	}},
	{"resume-not-applied", "a planned resume ends the pause", []edit{
		{"trigger/leases/control.go", "return set.Resume(ctx, s.lease)", "return ctx.Err()"},
	}},
	{"release-not-applied", "a planned release frees the lease", []edit{
		{"trigger/leases/control.go", "return set.Free(ctx, s.lease, c.options.Force)", "return ctx.Err()"},
	}},
	{"seek-not-applied", "a planned seek moves the position", []edit{
		{"trigger/leases/control.go", "return set.Reposition(ctx, s.lease, s.To, c.options.Force)", "return ctx.Err()"},
	}},
	{"create-not-applied", "a planned creation creates the lease", []edit{
		{"trigger/leases/control.go", "return set.CreateAt(ctx, s.gap, s.To)", "return ctx.Err()"},
	}},
	{"free-lease-has-an-owner", "the list tells a lease without an owner", []edit{
		{"trigger/leases/control.go", "return OwnerFree\n", "return OwnerOther\n"},
	}},
	{"halley-owner-unknown", "the list tells a Halley host", []edit{
		{"trigger/leases/control.go", "return OwnerHalley\n", "return OwnerOther\n"},
	}},
	{"other-owner-trusted", "the list tells an owner that does not know pauses", []edit{
		{"trigger/leases/control.go", "return OwnerOther\n", "return OwnerHalley\n"},
	}},
	{"each-batch-is-spaced", "EachBatch saves as soon as a batch is handled", []edit{
		{"trigger/defaults.go", "\tif c == (Checkpoint{}) {", "\tif c == (Checkpoint{}) || c.Interval == EachBatch {"},
	}},
	{"no-prefix-is-a-slash", "NoLeasePrefix is the empty prefix", []edit{
		{"trigger/internal/lease/idprefix.go", "\tcase NoPrefix:\n\t\treturn \"\"", "\tcase NoPrefix:\n\t\treturn function"},
	}},
}
