package main

// directRequests are planted bugs in requests that do not go through azcore's pipeline.
var directRequests = []mutant{
	{"attempts-share-header", "two attempts of a request do not share a header", []edit{
		{"trigger/cosmos/direct.go", "op.attempts == 1 {", "op.attempts > 0 {"},
	}},
	{"rejected-token-kept", "a token that the service has rejected is asked for again", []edit{
		{"trigger/cosmos/tokens.go", "\th.authorization = nil\n", ""},
	}},
	{"policies-left-out", "policies of the caller see each request", []edit{
		{"trigger/cosmos/direct.go", " || len(o.PerRetryPolicies) > 0", ""},
	}},
}
