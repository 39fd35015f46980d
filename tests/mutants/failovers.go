package main

// failovers are planted bugs in how hosts follow regions and ranges that fail over.
var failovers = []mutant{
	{"lease-taken-after-a-failover", "no lease is acquired for an expiration after a sign of a failover", []edit{
		{"trigger/internal/lease/acquire.go", "time.Now().Before(until) {\n\t\treturn &FailoverError{since, until}", "false {\n\t\treturn &FailoverError{since, until}"},
	}},
	{"epochs-count-on", "a lost acquisition and a later one have different epochs", []edit{
		{"trigger/internal/lease/acquire.go", "return max(l.Epoch()+1, now.Unix())", "return l.Epoch() + 1"},
	}},
	{"own-release-waits", "an owner that has given back its lease since the failover acquires it again at once", []edit{
		{"trigger/internal/lease/acquire.go", "since.IsZero() || s.store.isReleasedSince(l, since)", "since.IsZero()"},
	}},
	{"delivery-unconfirmed-after-failover", "a lease is confirmed before the next delivery when its container has failed over", []edit{
		{"trigger/leaseregion.go", "if seen == confirmed {", "if true {"},
	}},
	{"refused-write-waits", "a write that its region refuses goes on in the next one at once", []edit{
		{"trigger/cosmos/requestretry.go", "if !to.movable {\n\t\treturn false", "if true {\n\t\treturn false"},
	}},
	{"range-not-followed", "later requests of a range begin in the region that has answered", []edit{
		{"trigger/cosmos/placement.go", "if known.moved == \"\" || ", "if true || "},
	}},
	{"reads-ask-back", "only writes ask whether a range has gone back", []edit{
		{"trigger/cosmos/placement.go", "write && !time.Now().Before(known.askBack)", "!time.Now().Before(known.askBack)"},
	}},
	{"list-in-one-region", "a list asks each range in its region", []edit{
		{"trigger/cosmos/query.go", "!c.placements.inUse.Load() {", "true {"},
	}},
	{"silent-region-kept", "a region that does not answer is left after seconds", []edit{
		{"trigger/cosmos/requestretry.go", "return quickTimeout << min(u.silent/regions, 4)", "return 0"},
	}},
	{"lost-session-repeated", "a session that no region has is told after each was asked twice", []edit{
		{"trigger/cosmos/requestretry.go", "return u.behind >= 2*regions", "return false"},
	}},
	{"version-is-no-sign", "the version of session tokens tells of a failover", []edit{
		{"trigger/cosmos/session.go", "if found && token.version > known.version {", "if false {"},
	}},
	{"writers-move-at-once", "with several write regions, requests for leases move an expiration after the account's first region", []edit{
		{"trigger/cosmos/regions.go", "return r.formerWrite != nil && time.Since(r.changedAt) < pinnedFor", "return false"},
	}},
	{"failed-over-feed-continued", "a range that was read further than all regions had it is read again when it fails over", []edit{
		{"trigger/feedregion.go", "case now.Version > k.Version:\n", "case false:\n"},
	}},
	{"late-account-trusted", "when only the account tells of a failover, what was read since it was last read counts as lost", []edit{
		{"trigger/feedregion.go", "return feedFailedOver, k.Confirmed", "return feedFailedOver, k.LSN"},
	}},
	{"position-ahead-is-the-end", "a position that no region has reached is not the end of the feed", []edit{
		{"trigger/feedregion.go", "case isBehind:\n\t\treturn feedBehind, 0", "case isBehind:\n\t\treturn feedContinues, 0"},
	}},
	{"peek-ahead-is-idle", "a drain does not take a position ahead of its feed for an idle range", []edit{
		{"trigger/drain.go", "first.NotModified && continuesFeed(first, l, position, r.feedSource.Container)", "first.NotModified"},
	}},
	{"kept-not-saved", "the next owner knows what all regions had", []edit{
		{"trigger/feedregion.go", "property, _ := json.Marshal(k)", "property, _ := []byte(nil), k"},
	}},
	{"kept-before-position", "what is known of a failed-over feed changes with the position", []edit{
		{"trigger/feedregion.go", "\tw.resume = &resumption{feed.QuotedLSN(keptLSN), &now}\n", "\tw.kept.Store(&now)\n\tw.resume = &resumption{feed.QuotedLSN(keptLSN), &now}\n"},
	}},
	{"seek-keeps-the-feed", "a seek ends what was known of the range's feed", []edit{
		{"trigger/internal/lease/operator.go", "\t\tdelete(next.properties, KeptProperty)\n", ""},
	}},
	{"lag-misses-a-failover", "the lag of a range that has failed over is not 0", []edit{
		{"trigger/internal/feed/pending.go", "page.NotModified && !continues(page)", "false"},
	}},
	{"denial-is-a-failover", "a gateway that denies a write does not take it", []edit{
		{"trigger/cosmos/requestretry.go", "case isAnsweredByWriter(resp):", "default:"},
	}},
	{"lost-position-ignored", "LostPosition sets a position back by itself", []edit{
		{"trigger/feedregion.go", "w.function.LostPosition != lostPositionSeek || ", "true || "},
	}},
	{"ahead-told-as-feed", "a position ahead of the account has a kind of stall of its own", []edit{
		{"trigger/leasestatus.go", "return stall.PositionAhead", "return stall.FeedFails"},
	}},
	{"versions-behind-lost-writes", "a version that was hidden by a lost write is delivered", []edit{
		{"trigger/feedregion.go", "\tif everyVersion {\n", "\tif true {\n"},
	}},
	{"page-counts-at-once", "a page counts as kept once all regions have what its region had", []edit{
		{"trigger/feedregion.go", "\tif k.Newest <= k.Committed {\n", "\tif true {\n"},
	}},
	{"position-set-forward", "a position that is lost is not set forward", []edit{
		{"trigger/feedregion.go", "now.Read = min(now.Read, written)", "now.Read = max(now.Read, written)"},
	}},
	{"lease-unwritable-released", "a range that has failed over keeps its lease until it can be written", []edit{
		{"trigger/feedregion.go", "\tif err := w.held.ConfirmOwnership(ctx); err != nil { // a lease", "\tif err := error(nil); err != nil { // a lease"},
		{"trigger/feedregion.go", "if err := w.held.ConfirmOwnership(ctx); err != nil || ", "if err := error(nil); err != nil || "},
	}},
	{"list-behind-own-writes", "a list is not behind the client's own writes", []edit{
		{"trigger/cosmos/query.go", "token != \"\" {", "false && token != \"\" {"},
	}},
	{"refused-position-unseen", "a range whose position is refused after a failover gets a message", []edit{
		{"trigger/dispatch.go", "if r.mayBeLost(err) {", "if false {"},
	}},
	{"epochs-run-ahead", "acquisitions in one second have no epochs of a time to come", []edit{
		{"trigger/internal/lease/acquire.go", "ahead <= 0 || ", "true || "},
	}},
	{"given-back-lease-prolonged", "a lease that is given back does not prolong a dead owner's life", []edit{
		{"trigger/internal/lease/acquire.go", "\tif former.owner != \"\" {\n", "\tif false {\n"},
	}},
	{"given-back-lease-in-new-epoch", "an owner goes on with a lease that another host has given back", []edit{
		{"trigger/internal/lease/acquire.go", "\tif former.owner != \"\" {\n", "\tundone.raiseEpoch(former, acquired.Epoch())\n\tif former.owner != \"\" {\n"},
	}},
	{"lost-acquisition-of-another-taken", "an owner whose acquisition is lost leaves another owner's lease alone", []edit{
		{"trigger/internal/lease/write.go", "(isFree || isOwn) && ", "(isFree || isOwn || true) && "},
	}},
	{"lost-acquisition-taken-without-trust", "an owner whose acquisition is lost writes it again only while it trusts it", []edit{
		{"trigger/internal/lease/write.go", "return trusted && !paused", "return (trusted || true) && !paused"},
	}},
	{"silent-regions-take-no-turns", "of two regions that were silent lately, the one that has just been is not asked again at once", []edit{
		{"trigger/cosmos/regions.go", "return penalty(a).Compare(penalty(b))", "return compareUnreachable(!penalty(a).IsZero(), !penalty(b).IsZero())"},
		{"trigger/cosmos/regions.go", "// refresh reads the account if it is not known or too old.\n", "func compareUnreachable(a, b bool) int {\n\tif a == b {\n\t\treturn 0\n\t}\n\tif b {\n\t\treturn -1\n\t}\n\treturn 1\n}\n\n// refresh reads the account if it is not known or too old.\n"},
	}},
	{"acquisition-without-effect-is-lost", "an acquisition that was not applied is an error, and no other host's", []edit{
		{"trigger/internal/lease/acquire.go", "readErr != nil || fresh.etag == next.etag {", "readErr != nil {"},
	}},
	{"mark-outlives-refused-acquisition", "a message that acquires nothing ends its mark or comes back", []edit{
		{"trigger/dispatch.go", " || acquired || r.worksOn", " || acquired || d.summary.Behind > 0 || r.worksOn"},
	}},
	{"mark-outlives-failover", "after a failover of the leases a mark that may have ended holds back no message", []edit{
		{"trigger/internal/lease/dispatch.go", " && m.at.After(failedOver)", ""},
	}},
	{"manners-ahead-ignored", "the account may refuse a position that it has not reached", []edit{
		{"trigger/emulator/feed.go", "Manners.RefuseAhead && ", "Manners.RefuseAhead && false && "},
	}},
	{"manners-committed-ignored", "the account may not tell what all regions have", []edit{
		{"trigger/emulator/exchange.go", "if a.options.Manners.HideCommitted {", "if false {"},
	}},
}
