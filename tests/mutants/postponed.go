package main

// postponements are planted bugs in the way of changes that their handler postpones.
var postponements = []mutant{
	{"postponed-before-due", "a postponed change is not delivered before it is due", []edit{
		{"trigger/internal/delivery/postponedload.go", "if !k.due.After(now) && k.mayLoad()", "if k.mayLoad()"},
		{"trigger/internal/delivery/postponedload.go", "l.firstDue.IsZero() || l.firstDue.After(now) ||", "l.firstDue.IsZero() ||"},
		{"trigger/internal/delivery/postponedload.go", "len(items) > 0 && time.Now().Before(l.localTime(items[0].stored.Due))", "false"},
	}},
	{"postponed-key-not-blocked", "later changes of a key follow its postponed change", []edit{
		{"trigger/internal/delivery/batching.go", "batch, err := l.withoutPostponed(ctx, batch)", "var err error"},
	}},
	{"postponed-not-inherited", "the next owner delivers the postponed changes of its range", []edit{
		{"trigger/internal/delivery/delivery.go", "d.inheritPostponed(listed.postponed)", "d.inheritPostponed(nil)"},
	}},
	{"postponed-put-twice", "a postponed change that the feed shows again is not put a second time", []edit{
		{"trigger/internal/delivery/lane.go", "l.withoutWaiting(l.withoutListed(more))", "l.withoutWaiting(more)"},
	}},
	{"postponed-before-earlier", "a change before a postponed one is delivered first, if the feed shows it again", []edit{
		{"trigger/internal/delivery/postponed.go", "return placeFree\n\tcase c.LSN <= last.lsn", "return placeBehind\n\tcase c.LSN <= last.lsn"},
	}},
	{"postponed-again-at-the-end", "a change that is postponed again keeps its place", []edit{
		{"trigger/internal/delivery/postponed.go", "if c.stored != nil {\n\t\treturn c.stored.Order\n\t}\n", ""},
	}},
	{"postponed-by-any-range", "the owner of the range that has the key delivers its postponed changes", []edit{
		{"trigger/postponing.go", "return cosmos.CompareKeys(r.Min, hash) <= 0 && cosmos.CompareKeys(hash, r.Max) < 0", "return r.Max != hash"},
	}},
	{"postponed-into-nothing", "a change is postponed only if the store keeps it", []edit{
		{"trigger/postponing.go", "return f.DeadLetters != nil && !drops", "_ = drops\n\treturn f.DeadLetters != nil"},
	}},
	{"postponed-not-drained", "a drain delivers a postponed change that is due", []edit{
		{"trigger/drain.go", "idle && !r.hasPostponed(l)", "idle"},
	}},
	{"postponed-without-end", "a change that is postponed again and again is given up after its attempts", []edit{
		{"trigger/internal/delivery/postponing.go", "asked && !tried.isExhausted(l.config.Policy, now) &&", "asked &&"},
	}},
	{"postponed-kept", "a postponed change that was handled leaves the store", []edit{
		{"trigger/internal/delivery/uncovered.go", "return l.deadLetters.Delete(ctx, stored)", "return nil"},
	}},
}
