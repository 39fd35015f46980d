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
	{"expiry-takes-lsn", "an item that expires takes no LSN", []edit{
		{"trigger/emulator/transaction.go", "(!t.expired || t.container.logging)", "(!t.expired || t.container != nil)"},
	}},
}
