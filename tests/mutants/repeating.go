package main

// repetitions are planted bugs in what lets a simulated run repeat: the order of goroutines
// within one instant decides nothing.
var repetitions = []mutant{
	{"read-before-release", "a range with large pages reserves after what its instant releases", []edit{
		{"trigger/internal/feed/budget.go", "_ = backoff.Sleep(ctx, by.turn)\n\t}", "_ = ctx\n\t}"},
	}},
	{"buffer-used-last", "a page gets the largest free buffer, in whatever order they were released", []edit{
		{"trigger/cosmos/bufferpool.go", "place, _ := slices.BinarySearchFunc(p.free, b, compareBuffers)", "place := len(p.free)"},
	}},
}
