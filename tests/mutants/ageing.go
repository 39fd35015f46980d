package main

// ageing are planted bugs in the ageing of archived documents.
var ageing = []mutant{
	{"aged-before-archived", "no document ages that is not archived", []edit{
		{"handlers/archive/archive.go", "\tif err := writing.Wait(); err != nil || a.ager == nil {\n\t\treturn err\n\t}\n\treturn a.ager.age(ctx, b.Changes)", "\tif err := writing.Wait(); a.ager == nil {\n\t\treturn err\n\t} else {\n\t\treturn errors.Join(err, a.ager.age(ctx, b.Changes))\n\t}"},
	}},
	{"aged-without-etag", "a change between a version's archival and its ageing wins", []edit{
		{"handlers/archive/ageing.go", "a.Container.Replace(ctx, d.change.ID(), key, body, etag)", "a.Container.Replace(ctx, d.change.ID(), key, body, \"\")"},
	}},
	{"aged-delete-without-etag", "a change between a version's archival and its deletion wins", []edit{
		{"handlers/archive/ageing.go", "a.Container.Delete(ctx, d.change.ID(), key, etag)", "a.Container.Delete(ctx, d.change.ID(), key, \"\")"},
	}},
	{"ttl-archived", "a change that only sets the ttl is not archived", []edit{
		{"handlers/archive/archive.go", "!a.ager.isOwnWrite(c)", "!a.ager.isOwnWrite(trigger.Change{})"},
	}},
	{"ttl-set-again", "a document that has aged does not age again", []edit{
		{"handlers/archive/ageing.go", "(parsed.hasOwnTTL() || parsed.isMarked(a.archive))", "parsed.hasOwnTTL()"},
	}},
	{"mark-without-digest", "a change of a document that keeps its mark is archived", []edit{
		{"handlers/archive/agedmark.go", " && mark.Digest == c.digest()", ""},
	}},
	{"mark-of-any-time", "an archived version that a client writes again is archived again", []edit{
		{"handlers/archive/ageing.go", "<= markTolerance", ">= 0"},
	}},
	{"mark-of-any-archive", "an archive gets the documents that have aged for another one", []edit{
		{"handlers/archive/agedmark.go", "[]byte(place + \" \" + prefix)", "[]byte(prefix)"},
	}},
	{"own-ttl-replaced", "a document keeps a ttl of its own", []edit{
		{"handlers/archive/ageing.go", "(parsed.hasOwnTTL() || parsed.isMarked(a.archive))", "parsed.isMarked(a.archive)"},
	}},
	{"dry-run-writes", "a dry run changes no document", []edit{
		{"handlers/archive/ageing.go", "if a.DryRun {", "if a.DryRun && a.Kind == \"\" {"},
	}},
	{"ageing-without-ttl", "ageing out needs a container with a time to live", []edit{
		{"handlers/archive/ageing.go", "properties.DefaultTTL == nil", "properties.ID == \"\""},
	}},
	{"ageing-without-bound", "documents age out at a bounded rate", []edit{
		{"handlers/archive/ageing.go", "p.next = p.next.Add(p.interval)", ""},
	}},
	{"late-archive-not-told", "an archive that is later than half of the ttl says so", []edit{
		{"handlers/archive/ageing.go", "time.Second/2 {", "time.Second*2 {"},
	}},
}
