// Package long says whether the long forms of tests run. The default run, which has to be
// quick on a machine with only Go, has a short form of everything; continuous integration
// and scripts/mutants set HALLEY_TEST_LONG.
package long

import (
	"os"
	"testing"
)

// Variable is the environment variable that selects the long forms, if it is not empty.
const Variable = "HALLEY_TEST_LONG"

// Wanted reports whether the long forms run.
func Wanted() bool { return os.Getenv(Variable) != "" }

// All reports whether the forms run that take several minutes, if the variable is "all":
// scripts/strangers and scripts/simulate --past set it.
func All() bool { return os.Getenv(Variable) == "all" }

// Only skips a test that has no short form, unless the long forms run. The reason names the
// cost of the test.
func Only(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() || !Wanted() {
		t.Skipf("%s: it runs if %s is set", reason, Variable)
	}
}
