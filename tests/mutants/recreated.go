package main

// recreations are planted bugs in the way of containers that are missing or were created
// again, and of changes in forms that are not known.
var recreations = []mutant{
	{"absent-container-is-document", "a missing container is not a missing document", []edit{
		{"trigger/cosmos/errors.go", "e.SubStatus == 0 && !op.document)", "false)"},
	}},
	{"absent-container-not-read", "a 404 of a document is told from that of its container", []edit{
		{"trigger/cosmos/document.go", "&container); isContainerMissing(missing) {", "&container); isContainerMissing(missing) && false {"},
	}},
	{"session-of-master", "the session of a range is not that of the master partition", []edit{
		{"trigger/cosmos/requestretry.go", "(resp.StatusCode != http.StatusNotFound || substatus(resp) == subSessionBehind)", "resp.StatusCode != 0"},
	}},
	{"recreated-container-not-reopened", "a host reads a container that was created again", []edit{
		{"trigger/restarting.go", "\t\t\tr.reopenLeases()\n", ""},
	}},
	{"recreated-container-by-start", "a container that was created again is read from its beginning", []edit{
		{"trigger/internal/feed/start.go", "if since.Equal(SinceBeginning) {", "if false {"},
	}},
	{"recreated-marker-of-now", "hosts that start later read a container that was created again from its beginning", []edit{
		{"trigger/internal/lease/bootstrap.go", "if !known.IsZero() {", "if false {"},
	}},
	{"recreated-gets-old-positions", "positions of a former container are not used", []edit{
		{"trigger/internal/lease/reopen.go", "\ts.lost.forgetAll()\n", ""},
	}},
	{"recreated-not-drained", "a warm process drains a container that was created again", []edit{
		{"trigger/drain.go", "\td.runner.reopenLeases()\n\tif context", "\tif context"},
	}},
	{"recreated-range-not-drained", "a warm process drains a range of a container that was created again", []edit{
		{"trigger/recreated.go", "s.reopenDue || isContainerGone(err)", "s.reopenDue"},
	}},
	{"recreated-leases-not-verified", "a host notices that the lease container was created again", []edit{
		{"trigger/internal/lease/set.go", "if len(all) == 0 && len(invalid) == 0 {", "if false {"},
	}},
	{"recreated-leases-lose-positions", "a host writes the positions that it holds into a new lease container", []edit{
		{"trigger/internal/lease/write.go", "w.writeState.setLoss(err)", "_ = w.writeState"},
	}},
	{"recreated-leases-too-old", "positions are kept while the lease container is missing", []edit{
		{"trigger/internal/lease/restore.go", " && time.Since(absentAt) > period {", " {"},
	}},
	{"recreated-leases-of-others", "another host writes its own positions into a new lease container", []edit{
		{"trigger/internal/lease/reopen.go", "l.owner != s.cfg.Owner {", "l.owner == \"\" {"},
	}},
	{"recreated-versions-without-warning", "a warning names the gap in all versions", []edit{
		{"trigger/internal/lease/reopen.go", `slog.Time("gapFrom", s.monitored.Modified)`, `slog.Time("gapFrom", s.Now())`},
	}},
	{"unknown-operation-fails", "an unknown operation with a document is an upsert", []edit{
		{"trigger/cosmos/envelope.go", "item.Operation = OperationUpsert", "item.Operation = OperationUnknown"},
	}},
	{"unknown-operation-deletes", "an unknown operation without a document is not a delete", []edit{
		{"trigger/cosmos/envelope.go", "item.Operation = OperationUnknown", "item.Operation = OperationDelete"},
	}},
	{"minimal-delete-without-key", "a minimal image tells which document was deleted", []edit{
		{"trigger/cosmos/envelope.go", "if i.PartitionKey == nil {", "if false {"},
	}},
	{"minimal-delete-without-id", "a minimal image tells which document was deleted", []edit{
		{"trigger/cosmos/envelope.go", "if i.ID == \"\" {", "if false {"},
	}},
	{"unknown-form-not-told", "the log tells once of changes whose form is not known", []edit{
		{"trigger/reading.go", `page.UnknownForm != "" && w.`, `page.UnknownForm == "" && w.`},
	}},
}
