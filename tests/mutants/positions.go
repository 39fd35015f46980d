package main

// pagePositions are planted bugs in what a page's tokens say, and in what follows if the
// positions inside a page have no names.
var pagePositions = []mutant{
	{"position-only-of-equal-etag", "a position inside a page is saved although the page's etag is after its last change", []edit{
		{"trigger/internal/feed/position.go", "return LSNOf(page.Continuation) >= last", "return LSNOf(page.Continuation) == last"},
	}},
	{"position-after-the-etag", "LSNs above the page's own continuation name no positions", []edit{
		{"trigger/internal/feed/position.go", "return LSNOf(page.Continuation) >= last", "return LSNOf(page.Continuation) > 0"},
	}},
	{"position-of-falling-lsns", "LSNs that fall name no positions", []edit{
		{"trigger/internal/feed/position.go", "item.LSN < last || i == 0", "i == 0"},
	}},
	{"position-of-another-sequence", "LSNs that are not above the position of the read name no positions", []edit{
		{"trigger/internal/feed/position.go", "last := LSNOf(start)", "_, last := start, int64(0)"},
	}},
	{"seek-names-a-merge", "a refused seek to a time names a merge only if there was one", []edit{
		{"trigger/leases/control.go", "\tcase l.ByKeys():\n", "\tcase page != nil:\n"},
	}},
	{"page-size-not-saved", "a drain that cannot finish a page of a merged range lets the next one read a shorter page", []edit{
		{"trigger/internal/delivery/pagesize.go", "o.passed > 0 && !o.areNamed {\n\t\treturn 1\n", "o.passed > 0 && !o.areNamed {\n\t\treturn p.pages.inherited\n"},
	}},
	{"waiting-change-keeps-page-size", "a change that waits on a merged range does not keep the position before finished changes of its page, whoever owns it", []edit{
		{"trigger/internal/delivery/pagesize.go", "\tcase p.keepsFinished():\n", "\tcase false:\n"},
	}},
	{"later-waiting-change-keeps-page-size", "on a merged range a change that waits behind the finished ones of a page does not keep the position before them", []edit{
		{"trigger/internal/delivery/pagesize.go", "len(p.openPages) == 0 || p.isHeld()", "len(p.openPages) == 0 || len(p.aside) > 0"},
	}},
	{"page-size-not-read", "the first page of a drain has the size that the lease asks for", []edit{
		{"trigger/drain.go", "r.sourceOf(l).WithPages(savedPageItems(l))", "r.sourceOf(l)"},
	}},
	{"page-size-kept", "pages have their full size again when all of the feed is finished", []edit{
		{"trigger/internal/delivery/pagesize.go", "p.pages.fit || readAll && len(p.openPages) == 0", "p.pages.fit"},
	}},
	{"small-pages-stay-small", "each page after a small one has twice as many changes", []edit{
		{"trigger/internal/feed/growth.go", "min(2*items, s.usual)", "items"},
	}},
	{"small-page-shared", "a function that asks for a small page does not get the larger one of another function", []edit{
		{"trigger/internal/feed/source.go", "smaller.MaxItems, smaller.Shared = items, nil", "smaller.MaxItems = items"},
	}},
	{"etag-of-last-item", "the account's page that reaches the end has the newest LSN as etag", []edit{
		{"trigger/emulator/feed.go", "return max(req.after, req.partition.newest(m))", "return max(req.after, last)"},
	}},
	{"manners-cut-ignored", "a cut page may have the etag just below the next change", []edit{
		{"trigger/emulator/manners.go", "if m.CutBelowNext {", "if false {"},
	}},
	{"manners-full-ignored", "a last page that is exactly full may have the etag of a cut page", []edit{
		{"trigger/emulator/feed.go", "case m.FullAsCut && ", "case false && "},
	}},
	{"manners-idle-ignored", "a 304 may repeat the etag of its request", []edit{
		{"trigger/emulator/feed.go", "case m.IdleKeepsETag && ", "case false && "},
	}},
	{"manners-own-ignored", "an etag may stay at the LSNs of its own container", []edit{
		{"trigger/emulator/manners.go", "if m.OwnLSNs && ", "if false && "},
	}},
	{"manners-empty-ignored", "an answer may have no item although others follow", []edit{
		{"trigger/emulator/feed.go", "if m.EmptyPages && ", "if false && "},
	}},
	{"judge-no-advances", "the judge reports drains that repeat the same work", []edit{
		{"tests/history/leases.go", "\t\tc.endWork(e)\n", ""},
	}},
	{"judge-advances-of-failures", "the judge reports no drain whose first change has failed", []edit{
		{"tests/history/advance.go", "areHandled = byFormer && isOwn && ", "_, areHandled = isOwn, byFormer && "},
	}},
}
