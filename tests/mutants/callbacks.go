package main

// handlerCallbacks are planted bugs in the callbacks that a handler of an app offers.
var handlerCallbacks = []mutant{
	{"offered-flush-ignored", "an app calls the Flush that its handler offers", []edit{
		{"function/app/app.go", "fn.Opened, fn.Flush, fn.Closed = c.Opened, c.Flush, c.Closed", "fn.Opened, fn.Closed = c.Opened, c.Closed"},
	}},
	{"offered-opened-ignored", "an app calls the Opened that its handler offers", []edit{
		{"function/app/app.go", "fn.Opened, fn.Flush, fn.Closed = c.Opened, c.Flush, c.Closed", "fn.Flush, fn.Closed = c.Flush, c.Closed"},
	}},
	{"failed-flush-counted-as-flushed", "the metric of flushes tells failed ones apart", []edit{
		{"function/app/internal/metrics/metrics.go", "outcome = outcomeFailed", "_ = outcomeFailed"},
	}},
	{"flush-not-on-page", "the timeline of the page has flushes", []edit{
		{"function/app/internal/page/history.go", `return fmt.Sprintf("flushed in %v", e.Duration.Round(time.Millisecond))`, `return ""`},
	}},
}
