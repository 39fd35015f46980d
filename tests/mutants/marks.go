package main

// keyMarks are planted bugs in the changes behind the acknowledged prefix that a lease tells to
// be finished.
var keyMarks = []mutant{
	{"finished-before-admitted", "an owner says of no change that it is finished before it has read it", []edit{
		{"trigger/internal/delivery/marks.go", "Reached: max(feed.LSNOf(p.reached.position), p.inherited.Reached)", "Reached: max(feed.LSNOf(p.reached.position), p.inherited.Reached) + 1"},
	}},
	{"finished-before-handled", "an owner says of no change that it is finished before it is", []edit{
		{"trigger/internal/delivery/marks.go", "Reached: max(feed.LSNOf(p.reached.position), p.inherited.Reached)", "Reached: max(feed.LSNOf(p.taken.position), p.inherited.Reached)"},
	}},
	{"marks-older-than-their-position", "the position behind the prefix and its marks are of one moment", []edit{
		{"trigger/internal/delivery/marks.go", "if v.Marks = p.marks(v.Reached); len", "if v.Marks = p.marks(p.marked); len"},
	}},
	{"unread-marks-dropped", "an owner passes on the marks that it has not read", []edit{
		{"trigger/internal/delivery/marks.go", "\t\tadd(key, max(lsn, feed.LSNOf(p.reached.position)+1))\n", "\t\t_, _ = key, lsn\n"},
	}},
	{"inherited-position-dropped", "an owner passes on how far the former one was", []edit{
		{"trigger/internal/delivery/marks.go", "max(feed.LSNOf(p.reached.position), p.inherited.Reached)", "max(feed.LSNOf(p.reached.position), 0*p.inherited.Reached)"},
	}},
	{"foreign-finished-trusted", "finished changes of another function, position or owner do not count", []edit{
		{"trigger/internal/delivery/marks.go", "v.Binding != c.Finished || reached", "reached"},
	}},
	{"finished-of-a-merged-range", "in a merged range LSNs do not tell which changes are finished", []edit{
		{"trigger/internal/delivery/marks.go", "if !c.MergedRange {\n\t\tv, _ =", "if true {\n\t\tv, _ ="},
	}},
	{"buffered-change-finished", "a change that the sink buffers is finished only when a request covers it", []edit{
		{"trigger/internal/delivery/requested.go", "return c.isHandled && c.answered < p.request", "return c.isHandled"},
	}},
	{"too-many-marks", "a lease has few marks", []edit{
		{"trigger/internal/delivery/marks.go", "\t\tv.Reached = p.marked\n", ""},
	}},
	{"waiting-key-stops-reading", "changes that wait for a retry do not stop reading", []edit{
		{"trigger/internal/delivery/progress.go", " && !p.keepsMarks() {\n", " {\n"},
	}},
	{"reading-without-marks", "where a lease holds no marks, changes that wait for a retry stop reading", []edit{
		{"trigger/internal/delivery/progress.go", " && !p.keepsMarks() {\n", " && false {\n"},
	}},
	{"buffered-change-stops-reading", "a change that the sink buffers does not stop reading", []edit{
		{"trigger/internal/delivery/marks.go", "if !c.isHandled {", "if true {"},
	}},
	{"finished-is-not-saved", "progress behind a change that waits is saved", []edit{
		{"trigger/internal/delivery/progress.go", "if moved || p.reached.position", "if moved || false && p.reached.position"},
	}},
	{"position-of-another-snapshot", "position and finished changes are written together", []edit{
		{"trigger/internal/lease/write.go", "l.continuation = cmp.Or(position, l.continuation)", "_ = position"},
	}},
	{"announcing-ends-early", "announcing ends behind all that the former owner can have read", []edit{
		{"trigger/internal/delivery/isolation.go", "if lsn >= s.inherited {", "if true {"},
	}},
}
