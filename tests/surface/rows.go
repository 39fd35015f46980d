package main

import (
	"slices"
	"strings"
)

// row is the proof of one name.
type row struct {
	name   string
	test   string // that proves it: of package trigger, or "./package Test"; it may be a subtest
	mutant string // that the test must catch
}

// proof returns the package and the name of the row's test.
func (r row) proof() (pkg, test string) {
	if pkg, test, found := strings.Cut(r.test, " "); found {
		return pkg, test
	}
	return "./trigger", r.test
}

// exemption is a name without a proof.
type exemption struct{ name, reason string }

// exemptions are the names without a proof, mostExemptions at most.
var exemptions = []exemption{
	{"topic Glossary", "it explains words"},
	{"topic Map of the package", "it names files"},
}

// mostExemptions is the number of names that may be without a proof.
const mostExemptions = 10

// allRows returns the rows of all tables.
func allRows() []row { return slices.Concat(callRows, verdictRows, constantRows, fieldRows, topicRows) }
