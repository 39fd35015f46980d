package main

// stores are planted bugs in what the next owner of a range reads back: letters of the dead
// letter store, records of retries, blocked keys and properties of leases.
var stores = []mutant{
	{"postponed-behind-the-backlog", "the next owner delivers a postponed change before its position at once", []edit{
		{"trigger/worker.go", "Continuation: l.Continuation(), ", ""},
	}},
	{"postponed-behind-full-batches", "a postponed change does not wait until a batch is less than full", []edit{
		{"trigger/internal/delivery/lane.go", "(l.hasListed || !l.batchIsFull())", "!l.batchIsFull()"},
		{"trigger/internal/delivery/lane.go", "if l.hasListed { // the", "if l.hasListed && !l.batchIsFull() { // the"},
	}},
	{"postponed-behind-its-key", "letters before the position do not wait for those behind it", []edit{
		{"trigger/internal/delivery/postponed.go", "k.letters > len(k.listed)-k.passed", "len(k.listed) == 0"},
	}},
	{"postponed-taken-too-early", "the next owner delivers no postponed change before earlier ones of its key", []edit{
		{"trigger/internal/delivery/postponed.go", "return taken.lsn >= next.lsn", "return taken.lsn >= 0"},
	}},
	{"postponed-passed-by-its-neighbour", "letters behind the position wait until the feed has passed them", []edit{
		{"trigger/internal/delivery/postponedload.go", " && k.isPassed(items[n].Name())", ""},
	}},
	{"read-ahead-not-told", "on a merged range the next owner knows what was read behind the position", []edit{
		{"trigger/worker.go", "held.SetProperty(readAheadProperty, w.readAheadProperty)", "_ = w.readAheadProperty"},
	}},
	{"read-ahead-too-short", "on a merged range the next owner reads again what was read behind the position", []edit{
		{"trigger/internal/delivery/progress.go", "ahead += len(o.items) + o.filtered", "ahead += 0 * o.filtered"},
	}},
	{"read-ahead-of-another-position", "what an owner had read counts from its own position only", []edit{
		{"trigger/postponing.go", "len(fields) < 5 || fields[4] != l.Continuation()", "len(fields) < 5"},
	}},
	{"read-ahead-of-another-owner", "what an owner had read holds for its first successor only", []edit{
		{"trigger/postponing.go", "|| epoch+1 != l.Epoch()", ""},
	}},
}
