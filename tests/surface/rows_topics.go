package main

// topicRows are the sections of the package documentation: promises that belong to no single
// name.
var topicRows = []row{
	{"topic Guarantees", "TestUnhandledChangesAreNotCheckpointed", "checkpoint-before-handling"},
	{"topic Several functions on one container", "TestFunctionsOnOneContainerReadItOnce", "reads-not-shared"},
	{"topic The life of a lease", "TestHandoverWaitsForRunningBatch", "handover-in-mid-batch"},
	{"topic When a handler fails", "TestBisectionIsolatesPoisonChange", "bisection-drops-a-half"},
}
