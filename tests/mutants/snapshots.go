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
	{"snapshot-read-not-called", "Function.SnapshotRead has its effect", []edit{
		{"trigger/snapshotend.go", "w.function.SnapshotRead == nil || w.isSnapshotLate()", "true || w.isSnapshotLate()"},
	}},
	{"snapshot-ends-without-removal", "a snapshot ends only when SnapshotRead has succeeded", []edit{
		{"trigger/snapshotend.go", "\t\tcase err == nil:\n", "\t\tcase true:\n"},
	}},
	{"generation-ends-with-snapshot", "changes after a snapshot have its generation", []edit{
		{"trigger/snapshot.go", "\tgeneration, _ := strconv.ParseInt(l.Property(lease.GenerationProperty), 10, 64)\n\treturn generation\n", "\tgeneration, _ := strconv.ParseInt(l.Property(lease.GenerationProperty), 10, 64)\n\tif l.Property(lease.SnapshotProperty) == \"\" {\n\t\treturn 0\n\t}\n\treturn generation\n"},
	}},
	{"generation-stays", "each snapshot has a generation of its own", []edit{
		{"trigger/snapshot.go", "\tw.setGeneration(w.held.Epoch())\n", "\tw.setGeneration(max(w.feedOrigin.Load().generation, 1))\n"},
	}},
	{"generation-of-next-owner", "the next owner of a snapshot continues its generation", []edit{
		{"trigger/snapshot.go", "\t\treturn w.held.Lease().Continuation(), nil\n\t}\n\tpart,", "\t\tw.setGeneration(w.held.Epoch())\n\t\treturn w.held.Lease().Continuation(), nil\n\t}\n\tpart,"},
	}},
	{"old-snapshot-removes", "a snapshot that an older version has begun removes nothing", []edit{
		{"trigger/snapshot.go", "s != nil && s.Version == snapshotWithoutGeneration {\n\t\treturn 0", "s != nil && s.Version < 0 {\n\t\treturn 0"},
	}},
	{"dead-letters-not-kept", "keys with dead letters keep their rows", []edit{
		{"trigger/snapshotend.go", "[]RecordKind{RecordDead, RecordPostponed}", "[]RecordKind{RecordPostponed}"},
	}},
	{"postponed-not-kept", "keys with postponed changes keep their rows", []edit{
		{"trigger/snapshotend.go", "[]RecordKind{RecordDead, RecordPostponed}", "[]RecordKind{RecordDead}"},
	}},
	{"damaged-letter-removes", "a dead letter that cannot be read may be of any key", []edit{
		{"trigger/snapshotend.go", "\t\t\t\tif err != nil {\n\t\t\t\t\treturn err\n\t\t\t\t}\n\t\t\t\tprogress()\n", "\t\t\t\tif err != nil {\n\t\t\t\t\tcontinue\n\t\t\t\t}\n\t\t\t\tprogress()\n"},
	}},
	{"own-letters-not-awaited", "a snapshot ends when the store shows what its owner has put", []edit{
		{"trigger/snapshotend.go", "min(time.Since(time.Unix(0, w.storePut.Load())), w.leases.Now().Sub(w.held.FormerWrite()))", "min(time.Hour, w.leases.Now().Sub(w.held.FormerWrite()))"},
	}},
	{"former-letters-not-awaited", "a snapshot ends when the store shows what the owner before has put", []edit{
		{"trigger/snapshotend.go", "min(time.Since(time.Unix(0, w.storePut.Load())), w.leases.Now().Sub(w.held.FormerWrite()))", "time.Since(time.Unix(0, w.storePut.Load()))"},
	}},
	{"replay-is-not-shown", "a replay during a snapshot counts as shown", []edit{
		{"trigger/deadletter.go", "\t\torigin.generation = max(d.Generation, time.Now().Unix())\n", "\t\torigin.generation = d.Generation - 1\n"},
	}},
	{"late-removal-continues", "a removal that outlasts the retention begins the snapshot again", []edit{
		{"trigger/snapshotend.go", "\t\t\treturn errSnapshotVoid\n", "\t\t\t_ = errSnapshotVoid\n"},
	}},
	{"removal-failure-not-shown", "the status says that SnapshotRead has failed", []edit{
		{"trigger/snapshotend.go", "w.rangeStats.setProblem(snapshotLane, stall.Removing, err)", "stall.Removing == \"\""},
	}},
	{"missed-retention-told-as-feed", "a position that has left the retention says so", []edit{
		{"trigger/leasestatus.go", "\t\treturn stall.RetentionMissed\n", "\t\treturn stall.FeedFails\n"},
	}},
	{"place-of-id", "the effective key of a change is that of its partition key", []edit{
		{"trigger/change.go", "origin.definition.EffectiveKey(string(c.PartitionKey()))", "origin.definition.EffectiveKey(`[\"\"]`)"},
	}},
	{"place-of-first-value", "SnapshotEnd.EffectiveKey takes keys of the container only", []edit{
		{"trigger/options.go", "\treturn cosmos.TrimKey(key), err\n", "\t_ = err\n\treturn cosmos.TrimKey(key), nil\n"},
	}},
	{"index-keeps-unshown", "an index removes documents that were deleted while no host could see it", []edit{
		{"handlers/search/opensearch/unshown.go", "case answer.Deleted == 0 && answer.Conflicts == 0:", "case end.Generation > 0:"},
		{"handlers/search/opensearch/unshown.go", "int64{\"lt\": end.Generation}", "int64{\"lt\": 0 * end.Generation}"},
	}},
	{"drain-ends-with-snapshot", "a drain that ends a snapshot continues with all versions", []edit{
		{"trigger/drain.go", "\t\tdelete(seen, token)\n", "\t\t_ = token\n"},
	}},
}
