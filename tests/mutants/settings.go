package main

// settings are planted bugs by which a setting does nothing, or has another unit.
var settings = []mutant{
	{"max-ahead-ignored", "reading pauses at MaxAhead unfinished changes", []edit{
		{"trigger/defaults.go", "f.MaxAhead = cmp.Or(f.MaxAhead, 1000)", "f.MaxAhead = 1000"},
	}},
	{"checkpoint-every-ignored", "a position is saved after Checkpoint.Every changes", []edit{
		{"trigger/internal/delivery/checkpoint.go", "changes >= int64(c.Every) ||", "changes >= 1 ||"},
	}},
	{"checkpoint-interval-ignored", "a position is saved after Checkpoint.Interval", []edit{
		{"trigger/worker.go", "delivery.Checkpoint(f.Checkpoint),", "delivery.Checkpoint{Every: f.Checkpoint.Every, Interval: min(f.Checkpoint.Interval, checkpointInterval), Manual: f.Checkpoint.Manual},"},
	}},
	{"breaker-pause-ignored", "a range pauses for BreakerPause when everything fails", []edit{
		{"trigger/defaults.go", "f.BreakerPause = cmp.Or(f.BreakerPause, time.Minute)", "f.BreakerPause = time.Minute"},
	}},
	{"breaker-limit-ignored", "a range pauses after BreakerLimit dead letters", []edit{
		{"trigger/defaults.go", "f.BreakerLimit = cmp.Or(f.BreakerLimit, 10)", "f.BreakerLimit = 10"},
	}},
	{"stall-after-ignored", "a stall is reported after StallAfter", []edit{
		{"trigger/stats.go", "stallAfter: f.StallAfter,", "stallAfter: time.Minute,"},
	}},
	{"expiration-ignored", "a lease belongs to a silent owner for LeaseExpirationInterval", []edit{
		{"trigger/runner.go", "Expiration: p.options.LeaseExpirationInterval,", "Expiration: time.Minute,"},
	}},
	{"renewal-ignored", "a lease is renewed at LeaseRenewInterval", []edit{
		{"trigger/runner.go", "RenewInterval: p.options.LeaseRenewInterval,", "RenewInterval: 17 * time.Second,"},
	}},
	{"audit-ignored", "the key space is checked at AuditInterval", []edit{
		{"trigger/runner.go", "AuditInterval: p.options.AuditInterval,", "AuditInterval: 5 * time.Minute,"},
	}},
	{"least-leases-ignored", "a host takes MinLeases at least", []edit{
		{"trigger/runner.go", "Min: p.options.MinLeases,", ""},
	}},
	{"read-ahead-ignored", "pages in memory are bounded by ReadAhead", []edit{
		{"trigger/host.go", "feed.NewBudget(o.ReadAhead)", "feed.NewBudget(64 << 20)"},
	}},
	{"max-stuck-ignored", "Run ends if more than MaxStuck calls are left behind", []edit{
		{"trigger/runner.go", "exceedsLimit(r.host.options.MaxStuck)", "exceedsLimit(16)"},
	}},
	{"stuck-grace-ignored", "a handler may ignore its context for StuckGrace", []edit{
		{"trigger/invoke.go", "w.host.options.StuckGrace", "10*time.Second"},
	}},
	{"stop-grace-ignored", "running handlers have four fifths of StopGrace after a stop", []edit{
		{"trigger/runner.go", "newStopBudget(ctx, r.host.options.StopGrace)", "newStopBudget(ctx, 10*time.Second)"},
	}},
	{"batch-bytes-ignored", "a batch has BatchBytes at most", []edit{
		{"trigger/defaults.go", "f.BatchBytes = cmp.Or(f.BatchBytes, 4<<20)", "f.BatchBytes = 4 << 20"},
	}},
	{"batch-window-ignored", "a batch that is not full waits for BatchWindow", []edit{
		{"trigger/internal/delivery/delivery.go", "c.DeadLetters = store != nil", "c.DeadLetters = store != nil\n\tc.BatchWindow = 0"},
	}},
	{"retry-age-ignored", "changes are dead-lettered after RetryMaxAge", []edit{
		{"trigger/internal/delivery/delivery.go", "c.DeadLetters = store != nil", "c.DeadLetters = store != nil\n\tc.RetryMaxAge = 0"},
	}},
	{"longest-retry-ignored", "changes wait for RetryMax at most between attempts", []edit{
		{"trigger/defaults.go", "f.RetryMax = cmp.Or(f.RetryMax, max(backoff.Max, f.RetryMin))", "f.RetryMax = max(backoff.Max, f.RetryMin)"},
	}},
	{"shortest-poll-ignored", "a range is read FeedPollMin after changes", []edit{
		{"trigger/reading.go", "PollMin: w.function.FeedPollMin,", "PollMin: shortestPoll,"},
	}},
	{"rate-by-the-minute", "Rate is changes in a second", []edit{
		{"trigger/runner.go", "newLimiter(stall.RateLimited, f.Rate,", "newLimiter(stall.RateLimited, f.Rate/60,"},
	}},
	{"parallel-ignored", "a drain works on Parallel ranges at a time", []edit{
		{"trigger/drain.go", "newDrain(ctx, r, h.host.options.Parallel)", "newDrain(ctx, r, 32)"},
	}},
}
