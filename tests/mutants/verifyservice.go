package main

// accountProofs are planted bugs in verify-service.
var accountProofs = []mutant{
	{"verify-deletes-theirs", "verify-service deletes no database that it has not created", []edit{
		{"function/app/internal/verify/scratch.go", "\tif s.madeDatabase {\n\t\tif err", "\tif true {\n\t\tif err"},
	}},
	{"verify-uses-data", "containers that hold data are refused", []edit{
		{"function/app/internal/verify/verify.go", "if s.options.Create || s.options.DataIsKnown {", "if true {"},
	}},
	{"verify-without-limit", "verify-service ends at its limit", []edit{
		{"function/app/internal/verify/meter.go", "if m.exhausted == nil || m.spent < m.limit {", "if true {"},
	}},
	{"verify-no-cleanup-after-interrupt", "verify-service cleans up after Ctrl-C", []edit{
		{"function/app/internal/verify/scratch.go", "context.WithoutCancel(ctx), cleanupTime", "ctx, cleanupTime"},
	}},
	{"verify-forgets-unsure-writes", "a document whose write got no answer is deleted, too", []edit{
		{"function/app/internal/verify/meter.go", "\t\te.status = http.StatusCreated\n\t\tm.follow(e)", "\t\t_ = e"},
	}},
	{"verify-records-names", "a record holds no names", []edit{
		{"function/app/internal/verify/record.go", "hostForm.ReplaceAllString(n.replacer.Replace(text), \"address.example\")", "hostForm.ReplaceAllString(text, \"address.example\")"},
	}},
}
