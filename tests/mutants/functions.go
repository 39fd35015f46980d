package main

// programs are planted bugs in functions in other languages.
var programs = []mutant{
	{"program-children-left", "a process of a function leaves no child behind", []edit{
		{"handlers/remote/process.go", "\t\tkillGroup(p.command) // its", "\t\t// its"},
	}},
	{"program-deadline-by-grace", "a function that hangs is killed at its deadline", []edit{
		{"handlers/remote/process.go", "!p.channel || errors.Is(ctx.Err(), context.DeadlineExceeded)", "!p.channel"},
	}},
	{"program-not-cancelled", "a function is told that its call is cancelled", []edit{
		{"handlers/remote/process.go", "fmt.Fprintf(p.requests, \"{\\\"cancel\\\":%d}\\n\", number)", "_ = number"},
	}},
	{"program-cancel-kills", "the answer to a call that is cancelled counts", []edit{
		{"handlers/remote/process.go", "return !lastMoment.Stop()", "lastMoment.Stop()\n\treturn true"},
	}},
	{"program-not-awaited", "a function that cannot be loaded is refused at the start", []edit{
		{"handlers/remote/process.go", "\tcase <-p.ready:\n\t\treturn nil\n\tcase <-p.exited:", "\tcase <-time.After(0):\n\t\treturn nil\n\tcase <-p.exited:"},
	}},
	{"program-error-without-lines", "an error shows the last lines of a function that has exited", []edit{
		{"handlers/remote/process.go", "\treturn p.lastLines.explain(err)\n", "\treturn err\n"},
	}},
	{"program-log-without-level", "the log has the level of a function's record", []edit{
		{"handlers/remote/channel.go", "\tlevel, err := zapcore.ParseLevel(l.Level)", "\tlevel, err := zapcore.ParseLevel(\"info\")"},
	}},
	{"program-failed-from-ignored", "changes before failedFrom are handled", []edit{
		{"handlers/remote/protocol.go", "err = trigger.FailedFrom(err, b.Changes[first])", "_ = trigger.FailedFrom(err, b.Changes[first])"},
	}},
	{"program-retried-at-once", "retryAfter postpones a change", []edit{
		{"handlers/remote/protocol.go", "return trigger.RetryAfter(err, time.Duration(", "_, _ = err, time.Duration("},
		{"handlers/remote/protocol.go", "*float64(time.Second))), nil", "*float64(time.Second))\n\t\treturn err, nil"},
	}},
	{"program-crash-is-an-answer", "a function that exits in a call has not handled it", []edit{
		{"handlers/remote/command.go", "\t\t}\n\t\treturn answer{}, err\n\t}\n\tslot.failures = 0\n", "\t\t}\n\t\treturn answer{}, nil\n\t}\n\tslot.failures = 0\n"},
	}},
	{"program-waits-after-an-ended-call", "a call that its caller ends is no failure of its process", []edit{
		{"handlers/remote/command.go", "\t\tif ctx.Err() == nil {\n", "\t\tif true {\n"},
	}},
	{"program-killed-at-the-end", "a function has the grace to exit at the end", []edit{
		{"handlers/remote/process.go", "\tcase <-time.After(p.grace):\n", "\tcase <-time.After(0):\n"},
	}},
	{"program-key-before-id", "a request has the key and the id of each document", []edit{
		{"handlers/remote/protocol.go", "`,\"id\":`...), c.ID())", "`,\"id\":`...), string(c.PartitionKey()))"},
	}},
	{"program-line-broken", "a document with line breaks is one line of a request", []edit{
		{"handlers/remote/protocol.go", " || bytes.IndexByte(document, '\\n') >= 0", ""},
	}},
	{"program-separator-kept", "a document with a separator of Unicode is one line of a request to Node.js", []edit{
		{"handlers/remote/protocol.go", " || bytes.Contains(document, separators)", ""},
	}},
	{"program-quote-in-id", "an id with a quotation mark is escaped in a request", []edit{
		{"handlers/remote/protocol.go", "s[i] == '\"' || ", ""},
	}},
	{"program-late-deadline", "a call tells the earlier end of its context and its timeout", []edit{
		{"handlers/remote/protocol.go", "deadline = deadline.UTC()", "deadline = deadline.Add(time.Minute).UTC()"},
	}},
	{"program-surrogates-swapped", "a character beyond the first plane of Unicode arrives as it is", []edit{
		{"handlers/remote/protocol.go", "high, low)\n", "low, high)\n"},
	}},
	{"program-key-cut", "a partition key that a channel sends without its list is one string", []edit{
		{"handlers/remote/protocol.go", " && bytes.IndexByte(key[2:], '\"') == end-2 {", " {"},
	}},
	{"batches-never-borrowed", "the pages of a handler that borrows batches are used again", []edit{
		{"function/app/internal/hosting/app.go", "env.Borrow = func() { fn.ReuseBuffers = true }", "env.Borrow = func() {}"},
	}},
}
