package main

// finishedLeases are planted bugs in the way of the finished changes that a lease holds, from
// one owner to the next.
var finishedLeases = []mutant{
	{"finished-outlives-a-seek", "a seek removes the finished changes of a lease", []edit{
		{"trigger/internal/lease/operator.go", "\t\tnext.dropFinished()\n", ""},
	}},
	{"finished-outlives-a-seek-to-its-position", "a seek to the same position delivers finished changes again", []edit{
		{"trigger/leases/plan.go", "position == s.From && !s.lease.HoldsFinished()", "position == s.From"},
	}},
	{"finished-seek-without-reason", "the plan says why a seek to the same position is a change", []edit{
		{"trigger/leases/plan.go", "case position == s.From && !s.Nothing:", "case false:"},
	}},
	{"finished-seek-reason-hidden", "the plan shows why a seek to the same position is a change", []edit{
		{"function/app/internal/operate/leases.go", "if s.Reason != \"\" {", "if false {"},
	}},
	{"finished-seek-repeats-uncounted", "a plan counts finished changes that a seek repeats", []edit{
		{"trigger/leases/plan.go", "max(from-to, s.lease.FinishedUpTo()-to, 0)", "max(from-to, 0)"},
	}},
	{"finished-bound-to-the-former-epoch", "an acquisition binds the finished changes to its epoch", []edit{
		{"trigger/internal/lease/finished.go", "former.Epoch(), epoch)", "former.Epoch(), former.Epoch())"},
	}},
	{"finished-kept-though-void", "an acquisition removes finished changes that are void", []edit{
		{"trigger/internal/lease/finished.go", "\tl.dropFinished()\n\tif value", "\tif value"},
	}},
	{"finished-of-another-epoch-inherited", "the children of a range get finished changes of their own epochs", []edit{
		{"trigger/internal/lease/children.go", "\t\tl.raiseEpoch(l, epoch)", "\t\tl.properties[epochProperty] = fmt.Sprint(epoch)"},
	}},
	{"finished-not-inherited", "the children of a range inherit its finished changes", []edit{
		{"trigger/internal/lease/children.go", "child.raiseEpoch(parent, parent.Epoch()+1)", "child.properties[epochProperty] = fmt.Sprint(parent.Epoch() + 1)"},
	}},
	{"finished-in-a-merged-range", "a lease by keys holds no finished changes", []edit{
		{"trigger/internal/lease/finished.go", "if !l.byKeys {", "if true {"},
		{"trigger/internal/lease/finished.go", "if l.byKeys || l.owner", "if l.owner"},
	}},
	{"finished-though-a-dotnet-owner-died", "finished changes are void after a .NET owner that died", []edit{
		{"trigger/internal/lease/finished.go", "l.owner != \"\" && !l.OwnedByHalley() || ", ""},
	}},
	{"finished-though-dotnet-wrote", "finished changes are void after a write of a .NET owner", []edit{
		{"trigger/internal/lease/finished.go", " || known && confirmed != timestamp", " || known && false && confirmed != timestamp"},
	}},
	{"finished-restored", "a restored lease has no finished changes", []edit{
		{"trigger/internal/lease/restore.go", ", finished.Property, finishedTimestampProperty:", ", \"of \" + finished.Property:"},
	}},
	{"dead-dotnet-owner-hides-pause", "the lease of a .NET owner that has ended can be paused", []edit{
		{"trigger/internal/lease/pause.go", "\t\tl.owner = \"\"\n", "\t\t_ = l.owner\n"},
	}},
	{"finished-exported", "an export has no finished changes", []edit{
		{"trigger/internal/lease/document.go", "\trestorable.dropFinished()\n", ""},
	}},
	{"tick-peeks-at-the-position", "a range whose changes wait for a retry is not acquired before it is due", []edit{
		{"trigger/drain.go", "position = feed.QuotedLSN(v.Reached)", "_ = v"},
	}},
	{"dispatch-peeks-at-the-position", "a range whose changes wait for a retry gets no message before it is due", []edit{
		{"trigger/dispatch.go", "position = feed.QuotedLSN(v.Reached)", "_ = v"},
	}},
	{"retry-left-to-news", "a drain begins when a retry is due", []edit{
		{"trigger/drain.go", "if isRetryDue(v, r.leases.Now()) {", "if false {"},
	}},
	{"retry-gets-no-message", "a range gets a message when a retry is due", []edit{
		{"trigger/dispatch.go", "ok && isRetryDue(v, r.leases.Now())", "ok && false && isRetryDue(v, r.leases.Now())"},
	}},
	{"page-behind-finished-delivered-first", "the owner reads from its position, whatever a peek has read", []edit{
		{"trigger/drain.go", "case waiting, first.NotModified, ", "case first.NotModified, "},
	}},
	{"finished-under-another-filter", "finished changes are void under another filter", []edit{
		{"trigger/finished.go", "sum[:8]", "sum[:0]"},
	}},
	{"finished-in-another-mode", "finished changes are void in another mode or phase", []edit{
		{"trigger/finished.go", "v.Binding == f.finishedBinding(l, l.Epoch())", "v.Continuation == l.Continuation() && v.Epoch == l.Epoch() && v.Filter == f.Filter.hash()"},
	}},
	{"waiting-lag-hidden", "the lag of a timer invocation has the changes that wait for a retry", []edit{
		{"trigger/drain.go", ", Lag: r.waitingLag(l)", ""},
	}},
}
