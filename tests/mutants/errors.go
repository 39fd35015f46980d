package main

// callersErrors are planted bugs in the errors that callers branch on, and in hints at
// commands.
var callersErrors = []mutant{
	{"unknown-function-without-its-error", "a message for an unknown function is told from one that may be tried again", []edit{
		{"trigger/dispatch.go", `fmt.Errorf("%w named %q", ErrNoFunction, name)`, `fmt.Errorf("no function named %q", name)`},
	}},
	{"lost-lease-without-its-error", "a handler can tell that its lease is lost", []edit{
		{"trigger/errors.go", "var ErrLeaseLost = lease.ErrLost", "var ErrLeaseLost = errors.New(lease.ErrLost.Error())"},
	}},
	{"split-refusal-is-a-text", "a refusal because of a split is told from others", []edit{
		{"trigger/leases/plan.go", "cmp.Or(s.refusal, errors.New(s.Refused))", "cmp.Or(errors.New(s.Refused), s.refusal)"},
	}},
	{"advice-without-commands", "advice on a stall names the command", []edit{
		{"function/app/internal/operate/advice.go", `return s.Advice() + "; " + command`, "return s.Advice()"},
	}},
}
