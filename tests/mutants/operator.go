package main

// operators are planted bugs in the changes that an operator makes to leases.
var operators = []mutant{
	{"pause-lost-at-restore", "a pause survives if the lease is deleted and created again", []edit{
		{"trigger/internal/lease/restore.go", "\tif paused {", "\tif false && paused {"},
	}},
	{"replaced-lease-stays-paused", "resuming reaches leases that others have replaced", []edit{
		{"trigger/leases/plan.go", "index.Superseded(l) && action != ActionResume", "index.Superseded(l)"},
	}},
	{"pause-not-noticed", "an owner stops soon after a pause", []edit{
		{"trigger/internal/lease/write.go", "if p, paused := w.lease.Paused(); paused {", "if p, paused := w.lease.Paused(); paused && false {"},
	}},
	{"paused-lease-acquired", "no host acquires a paused lease", []edit{
		{"trigger/internal/lease/set.go", "if _, paused := l.Paused(); paused {", "if _, paused := l.Paused(); paused && false {"},
	}},
	{"paused-lease-drained", "no drain acquires a paused lease", []edit{
		{"trigger/drain.go", "if paused || !l.Free(", "if paused && false || !l.Free("},
	}},
	{"pause-lost-in-a-split", "the pause of a range passes to its children", []edit{
		{"trigger/internal/lease/held.go", "if p, paused := h.lease.Paused(); paused {", "if p, paused := h.lease.Paused(); paused && false {"},
	}},
	{"pause-of-a-dotnet-owner", "a pause that the owner does not know is refused", []edit{
		{"trigger/internal/lease/operator.go", "if !next.StopsAtPauses(s.Now(), s.cfg.Expiration) {", "if false {"},
	}},
	{"position-moved-under-an-owner", "a position is moved only while no host holds the lease", []edit{
		{"trigger/internal/lease/operator.go", "if l.owner == s.cfg.Owner || l.Free(", "if true || l.Free("},
	}},
	{"seek-keeps-the-epoch", "each move of a position has an epoch of its own", []edit{
		{"trigger/internal/lease/operator.go", "next.raiseEpoch(l, nextEpoch(l, s.Now()))", "next.raiseEpoch(l, l.Epoch())"},
	}},
	{"seek-keeps-the-retry-state", "the failure history of the old position ends with a seek", []edit{
		{"trigger/internal/lease/operator.go", "\t\tdelete(next.properties, RetriesProperty)\n", ""},
	}},
	{"seek-one-change-too-far", "a seek to the beginning delivers the first change", []edit{
		{"trigger/internal/feed/position.go", "QuotedLSN(page.Items[0].LSN - 1)", "QuotedLSN(page.Items[0].LSN)"},
	}},
	{"taken-lease-not-held", "a .NET owner notices that its lease was taken before it is released", []edit{
		{"trigger/internal/lease/operator.go", "return taken, backoff.Sleep(ctx, l.timeToNotice())", "return taken, nil"},
	}},
}
