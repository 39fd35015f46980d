package main

// answers are planted bugs in the headers and errors of the embedded account, which are those
// of recorded answers.
var answers = []mutant{
	{"error-without-token", "errors of a partition carry its session token and LSNs", []edit{
		{"trigger/emulator/replica.go", "\tr.stamp(*from, false)\n\treturn r\n", "\treturn r\n"},
	}},
	{"gateway-has-token", "what the gateway refuses carries no session token", []edit{
		{"trigger/emulator/replica.go", "if f.gateway || f.status", "if f.status"},
	}},
	{"master-has-data-lsn", "metadata has the LSNs of the master partition", []edit{
		{"trigger/emulator/platform.go", "lsn := p.master.Load()", "lsn := int64(1)"},
	}},
	{"throttled-token", "a 429 has no session token", []edit{
		{"trigger/emulator/replica.go", "if r.status != http.StatusTooManyRequests {", "if r.status != 0 {"},
	}},
	{"write-is-committed", "the LSN of a write is not committed yet", []edit{
		{"trigger/emulator/replica.go", "min(committed, from.lsn-1)", "from.lsn"},
	}},
	{"write-has-item-lsn", "answers to writes have no x-ms-item-lsn", []edit{
		{"trigger/emulator/item.go", "if !c.writes() {\n\t\t\tr.set(\"x-ms-item-lsn\"", "if c.method != \"\" {\n\t\t\tr.set(\"x-ms-item-lsn\""},
	}},
	{"substatus-zero", "there is no substatus of 0", []edit{
		{"trigger/emulator/failure.go", "if f.substatus != 0 {", "if f.substatus >= 0 {"},
	}},
	{"keyless-is-charged", "a request without its key is not charged", []edit{
		{"trigger/emulator/item.go", "f.free = true", "f.free = false"},
	}},
	{"usage-after-write", "the usage of a write counts the items before it", []edit{
		{"trigger/emulator/item.go", "\t\titems := len(o.items)\n\t\tt.commit()\n", "\t\tt.commit()\n\t\titems := len(o.items)\n"},
	}},
	{"multihash-in-any-version", "hierarchical keys need a newer API version", []edit{
		{"trigger/emulator/definition.go", "version <= multiHashVersion", "version < \"\""},
	}},
	{"unknown-property-kept", "unknown properties of a container are not read back", []edit{
		{"trigger/emulator/definition.go", "f == nil || f.name != name {\n\t\t\tdelete", "f != nil && f.name != name {\n\t\t\tdelete"},
	}},
	{"hash-version-1-written", "hash version 1 is not written", []edit{
		{"trigger/emulator/epk/definition.go", "if w.Version == 1 {", "if w.Version == 3 {"},
	}},
}
