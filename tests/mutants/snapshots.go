package main

// snapshots are planted bugs in the snapshot of a range that all versions follow.
var snapshots = []mutant{
	{"snapshot-end-moves", "the next owner of a snapshot keeps the position that was saved before it", []edit{
		{"trigger/snapshot.go", "if w.snapshotProperty() != \"\" {", "if w.snapshotProperty() != \"\" && w.held.Epoch() < 0 {"},
		{"trigger/snapshot.go", "return \"\", w.held.ConfirmOwnership(ctx)", "return w.held.Lease().Continuation(), w.held.ConfirmOwnership(ctx)"},
	}},
	{"snapshot-read-to-now", "a snapshot ends at the position that was saved before it", []edit{
		{"trigger/internal/feed/reader.go", "for n > 0 && page.Items[n-1].LSN > last {", "for n > 0 && page.Items[n-1].LSN > last+1<<40 {"},
	}},
	{"snapshot-followed-from-its-end", "all versions follow from the position that was saved before the snapshot", []edit{
		{"trigger/internal/feed/reader.go", "\t\tpage.Continuation = end\n", "\t\t_ = end\n"},
		{"trigger/snapshot.go", "position = w.snapshotEnd()", "position = w.held.Position()"},
	}},
	{"snapshot-ends-at-lagging-replica", "a replica that has not reached the end of a snapshot does not end it", []edit{
		{"trigger/internal/feed/reader.go", "return max(page.SessionLSN, LSNOf(page.Continuation)) >= last", "return true"},
	}},
	{"snapshot-ends-with-waiting-keys", "a snapshot ends only when the changes of failing keys are finished", []edit{
		{"trigger/worker.go", "return errors.Is(err, feed.ErrCaughtUp) || errors.Is(err, feed.ErrSnapshotRead)", "return errors.Is(err, feed.ErrCaughtUp)"},
	}},
	{"snapshot-phase-kept-by-seek", "a seek ends the snapshot of a range", []edit{
		{"trigger/internal/lease/operator.go", "\t\tdelete(next.properties, SnapshotProperty)\n", ""},
	}},
	{"late-snapshot-continues", "a snapshot that took longer than the retention begins again", []edit{
		{"trigger/snapshot.go", "s == nil || w.isSnapshotLate()", "s == nil"},
		{"trigger/snapshot.go", "errors.Is(ended, feed.ErrSnapshotRead) && !w.isSnapshotLate()", "errors.Is(ended, feed.ErrSnapshotRead)"},
	}},
	{"snapshot-export-imported", "positions within a snapshot are not imported", []edit{
		{"trigger/leases/plan.go", "\tcase position == \"\" && !s.Nothing:", "\tcase position == \"\" && s.Nothing:"},
		{"trigger/leases/export.go", "case exported.Snapshot:", "case exported == nil:"},
	}},
	{"snapshot-not-marked", "changes of a snapshot say so", []edit{
		{"trigger/change.go", "return c.originOrNone().isSnapshot", "return false"},
	}},
	{"snapshot-is-now", "FromSnapshot reads the documents that exist", []edit{
		{"trigger/start.go", "return Start{Kind: feed.StartSnapshot}", "return Start{Kind: feed.StartNow}"},
	}},
	{"phase-end-is-broken", "the end of a snapshot is an orderly one", []edit{
		{"trigger/event.go", "\t\treturn ClosedPhaseEnded\n", "\t\treturn ClosedBroken\n"},
	}},
	{"drain-ends-with-snapshot", "a drain that ends a snapshot continues with all versions", []edit{
		{"trigger/drain.go", "\t\tdelete(seen, token)\n", "\t\t_ = token\n"},
	}},
}
