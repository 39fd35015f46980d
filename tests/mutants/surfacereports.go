package main

// surfaceReports are planted bugs in the names by which package trigger tells things apart:
// events, close reasons, stalls, operations, actions and owners.
var surfaceReports = []mutant{
	{"acquired-not-told", "an event tells of each acquired lease", []edit{
		{"trigger/acquiring.go", "r.emitEvent(Event{Kind: Acquired,", "_ = (Event{Kind: Acquired,"},
	}},
	{"delivered-told-as-failed", "an event tells of each batch that the handler accepted", []edit{
		{"trigger/handling.go", "Kind: Delivered, Range", "Kind: DeliveryFailed, Range"},
	}},
	{"failed-told-as-delivered", "an event tells of each call that failed", []edit{
		{"trigger/handling.go", "event.Kind = DeliveryFailed", "event.Kind = Delivered"},
	}},
	{"dead-letter-not-told", "an event tells of each dead letter", []edit{
		{"trigger/deadlettering.go", "w.emitEvent(Event{\n\t\tKind: DeadLettered,", "_ = (Event{\n\t\tKind: DeadLettered,"},
	}},
	{"postponed-not-told", "an event tells of each postponed change", []edit{
		{"trigger/deadlettering.go", "w.emitEvent(Event{\n\t\tKind: Postponed,", "_ = (Event{\n\t\tKind: Postponed,"},
	}},
	{"filtered-not-told", "an event tells of filtered changes", []edit{
		{"trigger/handling.go", "w.emitEvent(Event{Kind: Filtered,", "_ = (Event{Kind: Filtered,"},
	}},
	{"checkpoint-not-told", "an event tells of each saved position", []edit{
		{"trigger/worker.go", "w.emitEvent(Event{Kind: Checkpointed,", "_ = (Event{Kind: Checkpointed,"},
	}},
	{"split-told-as-release", "an event tells of a split", []edit{
		{"trigger/worker.go", "event := Event{Kind: Split,", "event := Event{Kind: Released,"},
	}},
	{"release-not-told", "an event tells of each released lease", []edit{
		{"trigger/worker.go", "w.emitEvent(released)", "_ = released"},
	}},
	{"caught-up-not-told", "an event tells of the first read that found nothing more", []edit{
		{"trigger/reading.go", "w.emitEvent(Event{Kind: CaughtUpFirst,", "_ = (Event{Kind: CaughtUpFirst,"},
	}},
	{"stall-not-told", "an event tells of a stalled range", []edit{
		{"trigger/stats.go", "s.report(Stalled, stall)", "_ = stall"},
	}},
	{"recovery-not-told", "an event tells that a stalled range makes progress again", []edit{
		{"trigger/stats.go", "s.report(Recovered, *stall)", "_ = *stall"},
	}},
	{"stop-told-as-broken", "a range is closed as stopped if its host stops", []edit{
		{"trigger/event.go", "\t\treturn Stopped\n", "\t\treturn Broken\n"},
	}},
	{"caught-up-told-as-stopped", "a drained range is closed as caught up", []edit{
		{"trigger/event.go", "\t\treturn CaughtUp\n", "\t\treturn Stopped\n"},
	}},
	{"split-told-as-stopped", "a range that split is closed as gone", []edit{
		{"trigger/event.go", "\t\treturn Gone\n", "\t\treturn Stopped\n"},
	}},
	{"handover-told-as-stopped", "a range that another host requested is closed as handed over", []edit{
		{"trigger/event.go", "\t\treturn HandedOver\n", "\t\treturn Stopped\n"},
	}},
	{"pause-told-as-handover", "a range that an operator paused is closed as paused", []edit{
		{"trigger/event.go", "\t\treturn PausedRange\n", "\t\treturn HandedOver\n"},
	}},
	{"loss-told-as-broken", "a range whose lease another host has is closed as lost", []edit{
		{"trigger/event.go", "\t\treturn LeaseLost\n", "\t\treturn Broken\n"},
	}},
	{"hang-told-as-broken", "a range whose handler hangs is closed as stuck", []edit{
		{"trigger/event.go", "\t\treturn Stuck\n", "\t\treturn Broken\n"},
	}},
	{"broken-told-as-stopped", "a range that cannot be read is closed as broken", []edit{
		{"trigger/event.go", "\t\treturn Broken\n", "\t\treturn Stopped\n"},
	}},
	{"failure-told-as-wait", "a stall tells that the handler fails", []edit{
		{"trigger/failurestats.go", "Stall{Kind: HandlerFails,", "Stall{Kind: RangeWaits,"},
	}},
	{"call-told-as-wait", "a stall tells of a long call", []edit{
		{"trigger/stall.go", `"handler call running"`, `"waiting"`},
	}},
	{"store-told-as-wait", "a stall tells that the dead letter store fails", []edit{
		{"trigger/stall.go", "return StorePending\n", "return RangeWaits\n"},
	}},
	{"breaker-told-as-wait", "a stall tells of the circuit breaker", []edit{
		{"trigger/stall.go", "return Paused\n", "return RangeWaits\n"},
	}},
	{"wait-told-as-breaker", "a range that waits without a store is told so", []edit{
		{"trigger/stall.go", "return RangeWaits\n", "return Paused\n"},
	}},
	{"throttle-told-as-failure", "a stall tells that the feed is throttled", []edit{
		{"trigger/stall.go", "return FeedThrottled\n", "return FeedFails\n"},
	}},
	{"failure-told-as-throttle", "a stall tells that the feed cannot be read", []edit{
		{"trigger/stall.go", "return FeedFails\n", "return FeedThrottled\n"},
	}},
	{"lease-told-as-feed", "a stall tells that the lease cannot be written", []edit{
		{"trigger/stats.go", "s.setProblem(leaseLane, LeaseFails, err)", "s.setProblem(leaseLane, FeedFails, err)"},
	}},
	{"silence-told-as-free", "a stall tells of a silent owner", []edit{
		{"trigger/lag.go", "Stall{Kind: OwnerSilent,", "Stall{Kind: NoOwner,"},
	}},
	{"free-told-as-silence", "a stall tells of a range without an owner", []edit{
		{"trigger/lag.go", "Stall{Kind: NoOwner,", "Stall{Kind: OwnerSilent,"},
	}},
	{"pause-told-as-wait", "a stall tells of a pause", []edit{
		{"trigger/stall.go", "Stall{Kind: Suspended, Since: p.Since.UTC()", "Stall{Kind: RangeWaits, Since: p.Since.UTC()"},
	}},
	{"rate-told-as-units", "a stall tells that the range waits for the rate", []edit{
		{"trigger/runner.go", "newLimiter(RateLimited, f.Rate,", "newLimiter(ReadsLimited, f.Rate,"},
	}},
	{"units-told-as-rate", "a stall tells that the range waits for request units", []edit{
		{"trigger/runner.go", "newLimiter(ReadsLimited, f.ReadRequestUnits,", "newLimiter(RateLimited, f.ReadRequestUnits,"},
	}},
	{"write-told-as-create", "a change of the latest-version mode is an upsert", []edit{
		{"trigger/change.go", "change.Operation = Upsert", "change.Operation = Create"},
	}},
	{"soft-delete-told-as-upsert", "a soft delete is a delete", []edit{
		{"trigger/change.go", "change.Operation = Delete", "change.Operation = Upsert"},
	}},
	{"create-told-as-replace", "the first version of a document is a create", []edit{
		{"trigger/cosmos/envelope.go", "\t\titems[i] = item\n", "\t\tif item.Operation == Create {\n\t\t\titem.Operation = Replace\n\t\t}\n\t\titems[i] = item\n"},
	}},
	{"replace-told-as-create", "a later version of a document is a replace", []edit{
		{"trigger/cosmos/envelope.go", "\t\titems[i] = item\n", "\t\tif item.Operation == Replace {\n\t\t\titem.Operation = Create\n\t\t}\n\t\titems[i] = item\n"},
	}},
	{"expiry-told-as-delete", "a document that expires is not deleted by a program", []edit{
		{"trigger/cosmos/envelope.go", "if m.TimeToLiveExpired {", `if m.TimeToLiveExpired && m.ID == "" {`},
	}},
	{"pause-not-applied", "a planned pause pauses", []edit{
		{"trigger/leasecontrol.go", "return set.Pause(ctx, s.lease, s.Reason)", "return ctx.Err()"},
	}},
	{"resume-not-applied", "a planned resume ends the pause", []edit{
		{"trigger/leasecontrol.go", "return set.Resume(ctx, s.lease)", "return ctx.Err()"},
	}},
	{"release-not-applied", "a planned release frees the lease", []edit{
		{"trigger/leasecontrol.go", "return set.Free(ctx, s.lease, c.options.Force)", "return ctx.Err()"},
	}},
	{"seek-not-applied", "a planned seek moves the position", []edit{
		{"trigger/leasecontrol.go", "return set.Reposition(ctx, s.lease, s.To, c.options.Force)", "return ctx.Err()"},
	}},
	{"create-not-applied", "a planned creation creates the lease", []edit{
		{"trigger/leasecontrol.go", "return set.CreateAt(ctx, s.gap, s.To)", "return ctx.Err()"},
	}},
	{"free-lease-has-an-owner", "the list tells a lease without an owner", []edit{
		{"trigger/leasecontrol.go", "return NoOwnerKind\n", "return OtherOwner\n"},
	}},
	{"halley-owner-unknown", "the list tells a Halley host", []edit{
		{"trigger/leasecontrol.go", "return HalleyOwner\n", "return OtherOwner\n"},
	}},
	{"other-owner-trusted", "the list tells an owner that does not know pauses", []edit{
		{"trigger/leasecontrol.go", "return OtherOwner\n", "return HalleyOwner\n"},
	}},
	{"each-batch-is-spaced", "EachBatch saves as soon as a batch is handled", []edit{
		{"trigger/checkpoint.go", "\tif c == (Checkpoint{}) {", "\tif c == (Checkpoint{}) || c.Interval == EachBatch {"},
	}},
	{"no-prefix-is-a-slash", "NoLeasePrefix is the empty prefix", []edit{
		{"trigger/feedsource.go", "\tcase NoLeasePrefix:\n\t\treturn \"\"", "\tcase NoLeasePrefix:\n\t\treturn s.Name"},
	}},
}
