package main

// handlerCallbacks are planted bugs in the callbacks that a handler of an app offers.
var handlerCallbacks = []mutant{
	{"offered-flush-ignored", "an app calls the Flush that its handler offers", []edit{
		{"function/app/internal/hosting/app.go", "fn.Opened, fn.Flush, fn.Closed = c.Opened, c.Flush, c.Closed", "fn.Opened, fn.Closed = c.Opened, c.Closed"},
	}},
	{"offered-opened-ignored", "an app calls the Opened that its handler offers", []edit{
		{"function/app/internal/hosting/app.go", "fn.Opened, fn.Flush, fn.Closed = c.Opened, c.Flush, c.Closed", "fn.Flush, fn.Closed = c.Flush, c.Closed"},
	}},
	{"failed-flush-counted-as-flushed", "the metric of flushes tells failed ones apart", []edit{
		{"function/app/internal/metrics/metrics.go", "outcome = outcomeFailed", "_ = outcomeFailed"},
	}},
	{"flush-not-on-page", "the timeline of the page has flushes", []edit{
		{"function/app/internal/page/history.go", `return fmt.Sprintf("flushed in %v", e.Duration.Round(time.Millisecond))`, `return ""`},
	}},
}

// pageSearches are planted bugs in the filters of the page over dead letters.
var pageSearches = []mutant{
	{"page-filters-its-list", "a filter of the page searches the store", []edit{
		{"function/app/internal/page/lettersearch.go", "if !list.isCut || f == (filter{}) {", "if f.State == \"\" {"},
	}},
	{"page-search-without-end", "a search of the page stops at a bound", []edit{
		{"function/app/internal/operatorpage/lettersearch.go", "if s.searched >= maxSearched || ctx.Err() != nil {", "if ctx.Err() != nil {"},
	}},
	{"page-search-reads-all", "the store selects the range of a filter", []edit{
		{"function/app/internal/operatorpage/lettersearch.go", "Range: s.wanted.Range, NewestFirst: true", "NewestFirst: true"},
	}},
}
