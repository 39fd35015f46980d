package main

// stores are planted bugs in what the next owner of a range reads back: letters of the dead
// letter store, records of retries, blocked keys and properties of leases.
var stores = []mutant{
	{"retention-of-postponed", "a retention ends no postponed record", []edit{
		{"trigger/deadletter/containerdocument.go", "s.retention > 0 && d.Kind == trigger.RecordDead", "s.retention > 0"},
	}},
	{"retention-of-blocked", "a retention ends no record behind a dead letter of its key", []edit{
		{"trigger/deadletter/containerdocument.go", " && !d.Blocked {", " {"},
	}},
	{"retention-of-parts-alone", "the parts of a dead letter end after it", []edit{
		{"trigger/deadletter/parts.go", "ttl += partsLonger", "ttl -= partsLonger"},
	}},
	{"postponed-behind-the-backlog", "the next owner delivers a postponed change before its position at once", []edit{
		{"trigger/worker.go", "Continuation: l.Continuation(), ", ""},
	}},
	{"postponed-behind-full-batches", "a postponed change does not wait until a batch is less than full", []edit{
		{"trigger/internal/delivery/lane.go", "(l.keys.hasListed || !l.fresh.isFull())", "!l.fresh.isFull()"},
		{"trigger/internal/delivery/lane.go", "if l.keys.hasListed { // the", "if l.keys.hasListed && !l.fresh.isFull() { // the"},
	}},
	{"postponed-behind-its-key", "letters before the position do not wait for those behind it", []edit{
		{"trigger/internal/delivery/postponedletters.go", "s.count > len(s.listed)-s.passed", "len(s.listed) == 0"},
	}},
	{"postponed-taken-too-early", "the next owner delivers no postponed change before earlier ones of its key", []edit{
		{"trigger/internal/delivery/postponed.go", "return taken.lsn >= next.LSN", "return taken.lsn >= 0"},
	}},
	{"postponed-passed-by-its-neighbour", "letters behind the position wait until the feed has passed them", []edit{
		{"trigger/internal/delivery/postponed.go", " && s.letters.isPassed(k.nameOf(items[n]))", ""},
	}},
	{"read-ahead-not-told", "on a merged range the next owner knows what was read behind the position", []edit{
		{"trigger/worker.go", "\t\tset(readAheadProperty, w.readAheadProperty())\n", ""},
	}},
	{"read-ahead-too-short", "on a merged range the next owner reads again what was read behind the position", []edit{
		{"trigger/internal/delivery/progress.go", "return pages, p.taken.read - p.acknowledged.read", "return pages, 0"},
	}},
	{"read-ahead-of-another-position", "what an owner had read counts from its own position only", []edit{
		{"trigger/postponing.go", "len(fields) < 5 || fields[4] != continuation", "len(fields) < 5"},
	}},
	{"read-ahead-of-another-owner", "what an owner had read holds for its first successor only", []edit{
		{"trigger/postponing.go", "|| former+1 != epoch", ""},
	}},
	{"store-stops-its-lane", "a call of the store that ignores its context does not stop its lane", []edit{
		{"trigger/deadletterwrite.go", "case <-late.C:\n\t}\n\tn :=", "}\n\tn :="},
	}},
	{"store-calls-pile-up", "only a few calls of a store are left behind", []edit{
		{"trigger/deadletterwrite.go", "if stuck.Load() >= maxStuckStoreCalls {", "if stuck.Load() < 0 {"},
	}},
	{"silent-list-has-no-end", "a list of the store that does not answer is made again", []edit{
		{"trigger/deadletterlists.go", "func() { cancel(errSilentStore) }", "func() { _ = errSilentStore }"},
	}},
	{"older-letter-kept", "of two letters of one postponed change the newer one holds", []edit{
		{"trigger/internal/delivery/postponed.go", "stored.Postponed > former.stored.Postponed", "stored.Postponed < former.stored.Postponed"},
	}},
	{"older-letter-not-deleted", "an outdated letter of a postponed change leaves the store", []edit{
		{"trigger/internal/delivery/postponed.go", "outdated = append(outdated, c)", "_ = append(outdated, c)"},
	}},
	{"letters-of-one-change-apart", "two letters of a change that stand apart are one change", []edit{
		{"trigger/internal/delivery/postponed.go", "former, isDuplicate := read[version]\n", "former, isDuplicate := read[version]\n\t\tisDuplicate = isDuplicate && former == items[len(items)-1]\n"},
	}},
	{"letters-in-order-of-their-owners", "letters of several owners are delivered in the order of the feed", []edit{
		{"trigger/internal/delivery/postponed.go", "compareStored(c.stored, items[place-1].stored) < 0", "false"},
	}},
	{"late-letter-bounds-its-key", "a change that the feed shows again has its place among letters that stand in another order", []edit{
		{"trigger/internal/delivery/postponedletters.go", "place, s.isMixed = place-1, true", "s.isMixed = true\n\t\tbreak"},
	}},
	{"late-letter-first", "a letter of an owner that had lost its lease is not delivered before earlier changes of its key", []edit{
		{"trigger/internal/delivery/postponed.go", "return s.letters.isMixed || !s.letters.hasMore", "return !s.letters.hasMore"},
	}},
	{"late-letter-beside-the-feed", "a letter that an earlier owner puts late is not delivered beside its change from the feed", []edit{
		{"trigger/internal/delivery/lateletters.go", "stored.Order < k.config.FirstOrder &&", "stored.Order < 0 &&"},
	}},
	{"late-letter-of-a-finished-change", "a letter that an earlier owner puts late is not delivered behind its change from the feed", []edit{
		{"trigger/internal/delivery/postponed.go", "isLate && k.handled[name]", "false && k.handled[name]"},
	}},
	{"late-letter-of-any-change", "a letter that an earlier owner puts late is deleted only if this owner has handled the change", []edit{
		{"trigger/internal/delivery/postponed.go", "isLate && k.handled[name]", "isLate && (k.handled[name] || s.letters.count > 0)"},
	}},
	{"postponed-is-handled", "a change that an owner has postponed is not handled", []edit{
		{"trigger/internal/delivery/store.go", "\tif letter.IsPostponed {\n\t\tk.states", "\tk.noteHandled([]*Item{c})\n\tif letter.IsPostponed {\n\t\tk.states"},
	}},
	{"late-letter-out-of-order", "letters that are put late do not stand before earlier ones of their key", []edit{
		{"trigger/internal/delivery/lateletters.go", "s.letters.isMixed, k.hasListed = true, true", "k.hasListed = true"},
	}},
	{"late-letter-in-memory-too", "a change that waits in memory is finished if its letter is found", []edit{
		{"trigger/internal/delivery/lateletters.go", "isStored := s.letters.placeOf(c) == PlaceListed", "isStored := false"},
	}},
	{"late-letter-hides-another", "a late letter that is deleted does not count as one that the owner has put", []edit{
		{"trigger/internal/delivery/lateletters.go", "if k.isLate(s.letters, c.stored) {", "if false {"},
	}},
	{"late-letter-behind-its-queue", "changes that wait in memory before a late letter do not hold it back", []edit{
		{"trigger/internal/delivery/lateletters.go", "s.queue = nil\n\tk.finishItems(stored)\n\treturn k.follow(ctx, queue)", "s.queue = queue\n\tk.finishItems(stored)\n\treturn nil"},
	}},
	{"key-is-read-in-a-minute", "the letters of a key may be read for longer than a request", []edit{
		{"trigger/deadletterwrite.go", "\t\tprogress()\n\t\treturn take(c)", "\t\t_ = progress\n\t\treturn take(c)"},
	}},
	{"letter-of-an-operator-late", "a letter that an operator puts back is delivered", []edit{
		{"trigger/internal/delivery/lateletters.go", " && (k.config.MergedRange || stored.LSN > feed.LSNOf(k.config.Continuation))", ""},
	}},
	{"postponed-attempts-forgotten", "attempts of a postponed change count for the next owner", []edit{
		{"trigger/postponing.go", "Attempts: d.Attempts, ", ""},
	}},
	{"postponed-age-forgotten", "the age of a postponed change counts for the next owner", []edit{
		{"trigger/postponing.go", "Since: d.Since, ", ""},
	}},
	{"postponed-operation-forgotten", "the next owner gets a postponed version with its operation", []edit{
		{"trigger/postponing.go", "c.Operation = d.Operation", "_ = d.Operation"},
	}},
	{"postponed-image-forgotten", "the next owner gets a postponed version with its previous image", []edit{
		{"trigger/postponing.go", "Previous: d.Previous, ", ""},
	}},
	{"postponed-delete-without-id", "the next owner gets a postponed delete with its id", []edit{
		{"trigger/postponing.go", "c.ID = d.DocumentID", "_ = d.DocumentID"},
	}},
	{"postponed-delete-without-key", "the next owner gets a postponed delete with its key", []edit{
		{"trigger/postponing.go", ", PartitionKey: d.DocumentKey,", ","},
	}},
	{"postponed-forgotten-by-children", "the children of a range know when its postponed changes are due", []edit{
		{"trigger/internal/lease/children.go", "delete(child.properties, RetriesProperty)", "delete(child.properties, RetriesProperty)\n\tdelete(child.properties, \"halley.postponed\")"},
	}},
	{"deaths-inherited-by-children", "the children of a range have not the unclean exits of its owners", []edit{
		{"trigger/internal/lease/children.go", "delete(child.properties, uncleanExitsProperty)\n", ""},
	}},
	{"split-mark-inherited-by-children", "the children of a range have not the mark of its split", []edit{
		{"trigger/internal/lease/children.go", "delete(child.properties, splittingProperty)\n", ""},
	}},
	{"retry-age-forgotten", "the age of failures counts for the next owner", []edit{
		{"trigger/internal/delivery/retrystate.go", "if !state.Since.IsZero() {", "if state.Since.IsZero() {"},
	}},
	{"clocks-of-the-service-agree", "on a merged range a later time proves a place only if it is later than clocks differ", []edit{
		{"trigger/internal/delivery/postponed.go", "s.shown > next.Timestamp", "s.shown >= next.Timestamp"},
	}},
	{"read-ahead-holds-for-later-letters", "what an owner had read says nothing of letters that were put after its end", []edit{
		{"trigger/internal/delivery/postponed.go", "!next.Time.After(former.Until) && ", ""},
	}},
	{"blocked-place-forgotten", "a change before the first dead letter of its key is not blocked", []edit{
		{"trigger/deadletterlists.go", "LSN: d.LSN, ", ""},
	}},
	{"dead-letters-without-order", "dead letters of a key stay in order if clocks differ", []edit{
		{"trigger/internal/delivery/store.go", "letter.Time, letter.Order = k.calls.ServiceNow().UTC(), k.orderOf(c, letter.IsPostponed)", "letter.Time = k.calls.ServiceNow().UTC()\n\tif letter.IsPostponed {\n\t\tletter.Order = k.orderOf(c, true)\n\t}"},
	}},
	{"order-without-epoch", "dead letters of several owners stay in order if clocks differ", []edit{
		{"trigger/worker.go", "FirstOrder: l.Epoch() << ordersOfEpoch,", "FirstOrder: l.Epoch() * 0 << ordersOfEpoch,"},
	}},
	{"no-room-behind-uncovered-letter", "letters of a key leave room for changes between, also behind one that waits for a request", []edit{
		{"trigger/internal/delivery/postponed.go", "k.uncovered.lastOrder(c.orderKey)+gap)", "0*k.uncovered.lastOrder(c.orderKey)+gap)"},
	}},
	{"pause-lost-with-its-document", "a lease that is restored stays paused", []edit{
		{"trigger/internal/lease/restore.go", "\tif paused {\n\t\tnext.setPause(pause)\n\t}\n", "\t_, _ = pause, paused\n"},
	}},
	{"unread-changes-passed", "an owner that ends before it has read the feed passes no postponed change", []edit{
		{"trigger/internal/delivery/lane.go", "l.fresh.isClosed && l.readToEnd.Load()", "l.fresh.isClosed"},
	}},
}
