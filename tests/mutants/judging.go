package main

// judgements are planted bugs in what the simulation and its judge found with fresh
// seeds: late and restored leases, the reads of several functions, and the judge itself.
var judgements = []mutant{
	{"superseded-lease-read", "a lease that others have replaced is retired, and not read", []edit{
		{"trigger/internal/lease/index.go", "return len(spans) > 0 && len(spanGaps(l.span, spans)) == 0", "return false"},
	}},
	{"tombstone-acquired", "no host acquires a tombstone", []edit{
		{"trigger/internal/lease/set.go", "return slices.DeleteFunc(used, (*Lease).Tombstone), nil", "return used, nil"},
	}},
	{"shared-read-not-charged", "a function pays for the read that it sends, also if it shares the page", []edit{
		{"trigger/internal/feed/shared.go", "s.finish(answer, page, err, ctx.Err() != nil, reading.by)", "s.finish(answer, page, err, ctx.Err() != nil, reading.by)\n\t\t\tif err == nil {\n\t\t\t\tpage.Charge = 0\n\t\t\t}"},
	}},
	{"shared-page-of-other-keys", "a lease of a merged range gets no page with the keys of another one", []edit{
		{"trigger/internal/feed/shared.go", "feedPart{r.ResourceID, r.Range.ID, r.Min, r.Max, ", `feedPart{r.ResourceID, r.Range.ID, "", "", `},
	}},
	{"judge-tombstone-is-a-lease", "the judge knows a restored tombstone", []edit{
		{"tests/history/leases.go", "tombstone: e.Retired, ", ""},
	}},
	{"judge-late-lease", "the judge knows a lease that was created by a late request", []edit{
		{"tests/history/coverage.go", " && !c.sentBefore(e)", ""},
	}},
	{"judge-any-lease", "the judge reports a lease that replaces no other", []edit{
		{"tests/history/coverage.go", "return e.Sent.Before(c.created) ||", "return true ||"},
	}},
}
