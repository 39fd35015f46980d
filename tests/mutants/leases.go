package main

// leaseSources are planted bugs in the source of a function as operators' tools name it.
var leaseSources = []mutant{
	{"control-without-container", "lease control needs the monitored container", []edit{
		{"trigger/leases/control.go", "if leases == nil || source.Container == nil {", "if leases == nil {"},
	}},
	{"control-ignores-the-prefix", "lease control finds the leases by their prefix", []edit{
		{"trigger/leases/control.go", "lease.IDPrefix(s.Name, s.LeasePrefix)", "lease.IDPrefix(s.Name, s.LeasePrefix[:0])"},
	}},
	{"control-ignores-the-mode", "leases of all versions are not moved to the beginning", []edit{
		{"trigger/leases/plan.go", "if c.source.ChangeFeedMode == cosmos.ModeAllVersions &&", "if c.source.ChangeFeedMode != c.source.ChangeFeedMode &&"},
	}},
	{"control-ignores-the-start", "leases that an operator creates begin where the function starts", []edit{
		{"trigger/leases/control.go", "start := s.StartFrom.Since(", "start := Start{}.Since("},
	}},
}
