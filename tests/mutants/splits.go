package main

// splits are bugs in which leases follow a lease, and which it replaces.
var splits = []mutant{
	{"children-at-the-read-position", "children begin at the parent's acknowledged position", []edit{
		{"trigger/worker.go", "\t\tclose(w.pages)\n", "\t\tif errors.Is(w.readErr, lease.ErrSplit) {\n\t\t\tw.stopReading(w.readErr)\n\t\t}\n\t\tclose(w.pages)\n"},
		{"trigger/worker.go", "children, err = w.held.Split(w.reading, w.owned,", "w.held.Advance(w.rangeStats.currentStatus().Continuation, time.Now())\n\t\tchildren, err = w.held.Split(w.owned, w.owned,"},
	}},
	{"split-without-confirmation", "a host that lost the lease creates no children", []edit{
		{"trigger/internal/lease/held.go", "if err := h.ConfirmOwnership(reader); err != nil {\n\t\treturn nil, err\n\t}", ""},
	}},
	{"ancestor-counts-as-child", "only leases inside the parent cover its children", []edit{
		{"trigger/internal/lease/held.go", "index.leasesInside(parent)", `index.leasesInside(newKeysLease(Span{"", "FF"}, ""))`},
	}},
	{"parent-deleted-first", "the leases cover every key at every moment", []edit{
		{"trigger/internal/lease/held.go", "inside, highest := index.leasesInside(parent)", "_ = h.store.deleteLease(ctx, h.lease)\n\tinside, highest := index.leasesInside(parent)"},
	}},
	{"child-epoch-of-its-parent", "a sink that fences by epoch accepts children and refuses late writes of their parent", []edit{
		{"trigger/internal/lease/held.go", "setEpoch(missing, highest+1)", "setEpoch(missing, highest-1)"},
	}},
	{"child-retired-while-its-parent-splits", "a child that its parent's owner counts on is kept", []edit{
		{"trigger/internal/lease/index.go", "mayBeParent && o.Splitting()", "mayBeParent && false"},
	}},
	{"child-of-a-merge-retired-while-its-parent-splits", "the lease by keys that a merge leaves is kept for the owner of the lease that it replaces", []edit{
		{"trigger/internal/lease/index.go", " || l.byKeys && !o.byKeys && o.span.equalTo(l.span)", ""},
	}},
	{"retired-for-a-lease-that-is-retired", "a lease that was acquired to be retired replaces no other", []edit{
		{"trigger/internal/lease/index.go", " && !o.Retiring()", ""},
	}},
	{"counts-on-a-retiring-child", "a split does not count on a lease that its owner is about to retire", []edit{
		{"trigger/internal/lease/held.go", "if o := index.retiringInside(parent); o != nil {", "if o := index.retiringInside(parent); o != nil && false {"},
	}},
	{"child-overwrites", "the first creation of a child is not overwritten", []edit{
		{"trigger/internal/lease/store.go", "s.container.Create(ctx, s.newKey(id), doc)", "s.container.Upsert(ctx, s.newKey(id), doc)"},
	}},
	{"retired-child-created-again", "a retired child is not created again", []edit{
		{"trigger/internal/lease/held.go", "missing = missingChildren(parent, children, inside, h.store.idPrefix)", "missing = children"},
	}},
	{"child-next-to-its-parts", "children cover each key once", []edit{
		{"trigger/internal/lease/children.go", "if gap.equalTo(c.span) {", "if gap.isKnown() {"},
	}},
	{"child-not-fenced", "no child is created on a lease that may have expired", []edit{
		{"trigger/internal/lease/held.go", "if err := h.WaitTrusted(held); err != nil {\n\t\t\treturn nil, err\n\t\t}\n", ""},
	}},
	{"child-epoch-not-raised", "an epoch rises from parent to child", []edit{
		{"trigger/internal/lease/children.go", "child.raiseEpoch(parent, parent.Epoch()+1)", "child.raiseEpoch(parent, 0)"},
	}},
	{"merged-range-read-whole", "after a merge a lease reads its own keys", []edit{
		{"trigger/internal/lease/children.go", "return l.span.intersectWith(spanOf(r))", "return spanOf(r)"},
	}},
	{"completing-split-is-final", "410/1007 means that a split is in progress", []edit{
		{"trigger/cosmos/outcome.go", "{410, 1007}: OutcomeRangeGone,", "{410, 1007}: OutcomeContainerGone,"},
	}},
	{"recreated-container-not-noticed", "a position is not used on another container", []edit{
		{"trigger/internal/feed/source.go", "ResourceID: s.ResourceID,", ""},
	}},
}
