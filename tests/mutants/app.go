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
	{"page-status-waits-for-letters", "the status of the page does not wait for the dead letter stores", []edit{
		{"function/app/internal/page/lettersearch.go", "if p.options.Polled {", "if p.options.Polled || !p.options.Polled {"},
	}},
	{"page-search-without-end", "a search of the page stops at a bound", []edit{
		{"function/app/internal/operate/letterpages.go", "m.MaxSearched > 0 && m.searched >= m.MaxSearched ||", ""},
	}},
	{"page-search-reads-all", "the store selects what a filter asks for", []edit{
		{"function/app/internal/operatorpage/lettersearch.go", "operate.Selection{Range: wanted.Range, Text: wanted.Error}", "operate.Selection{Range: wanted.Range}"},
	}},
	{"page-lists-twice", "no dead letter is on two pages", []edit{
		{"function/app/internal/operate/letterpages.go", "order == 0 && slices.Contains(m.token.IDs, d.ID)", "false"},
	}},
	{"page-skips-letters", "the pages have each dead letter", []edit{
		{"function/app/internal/operate/letterpages.go", "m.token.Cursors[s.name] = s.query.Cursor\n\t\t\tm.page.Searched", "m.token.Cursors[s.name] = s.next\n\t\t\tm.page.Searched"},
	}},
	{"page-ranges-unsorted", "the page lists ranges with a problem first", []edit{
		{"function/app/internal/page/rangelist.go", "slices.Concat(stalled, others)", "slices.Concat(others, stalled)"},
	}},
	{"page-sends-all-ranges", "a viewer gets the shown ranges alone", []edit{
		{"function/app/internal/page/rangelist.go", "end := min(q.From+q.Limit, len(all))", "end := len(all)"},
	}},
	{"page-forgets-the-link", "a link leads to its place after the viewer has signed in", []edit{
		{"function/app/internal/page/guard.go", `"./"+filtersOf(r)`, `"./"`},
	}},
	{"page-plan-of-all", "a plan of selected dead letters has these alone", []edit{
		{"function/app/internal/operatorpage/letterplan.go", "pick.IDs = r.Select.IDs", "_ = pick"},
		{"function/app/internal/page/actions.go", "(len(s.IDs) == 0 || slices.Contains(s.IDs, d.ID)) &&", ""},
	}},
	{"page-plan-unbounded", "a plan of dead letters is bounded", []edit{
		{"function/app/internal/operatorpage/letterplan.go", "err == nil && len(b.ids) == maxPlanned", "false"},
	}},
	{"leases-with-priority-of-feed", "requests for leases have their own priority and throughput bucket", []edit{
		{"function/app/internal/account/clients.go", "share{string(f.LeasePriority), int(f.LeaseThroughputBucket)}", "share{string(f.Priority), int(f.ThroughputBucket)}"},
	}},
	{"bucket-not-sent", "requests name the throughput bucket of the settings", []edit{
		{"function/app/internal/account/clients.go", "if s.bucket > 0 {", "if s.bucket > 5 {"},
	}},
	{"priority-shares-client", "requests of another priority have a client of their own", []edit{
		{"function/app/internal/account/clients.go", "clientKey{name, regions.String(), of}", "clientKey{name, regions.String(), share{}}"},
	}},
}
