package main

// bounds are planted bugs at the edges of values: of keys, numbers and answers that a
// service or a person may give.
var bounds = []mutant{
	{"negative-zero-apart", "keys that are equal to the service are one key", []edit{
		{"trigger/internal/feed/key.go", "values[i] = value + 0 // -0 + 0 is 0", "values[i] = value"},
	}},
	{"throttled-feed-holds-the-lag", "while the feed is throttled, the leases tell their part after two seconds", []edit{
		{"trigger/lag.go", "lags[i] = e.leaseLag(reading, l)", "lags[i] = e.leaseLag(context.WithoutCancel(reading), l)"},
	}},
	{"throttle-hidden-by-deadline", "a throttled range is kept, also if a read's time ends during a retry", []edit{
		{"trigger/cosmos/requestretry.go", "used.refusal, op.throttled = failed, true", "op.throttled = failed != nil"},
	}},
	{"reading-ignores-refusals", "reading a backlog leaves throughput to the application", []edit{
		{"trigger/cosmos/feed.go", "page.Charge, page.Throttled = op.charge, op.throttled", "page.Charge = op.charge"},
	}},
	{"pages-large-while-throttled", "while the service throttles reading, pages have the usual size", []edit{
		{"trigger/internal/feed/pace.go", "{ return p.pause > 0 }", "{ return false }"},
	}},
	{"failed-lease-write-told-as-change", "a lease write that fails is a problem of its range", []edit{
		{"trigger/internal/lease/write.go", "if w.lease.etag == former && outcome != cosmos.OutcomeConflict {", "if w.lease.etag == former && false {"},
	}},
	{"expiring-deletes-silent", "a range that is late tells that soft-deleted documents expire", []edit{
		{"trigger/retention.go", "if late < time.Duration(retentionAlert*float64(lives)) {", "if late >= 0 {"},
	}},
	{"old-documents-are-late", "a function that begins with old documents has lost no delete", []edit{
		{"trigger/retention.go", "min(now.Sub(time.Unix(read, 0)), now.Sub(w.leases.Since()))", "now.Sub(time.Unix(read, 0))"},
	}},
	{"throttle-counts-as-failure", "a throttled range is kept, also if its next read fails otherwise", []edit{
		{"trigger/internal/feed/reader.go", "f.sinceThrottle = 0", "_ = 0"},
	}},
	{"throttle-of-another-function", "a function that waits for another one's read does not give up its range", []edit{
		{"trigger/internal/feed/reader.go", "errors.Is(err, errOtherReads) && ctx.Err() == nil", "false"},
	}},
	{"throttle-only-429", "429, 449 and 503 are throttles", []edit{
		{"trigger/leasestatus.go", "if throttled, _ := cosmos.IsThrottled(err); throttled {", "if status, _ := cosmos.Status(err); status == 429 {"},
	}},
	{"retry-after-obeyed", "a wait that an answer asks for is bounded", []edit{
		{"trigger/cosmos/errors.go", "min(ms, float64(longestRetryAfter.Milliseconds()))", "min(ms, 1e9)"},
	}},
	{"absurd-charge-obeyed", "a charge that cannot be does not hold a range back", []edit{
		{"trigger/limiter.go", "if units >= 0 && units <= largestCharge {", "if units >= 0 {"},
	}},
	{"not-a-number-obeyed", "a charge that is not a number does not hold a range back", []edit{
		{"trigger/limiter.go", "if units >= 0 && units <= largestCharge {", "if !(units < 0 || units > largestCharge) {"},
	}},
	{"endless-durations", "settings of time above a year are refused", []edit{
		{"trigger/validate.go", "if f.value > longestDuration {", "if f.value > longestDuration && false {"},
	}},
	{"endless-expiration", "an announced expiration does not overflow", []edit{
		{"trigger/internal/lease/document.go", "min(d, longestExpiration)", "d"},
	}},
	{"negative-epoch", "an epoch never decreases", []edit{
		{"trigger/internal/lease/parse.go", "case n > largestEpoch:", "case false:"},
	}},
	{"zero-function-panics", "functions that are not filled in are refused", []edit{
		{"trigger/lag.go", "case s.Container == nil:", "case false:"},
	}},
	{"unreadable-lease-silent", "a lease that cannot be read is a problem of its range", []edit{
		{"trigger/runner.go", "r.unreadable[u.Token] = unreadableStall(u)", "_ = unreadableStall(u)"},
	}},
	{"unreadable-lease-remembered", "the problem ends when the lease can be read again", []edit{
		{"trigger/internal/lease/unreadable.go", "s.unreadable = listed", "if len(listed) > 0 {\n\t\ts.unreadable = listed\n\t}"},
	}},
	{"unreadable-lease-not-drained", "a drain tells of a lease that cannot be read", []edit{
		{"trigger/drain.go", "if !seen[u.Token] {", "if u.Token == \"\" {"},
	}},
	{"empty-page-is-failure", "an empty page at the own position is idle", []edit{
		{"trigger/cosmos/feed.go", "len(page.Items) == 0 && page.Continuation == r.Continuation", "false"},
	}},
	{"empty-page-spins", "an idle range is polled no more often than its setting", []edit{
		{"trigger/cosmos/feed.go", "\t\tpage.NotModified = true\n\t\tpage.Release()", "\t\tpage.Continuation += \" \""},
	}},
	{"stuck-feed-given-up", "a feed that does not advance is a problem of its range at all times", []edit{
		{"trigger/internal/feed/reader.go", "(errors.Is(err, errNotAdvancing) || isAhead) && !r.UntilCaughtUp", "isAhead && !r.UntilCaughtUp"},
	}},
	{"container-without-key", "a container without a partition key is one key", []edit{
		{"trigger/cosmos/effectivekey.go", "if len(d.Paths) == 0 {", "if false {"},
	}},
	{"object-key-apart", "a key that is an object is undefined, as to the service", []edit{
		{"trigger/internal/feed/key.go", "case map[string]any, []any:\n\t\t\tvalues[i] = struct{}{}", "case []any:\n\t\t\tvalues[i] = struct{}{}"},
	}},
}
