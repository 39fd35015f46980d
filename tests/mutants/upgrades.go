package main

// upgrades are planted bugs in the reading of forms that other versions of Halley have stored.
var upgrades = []mutant{
	{"newer-lease-form-taken", "a lease of a newer form is left alone", []edit{
		{"trigger/internal/lease/parse.go", "!valid || n > formVersion {", "!valid && n > formVersion {"},
	}},
	{"newer-postponed-passed-over", "later changes of a key wait for a postponed one of a newer form", []edit{
		{"trigger/deadletterlists.go", "errors.As(err, &newer) && newer.kind != RecordDead:", "errors.As(err, &newer) && false:"},
	}},
	{"newer-postponed-stops-all", "a postponed change of a newer form keeps hosts from its range alone", []edit{
		{"trigger/internal/delivery/delivery.go", "record.Key == \"\" || d.deadLetters.Owns(record.Key)", "true"},
	}},
	{"newer-postponed-forgotten", "a host that leaves a range to a newer version leaves what the lease says of postponed changes", []edit{
		{"trigger/postponing.go", "case !w.rangeDelivery.HasStored():", "case false:"},
	}},
	{"newer-postponed-not-told", "the lease tells that a range waits for a newer version", []edit{
		{"trigger/internal/delivery/delivery.go", "d.calls.ReportProblem(AllLanes, newer)", "_ = newer"},
	}},
	{"older-finished-form-dropped", "what is finished behind the position is read from every form", []edit{
		{"trigger/internal/finished/finished.go", "s.Version != formVersion ||", "true ||"},
	}},
}
