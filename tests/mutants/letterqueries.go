package main

// letterQueries are planted bugs in the queries and forms of dead letter stores.
var letterQueries = []mutant{
	{"query-id-ignored", "a query finds the record with an ID", []edit{
		{"trigger/deadletterquery.go", "(q.ID == \"\" || d.ID == q.ID) &&", ""},
	}},
	{"query-range-ignored", "a query finds the records of a range", []edit{
		{"trigger/deadletterquery.go", "(q.Range == \"\" || d.Range == q.Range) && ", ""},
	}},
	{"query-key-ignored", "a query finds the records of a key", []edit{
		{"trigger/deadletterquery.go", "(q.Key == \"\" || d.Key == q.Key) && ", ""},
	}},
	{"query-error-ignored", "a query finds the records with a text in their error", []edit{
		{"trigger/deadletterquery.go", "strings.Contains(d.Error, q.ErrorContains) &&", "strings.Contains(d.Error, \"\") &&"},
	}},
	{"query-after-ignored", "a query finds the records since a time", []edit{
		{"trigger/deadletterquery.go", "!d.Time.Before(q.After) && ", ""},
	}},
	{"query-before-inclusive", "a query finds the records before a time", []edit{
		{"trigger/deadletterquery.go", "d.Time.Before(q.Before))", "!d.Time.After(q.Before))"},
	}},
	{"query-kind-ignored", "a query finds the records of its kind alone", []edit{
		{"trigger/deadletterquery.go", "d.Kind == q.Kind && ", ""},
	}},
	{"query-source-ignored", "a query finds the records of its source alone", []edit{
		{"trigger/deadletterquery.go", "d.Source() == q.Source && d.Kind", "d.Kind"},
	}},
	{"query-newest-last", "a query can begin with the newest record", []edit{
		{"trigger/deadletterquery.go", "return -order", "return order"},
	}},
	{"query-limit-ignored", "a page has no more records than its limit", []edit{
		{"trigger/deadletterquery.go", "cmp.Or(q.Limit, pageLimit)", "pageLimit"},
	}},
	{"query-cursor-ignored", "a page begins behind the one before", []edit{
		{"trigger/deadletterquery.go", "compareLetters(q, d, last) > 0", "compareLetters(q, d, last) >= 0"},
	}},
	{"query-one-page", "a query goes through all pages", []edit{
		{"trigger/deadletterquery.go", "q.Cursor = page.Cursor; q.Cursor == \"\"", "q.Cursor = page.Cursor; true"},
	}},
	{"query-key-by-time", "the records of a key are in their order, whatever the clocks say", []edit{
		{"trigger/deadletterquery.go", "order = cmp.Or(cmp.Compare(a.Order, b.Order), a.Time.Compare(b.Time))\n\t}\n\torder", "order = cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Order, b.Order))\n\t}\n\torder"},
	}},
	{"query-of-any-kind", "a query names its kind", []edit{
		{"trigger/deadletterquery.go", "case q.Kind != RecordDead && q.Kind != RecordPostponed:", "case q.Limit < -1:"},
	}},
	{"later-form-read", "a record of a later version is damaged", []edit{
		{"trigger/deadletter.go", "case d.Version > DeadLetterVersion:", "case d.Version > 99:"},
	}},
	{"unknown-kind-stored", "a record of an unknown kind is damaged", []edit{
		{"trigger/deadletter.go", "case d.Kind != RecordDead && d.Kind != RecordPostponed:", "case d.Kind == \"\":"},
	}},
	{"dead-letters-without-version", "a record has the version of its form", []edit{
		{"trigger/deadletterwrite.go", "Version: DeadLetterVersion, Kind: RecordDead, ID: w.deadLetterID(c, key),", "Kind: RecordDead, ID: w.deadLetterID(c, key),"},
	}},
	{"postponed-told-as-dead", "a postponed change is not a dead letter", []edit{
		{"trigger/deadletterwrite.go", "d.Kind, d.ID = RecordPostponed, postponedID", "d.Kind, d.ID = RecordDead, postponedID"},
	}},
	{"dead-told-as-postponed", "a dead letter is not a postponed change", []edit{
		{"trigger/deadletterwrite.go", "Version: DeadLetterVersion, Kind: RecordDead, ID: w", "Version: DeadLetterVersion, Kind: RecordPostponed, ID: w"},
	}},
	{"replay-of-any-record", "a replay selects by what it was asked", []edit{
		{"trigger/replay.go", "q := r.options.Select", "var q DeadLetterQuery"},
	}},
	{"replay-by-time", "a replay delivers the records of a key in their order", []edit{
		{"trigger/replay.go", "\tq.Key = key\n", "\tq.ErrorContains = \"\"\n"},
	}},
	{"replay-stops-at-damage", "a damaged dead letter hides no other from a replay", []edit{
		{"trigger/replay.go", "damaged = append(damaged, err)\n\t\t\tcontinue", "return err"},
	}},
	{"search-without-bound", "a page ends at the bound of its reads", []edit{
		{"trigger/deadletter/internal/record/search.go", "w.positions[:min(len(w.positions), maxReads)]", "w.positions"},
	}},
	{"search-bound-silent", "a page says that it ended at a bound", []edit{
		{"trigger/deadletter/internal/record/search.go", "page.StoppedAtBound = len(page.Records) < limit", ""},
	}},
	{"search-scans-each-page", "the pages of a window take one scan", []edit{
		{"trigger/deadletter/internal/record/search.go", "if w := s.find(q, c); w != nil {", "if w := s.find(q, c); w != nil && w.hasMore && !w.hasMore {"},
	}},
	{"search-page-of-earlier-list", "a list has what was put before its first page", []edit{
		{"trigger/deadletter/internal/record/search.go", "wanted != q || w.number != last.Window", "wanted != q"},
	}},
	{"search-unread-is-last", "a record that cannot be read is reported first", []edit{
		{"trigger/deadletter/internal/record/search.go", "if a.Time.IsZero() != b.Time.IsZero() {", "if false {"},
	}},
	{"container-damage-is-absent", "a record that cannot be read is not absent from a query", []edit{
		{"trigger/deadletter/containerlist.go", "(NOT IS_STRING(c[\"` + property + `\"]) OR ` + condition + `)`", "(` + condition + `)`"},
	}},
	{"compaction-drops-later-form", "a compaction keeps the records of a later version", []edit{
		{"trigger/deadletter/journal.go", "if l.ID == \"\" || l.Source()", "if err != nil || l.Source()"},
	}},
}
