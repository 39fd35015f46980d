package main

// pageGrowth are planted bugs in the size of pages, and in the parts by which a page that has grown
// is taken in.
var pageGrowth = []mutant{
	{"page-from-before-another-host", "a range that another host has had gets no older page", []edit{
		{"trigger/internal/feed/shared.go", "return !a.kept.since.Before(from)", "return true"},
	}},
	{"pages-do-not-grow", "a range that is behind is read in large pages", []edit{
		{"trigger/internal/feed/growth.go", "\tcase seen == pageFull:\n\t\treturn s.most\n", ""},
	}},
	{"pages-stay-large", "pages have the usual size once a range has caught up", []edit{
		{"trigger/internal/feed/growth.go", "\tcase seen == pageCaughtUp:\n\t\treturn min(items, s.usual)\n", ""},
	}},
	{"pages-grow-in-merged-ranges", "pages do not grow where positions inside them have no names", []edit{
		{"trigger/reading.go", "if l.ByKeys() {", "if false {"},
	}},
	{"pages-grow-without-lsns", "pages do not grow while LSNs name no positions", []edit{
		{"trigger/internal/feed/reader.go", "(r.pace.isSlow() || !NamesPositions(page, continuation))", "r.pace.isSlow()"},
	}},
	{"large-page-without-positions", "a large page whose positions have no names is read again in small ones", []edit{
		{"trigger/internal/feed/reader.go", "len(page.Items) <= usual || ", "len(page.Items) > 0 || "},
	}},
	{"growth-of-each-function", "functions that share reads have one state of growth", []edit{
		{"trigger/internal/feed/reader.go", "if reading.isShared() {", "if false {"},
	}},
	{"large-page-for-opaque-range", "a range without positions inside pages does not get the large page of another function", []edit{
		{"trigger/internal/feed/shared.go", "r.Min, r.Max, r.isOpaque}", "r.Min, r.Max, false}"},
	}},
	{"growth-despite-limit", "a function with ReadRequestUnits does not read large pages", []edit{
		{"trigger/reading.go", "f.PageItems == 0 && f.ReadRequestUnits == 0", "f.PageItems == 0"},
	}},
	{"growth-beyond-share", "a page that has grown takes a part of its range's share of the budget", []edit{
		{"trigger/internal/feed/budget.go", "if items <= usual {", "if items > 0 {"},
	}},
	{"large-page-in-one-part", "an owner takes in MaxAhead and a page of the usual size at most, however large its pages are", []edit{
		{"trigger/internal/delivery/parts.go", "if r.areNamed {", "if false {"},
	}},
	{"part-divides-transaction", "a part of a page does not divide a transaction", []edit{
		{"trigger/internal/delivery/parts.go", "for n > 0 && items[n-1].LSN == items[n].LSN {", "for false {"},
	}},
	{"part-ends-at-the-page", "a part of a page ends at its last change", []edit{
		{"trigger/internal/delivery/parts.go", "= feed.QuotedLSN(part.items[len(part.items)-1].LSN), false,", "= r.page.Continuation, false,"},
	}},
	{"part-frees-the-page", "the bytes of a page are used again when all of its parts are finished", []edit{
		{"trigger/internal/delivery/page.go", "*o.bytes.holders++", "*o.bytes.holders += 0"},
	}},
	{"rest-never-released", "the rest of a page is released when its owner ends", []edit{
		{"trigger/internal/delivery/core.go", "append(pages, s.untaken.letGo()...)", "pages"},
	}},
	{"rest-counts-as-taken", "a page counts as taken in with its last part", []edit{
		{"trigger/internal/delivery/core.go", "if s.untaken.page == nil {", "if true {"},
	}},
	{"announcing-by-the-usual-page", "the announcements after a crash cover the set size of pages", []edit{
		{"trigger/internal/delivery/isolation.go", "mostAhead: int64(c.mostTaken())", "mostAhead: int64(c.MaxAhead + 100)"},
	}},
	{"old-batch-name-not-named", "a setting that has another name is refused with it", []edit{
		{"function/app/internal/settings/settings.go", `"BATCH_ITEMS", "MAX_ITEMS_PER_INVOCATION", 1`, `"BATCH_ITEMS", "BATCH_ITEMS", 1`},
	}},
}
