package main

// surfaceCalls are planted bugs in single functions and methods of package trigger, and in
// the verdicts of handlers. Package tests/surface names the test that catches each.
var surfaceCalls = []mutant{
	{"checkpoint-request-ignored", "Batch.Checkpoint asks for the position after the batch", []edit{
		{"trigger/handler.go", "\tif b.checkpoint != nil {", "\tif b.checkpoint != nil && b.Attempt < 0 {"},
	}},
	{"failed-judged-as-handled", "Batch.Judge tells the changes that failed", []edit{
		{"trigger/verdict.go", "v.Failed = append(v.Failed, c)", "v.Handled = append(v.Handled, c)"},
	}},
	{"clone-shares-bytes", "a clone has bytes of its own", []edit{
		{"trigger/change.go", "document := bytes.Clone(c.Document)", "document := c.Document"},
	}},
	{"place-of-another-document", "the id of a document that a handler has replaced is its own", []edit{
		{"trigger/change.go", "if len(c.Document) > 0 && &c.Document[0] == c.places.first {\n\t\titem.", "if c.places.first != nil {\n\t\titem."},
	}},
	{"empty-document-decoded", "Change.Decode decodes the document of the change", []edit{
		{"trigger/change.go", "unmarshal(c.Document, v)", `unmarshal([]byte("{}"), v)`},
	}},
	{"id-from-metadata-alone", "Change.ID is the id in every mode", []edit{
		{"trigger/change.go", "return c.asFeed().DocumentID() }", "return c.originOrNone().metadataID }"},
	}},
	{"key-without-paths", "Change.PartitionKey has the values of the container's paths", []edit{
		{"trigger/change.go", "feed.PartitionKey(c.asFeed().Item, origin.keyPaths)", "feed.PartitionKey(c.asFeed().Item, nil)"},
	}},
	{"dead-letter-without-id", "the change of a dead-lettered delete knows its document", []edit{
		{"trigger/deadletter.go", "origin.metadataID = d.DocumentID", `origin.metadataID = ""`},
	}},
	{"postponed-looks-dead", "a postponed change is not a dead letter", []edit{
		{"trigger/deadletter.go", "return d.Kind == RecordPostponed }", "return d.Kind == \"\" }"},
	}},
	{"source-without-container", "a dead letter belongs to one container", []edit{
		{"trigger/deadletter.go", "{d.Function, d.Account, d.Database, d.Container}", `{d.Function, d.Account, d.Database, ""}`},
	}},
	{"source-text-without-account", "the text of a source names the account", []edit{
		{"trigger/deadletter.go", "s.Function, s.Account, s.Database, s.Container)", "s.Function, s.Database, s.Database, s.Container)"},
	}},
	{"source-of-another-database", "a source names the database of its container", []edit{
		{"trigger/deadletter.go", "Database: f.Container.Database(), Container: f", "Database: f.Container.Name(), Container: f"},
	}},
	{"documents-not-decoded", "Documents decodes each document", []edit{
		{"trigger/handler.go", "documents.Decode(reflect.ValueOf(docs), ", "documents.Decode(reflect.ValueOf(make([]T, len(docs))), "},
	}},
	{"other-decoder-ignored", "DocumentsWith uses the decoder that it is given", []edit{
		{"trigger/handler.go", "c.decodeWith(unmarshal, &docs[i])", "c.decodeWith(json.Unmarshal, &docs[i])"},
	}},
	{"lag-one-short", "the lag counts the change that is read next", []edit{
		{"trigger/internal/feed/pending.go", "page.SessionLSN - (first - 1)", "page.SessionLSN - first"},
	}},
	{"failed-names-none", "Failed names exactly the changes that failed", []edit{
		{"trigger/verdict.go", "if err == nil || len(changes) == 0 {", "if err == nil || len(changes) >= 0 {"},
	}},
	{"failed-from-the-next", "FailedFrom names the first change that failed", []edit{
		{"trigger/verdict.go", "return &failedError{err: err, firstFailed: first.", "return &failedError{err: err, firstFailed: 1 + first."},
	}},
	{"filter-inverted", "a compiled filter passes the changes that match", []edit{
		{"trigger/filter.go", "return test(c.Document, c.Previous) }", "return !test(c.Document, c.Previous) }"},
	}},
	{"filter-text-in-brackets", "the text of a filter is its setting", []edit{
		{"trigger/filter.go", "\t\treturn f[0]\n", "\t\treturn \"[\" + f[0] + \"]\"\n"},
	}},
	{"last-pattern-counts", "each pattern of a filter counts", []edit{
		{"trigger/filter.go", "f = append(f, string(pattern))", "f = Filter{string(pattern)}"},
	}},
	{"beginning-is-now", "FromBeginning starts with the oldest document", []edit{
		{"trigger/start.go", "return Start{Kind: feed.StartBeginning}", "return Start{}"},
	}},
	{"continuation-dropped", "FromContinuation starts at its token", []edit{
		{"trigger/start.go", "Continuation: token}", "Continuation: token[:0]}"},
	}},
	{"now-is-the-beginning", "FromNow starts with changes that are written later", []edit{
		{"trigger/start.go", "func FromNow() Start { return Start{} }", "func FromNow() Start { return FromBeginning() }"},
	}},
	{"start-an-hour-late", "FromTime starts with the changes after its time", []edit{
		{"trigger/start.go", "Kind: feed.StartTime, Time: t}", "Kind: feed.StartTime, Time: t.Add(time.Hour)}"},
	}},
	{"start-time-parsed-as-now", "a start in RFC 3339 is a time", []edit{
		{"trigger/internal/feed/start.go", "return Start{Kind: StartTime, Time: t}, nil", "_ = t\n\treturn Start{}, nil"},
	}},
	{"seek-token-keeps-no-quotes", "the target of a seek may be a token with or without quotes", []edit{
		{"trigger/leases/plan.go", "strconv.Quote(strings.Trim(s, `\"`))", "strconv.Quote(s)"},
	}},
	{"start-text-is-now", "the text of a start is its setting", []edit{
		{"trigger/internal/feed/start.go", "\t\treturn \"beginning\"\n", "\t\treturn \"now\"\n"},
	}},
	{"giving-up-not-validated", "settings that give up changes without a store are refused", []edit{
		{"trigger/validate.go", "\tf.validateGivingUp(&p)\n", ""},
	}},
	{"attempts-default-three", "a zero field of a function has its documented default", []edit{
		{"trigger/defaults.go", "cmp.Or(f.MaxAttempts, 10)", "cmp.Or(f.MaxAttempts, 3)"},
	}},
	{"parallel-default-one", "a zero field of the options has its documented default", []edit{
		{"trigger/defaults.go", "cmp.Or(o.Parallel, 32)", "cmp.Or(o.Parallel, 1)"},
	}},
	{"problem-without-value", "a problem shows the value that holds", []edit{
		{"trigger/validate.go", `fmt.Sprintf("%s=%v: %s", p.Field, p.Value, p.Reason)`, `fmt.Sprintf("%s: %s", p.Field, p.Reason)`},
	}},
	{"idle-range-dispatched", "an idle range gets no message", []edit{
		{"trigger/dispatch.go", "if lag.Changes == 0 {", "if lag.Changes < 0 {"},
	}},
	{"another-range-drained", "a message drains the range that it names", []edit{
		{"trigger/dispatch.go", "return l.Token() == token })", "return l.Token() != token })"},
	}},
	{"children-not-drained", "a drain also drains the children of a range that split", []edit{
		{"trigger/drain.go", "\t\td.splitSeen = true\n", "\t\td.splitSeen = false\n"},
	}},
	{"host-without-name", "a host tells its name in leases", []edit{
		{"trigger/host.go", "return h.host.options.Owner }", `return "" }`},
	}},
	{"run-hides-its-error", "Run returns the error that repeating does not mend", []edit{
		{"trigger/host.go", `errs[i] = fmt.Errorf("function %q: %w", r.function.Name, err)`, "errs[i] = nil"},
	}},
	{"status-without-problem", "the status says why a range waits", []edit{
		{"trigger/stats.go", "slices.Compact(problems)", "slices.Compact(problems[:0])"},
	}},
	{"unknown-lag-is-a-number", "a lag that is not known is null", []edit{
		{"trigger/lag.go", "if g.Known {", "if g.Known || g.Changes > 0 {"},
	}},
	{"refused-plan-applied", "a plan with refused steps is not applied", []edit{
		{"trigger/leases/control.go", "if err := plan.Refused(); err != nil {", "if err := plan.Refused(); err != nil && len(plan.Steps) == 0 {"},
	}},
	{"export-without-positions", "an export has the positions", []edit{
		{"trigger/leases/export.go", "Continuation: l.Continuation(), Snapshot", `Continuation: "", Snapshot`},
	}},
	{"init-counts-nothing", "Control.Init returns how many leases there are", []edit{
		{"trigger/leases/control.go", "return len(found.Leases), nil", "return len(found.Leases[:0]), nil"},
	}},
	{"list-without-pauses", "the list of leases shows pauses", []edit{
		{"trigger/leases/control.go", "Paused: paused,", "Paused: false,"},
	}},
	{"import-moves-nothing", "an import restores positions", []edit{
		{"trigger/leases/export.go", "c.seekTo(ctx, set, s, exported.Continuation)", "c.seekTo(ctx, set, s, s.From)"},
	}},
	{"pause-planned-under-a-dotnet-owner", "a pause that an owner does not know is refused in the plan", []edit{
		{"trigger/leases/plan.go", "ownerKind(l, set.Now()) == OwnerOther", `ownerKind(l, set.Now()) == ""`},
	}},
	{"release-plans-nothing", "a release frees leases that have an owner", []edit{
		{"trigger/leases/plan.go", `s.Nothing = s.lease.Owner() == ""`, `s.Nothing = s.lease.Owner() != ""`},
	}},
	{"seek-tells-the-wrong-way", "a plan tells what a seek repeats and skips", []edit{
		{"trigger/leases/plan.go", "max(from-to, s.lease.FinishedUpTo()-to, 0), max(to-from, 0)", "max(to-from, 0), max(from-to, s.lease.FinishedUpTo()-to, 0)"},
	}},
	{"overlaps-not-verified", "Verify finds keys with two leases", []edit{
		{"trigger/leases/verify.go", "Overlaps() {", "Overlaps()[:0] {"},
	}},
	{"finding-without-text", "a finding says what is wrong", []edit{
		{"trigger/leases/verify.go", `return f.Text + "; " + f.Advice`, "return f.Advice"},
		{"trigger/leases/verify.go", "f.Range, f.Text, f.Advice)", "f.Range, f.Advice, f.Advice)"},
	}},
	{"refused-step-not-told", "a plan tells its refused steps", []edit{
		{"trigger/leases/plan.go", `if s.Refused != "" {`, `if s.Refused != "" && s.Nothing {`},
	}},
	{"two-functions-of-one-name", "a host refuses two functions of one name", []edit{
		{"trigger/host.go", "if names[f.Name] {", `if names[f.Name] && f.Name == "" {`},
	}},
	{"changes-without-number", "a batch made by hand tells its changes apart", []edit{
		{"trigger/handler.go", "\tfor i := range b.Changes {\n\t\tb.Changes[i].", "\tfor i := range b.Changes[:0] {\n\t\tb.Changes[i]."},
	}},
	{"control-without-name", "lease control needs the function's name", []edit{
		{"trigger/leases/control.go", `if source.Name == "" {`, `if source.Name == "" && source.LeasePrefix != "" {`},
	}},
	{"panic-shows-secrets", "the text of a panic has no secrets of URLs", []edit{
		{"trigger/handler.go", `redact.Text(fmt.Sprintf("handler panicked: %v", e.Value))`, `redact.Text("handler panicked: ") + fmt.Sprint(e.Value)`},
	}},
	{"panic-without-cause", "a panic with an error unwraps to it", []edit{
		{"trigger/handler.go", "err, _ := e.Value.(error)\n\treturn err", "_, _ = e.Value.(error)\n\treturn nil"},
	}},
	{"empty-export-read", "an export without leases is refused", []edit{
		{"trigger/leases/export.go", "if len(e.Leases) == 0 {", "if e.Leases == nil {"},
	}},
	{"replay-keeps-handled", "a replay removes the dead letters that are handled", []edit{
		{"trigger/replay.go", "if err := r.store.Delete(ctx, d); err != nil {", "if err := ctx.Err(); err != nil {"},
	}},
	{"postponed-for-a-year", "a change is postponed for 30 days at most", []edit{
		{"trigger/verdict.go", "min(d, maxDelay)}", "max(d, 0)}"},
	}},
	{"skip-is-a-plain-error", "Skip marks an error as final", []edit{
		{"trigger/verdict.go", "return &skipError{err}", "return err"},
	}},
	{"silent-owner-without-advice", "each stall has advice of its own", []edit{
		{"trigger/stall/stall.go", "cmp.Or(advice[s.Kind],", "cmp.Or(advice[HandlerFails],"},
	}},
	{"expiration-not-told", "the description of a silent owner tells when its lease expires", []edit{
		{"trigger/stall/stall.go", "\t\tif wait > 0 {", "\t\tif wait > time.Hour {"},
	}},
	{"limits-are-stalls", "a range that waits for a limit of its function is not stalled", []edit{
		{"trigger/stall/stall.go", "return k == RateLimited || k == ReadsLimited", `return k == ""`},
	}},
	{"summary-of-the-last-range", "a summary adds the changes of all ranges", []edit{
		{"trigger/status.go", "s.Changes += o.Changes", "s.Changes = o.Changes"},
	}},
	{"given-up-told-as-failed", "the text of a verdict tells changes that are given up", []edit{
		{"trigger/verdict.go", `fate = "given up"`, `fate = "failed"`},
	}},
	{"previous-version-lost", "Versions decodes the previous version", []edit{
		{"trigger/handler.go", "{c.Previous, &versions[i].Previous}}", "{nil, &versions[i].Previous}}"},
	}},
	{"handled-batch-fails", "a batch is handled if its handler returns nil", []edit{
		{"trigger/handling.go", "if err == nil {\n\t\treturn delivery.Verdict{Outcome: delivery.Handled,", "if err == nil {\n\t\treturn delivery.Verdict{Outcome: delivery.Failed, FailedItems: items,"},
	}},
	{"first-joined-error-counts", "errors that are joined name all their changes", []edit{
		{"trigger/verdict.go", "for _, joined := range e.Unwrap() {", "for _, joined := range e.Unwrap()[:1] {"},
	}},
	{"wrapped-error-names-none", "an error that is wrapped means the same", []edit{
		{"trigger/verdict.go", "return errorParts(e.Unwrap(), delay)", "return []errorPart{{after: delay}}"},
	}},
	{"reads-not-shared", "functions on one container share their reads", []edit{
		{"trigger/sharedreads.go", "if len(readers) > 1 {", "if len(readers) > 1000 {"},
	}},
	{"error-is-success", "an error is a failed attempt", []edit{
		{"trigger/invoke.go", "return redact.Error(h(ctx, b))", "_ = redact.Error(h(ctx, b))\n\treturn nil"},
	}},
	{"skipped-is-retried", "a skipped change is dead-lettered without a further attempt", []edit{
		{"trigger/verdict.go", "case *skipError:\n\t\treturn true", "case *skipError:\n\t\treturn false"},
	}},
	{"dropped-is-kept", "DropDeadLetters lets the range continue", []edit{
		{"trigger/deadletter.go", "func (dropStore) Put(context.Context, DeadLetter) error    { return nil }", "func (dropStore) Put(context.Context, DeadLetter) error    { return ErrDamaged }"},
	}},
	{"other-keys-not-blocked", "the store is asked whether it holds a dead letter of the key", []edit{
		{"trigger/deadletterwrite.go", "*answer, err = s.store.Holds(ctx, s.source, key)", ""},
	}},
	{"letters-not-listed", "a new owner lists the dead letters of its source", []edit{
		{"trigger/deadletterlists.go", "list(RecordDead, func", "list(RecordPostponed, func"},
	}},
}
