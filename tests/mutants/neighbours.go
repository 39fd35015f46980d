package main

// neighbours are planted bugs that show if containers of one database share its throughput,
// and with it one sequence of LSNs.
var neighbours = []mutant{
	{"shared-throughput-own-lsns", "containers that share the throughput of their database share its LSNs", []edit{
		{"trigger/emulator/datapartition.go", "return &o.dataPartition.sequence", "return &sequence{}"},
	}},
	{"shared-lsn-goes-back", "the LSNs of a database do not go back if a container is deleted", []edit{
		{"trigger/emulator/persist.go", "d.LSN = d.shared.newest()", "d.LSN = 1"},
	}},
	{"split-stays-in-database", "a container that splits has LSNs of its own", []edit{
		{"trigger/emulator/reshape.go", "Version: first.Version, sequence: &sequence{}}", "Version: first.Version, sequence: first.sequence}"},
	}},
	{"count-reads-one", "a person gets the number of changes, and not the transactions of neighbours", []edit{
		{"trigger/lag.go", "return estimateLag(ctx, leases, source, feed.CountedChanges)", "return estimateLag(ctx, leases, source, 1)"},
	}},
	{"unknown-lag-is-at-most", "a lag that is not known is neither exact nor an upper bound", []edit{
		{"trigger/lag.go", "case !g.Known:", "case !g.Known && g.Exact:"},
	}},
	{"estimate-is-exact", "transactions are not told as the number of changes", []edit{
		{"trigger/lag.go", "case g.Exact:", "case g.Known:"},
	}},
	{"exact-is-at-most", "a lag that was counted to the end is exact", []edit{
		{"trigger/lag.go", "case g.Exact:", "case g.Exact && !g.Known:"},
	}},
	{"empty-page-is-the-end", "an answer without changes before the end of the feed is not a lag of 0", []edit{
		{"trigger/internal/feed/pending.go", "page.NotModified || len(page.Items) > 0 {", "page.NotModified || len(page.Items) >= 0 {"},
		{"trigger/internal/feed/pending.go", "\tif page.NotModified {\n\t\treturn Pending{Exact: true}, nil", "\tif page.NotModified || len(page.Items) == 0 {\n\t\treturn Pending{Exact: true}, nil"},
	}},
	{"seek-counts-lsns", "a plan to seek counts changes, and not the transactions of neighbours", []edit{
		{"trigger/leases/plan.go", "\t\t\t*number = changes\n", "\t\t\t_ = changes\n"},
	}},
	{"seek-always-exact", "a plan to seek that has not counted all changes says so", []edit{
		{"trigger/leases/plan.go", "exact = exact && isExact", "exact = exact || isExact"},
	}},
	{"pending-counts-finished", "changes that are finished are not pending", []edit{
		{"trigger/internal/delivery/progress.go", "changes += o.unfinished", "changes += len(o.items) + 1"},
	}},
	{"own-writes-feed-writes", "a continuation that only lease writes have moved causes no lease write", []edit{
		{"trigger/internal/delivery/checkpoint.go", "\tcase changes <= 0:\n\t\treturn time.Time{}\n", ""},
	}},
	{"expiry-takes-lsn", "an item that expires takes no LSN", []edit{
		{"trigger/emulator/transaction.go", "(!t.expired || t.container.logging)", "(!t.expired || t.container != nil)"},
	}},
}
