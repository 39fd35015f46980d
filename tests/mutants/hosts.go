package main

// hosts are planted bugs in the life of a host: its start on a range, its failures and its
// end.
var hosts = []mutant{
	{"stopped-with-leases", "a host that has stopped shows no leases and no problem", []edit{
		{"trigger/runner.go", "\tr.pausedRanges, r.freeRanges, r.heldLeaseCount = nil, nil, 0\n", ""},
	}},
	{"stopped-with-problem", "a host that has stopped shows no leases and no problem", []edit{
		{"trigger/runner.go", "clear(r.coolingRanges)", ""},
	}},
}
