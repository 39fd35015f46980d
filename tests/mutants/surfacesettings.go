package main

// surfaceSettings are settings without an effect, of fields that have no other mutant.
var surfaceSettings = []mutant{
	{"name-ignored", "Function.Name has its effect", []edit{
		{"trigger/handling.go", "Function: w.function.Name, Range: w.rangeOf(), Changes", "Range: w.rangeOf(), Changes"},
		{"trigger/runner.go", "e.Time, e.Function = time.Now(), r.function.Name", "e.Time = time.Now()"},
	}},
	{"lease-prefix-ignored", "Function.LeasePrefix has its effect", []edit{
		{"trigger/feedsource.go", "lease.IDPrefix(s.Name, s.LeasePrefix)", "lease.IDPrefix(s.Name, s.LeasePrefix[:0])"},
	}},
	{"container-ignored", "Function.Container has its effect", []edit{
		{"trigger/runner.go", "Leases: leases, Monitored: f.Container,", "Leases: leases, Monitored: leases,"},
	}},
	{"handler-ignored", "Function.Handler has its effect", []edit{
		{"trigger/invoke.go", "recoverPanic(ctx, handle, b)", "recoverPanic(ctx, func(context.Context, Batch) error { return nil }, b)"},
	}},
	{"mode-ignored", "Function.ChangeFeedMode has its effect", []edit{
		{"trigger/runner.go", "Container: s.Container, Mode: s.ChangeFeedMode, Start", "Container: s.Container, Start"},
	}},
	{"soft-delete-property-ignored", "Function.SoftDeleteProperty has its effect", []edit{
		{"trigger/change.go", `f.SoftDeleteProperty != "" &&`, `f.SoftDeleteProperty == "" &&`},
	}},
	{"filter-ignored", "Function.Filter has its effect", []edit{
		{"trigger/runner.go", "f.Filter.compile()", "f.Filter[:0].compile()"},
	}},
	{"start-ignored", "Function.StartFrom has its effect", []edit{
		{"trigger/runner.go", "ResolveStart(ctx, f.StartFrom.Since(", "ResolveStart(ctx, FromNow().Since("},
		{"trigger/runner.go", "Start: s.StartFrom.Since(", "Start: FromNow().Since("},
	}},
	{"buffers-never-reused", "Function.ReuseBuffers has its effect", []edit{
		{"trigger/worker.go", "(!w.function.ReuseBuffers ||", "(w.function != nil ||"},
		{"trigger/handling.go", "\tif w.function.ReuseBuffers {\n\t\tif reused", "\tif w.function == nil {\n\t\tif reused"},
	}},
	{"page-size-ignored", "Function.PageItems has its effect", []edit{
		{"trigger/reading.go", "cmp.Or(f.PageItems, feed.UsualItems), f.PageItems\n", "feed.UsualItems, feed.UsualItems\n"},
	}},
	{"handler-timeout-ignored", "Function.HandlerTimeout has its effect", []edit{
		{"trigger/defaults.go", "f.HandlerTimeout = cmp.Or(f.HandlerTimeout, 5*time.Minute)", "f.HandlerTimeout = 5 * time.Minute"},
	}},
	{"batch-items-ignored", "Function.MaxItemsPerInvocation has its effect", []edit{
		{"trigger/defaults.go", "f.MaxItemsPerInvocation = cmp.Or(f.MaxItemsPerInvocation, 100)", "f.MaxItemsPerInvocation = 100"},
	}},
	{"lanes-ignored", "Function.Lanes has its effect", []edit{
		{"trigger/defaults.go", "f.Lanes = cmp.Or(f.Lanes, 1)", "f.Lanes = 1"},
	}},
	{"lanes-by-id-ignored", "Function.LanesByID has its effect", []edit{
		{"trigger/internal/delivery/delivery.go", "c.DeadLetters = store != nil", "c.DeadLetters = store != nil\n\tc.LanesByID = false"},
	}},
	{"retry-min-ignored", "Function.RetryMin has its effect", []edit{
		{"trigger/defaults.go", "f.RetryMin = cmp.Or(f.RetryMin, backoff.Min)", "f.RetryMin = backoff.Min"},
	}},
	{"no-bisection-ignored", "Function.NoBisection has its effect", []edit{
		{"trigger/internal/delivery/delivery.go", "c.DeadLetters = store != nil", "c.DeadLetters = store != nil\n\tc.NoBisection = false"},
	}},
	{"max-attempts-ignored", "Function.MaxAttempts has its effect", []edit{
		{"trigger/defaults.go", "f.MaxAttempts = cmp.Or(f.MaxAttempts, 10)", "f.MaxAttempts = cmp.Or(min(f.MaxAttempts, 0), 10)"},
	}},
	{"dead-letters-ignored", "Function.DeadLetters has its effect", []edit{
		{"trigger/deadletterwrite.go", "if w.function.DeadLetters == nil {", `if w.function.DeadLetters == nil || w.function.Name != "" {`},
	}},
	{"block-keys-ignored", "Function.BlockKeys has its effect", []edit{
		{"trigger/internal/delivery/delivery.go", "c.BlockKeys = c.BlockKeys && store != nil", "c.BlockKeys = false"},
	}},
	{"checkpoint-ignored", "Function.Checkpoint has its effect", []edit{
		{"trigger/defaults.go", "f.Checkpoint = f.Checkpoint.withDefaults()", "f.Checkpoint = Checkpoint{}.withDefaults()"},
	}},
	{"checkpoint-manual-ignored", "Checkpoint.Manual has its effect", []edit{
		{"trigger/worker.go", "delivery.Checkpoint(f.Checkpoint)", "delivery.Checkpoint{Every: f.Checkpoint.Every, Interval: f.Checkpoint.Interval}"},
	}},
	{"reset-ignored", "Function.ResetLeases has its effect", []edit{
		{"trigger/runner.go", ", Reset: f.ResetLeases", ""},
	}},
	{"opened-not-called", "Function.Opened has its effect", []edit{
		{"trigger/runner.go", "\tpasses, _ := f.Filter.compile()", "\tf.Opened = nil\n\tpasses, _ := f.Filter.compile()"},
	}},
	{"closed-not-called", "Function.Closed has its effect", []edit{
		{"trigger/worker.go", `guardCallback(w.log, "Closed", func() { w.function.Closed(w.rangeInfo(), reason, cause) })`, "_ = cause"},
	}},
	{"poll-delay-of-the-host", "Function.FeedPollDelay has its effect", []edit{
		{"trigger/reading.go", "pollDelay := w.function.FeedPollDelay", "pollDelay := w.host.options.FeedPollDelay"},
	}},
	{"rate-ignored", "Function.Rate has its effect", []edit{
		{"trigger/runner.go", "newLimiter(stall.RateLimited, f.Rate,", "newLimiter(stall.RateLimited, 0,"},
	}},
	{"read-units-ignored", "Function.ReadRequestUnits has its effect", []edit{
		{"trigger/runner.go", "newLimiter(stall.ReadsLimited, f.ReadRequestUnits,", "newLimiter(stall.ReadsLimited, 0,"},
	}},
	{"app-name-ignored", "Options.AppName has its effect", []edit{
		{"trigger/internal/lease/acquire.go", "next.properties[holderProperty] = s.holder()", "delete(next.properties, holderProperty)"},
	}},
	{"shared-leases-untold", "apps that share leases are told", []edit{
		{"trigger/runner.go", "\tr.sharedWith = others\n", ""},
	}},
	{"owner-ignored", "Options.Owner has its effect", []edit{
		{"trigger/defaults.go", `if o.Owner == "" {`, `if o.Owner != "-" {`},
	}},
	{"host-poll-delay-ignored", "Options.FeedPollDelay has its effect", []edit{
		{"trigger/defaults.go", "o.FeedPollDelay = cmp.Or(o.FeedPollDelay, 5*time.Second)", "o.FeedPollDelay = 5 * time.Second"},
	}},
	{"acquire-interval-ignored", "Options.LeaseAcquireInterval has its effect", []edit{
		{"trigger/defaults.go", "o.LeaseAcquireInterval = cmp.Or(o.LeaseAcquireInterval, 13*time.Second)", "o.LeaseAcquireInterval = 13 * time.Second"},
	}},
	{"max-leases-ignored", "Options.MaxLeases has its effect", []edit{
		{"trigger/runner.go", ", Max: p.options.MaxLeases", ""},
	}},
	{"logger-ignored", "Options.Logger has its effect", []edit{
		{"trigger/defaults.go", "if o.Logger == nil {", "if o.Logger != nil || o.Logger == nil {"},
	}},
	{"observers-ignored", "Options.Observers has its effect", []edit{
		{"trigger/runner.go", "range r.host.options.Observers {", "range r.host.options.Observers[:0] {"},
	}},
	{"operator-ignored", "LeaseControlOptions.Operator has its effect", []edit{
		{"trigger/leases/control.go", "cmp.Or(c.options.Operator,", "cmp.Or(c.options.Operator[:0],"},
	}},
	{"force-ignored", "LeaseControlOptions.Force has its effect", []edit{
		{"trigger/leases/control.go", "return set.Reposition(ctx, s.lease, s.To, c.options.Force)", "return set.Reposition(ctx, s.lease, s.To, false)"},
	}},
	{"replay-selects-nothing", "ReplayOptions.Wanted has its effect", []edit{
		{"trigger/replay.go", "r.options.Wanted == nil || r.options.Wanted(d)", "r.options.Wanted == nil || !d.IsPostponed()"},
	}},
	{"replay-limit-ignored", "ReplayOptions.Limit has its effect", []edit{
		{"trigger/replay.go", "if r.options.Limit > 0 && r.given >= r.options.Limit {", "if r.options.Limit < 0 {"},
	}},
	{"replay-one-by-one", "ReplayOptions.Parallel has its effect", []edit{
		{"trigger/replay.go", "max(r.options.Parallel, 1)", "max(min(r.options.Parallel, 1), 1)"},
	}},
	{"replay-failures-not-told", "ReplayOptions.Failed has its effect", []edit{
		{"trigger/replay.go", "if r.options.Failed != nil {", `if r.options.Failed != nil && d.ID == "" {`},
	}},
}
