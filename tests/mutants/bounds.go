package main

// bounds are planted bugs at the edges of values: of keys, numbers and answers that a
// service or a person may give.
var bounds = []mutant{
	{"negative-zero-apart", "keys that are equal to the service are one key", []edit{
		{"trigger/internal/feed/key.go", "values[i] = value + 0 // -0 + 0 is 0", "values[i] = value"},
	}},
	{"object-key-apart", "a key that is an object is undefined, as to the service", []edit{
		{"trigger/internal/feed/key.go", "case map[string]any, []any:\n\t\t\tvalues[i] = struct{}{}", "case []any:\n\t\t\tvalues[i] = struct{}{}"},
	}},
}
