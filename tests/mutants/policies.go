package main

// policies are planted bugs in the way of a function's settings to its delivery, and of its
// dead letter store.
var policies = []mutant{
	{"retry-policy-not-shared", "delivery follows the function's RetryPolicy", []edit{
		{"trigger/worker.go", "RetryPolicy: delivery.RetryPolicy(f.RetryPolicy), ", ""},
	}},
	{"give-up-policy-not-shared", "delivery follows the function's GiveUpPolicy", []edit{
		{"trigger/worker.go", "GiveUpPolicy: delivery.GiveUpPolicy(f.GiveUpPolicy),", ""},
	}},
	{"pages-of-one-change", "the feed of a function is read in pages of its size", []edit{
		{"trigger/runner.go", "r.feedSource.MaxItems, r.feedSource.MostItems = r.function.pageSizes()", "_, r.feedSource.MostItems = r.function.pageSizes()"},
	}},
	{"missing-store-fails", "a range whose function has no dead letter store says so", []edit{
		{"trigger/deadletterwrite.go", "if w.function.DeadLetters == nil {", "if w == nil {"},
	}},
}
