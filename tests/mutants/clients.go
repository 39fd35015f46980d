package main

// otherClients are planted bugs in the embedded account that other vendors' clients would meet.
var otherClients = []mutant{
	{"group-pages-unbounded", "groups of a range obey the page size of the client", []edit{
		{"trigger/emulator/query.go", "found.full(limit, len(r.Value))", "!combines && found.full(limit, len(r.Value))"},
	}},
	{"group-pages-end-with-range", "pages of groups continue when their range has split", []edit{
		{"trigger/emulator/scan.go", "lowest, highest = from.Min, from.Max\n", "lowest, highest = p.Min, p.Max\n"},
	}},
	{"group-pages-twice", "after a split, one child continues with the groups of both", []edit{
		{"trigger/emulator/scan.go", "continues = epk.Contains(p.Min, p.Max, lowest); continues", "continues = true; continues"},
	}},
	{"no-plan-of-a-key", "a query of one key has a plan, also if ranges could not be combined", []edit{
		{"trigger/emulator/plan.go", "if s.key != \"\" {\n\t\tplan, err", "if false {\n\t\tplan, err"},
	}},
	{"keyless-batch-at-gateway", "the partition refuses a batch without a key", []edit{
		{"trigger/emulator/batch.go", "return nil, c.refuse(o, err)", "return nil, err"},
	}},
	{"port-without-tls", "the port serves HTTPS next to HTTP", []edit{
		{"trigger/emulator/listen.go", "begun.first[0] == handshakeRecord", "begun.first[0] == 0"},
	}},
	{"first-byte-lost", "the byte that tells HTTPS from HTTP is read by the server, too", []edit{
		{"trigger/emulator/listen.go", "if c.taken || len(b) == 0 {", "if !c.taken || len(b) == 0 {"},
	}},
	{"unused-connection-stays", "a connection without a request does not delay the end", []edit{
		{"trigger/emulator/listen.go", "\t\tclose(l.closed)\n\t\tl.unused.closeAll()\n", "\t\tclose(l.closed)\n"},
	}},
	{"authority-as-server", "the certificate of the server is not one of an authority", []edit{
		{"trigger/emulator/serve.go", "[]string{\"localhost\"},", "[]string{\"localhost\"}, IsCA: true,"},
	}},
	{"no-is-boolean", "Java continues sorted pages", []edit{
		{"trigger/emulator/sql/type_functions.go", "\"IS_BOOLEAN\":", "\"IS_A_BOOLEAN\":"},
	}},
}
