package main

// recordedForms are planted bugs in answers of the account that recorded answers of a hosted
// account show, and in the client that reads them.
var recordedForms = []mutant{
	{"number-as-sent", "documents have the service's form of numbers", []edit{
		{"trigger/emulator/document.go", "object, err := jsonform.Stored(compact.Bytes())", "_, err := jsonform.Stored(compact.Bytes())\n\tobject := compact.Bytes()"},
	}},
	{"number-projected-as-stored", "projections have a form of numbers of their own", []edit{
		{"trigger/emulator/query.go", "if !properties.SelectStar {", "if false {"},
	}},
	{"surrogate-kept", "a lone surrogate becomes U+FFFD", []edit{
		{"trigger/emulator/jsonform/form.go", "\treturn 6, true\n", "\treturn 6, false\n"},
	}},
	{"patch-adds-before-rid", "the properties that a patch adds follow _attachments", []edit{
		{"trigger/emulator/document.go", "late = late || patched && name == \"_attachments\"", "_ = patched"},
	}},
	{"etag-of-added-property", "an added property with the names of system properties does not change the etag", []edit{
		{"trigger/emulator/document.go", "d.body[:len(d.body)-int(d.added)]", "d.body"},
	}},
	{"added-length-not-saved", "a patched document has its etag after a restart", []edit{
		{"trigger/emulator/persist.go", "int64(d.added)<<32 | int64(d.properties)", "int64(d.properties)"},
	}},
	{"constant-query-needs-key", "a query that reads no document needs no partition key", []edit{
		{"trigger/emulator/query.go", "p.Constant || s.prefix", "s.prefix"},
	}},
	{"constant-query-on-all-ranges", "a query that reads no document has one row", []edit{
		{"trigger/emulator/plan.go", " || q.Properties().Constant {", " {"},
	}},
	{"groups-refused-with-plan", "groups over several partitions are refused without a plan", []edit{
		{"trigger/emulator/query.go", "\tcase p.Composed:\n", "\tcase false:\n"},
	}},
	{"stronger-consistency-accepted", "a request for a stronger consistency than the account's is refused", []edit{
		{"trigger/emulator/features.go", "return c.checkConsistency()", "return nil"},
	}},
	{"bulk-needs-range", "a batch that is not atomic may name its key in the header", []edit{
		{"trigger/emulator/batch.go", "Partitionkeyrangeid\"); id != \"\" {", "Partitionkeyrangeid\"); true {"},
	}},
	{"batch-substatus-in-result", "the substatus of a failed batch is in its header", []edit{
		{"trigger/emulator/batch.go", "\tresults[culprit].SubStatusCode = 0\n", ""},
	}},
	{"transaction-ignores-header", "the error of a transaction has the substatus of the header", []edit{
		{"trigger/cosmos/transaction.go", "cmp.Or(r.SubStatus, op.subStatus)", "cmp.Or(r.SubStatus, 0)"},
	}},
}
