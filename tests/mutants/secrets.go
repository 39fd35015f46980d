package main

// secretValues are planted bugs in the removal of secrets of settings by their values.
var secretValues = []mutant{
	{"store-repeats-secret", "errors of a dead letter store repeat no secret", []edit{
		{"trigger/deadletterwrite.go", "return redact.Error(call())", "return call()"},
	}},
	{"stack-repeats-secret", "the stack of a panic repeats no secret", []edit{
		{"trigger/invoke.go", "redact.Text(string(debug.Stack()))", "string(debug.Stack())"},
	}},
	{"setting-not-learned", "secrets of settings are known by their values", []edit{
		{"trigger/redact/secrets.go", "\tlearned.Store(&forms)\n", ""},
	}},
}
