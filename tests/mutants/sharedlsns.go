package main

// sharedLSNs are planted bugs that show if changes of several keys have one LSN.
var sharedLSNs = []mutant{
	{"name-without-key", "a change is not charged with the failures of another key's change with its id and LSN", []edit{
		{"trigger/internal/feed/change.go", "h := c.OrderKey(keyPaths, true)", "_, h := keyPaths, hashText(fnvOffset, c.DocumentID())"},
	}},
	{"name-without-id", "a change is not charged with the failures of another document of its key and LSN", []edit{
		{"trigger/internal/feed/change.go", "h := c.OrderKey(keyPaths, true)", "h := c.OrderKey(keyPaths, false)"},
	}},
	{"group-ends-at-shared-lsn", "a crash during a call with changes of one LSN makes all of them suspects", []edit{
		{"trigger/internal/delivery/retrystate.go", "case t.nameOf(c) == r.Last:", "case t.nameOf(c) == r.Last && i == 0:"},
	}},
	{"bulk-without-dice", "the operations of a bulk request have one LSN or several", []edit{
		{"trigger/emulator/batch.go", "t.joins = joins", "_ = joins"},
	}},
}
