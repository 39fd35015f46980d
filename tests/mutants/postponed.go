package main

// postponements are planted bugs in the way of changes that their handler postpones.
var postponements = []mutant{
	{"postponed-before-due", "a postponed change is not delivered before it is due", []edit{
		{"trigger/internal/delivery/postponed.go", "if !s.letters.due.After(now) && s.letters.mayLoad()", "if s.letters.mayLoad()"},
		{"trigger/internal/delivery/postponed.go", "if !isDue(k.firstDue, now) || isLeaving {", "if k.firstDue.IsZero() || isLeaving {"},
		{"trigger/internal/delivery/postponed.go", "len(items) > 0 && k.localTime(items[0].stored.Due).After(time.Now())", "false"},
	}},
	{"postponed-key-not-blocked", "later changes of a key follow its postponed change", []edit{
		{"trigger/internal/delivery/admit.go", "\tcase k.Place != PlaceFree:\n\t\treturn AdmitPostpone\n", ""},
	}},
	{"postponed-not-inherited", "the next owner delivers the postponed changes of its range", []edit{
		{"trigger/internal/delivery/delivery.go", "d.inheritPostponed(listed.postponed)", "d.inheritPostponed(nil)"},
	}},
	{"postponed-put-twice", "a postponed change that the feed shows again is not put a second time", []edit{
		{"trigger/internal/delivery/admit.go", "\tcase k.Place == PlaceListed:\n\t\treturn AdmitFinish\n", ""},
	}},
	{"postponed-before-earlier", "a change before a postponed one is delivered first, if the feed shows it again", []edit{
		{"trigger/internal/delivery/postponedletters.go", "return PlaceFree\n\tcase c.LSN <= last.LSN", "return PlaceBehind\n\tcase c.LSN <= last.LSN"},
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
		{"trigger/internal/delivery/effects.go", "isAsked && !tried.isExhausted(s.policy, s.now) &&", "isAsked && (tried.Attempts > 0) &&"},
	}},
	{"postponed-until-the-next-poll", "the next owner of a merged range delivers a postponed change once it has taken what it has read", []edit{
		{"trigger/internal/delivery/delivery.go", "d.pagesToEnd.CompareAndSwap(0, d.pagesRead.Load()+1)", "if d.pagesRead.Load() == d.pagesTaken.Load() {\n\t\td.pagesToEnd.CompareAndSwap(0, d.pagesRead.Load()+1)\n\t}"},
	}},
	{"postponed-kept", "a postponed change that was handled leaves the store", []edit{
		{"trigger/internal/delivery/store.go", "return k.deadLetters.Delete(ctx, stored)", "return nil"},
	}},
}
